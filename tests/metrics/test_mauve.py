"""MAUVE: golden values, closed forms, invariances, seeds, warnings, bad input."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from scipy import integrate

from dlmeval.metrics import mauve, mauve_from_histograms

GOLDEN = [
    ([1, 0], [0, 1], 0.0040720962619612555),
    ([0.5, 0.5, 0], [0.25, 0.25, 0.5], 0.2781137253672403),
    ([0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], 0.6538536633533254),
    (np.eye(102)[0], np.ones(102) / 102, 0.005307504426674405),
]


@pytest.mark.parametrize(("p", "q", "value"), GOLDEN)
def test_golden_values_of_histograms(p, q, value):
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    single = mauve_from_histograms(p, q)
    assert single.shape == ()
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, value, rtol=1e-4)
    np.testing.assert_allclose(jax.jit(mauve_from_histograms)(p, q), value, rtol=1e-4)
    with jax.enable_x64(True):
        np.testing.assert_allclose(mauve_from_histograms(p, q), value, rtol=0, atol=1e-10)
        np.testing.assert_allclose(mauve_from_histograms(q, p), value, rtol=0, atol=1e-10)
        counts = mauve_from_histograms(1000 * p, 10 * q)
        np.testing.assert_allclose(counts, value, rtol=0, atol=1e-10)


@pytest.mark.parametrize("k", [1, 2, 3, 13, 102])
def test_equal_histograms_give_exactly_one(k):
    rng = np.random.default_rng(k)
    for _ in range(5):
        p = rng.multinomial(100, np.ones(k) / k)
        assert mauve_from_histograms(p, p) == 1
        assert mauve_from_histograms(p / 100, p / 100) == 1
        assert jax.jit(mauve_from_histograms)(p / 100, p / 100) == 1


def test_disjoint_histograms_tend_to_the_beta_integral():
    p, q = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    with jax.enable_x64(True):
        # The frontier is w^5, (1 - w)^5, so the area is 5 B(6, 5) = 0.00396825.
        fine = mauve_from_histograms(p, q, num_points=4001)
        np.testing.assert_allclose(fine, 1 / 252, rtol=1e-4)
        # With scale 1 the frontier is the diagonal, traced exactly by trapezoids.
        np.testing.assert_allclose(mauve_from_histograms(p, q, scale=1.0), 0.5, atol=1e-6)


def test_values_are_ordered_and_bounded():
    base = np.array([0.4, 0.3, 0.2, 0.1])
    mixed = [mauve_from_histograms(base, (1 - t) * base + t * base[::-1]) for t in (0, 0.3, 0.6, 1)]
    assert (np.diff(mixed) < 0).all()
    assert mixed[0] == 1
    rng = np.random.default_rng(0)
    banks = rng.dirichlet(np.full(5, 0.2), size=(2, 20))
    values = jax.vmap(mauve_from_histograms)(*banks.astype(np.float32))
    assert values.shape == (20,)
    assert (values > 0).all()
    assert (values <= 1).all()
    singles = [mauve_from_histograms(p, q) for p, q in zip(*banks)]
    np.testing.assert_allclose(values, singles, rtol=1e-4)


def test_histogram_gradients():
    p, q = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.3, 0.3, 0.2, 0.2])
    with jax.enable_x64(True):
        check_grads(mauve_from_histograms, (jnp.asarray(p), jnp.asarray(q)), order=1, modes=["rev"])
    touching = jax.grad(mauve_from_histograms)(jnp.asarray([1.0, 0.0]), jnp.asarray([0.0, 1.0]))
    assert jnp.isfinite(touching).all()


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ([0.5, 0.5], [1.0], "equal lengths"),
        ([[0.5, 0.5]], [1.0, 0], "p must be a 1-D histogram"),
        ([0.5, -0.5], [1.0, 0], "p must hold finite, non-negative"),
        ([0.5, 0.5], [0.0, 0], "q must hold finite"),
        ([0.5, 0.5], [np.nan, 1], "q must hold finite"),
    ],
)
def test_bad_histograms_are_named(p, q, message):
    with pytest.raises(ValueError, match=message):
        mauve_from_histograms(np.array(p), np.array(q))


def test_bad_histogram_options_are_named():
    p = np.array([0.5, 0.5])
    with pytest.raises(ValueError, match="scale must be positive"):
        mauve_from_histograms(p, p, scale=0.0)
    with pytest.raises(ValueError, match="num_points must be at least 1"):
        mauve_from_histograms(p, p, num_points=0)


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
    smoothed = mauve_from_histograms(100 * p + 0.5, 100 * q + 0.5)
    np.testing.assert_allclose(smoothed, singles[0].star, rtol=1e-5)
    curve = np.asarray(result.curve)
    assert curve.shape == (27, 2)
    np.testing.assert_array_equal(curve[[0, -1]], [[1, 0], [0, 1]])
    assert (np.diff(curve[:, 0]) <= 1e-6).all()
    assert (np.diff(curve[:, 1]) >= -1e-6).all()


def test_frontier_integral_is_the_integral_of_its_definition():
    result = mauve(*clouds(0.4))
    p = np.asarray(result.reference_histogram, np.float64)
    q = np.asarray(result.generated_histogram, np.float64)

    def kl(a, b):
        return np.sum(a[a > 0] * np.log(a[a > 0] / b[a > 0]))

    def integrand(w):
        mixture = w * p + (1 - w) * q
        return 2 * (w * kl(p, mixture) + (1 - w) * kl(q, mixture))

    expected, _ = integrate.quad(integrand, 0, 1)
    np.testing.assert_allclose(result.frontier_integral, expected, rtol=1e-4)


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
        ({"num_clusters": 1}, r"num_clusters must lie in 2\.\.200"),
        ({"num_clusters": 201}, r"num_clusters must lie in 2\.\.200"),
        ({"scale": -1.0}, "scale must be positive"),
        ({"seeds": ()}, "seeds must be one or more"),
        ({"seeds": (-1,)}, "seeds must be one or more"),
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


@pytest.mark.parity
def test_histogram_stage_equals_mauve_text():
    package = pytest.importorskip("mauve.compute_mauve")
    rng = np.random.default_rng(0)
    weights = np.linspace(1e-6, 1 - 1e-6, 25)
    for k in (13, 102):
        p, q = rng.multinomial(1024, rng.dirichlet(np.ones(k)), size=2) / 1024.0
        curve = package.get_divergence_curve_for_multinomials(p, q, weights, 5)
        x, y = curve.T
        first, second = np.argsort(x), np.argsort(y)
        expected = (np.trapezoid(y[first], x[first]) + np.trapezoid(x[second], y[second])) / 2
        with jax.enable_x64(True):
            value = mauve_from_histograms(p, q)
        np.testing.assert_allclose(value, expected, rtol=0, atol=1e-10)


@pytest.mark.parity
def test_values_agree_with_mauve_text_in_distribution():
    package = pytest.importorskip("mauve")
    x, y = (bank.astype(np.float32) for bank in clouds(0.3, n=400))
    theirs = package.compute_mauve(p_features=x, q_features=y, verbose=False)
    ours = mauve(x, y, seeds=range(5))
    assert abs(ours.value - theirs.mauve) < 0.03
    assert abs(ours.frontier_integral - theirs.frontier_integral) < 0.03
