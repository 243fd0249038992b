"""Pure metric kernels: arrays in, NamedTuples out."""

from .coding_divergence import (
    CodingDivergence,
    CodingDivergenceStderr,
    CrossEntropies,
    HeldOutCodes,
    code_held_out,
    coding_divergence_from_codes,
    coding_divergence_stderr,
    jeffreys_coding_divergence,
)
from .context_tree import (
    ContextTree,
    code_length,
    context_tree_from_counts,
    count_contexts,
    fit_context_tree,
)
from .distinct import distinct_n, distinct_n_stderr
from .energy import energy_distance, energy_distance_stderr
from .entropy import Entropies, entropies
from .frechet import frechet_distance, frechet_distance_stderr
from .kmeans import KMeans, kmeans
from .mauve import Mauve, mauve, mauve_from_histograms
from .mmd import median_squared_distance, mmd, mmd_stderr
from .ngrams import NgramCounts, count_ngrams, ngram_counts
from .perplexity import (
    adjusted_perplexity,
    generative_perplexity,
    generative_perplexity_stderr,
    target_mask,
)
from .self_bleu import self_bleu
from .whitening import Whitening, fit_whitening

__all__ = [
    "CodingDivergence",
    "CodingDivergenceStderr",
    "ContextTree",
    "CrossEntropies",
    "Entropies",
    "HeldOutCodes",
    "KMeans",
    "Mauve",
    "NgramCounts",
    "Whitening",
    "adjusted_perplexity",
    "code_held_out",
    "code_length",
    "coding_divergence_from_codes",
    "coding_divergence_stderr",
    "context_tree_from_counts",
    "count_contexts",
    "count_ngrams",
    "distinct_n",
    "distinct_n_stderr",
    "energy_distance",
    "energy_distance_stderr",
    "entropies",
    "fit_context_tree",
    "fit_whitening",
    "frechet_distance",
    "frechet_distance_stderr",
    "generative_perplexity",
    "generative_perplexity_stderr",
    "jeffreys_coding_divergence",
    "kmeans",
    "mauve",
    "mauve_from_histograms",
    "median_squared_distance",
    "mmd",
    "mmd_stderr",
    "ngram_counts",
    "self_bleu",
    "target_mask",
]
