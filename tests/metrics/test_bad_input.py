"""Every public metric against every fault that users bring, in one table.

Each fault ends in a `ValueError` that names the argument and says what to do, or has a limit
value that the documentation promises. Nothing ends in NaN, in another exception, or in silence.
"""

import functools
import inspect
import pathlib
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval import metrics

# What a message must offer beside the name of the argument.
REMEDY = re.compile(
    r"must|need|pass|at least|encode|rescale|lower|score|outside jit|outside jax\.jit|inside jit"
    r"|accepted|cannot|give|fill|leave|choose|one of|use|ask|remove|nothing to|outside \[|hashed"
)


def refused(call, argument):
    """Runs the call, which must be refused naming the argument (a regular expression)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError) as caught:
            call()
    message = str(caught.value)
    assert re.search(argument, message), f"{argument!r} is not named by: {message}"
    assert REMEDY.search(message), f"no remedy in: {message}"
    assert "Traced" not in message, message


def rows(seed, n=12, d=4):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


X, Y = rows(0), rows(1) + 0.5


def spoiled(value):
    bank = X.copy()
    bank[3, 2] = value
    return bank


# --- Two banks of feature vectors -------------------------------------------------------------

few_deals = {"num_permutations": 9}
TWO_BANKS = {
    name: functools.partial(getattr(metrics, name), **options)
    for name, options in {
        "energy_distance": {},
        "energy_distance_stderr": {},
        "energy_permutation_test": few_deals,
        "frechet_distance": {},
        "frechet_distance_stderr": {},
        "kernel_distance": {},
        "kernel_distance_permutation_test": few_deals,
        "kernel_distance_stderr": {},
        "mauve": {},
        "mauve_permutation_test": few_deals,
        "mauve_stderr": {},
        "mmd": {},
        "mmd_permutation_test": few_deals,
        "mmd_stderr": {},
        "precision_recall": {},
        "precision_recall_stderr": {},
        "sliced_wasserstein": {},
        "sliced_wasserstein_stderr": {},
    }.items()
}
ONE_BANK = {
    "bandwidth_ladder": ("reference", metrics.bandwidth_ladder),
    "fit_whitening": ("reference", lambda x: metrics.fit_whitening(x, 2)),
    "kmeans": ("points", lambda x: metrics.kmeans(x, 2, jax.random.key(0)[None])),
    "median_squared_distance": ("features", metrics.median_squared_distance),
    "Whitening.transform": ("x", lambda x: metrics.fit_whitening(X, 2).transform(x)),
}
BAD_BANKS = {
    "empty": np.empty((0, 4), np.float32),
    "empty list": [],
    "no columns": np.empty((12, 0), np.float32),
    "one dimension": X[:, 0],
    "three dimensions": X[None],
    "NaN": spoiled(np.nan),
    "infinity": spoiled(np.inf),
    "minus infinity": spoiled(-np.inf),
    "too large to be squared": spoiled(1e30),
    "complex": X.astype(complex),
    "strings": X.astype(str),
    "a text": "the cat sat",
    "texts": ["the cat", "sat"],
    "bytes": [b"the cat", b"sat"],
    "nothing": None,
    "ragged": [[1.0, 2.0], [3.0]],
}


@pytest.mark.parametrize("fault", BAD_BANKS)
@pytest.mark.parametrize("name", TWO_BANKS)
def test_bad_banks(name, fault):
    refused(lambda: TWO_BANKS[name](BAD_BANKS[fault], Y), "reference")
    refused(lambda: TWO_BANKS[name](X, BAD_BANKS[fault]), "generated")


@pytest.mark.parametrize("name", TWO_BANKS)
def test_banks_that_do_not_fit_together(name):
    refused(lambda: TWO_BANKS[name](X, Y[:, :3]), r"reference and generated.*\(12, 4\).*\(12, 3\)")
    refused(lambda: TWO_BANKS[name](X[:1], Y), r"reference")
    refused(lambda: TWO_BANKS[name](X, Y[:1]), r"generated")
    if name.endswith("_stderr") and not name.startswith(("mauve", "frechet", "precision")):
        refused(lambda: TWO_BANKS[name](X[:2], Y), "reference")
        refused(lambda: TWO_BANKS[name](X, Y[:2]), "generated")


@pytest.mark.parametrize("fault", BAD_BANKS)
@pytest.mark.parametrize("name", ONE_BANK)
def test_bad_bank(name, fault):
    argument, metric = ONE_BANK[name]
    refused(lambda: metric(BAD_BANKS[fault]), rf"\b{argument}\b")


HOST = {
    "fit_whitening": lambda x, y: metrics.fit_whitening(x, 2),
    "mauve": metrics.mauve,
    "mauve_permutation_test": metrics.mauve_permutation_test,
    "mauve_stderr": metrics.mauve_stderr,
}


@pytest.mark.parametrize("name", HOST)
def test_features_traced_where_values_are_needed(name):
    refused(lambda: jax.jit(HOST[name])(X, Y), "jit")


# Equal rows: a bank without variance is a bank, and has exact values.
SAME = np.tile(X[:1], (12, 1))
CONSTANT = np.concatenate([X[:, :3], np.ones((12, 1), np.float32)], axis=1)


def test_identical_rows_have_their_exact_values():
    for name in ("energy_distance", "frechet_distance", "kernel_distance", "sliced_wasserstein"):
        assert TWO_BANKS[name](SAME, SAME) == 0, name
    for name in ("energy_distance_stderr", "frechet_distance_stderr"):
        assert TWO_BANKS[name](SAME, SAME) == 0, name
    assert metrics.mmd(SAME, SAME, bandwidth=1.0) == 0
    scores = metrics.precision_recall(SAME, SAME)
    assert (scores.precision, scores.recall, scores.coverage) == (1, 1, 1)
    assert scores.density >= 6 / 5
    with pytest.warns(UserWarning, match="clusters"):
        result = metrics.mauve(SAME, SAME)
    assert (result.value, result.star, result.frontier_integral) == (1, 1, 0)
    assert metrics.median_squared_distance(SAME) == 0
    # Of the tests, the one whose every deal is alike: as bad as can be, never NaN.
    assert metrics.energy_permutation_test(SAME, SAME, num_permutations=9).p_value == 1


def test_identical_rows_that_leave_nothing_to_measure_by_are_refused():
    for name in ("mmd", "mmd_stderr", "mmd_permutation_test"):
        refused(lambda name=name: TWO_BANKS[name](SAME, Y), "bandwidth.*reference.*pass bandwidth")
    refused(lambda: metrics.bandwidth_ladder(SAME), "reference")
    refused(lambda: metrics.fit_whitening(SAME, 2), "reference.*num_components")
    refused(lambda: metrics.fit_whitening(CONSTANT, 4), "reference.*num_components")


@pytest.mark.parametrize(
    "name",
    [
        *("energy_distance", "frechet_distance", "kernel_distance", "sliced_wasserstein"),
        *("energy_distance_stderr", "frechet_distance_stderr", "precision_recall", "mauve"),
    ],
)
def test_a_feature_without_variance_and_equal_banks_give_finite_numbers(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows for MAUVE
        for result in (TWO_BANKS[name](CONSTANT, CONSTANT[::-1]), TWO_BANKS[name](X, X)):
            for number in jax.tree.leaves(result):
                assert np.isfinite(number).all()


OPTIONS = {
    "bandwidth": [
        lambda v, name=name: TWO_BANKS[name](X, Y, bandwidth=v)
        for name in ("mmd", "mmd_stderr", "mmd_permutation_test")
    ],
    "degree": [lambda v: metrics.kernel_distance(X, Y, degree=v)],
    "num_components": [lambda v: metrics.fit_whitening(X, v)],
    "num_neighbors": [
        lambda v: metrics.precision_recall(X, Y, num_neighbors=v),
        lambda v: metrics.precision_recall_stderr(X, Y, num_neighbors=v),
    ],
    "num_projections": [
        lambda v: metrics.sliced_wasserstein(X, Y, num_projections=v),
        lambda v: metrics.sliced_wasserstein_stderr(X, Y, num_projections=v),
    ],
    "num_permutations": [
        lambda v, name=name: TWO_BANKS[name](X, Y, num_permutations=v)
        for name in TWO_BANKS
        if name.endswith("permutation_test")
    ]
    + [lambda v: metrics.permutation_test(metrics.energy_distance, X, Y, num_permutations=v)],
    "num_clusters": [
        lambda v: metrics.mauve(X, Y, num_clusters=v),
        lambda v: metrics.kmeans(X, v, jax.random.key(0)[None]),
    ],
    "num_restarts": [lambda v: metrics.kmeans(X, 2, jax.random.key(0)[None], num_restarts=v)],
    "max_iterations": [lambda v: metrics.kmeans(X, 2, jax.random.key(0)[None], max_iterations=v)],
    "num_draws": [lambda v: metrics.null_band(metrics.energy_distance, X, num_draws=v)],
    "size": [lambda v: metrics.null_band(metrics.energy_distance, X, size=v)],
}
BAD_COUNTS = (0, -1, 2.5)


@pytest.mark.parametrize("name", OPTIONS)
def test_bad_counts_and_widths(name):
    for call in OPTIONS[name]:
        for value in BAD_COUNTS:
            if name == "bandwidth" and value == 2.5:
                continue
            refused(lambda call=call, value=value: call(value), name)


def test_other_bad_options():
    for scale in (0.0, -1.0, np.nan):
        refused(lambda scale=scale: metrics.mauve(X, Y, scale=scale), "scale")
        refused(lambda scale=scale: metrics.kernel_distance(X, Y, scale=scale), "scale")
    for share in (0.0, 1.5, np.nan):
        refused(lambda share=share: metrics.mauve(X, Y, explained_variance=share), "explained_var")
    for seeds in ((), (-1,), (1.5,), 25):
        refused(lambda seeds=seeds: metrics.mauve(X, Y, seeds=seeds), "seeds")
    for seed in (-1, 1.5):
        refused(lambda seed=seed: metrics.sliced_wasserstein(X, Y, seed=seed), "seed")
        for name in ("energy_permutation_test", "mmd_permutation_test"):
            refused(lambda name=name, seed=seed: TWO_BANKS[name](X, Y, seed=seed), "seed")
        refused(lambda seed=seed: metrics.null_band(metrics.energy_distance, X, seed=seed), "seed")
    for order in (0, 3, 1.5):
        refused(lambda order=order: metrics.sliced_wasserstein(X, Y, order=order), "order")
    for level in (0.0, 1.0, np.nan):
        refused(
            lambda level=level: metrics.null_band(metrics.energy_distance, X, level=level), "level"
        )
    for factors in ((), (0.0,), (-1.0,), (np.nan,)):
        refused(lambda factors=factors: metrics.bandwidth_ladder(X, factors), "factors")
    for keys in (0, jax.random.key(0), np.zeros(3)):
        refused(lambda keys=keys: metrics.kmeans(X, 2, keys), "keys")


def test_tests_of_any_statistic():
    gap = metrics.energy_distance
    for fault in ("NaN", "infinity"):
        bank = BAD_BANKS[fault]
        refused(lambda bank=bank: metrics.permutation_test(gap, bank, Y), "reference")
        refused(lambda bank=bank: metrics.permutation_test(gap, X, bank), "generated")
        refused(lambda bank=bank: metrics.null_band(gap, bank), "rows")
    refused(lambda: metrics.permutation_test(gap, X, Y[:, :3]), "reference and generated")
    refused(lambda: metrics.permutation_test(gap, X[:0], Y), "reference")
    refused(lambda: metrics.permutation_test(gap, X, (Y, Y)), "reference and generated")
    refused(lambda: metrics.permutation_test(lambda x, y: x, X, Y), "statistic")
    refused(lambda: metrics.permutation_test(lambda x, y: np.nan, X, Y), "statistic")
    refused(lambda: metrics.null_band(lambda x, y: np.nan, X), "statistic")
    refused(lambda: metrics.null_band(gap, X[:1]), "size")


# --- Histograms ---------------------------------------------------------------------------------

HISTOGRAMS = ("mauve_from_histograms", "frontier_integral_from_histograms")
BAD_HISTOGRAMS = {
    "empty": np.empty(0),
    "empty list": [],
    "NaN": np.array([0.5, np.nan, 0.5]),
    "infinity": np.array([0.5, np.inf, 0.5]),
    "negative": np.array([1.5, -0.5, 0.0]),
    "no mass": np.zeros(3),
    "two dimensions": np.ones((3, 1)),
    "one number": 1.0,
    "strings": np.array(["1", "2", "3"]),
    "a text": "abc",
    "complex": np.ones(3, complex),
    "nothing": None,
    "ragged": [[1.0], [2.0, 3.0]],
}


@pytest.mark.parametrize("fault", BAD_HISTOGRAMS)
@pytest.mark.parametrize("name", HISTOGRAMS)
def test_bad_histograms(name, fault):
    metric, good = getattr(metrics, name), np.ones(3)
    refused(lambda: metric(BAD_HISTOGRAMS[fault], good), r"\bp\b")
    refused(lambda: metric(good, BAD_HISTOGRAMS[fault]), r"\bq\b")


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms_that_do_not_fit_together(name):
    refused(lambda: getattr(metrics, name)(np.ones(3), np.ones(2)), "p and q")


def test_bad_options_of_histograms():
    p = np.ones(3)
    for scale in (0.0, -1.0, np.nan):
        refused(lambda scale=scale: metrics.mauve_from_histograms(p, p, scale=scale), "scale")
    for points in (0, -1, 2.5):
        refused(lambda n=points: metrics.mauve_from_histograms(p, p, num_points=n), "num_points")


# --- Token ids ------------------------------------------------------------------------------------

IDS = np.random.default_rng(2).integers(0, 5, (6, 7))
LENGTHS = np.full(6, 7)
TRAINING = IDS[::-1].copy()
NLL = np.random.default_rng(3).uniform(1, 2, IDS.shape)
TOKENS = {
    "count_ngrams": lambda ids, lengths=None: list(metrics.count_ngrams(ids, lengths, max_order=2)),
    "distinct_n": metrics.distinct_n,
    "distinct_n_stderr": metrics.distinct_n_stderr,
    "diversity": metrics.diversity,
    "diversity_stderr": metrics.diversity_stderr,
    "entropies": metrics.entropies,
    "entropies_stderr": metrics.entropies_stderr,
    "longest_copied_span": lambda ids, lengths=None: metrics.longest_copied_span(
        ids, TRAINING, lengths
    ),
    "longest_copied_span_stderr": lambda ids, lengths=None: metrics.longest_copied_span_stderr(
        ids, TRAINING, lengths
    ),
    "ngram_counts": lambda ids, lengths=None: metrics.ngram_counts(ids, lengths, order=2),
    "ngram_novelty": lambda ids, lengths=None: metrics.ngram_novelty(ids, TRAINING, lengths),
    "ngram_novelty_stderr": lambda ids, lengths=None: metrics.ngram_novelty_stderr(
        ids, TRAINING, lengths
    ),
    "perplexity_as": lambda ids, lengths=None: metrics.perplexity_as(
        "mdlm", NLL, ids, lengths, eos_id=0
    ),
    "self_bleu": metrics.self_bleu,
    "self_bleu_stderr": metrics.self_bleu_stderr,
    "sequence_repetition": metrics.sequence_repetition,
    "sequence_repetition_stderr": metrics.sequence_repetition_stderr,
    "target_mask": lambda ids, lengths=None: metrics.target_mask(ids, lengths, 0),
    "targets_as": lambda ids, lengths=None: metrics.targets_as("mdlm", ids, lengths, eos_id=0),
}
TRACEABLE = ("entropies", "target_mask")
OTHER_IDS = {  # arguments of another name that hold token ids too
    "fit_training_index": ("training_ids", metrics.fit_training_index),
    "longest_copied_span": ("training", lambda ids: metrics.longest_copied_span(IDS, ids)),
    "ngram_novelty": ("training", lambda ids: metrics.ngram_novelty(IDS, ids)),
    "memorisation, reference": (
        "reference_ids",
        lambda ids: metrics.memorisation(ids, IDS, metrics.fit_training_index(TRAINING)),
    ),
    "memorisation, generated": (
        "generated_ids",
        lambda ids: metrics.memorisation(IDS, ids, metrics.fit_training_index(TRAINING)),
    ),
}
BAD_IDS = {
    "no rows": np.empty((0, 7), int),
    "no columns": np.empty((6, 0), int),
    "empty list": [],
    "one dimension": IDS[0],
    "floats": IDS.astype(float),
    "booleans": IDS > 2,
    "strings": IDS.astype(str),
    "a text": "the cat sat",
    "texts": ["the cat", "sat on"],
    "bytes": [b"the cat", b"sat"],
    "one bytes": b"the cat",
    "nothing": None,
    "ragged": [[1, 2], [3]],
    "negative": np.where(IDS == 3, -1, IDS),
    "beyond int32": np.where(IDS == 3, 2**31, IDS),
}
BAD_LENGTHS = {
    "beyond the row": np.array([7, 7, 8, 7, 7, 7]),
    "negative": np.array([7, 7, -1, 7, 7, 7]),
    "floats": LENGTHS.astype(float),
    "too few": LENGTHS[:5],
    "two dimensions": LENGTHS[:, None],
    "all zero": 0 * LENGTHS,
    "strings": LENGTHS.astype(str),
    "booleans": LENGTHS > 0,
    "one number": 7,
}


@pytest.mark.parametrize("fault", BAD_IDS)
@pytest.mark.parametrize("name", TOKENS)
def test_bad_ids(name, fault):
    refused(lambda: TOKENS[name](BAD_IDS[fault]), r"\bids\b")


@pytest.mark.parametrize("fault", BAD_LENGTHS)
@pytest.mark.parametrize("name", TOKENS)
def test_bad_lengths(name, fault):
    refused(lambda: TOKENS[name](IDS, BAD_LENGTHS[fault]), r"\blengths\b")


@pytest.mark.parametrize("fault", BAD_IDS)
@pytest.mark.parametrize("name", OTHER_IDS)
def test_bad_ids_of_other_names(name, fault):
    argument, call = OTHER_IDS[name]
    if argument.startswith("training") and fault == "ragged":
        return  # documents of a training text may be a list of unequal rows
    refused(lambda: call(BAD_IDS[fault]), argument)


@pytest.mark.parametrize("name", [name for name in TOKENS if name not in TRACEABLE])
def test_ids_traced_where_values_are_needed(name):
    refused(lambda: jax.jit(TOKENS[name])(jnp.asarray(IDS, jnp.int32)), "jit")


ORDERS = ("distinct_n", "distinct_n_stderr", "ngram_counts", "self_bleu", "self_bleu_stderr",
          "sequence_repetition", "sequence_repetition_stderr")  # fmt: skip


def test_bad_orders():
    calls = [functools.partial(getattr(metrics, name), IDS) for name in ORDERS]
    calls += [
        functools.partial(getattr(metrics, name), IDS, TRAINING)
        for name in ("ngram_novelty", "ngram_novelty_stderr")
    ]
    index = metrics.fit_training_index(TRAINING)
    calls.append(functools.partial(metrics.memorisation, IDS, IDS, index))
    calls += [
        lambda order, name=name: getattr(metrics, name)(IDS, orders=(order,))
        for name in ("diversity", "diversity_stderr")
    ]
    calls += [lambda order: list(metrics.count_ngrams(IDS, max_order=order))]
    for call in calls:
        for order in (0, -1, True, 2.0, "3", None):
            refused(lambda call=call, order=order: call(order=order), r"\border")
    for name in ("distinct_n", "sequence_repetition"):
        refused(lambda name=name: getattr(metrics, name)(IDS, order=8), "row.*order")
    refused(lambda: metrics.ngram_novelty(IDS, TRAINING, order=8), "row.*order")
    refused(lambda: metrics.diversity(IDS, orders=()), "orders")


def test_too_few_rows_of_ids():
    for name in ("distinct_n_stderr", "diversity_stderr", "entropies_stderr", "self_bleu",
                 "sequence_repetition_stderr"):  # fmt: skip
        refused(lambda name=name: getattr(metrics, name)(IDS[:1]), "at least 2|needs")
    refused(lambda: metrics.self_bleu_stderr(IDS[:2]), "at least 3")
    for name in ("ngram_novelty_stderr", "longest_copied_span_stderr"):
        refused(lambda name=name: getattr(metrics, name)(IDS[:1], TRAINING), "at least 2")


def test_identical_rows_of_ids_have_their_exact_values():
    same = np.tile(np.arange(7), (6, 1))
    result = metrics.entropies(same)
    assert (result.pos, result.joint, result.total_correlation) == (0, 0, 0)
    assert (metrics.self_bleu(same) == 1).all()
    assert metrics.distinct_n(same) == 1 / 6
    assert metrics.self_bleu_stderr(same) == metrics.sequence_repetition_stderr(same) == 0
    assert (metrics.longest_copied_span(same, same) == 7).all()
    assert (metrics.ngram_novelty(same, same) == 0).all()


def test_other_bad_options_of_ids():
    for policy in ("first", None, 1):
        refused(lambda policy=policy: metrics.target_mask(IDS, None, 0, policy), "policy")
    for eos in (None, 1.5, "0", True):
        refused(lambda eos=eos: metrics.target_mask(IDS, None, eos), "eos_id")
    for smoothing in ("method7", None):
        refused(lambda s=smoothing: metrics.self_bleu(IDS, smoothing=s), "smoothing")
    for most in (0, 1, 2.5, True, "3"):
        refused(lambda most=most: metrics.self_bleu(IDS, max_references=most), "max_references")
    for name in ("nobody", None, 3):
        refused(lambda name=name: metrics.targets_as(name, IDS, eos_id=0), "name")
        refused(lambda name=name: metrics.perplexity_as(name, NLL, IDS, eos_id=0), "name")
    for size in (0, -1, 1.5, "2", True):
        refused(
            lambda size=size: metrics.aggregate_as("sedd", NLL[0], LENGTHS[:7], batch_size=size),
            "batch_size|nll",
        )
    index = metrics.fit_training_index(TRAINING)
    refused(lambda: metrics.ngram_novelty(IDS, index, None, LENGTHS), "training_lengths")
    refused(lambda: metrics.memorisation(IDS, IDS, None), "training")


def test_windows_and_ceilings():
    for lengths in ([3.0], [[3]], [-1], "3", ["3"], None):
        refused(lambda x=lengths: metrics.scoring_windows(x, 4), "lengths")
    for context in (0, 1, 2.5, "4", True, None):
        refused(lambda x=context: metrics.scoring_windows(LENGTHS, x), "context")
    for stride in (0, 4, 1.5, "2", True):
        refused(lambda x=stride: metrics.scoring_windows(LENGTHS, 4, x), "stride")
    for count in (0, -1, 2.5, "3", None, []):
        refused(lambda x=count: metrics.entropy_ceiling(x), "num_rows")


# --- Likelihoods --------------------------------------------------------------------------------

SUMS = {
    "aggregate_as": functools.partial(metrics.aggregate_as, "dlmeval"),
    "generative_perplexity": metrics.generative_perplexity,
    "generative_perplexity_stderr": metrics.generative_perplexity_stderr,
}
BAD_SUMS = {
    "empty": (np.empty(0), np.empty(0, int), "nll"),
    "empty lists": ([], [], "nll"),
    "unequal": (np.ones(3), np.ones(2, int), "nll"),
    "two dimensions": (np.ones((3, 1)), np.ones((3, 1), int), "nll"),
    "NaN": (np.array([1, np.nan, 2]), np.ones(3, int), "nll"),
    "minus infinity": (np.array([1, -np.inf, 2]), np.ones(3, int), "nll"),
    "strings": (np.array(["1", "2", "x"]), np.ones(3, int), "nll"),
    "complex": (np.ones(3, complex), np.ones(3, int), "nll"),
    "nothing": (None, np.ones(3, int), "nll"),
    "ragged": ([[1.0], [2.0, 3.0]], np.ones(2, int), "nll"),
    "float counts": (np.ones(3), np.ones(3), "num_tokens"),
    "negative counts": (np.ones(3), np.array([1, -1, 2]), "num_tokens"),
    "no tokens": (np.zeros(3), np.zeros(3, int), "num_tokens"),
    "NLL of no tokens": (np.ones(3), np.array([1, 0, 2]), "nll"),
    "string counts": (np.ones(3), np.array(["1", "1", "1"]), "num_tokens"),
    "no counts": (np.ones(3), None, "num_tokens"),
}


@pytest.mark.parametrize("fault", BAD_SUMS)
@pytest.mark.parametrize("name", SUMS)
def test_bad_sums(name, fault):
    nll, num_tokens, argument = BAD_SUMS[fault]
    refused(lambda: SUMS[name](nll, num_tokens), argument)


def test_other_bad_likelihoods():
    good = np.ones(3), np.ones(3, int)
    for name in ("generative_perplexity", "generative_perplexity_stderr"):
        for aggregate in ("mean", None, 1):
            refused(lambda n=name, a=aggregate: getattr(metrics, n)(*good, a), "aggregate")
    refused(lambda: metrics.generative_perplexity_stderr(np.ones(1), np.ones(1, int)), "at least 2")
    for name in ("aggregate_as", "generative_perplexity_stderr"):
        refused(lambda name=name: jax.jit(SUMS[name])(*good), "jit")
    for value in (np.nan, 0.0, -1.0):
        refused(lambda v=value: metrics.adjusted_perplexity(v, 1.0), "perplexity")
    for value in (np.nan, np.inf, -1.0):
        refused(lambda v=value: metrics.adjusted_perplexity(9.0, v), "pos_entropy")
    for token_nll in (NLL[:, :3], np.where(NLL > 1.9, np.nan, NLL)):
        refused(lambda x=token_nll: metrics.perplexity_as("mdlm", x, IDS, eos_id=0), "token_nll")


# --- Bytes and texts ----------------------------------------------------------------------------

DOCUMENTS = [b"to be", b"or not", b"to be", b"that is"]
TREE = metrics.fit_context_tree(DOCUMENTS, 8)
BYTES = {
    "code_length": ("documents", lambda x: metrics.code_length(TREE, x)),
    "count_contexts": ("documents", lambda x: metrics.count_contexts(x, 8)),
    "fit_context_tree": ("documents", lambda x: metrics.fit_context_tree(x, 8)),
} | {
    f"{name}, {argument}": (argument, call)
    for name in ("code_held_out", "jeffreys_coding_divergence")
    for argument, call in (
        ("reference", lambda x, name=name: getattr(metrics, name)(x, DOCUMENTS, depth=8)),
        ("generated", lambda x, name=name: getattr(metrics, name)(DOCUMENTS, x, depth=8)),
    )
}
BAD_BYTES = {
    "texts": ["to be", "or not", "to be", "that"],
    "one text": "to be",
    "one bytes": b"to be",
    "numbers": [1, 2, 3, 4],
    "ids": IDS,
    "nothing": None,
    "nothing inside": [b"to be", None, b"or", b"not"],
    "one number": 7,
}


@pytest.mark.parametrize("fault", BAD_BYTES)
@pytest.mark.parametrize("name", BYTES)
def test_bad_documents(name, fault):
    argument, call = BYTES[name]
    refused(lambda: call(BAD_BYTES[fault]), argument)


def test_banks_of_documents_too_small_to_fit_and_code():
    for name in ("code_held_out", "jeffreys_coding_divergence"):
        metric = getattr(metrics, name)
        for bank in ([], [b"one"]):
            refused(lambda m=metric, b=bank: m(b, DOCUMENTS, depth=8), "reference")
            refused(lambda m=metric, b=bank: m(DOCUMENTS, b, depth=8), "generated")
        refused(lambda m=metric: m(DOCUMENTS, [b"a", b"b", b"", b""], depth=8), "generated")
        for num_fit in (0, 4, -1, 1.5, "2", True):
            refused(
                lambda m=metric, f=num_fit: m(DOCUMENTS, DOCUMENTS, depth=8, num_fit=f), "num_fit"
            )
    codes = metrics.code_held_out(DOCUMENTS, DOCUMENTS, depth=8, num_fit=3)
    refused(lambda: metrics.coding_divergence_stderr(codes), "reference")
    # Fitting nothing is allowed: the coder that spends 8 bits a byte.
    assert metrics.code_length(metrics.fit_context_tree([], 8), [b"abc"]).tolist() == [24.0]


def test_bad_options_of_coders():
    calls = [
        lambda **options: metrics.count_contexts(DOCUMENTS, **options),
        lambda **options: metrics.fit_context_tree(DOCUMENTS, **options),
        lambda **options: metrics.jeffreys_coding_divergence(DOCUMENTS, DOCUMENTS, **options),
    ]
    for call in calls:
        for depth in (-1, 25, 2.0, "20", True, None):
            refused(lambda c=call, d=depth: c(depth=d), "depth")
        for start in ("zero", None, 0):
            refused(lambda c=call, s=start: c(depth=4, start=s), "start")
    for counts in (np.zeros((3, 2), int), np.zeros(4, int), -np.ones((2, 2), int), np.ones((2, 2)),
                   "counts", None):  # fmt: skip
        refused(lambda c=counts: metrics.context_tree_from_counts(c), "counts")
    codes = metrics.code_held_out(DOCUMENTS, DOCUMENTS, depth=8)
    for name in ("coding_divergence_from_codes", "coding_divergence_stderr"):
        for pooling in ("mean", None, 1):
            refused(lambda n=name, p=pooling: getattr(metrics, n)(codes, pooling=p), "pooling")


@pytest.mark.parametrize("name", ["text_ids", "text_vocabulary"])
def test_bad_texts(name):
    metric = getattr(metrics, name)
    for texts in ("one text", b"bytes", [b"bytes", b"more"], [1, 2], None, 7, [], [None]):
        refused(lambda texts=texts: metric(texts), "texts")
    for tokens in ("words", None, 3):
        refused(lambda tokens=tokens: metric(["a b"], tokens), "tokens")


# --- Gradients ----------------------------------------------------------------------------------


def stats(**changes):
    rng = np.random.default_rng(4)
    batches = rng.normal(size=(5, 3)).astype(np.float32)
    sketches = metrics.SketchedGradients(batches, 0)
    norms = np.float32((batches**2).sum())
    good = metrics.GradientStats(batches.sum(0), norms, 5, norms, sketches)
    return good._replace(**changes)


PAIRS = (
    "gradient_moment",
    "gradient_moment_by_tensor",
    "gradient_moment_from_sketches",
    "gradient_moment_stderr",
    "add_gradient_stats",
)
SKETCHED = ("gradient_moment_from_sketches", "gradient_moment_stderr")
BAD_STATS = {
    "an array": np.ones(3),
    "nothing": None,
    "another shape": stats(total=np.ones(4, np.float32)),
    "another tree": stats(total={"w": np.ones(3, np.float32)}),
    "NaN total": stats(total=np.array([1, np.nan, 2], np.float32)),
    "infinite norm": stats(squared_norm=np.float32(np.inf)),
    "no batches": stats(num_batches=0),
    "half a batch": stats(num_batches=2.5),
    "integers for gradients": stats(total=np.array(["a", "b", "c"])),
}


@pytest.mark.parametrize("fault", BAD_STATS)
@pytest.mark.parametrize("name", [name for name in PAIRS if name not in SKETCHED])
def test_bad_gradient_stats(name, fault):
    metric, bad = getattr(metrics, name), BAD_STATS[fault]
    first, second = ("a", "b") if name.startswith("add") else ("reference", "generated")
    refused(lambda: metric(bad, stats()), rf"\b{first}\b")
    refused(lambda: metric(stats(), bad), rf"\b{second}\b")


def test_other_bad_gradients():
    one = stats(num_batches=1)
    refused(lambda: metrics.gradient_moment(one, stats()), "reference")
    refused(lambda: metrics.uncentered_moment(one), "stats")
    refused(lambda: metrics.uncentered_moment(None), "stats")
    for form in ("cube", None):
        refused(lambda form=form: metrics.gradient_moment(stats(), stats(), form=form), "form")
    bare = stats(sketches=None)
    rows_of_nan = metrics.SketchedGradients(np.full((5, 3), np.nan, np.float32), 0)
    narrow = metrics.SketchedGradients(np.ones((5, 2), np.float32), 0)
    reseeded = metrics.SketchedGradients(np.ones((5, 3), np.float32), 1)
    for name in SKETCHED:
        metric = getattr(metrics, name)
        for given in (bare, stats(sketches=rows_of_nan), stats(sketches=narrow),
                      stats(sketches=reseeded)):  # fmt: skip
            wrong = given.sketches if name.endswith("sketches") else given
            good = stats().sketches if name.endswith("sketches") else stats()
            refused(lambda m=metric, w=wrong, g=good: m(w, g), "reference|sketches")
            refused(lambda m=metric, w=wrong, g=good: m(g, w), "generated|sketches")
    for buckets in (0, -1, 2.5, "8", True):
        refused(lambda b=buckets: metrics.CountSketch(num_buckets=b), "num_buckets")
    for seed in (-1, 1.5, "0", True):
        refused(lambda s=seed: metrics.CountSketch(num_buckets=8, seed=s), "seed")
    for gradient in ({}, {"w": np.empty(0)}, None):
        refused(lambda g=gradient: metrics.CountSketch(num_buckets=8)(g), "gradient")


# --- Nobody is left out -------------------------------------------------------------------------


def test_every_public_function_is_in_a_table():
    """A new metric fails here until it has met every fault that its arguments can have."""
    source = pathlib.Path(__file__).read_text(encoding="utf-8")
    functions = {name for name in metrics.__all__ if inspect.isfunction(getattr(metrics, name))}
    assert not {name for name in functions if not re.search(rf"\b{name}\b", source)}
