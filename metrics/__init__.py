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
from .entropy import Entropies, entropies
from .ngrams import NgramCounts, count_ngrams, ngram_counts
from .perplexity import (
    adjusted_perplexity,
    generative_perplexity,
    generative_perplexity_stderr,
    target_mask,
)
from .self_bleu import self_bleu

__all__ = [
    "CodingDivergence",
    "CodingDivergenceStderr",
    "ContextTree",
    "CrossEntropies",
    "Entropies",
    "HeldOutCodes",
    "NgramCounts",
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
    "entropies",
    "fit_context_tree",
    "generative_perplexity",
    "generative_perplexity_stderr",
    "jeffreys_coding_divergence",
    "ngram_counts",
    "self_bleu",
    "target_mask",
]
