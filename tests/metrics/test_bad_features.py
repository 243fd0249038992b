"""Every metric of feature vectors or histograms against every fault that users bring."""

import functools
import warnings

import jax
import numpy as np
import pytest

from dlmeval import metrics


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
def test_bad_banks(name, fault, refused):
    refused(lambda: TWO_BANKS[name](BAD_BANKS[fault], Y), "reference")
    refused(lambda: TWO_BANKS[name](X, BAD_BANKS[fault]), "generated")


@pytest.mark.parametrize("name", TWO_BANKS)
def test_banks_that_do_not_fit_together(name, refused):
    refused(lambda: TWO_BANKS[name](X, Y[:, :3]), r"reference and generated.*\(12, 4\).*\(12, 3\)")
    refused(lambda: TWO_BANKS[name](X[:1], Y), r"reference")
    refused(lambda: TWO_BANKS[name](X, Y[:1]), r"generated")
    if name.endswith("_stderr") and not name.startswith(("mauve", "frechet", "precision")):
        refused(lambda: TWO_BANKS[name](X[:2], Y), "reference")
        refused(lambda: TWO_BANKS[name](X, Y[:2]), "generated")


@pytest.mark.parametrize("fault", BAD_BANKS)
@pytest.mark.parametrize("name", ONE_BANK)
def test_bad_bank(name, fault, refused):
    argument, metric = ONE_BANK[name]
    refused(lambda: metric(BAD_BANKS[fault]), rf"\b{argument}\b")


HOST = {
    "fit_whitening": lambda x, y: metrics.fit_whitening(x, 2),
    "mauve": metrics.mauve,
    "mauve_permutation_test": metrics.mauve_permutation_test,
    "mauve_stderr": metrics.mauve_stderr,
}


@pytest.mark.parametrize("name", HOST)
def test_features_traced_where_values_are_needed(name, refused):
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


def test_identical_rows_that_leave_nothing_to_measure_by_are_refused(refused):
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
def test_bad_counts_and_widths(name, refused):
    for call in OPTIONS[name]:
        for value in BAD_COUNTS:
            if name == "bandwidth" and value == 2.5:
                continue
            refused(lambda call=call, value=value: call(value), name)


def test_other_bad_options(refused):
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


def test_tests_of_any_statistic(refused):
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
def test_bad_histograms(name, fault, refused):
    metric, good = getattr(metrics, name), np.ones(3)
    refused(lambda: metric(BAD_HISTOGRAMS[fault], good), r"\bp\b")
    refused(lambda: metric(good, BAD_HISTOGRAMS[fault]), r"\bq\b")


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms_that_do_not_fit_together(name, refused):
    refused(lambda: getattr(metrics, name)(np.ones(3), np.ones(2)), "p and q")


def test_bad_options_of_histograms(refused):
    p = np.ones(3)
    for scale in (0.0, -1.0, np.nan):
        refused(lambda scale=scale: metrics.mauve_from_histograms(p, p, scale=scale), "scale")
    for points in (0, -1, 2.5):
        refused(lambda n=points: metrics.mauve_from_histograms(p, p, num_points=n), "num_points")
