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
from .context_counts import ContextCounts, count_contexts
from .context_tree import (
    ContextTree,
    code_length,
    context_tree_from_counts,
    fit_context_tree,
)
from .count_sketch import CountSketch, SketchedGradients
from .distinct import distinct_n, distinct_n_stderr
from .energy import energy_distance, energy_distance_stderr
from .entropy import Entropies, entropies, entropy_ceiling
from .entropy_jackknife import EntropiesStderr, entropies_stderr
from .frechet import frechet_distance, frechet_distance_stderr
from .frontier import frontier_integral_from_histograms, mauve_from_histograms
from .gradient_moment import (
    gradient_moment,
    gradient_moment_by_tensor,
    gradient_moment_from_sketches,
    gradient_moment_stderr,
    uncentered_moment,
)
from .gradient_stats import GradientStats, add_gradient_stats
from .kernel_distance import kernel_distance, kernel_distance_stderr
from .kmeans import KMeans, kmeans
from .manifold import ManifoldScores, precision_recall, precision_recall_stderr
from .mauve import Mauve, mauve, mauve_stderr
from .mauve_permutation import mauve_permutation_test
from .mmd import bandwidth_ladder, median_squared_distance, mmd, mmd_stderr
from .ngrams import NgramCounts, count_ngrams, ngram_counts
from .novelty import (
    Memorisation,
    longest_copied_span,
    longest_copied_span_stderr,
    memorisation,
    ngram_novelty,
    ngram_novelty_stderr,
)
from .null_band import NullBand, null_band
from .pair_permutation import (
    energy_permutation_test,
    kernel_distance_permutation_test,
    mmd_permutation_test,
)
from .permutation import PermutationTest, permutation_test
from .perplexity import (
    adjusted_perplexity,
    generative_perplexity,
    generative_perplexity_stderr,
    target_mask,
)
from .perplexity_conventions import (
    CONVENTIONS,
    Convention,
    aggregate_as,
    perplexity_as,
    targets_as,
)
from .repetition import (
    diversity,
    diversity_stderr,
    sequence_repetition,
    sequence_repetition_stderr,
)
from .self_bleu import self_bleu, self_bleu_stderr
from .sliced_wasserstein import sliced_wasserstein, sliced_wasserstein_stderr
from .text_ids import text_ids, text_vocabulary
from .token_rows import ScoringWindows, scoring_windows
from .training_index import TrainingIndex, fit_training_index
from .whitening import Whitening, fit_whitening

__all__ = [
    "CONVENTIONS",
    "CodingDivergence",
    "CodingDivergenceStderr",
    "ContextCounts",
    "ContextTree",
    "Convention",
    "CountSketch",
    "CrossEntropies",
    "Entropies",
    "EntropiesStderr",
    "GradientStats",
    "HeldOutCodes",
    "KMeans",
    "ManifoldScores",
    "Mauve",
    "Memorisation",
    "NgramCounts",
    "NullBand",
    "PermutationTest",
    "ScoringWindows",
    "SketchedGradients",
    "TrainingIndex",
    "Whitening",
    "add_gradient_stats",
    "adjusted_perplexity",
    "aggregate_as",
    "bandwidth_ladder",
    "code_held_out",
    "code_length",
    "coding_divergence_from_codes",
    "coding_divergence_stderr",
    "context_tree_from_counts",
    "count_contexts",
    "count_ngrams",
    "distinct_n",
    "distinct_n_stderr",
    "diversity",
    "diversity_stderr",
    "energy_distance",
    "energy_distance_stderr",
    "energy_permutation_test",
    "entropies",
    "entropies_stderr",
    "entropy_ceiling",
    "fit_context_tree",
    "fit_training_index",
    "fit_whitening",
    "frechet_distance",
    "frechet_distance_stderr",
    "frontier_integral_from_histograms",
    "generative_perplexity",
    "generative_perplexity_stderr",
    "gradient_moment",
    "gradient_moment_by_tensor",
    "gradient_moment_from_sketches",
    "gradient_moment_stderr",
    "jeffreys_coding_divergence",
    "kernel_distance",
    "kernel_distance_permutation_test",
    "kernel_distance_stderr",
    "kmeans",
    "longest_copied_span",
    "longest_copied_span_stderr",
    "mauve",
    "mauve_from_histograms",
    "mauve_permutation_test",
    "mauve_stderr",
    "median_squared_distance",
    "memorisation",
    "mmd",
    "mmd_permutation_test",
    "mmd_stderr",
    "ngram_counts",
    "ngram_novelty",
    "ngram_novelty_stderr",
    "null_band",
    "permutation_test",
    "perplexity_as",
    "precision_recall",
    "precision_recall_stderr",
    "scoring_windows",
    "self_bleu",
    "self_bleu_stderr",
    "sequence_repetition",
    "sequence_repetition_stderr",
    "sliced_wasserstein",
    "sliced_wasserstein_stderr",
    "target_mask",
    "targets_as",
    "text_ids",
    "text_vocabulary",
    "uncentered_moment",
]
