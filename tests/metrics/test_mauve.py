"""MAUVE of features: seeds, invariances, limits, standard errors, warnings, bad input."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.metrics import (
    frontier_integral_from_histograms,
    mauve,
    mauve_from_histograms,
    mauve_stderr,
)


def clouds(shift=0.0, n=100, d=24, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=(n, d)) + shift


def test_fields_of_several_seeds():
    x, y = clouds(0.3)
    seeds = (25, 26, 27)
    result = mauve(x, y, seeds=seeds)
    singles = [mauve(x, y, seeds=(seed,)) for seed in seeds]
    values = np.array([single.value for single in singles])
    np.testing.assert_allclose(result.value, values.mean(), rtol=1e-6)
    assert result.stderr is not None
    assert singles[0].stderr is None
    np.testing.assert_allclose(result.stderr, values.std(ddof=1) / 3**0.5, rtol=1e-4)
    np.testing.assert_allclose(result.star, np.mean([s.star for s in singles]), rtol=1e-6)
    np.testing.assert_array_equal(result.reference_histogram, singles[0].reference_histogram)
    np.testing.assert_array_equal(result.curve, singles[0].curve)
    assert result.num_clusters == 10
    assert result.reference_histogram.shape == (10,)
    assert result.value.shape == result.star.shape == result.frontier_integral.shape == ()
    # The value follows from the histograms, and its area is the area under the curve.
    p, q = singles[0].reference_histogram, singles[0].generated_histogram
    np.testing.assert_allclose(np.sum(p), 1, rtol=1e-6)
    np.testing.assert_allclose(mauve_from_histograms(p, q), singles[0].value, rtol=1e-5)
    np.testing.assert_allclose(
        frontier_integral_from_histograms(p, q), singles[0].frontier_integral, rtol=1e-5
    )
    smoothed = mauve_from_histograms(100 * p + 0.5, 100 * q + 0.5)
    np.testing.assert_allclose(smoothed, singles[0].star, rtol=1e-5)
    curve = np.asarray(result.curve)
    assert curve.shape == (27, 2)
    np.testing.assert_array_equal(curve[[0, -1]], [[1, 0], [0, 1]])
    assert (np.diff(curve[:, 0]) <= 1e-6).all()
    assert (np.diff(curve[:, 1]) >= -1e-6).all()


def test_row_order_never_matters_and_swapping_swaps_the_axes():
    x, y = clouds(0.3)
    rng = np.random.default_rng(1)
    result = mauve(x, y)
    shuffled = mauve(x[rng.permutation(100)], y[rng.permutation(100)])
    assert result.value == shuffled.value
    np.testing.assert_array_equal(result.reference_histogram, shuffled.reference_histogram)
    swapped = mauve(y, x)
    np.testing.assert_allclose(swapped.value, result.value, rtol=1e-5)
    np.testing.assert_array_equal(swapped.reference_histogram, result.generated_histogram)


def test_the_length_of_feature_vectors_is_ignored():
    x, y = clouds(0.3)
    lengths = np.exp2(np.random.default_rng(2).integers(-3, 4, size=(100, 1)))
    assert mauve(x * lengths, y).value == mauve(x, y).value


def test_extremes():
    x, y = clouds()
    assert mauve(x, x).value == 1
    assert mauve(x, x).frontier_integral == 0
    far = mauve(np.eye(24)[0] + 0.01 * x, -np.eye(24)[0] + 0.01 * y)
    np.testing.assert_allclose(far.value, 0.0040720962619612555, rtol=1e-4)
    np.testing.assert_allclose(far.frontier_integral, 1, rtol=1e-5)
    constant = mauve(np.tile(y[:1], (100, 1)), np.tile(y[:1], (100, 1)))
    assert constant.value == 1
    collapsed = mauve(x, np.tile(np.eye(24)[:1], (100, 1)))
    assert collapsed.value < 0.03


def test_same_law_scores_high_and_more_shift_scores_lower():
    values = [mauve(*clouds(shift), seeds=(1, 2, 3)).value for shift in (0, 0.3, 0.8)]
    assert 0.85 < values[0] < 1
    assert values[0] > values[1] > values[2]


@pytest.mark.parametrize(("n", "d"), [(30, 100), (100, 30)])
def test_principal_components_on_both_routes(n, d):
    from dlmeval.metrics.mauve import _principal_components

    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(n, d)) / np.arange(1, d + 1)).astype(np.float32)
    projected = np.asarray(_principal_components(jnp.asarray(rows), 0.9), np.float64)
    centred = rows - rows.mean(0)
    u, singular, _ = np.linalg.svd(centred.astype(np.float64), full_matrices=False)
    count = 1 + np.sum(np.cumsum(singular**2) < 0.9 * np.sum(singular**2))
    expected = u[:, :count] * singular[:count]
    np.testing.assert_allclose(projected @ projected.T, expected @ expected.T, atol=1e-4)
    assert np.count_nonzero(np.abs(projected).max(0)) == count


def test_default_number_of_clusters_and_the_warning():
    x, y = clouds()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mauve(x[:28], y).num_clusters == 3
    with pytest.warns(UserWarning, match="2 clusters wants at least 20 rows"):
        assert mauve(x[:9], y).num_clusters == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_clusters": 1}, r"num_clusters must be in \[2, 200\]"),
        ({"num_clusters": 201}, r"num_clusters must be in \[2, 200\]"),
        ({"scale": -1.0}, "scale must be positive"),
        ({"seeds": ()}, "seeds must be one or more"),
        ({"seeds": (-1,)}, "every one of seeds must be in"),
        ({"explained_variance": 0.0}, "explained_variance must lie in"),
        ({"explained_variance": 1.1}, "explained_variance must lie in"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        mauve(*clouds(), **options)


def test_bad_features_are_named():
    x, y = clouds()
    with pytest.raises(ValueError, match="reference holds NaN or infinity"):
        mauve(np.where(x > 3, np.inf, x), y)
    with pytest.raises(ValueError, match=r"\(100, 24\) and \(100, 23\)"):
        mauve(x, y[:, :23])


def test_traced_features_are_refused():
    with pytest.raises(ValueError, match=r"cannot run inside jax.jit"):
        jax.jit(mauve)(*clouds())


def test_clusters_never_look_at_the_names_of_the_banks():
    from dlmeval.metrics.mauve import cluster_banks

    x, y = clouds(0.3)
    labels = cluster_banks(x, y, 10, 5.0, (1, 2), 0.9).labels
    swapped = cluster_banks(y, x, 10, 5.0, (1, 2), 0.9).labels
    np.testing.assert_array_equal(labels, np.roll(swapped, 100, axis=1))
    assert (labels[0] != labels[1]).any()


@pytest.mark.filterwarnings("ignore:MAUVE with")
@pytest.mark.parametrize("k", [10, 150])
def test_hard_banks_give_finite_values_in_range(k):
    rng = np.random.default_rng(0)
    x, y = clouds(0.3)
    cases = {
        "duplicates": (np.repeat(x[:5], 20, axis=0), np.repeat(y[:20], 5, axis=0)),
        "zero rows": (np.where(rng.random((100, 1)) < 0.3, 0, x), y),
        "only zeros": (np.zeros((100, 24)), y),
        "half constant": (np.repeat(x[:1], 100, axis=0), y),
        "tiny": (2.0**-100 * x, 2.0**-100 * y),
    }
    for name, (a, b) in cases.items():
        result = mauve(a, b, num_clusters=k, seeds=(0, 1))
        for number in (result.value, result.star, result.frontier_integral, result.stderr):
            assert np.isfinite(number), name
        assert 0 < result.value <= 1, name
        assert 0 <= result.frontier_integral <= 1 + 1e-6, name
        np.testing.assert_allclose(np.sum(result.generated_histogram), 1, rtol=1e-5)
    # A length divides out, also where its square is beyond float32.
    assert mauve(*cases["tiny"], num_clusters=k).value == mauve(x, y, num_clusters=k).value


@pytest.mark.filterwarnings("ignore:MAUVE with")
def test_limits_at_the_ends_of_k_and_of_the_width():
    x, y = clouds(0.3)
    alone = mauve(x, y, num_clusters=200)
    np.testing.assert_allclose(alone.value, 0.0040720962619612555, rtol=1e-4)
    assert mauve(np.zeros((100, 24)), np.zeros((100, 24))).value == 1
    # One-dimensional features are their signs: 60 of 100 positive against 30 of 100.
    signs = [np.where(np.arange(100) < count, 2.0, -0.5)[:, None] for count in (60, 30)]
    expected = mauve_from_histograms(np.array([60, 40]), np.array([30, 70]))
    np.testing.assert_allclose(mauve(*signs).value, expected, rtol=1e-5)


def planted(rng, laws, n):
    """Rows at the corners of a simplex: the clusters are the corners, whatever the draw."""
    return tuple(np.eye(len(law))[rng.choice(len(law), size=n, p=law)] for law in laws)


def test_stderr_is_the_jackknife_of_the_definition():
    banks = planted(np.random.default_rng(0), ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]), 60)
    counts = [bank.sum(axis=0) for bank in banks]
    variance = 0
    for side in range(2):
        values = []
        for row in banks[side]:
            dropped = list(counts)
            dropped[side] = counts[side] - row
            values.append(mauve_from_histograms(*dropped))
        variance += 59 / 60 * np.sum((np.array(values) - np.mean(values)) ** 2)
    stderr = mauve_stderr(*banks, num_clusters=3, seeds=(0, 1))
    assert stderr.shape == ()
    np.testing.assert_allclose(stderr, variance**0.5, rtol=1e-3)


@pytest.mark.filterwarnings("ignore:MAUVE with")
def test_stderr_is_the_scatter_over_fresh_banks():
    rng = np.random.default_rng(0)
    laws, n = ([0.6, 0.3, 0.1], [0.2, 0.4, 0.4]), 60
    draws = jnp.asarray(np.stack([rng.multinomial(n, law, size=400) for law in laws], 1))
    values = jax.vmap(lambda pair: mauve_from_histograms(*pair))(draws)
    banks = [planted(rng, laws, n) for _ in range(20)]
    stderrs = [mauve_stderr(*pair, num_clusters=3) for pair in banks]
    np.testing.assert_allclose(np.mean(stderrs), np.std(values), rtol=0.15)
    # A cluster that one bank does not reach has no row to drop.
    assert np.isfinite(mauve_stderr(np.eye(3)[[0] * 60], banks[0][1], num_clusters=3))
