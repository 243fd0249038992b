"""MMD: float64 oracle, closed forms, the default bandwidth, transformations, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from dlmeval.metrics import (
    bandwidth_ladder,
    median_squared_distance,
    mmd,
    mmd_stderr,
    pairwise,
)

N, M, D = 96, 80, 48


def oracle(x, y, bandwidth=None, unbiased=False):
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    n, m = len(x), len(y)
    if bandwidth is None:
        bandwidth = np.median(pdist(x, "sqeuclidean")) / 2

    def kernel(a, b):
        return np.exp(-cdist(a, b, "sqeuclidean") / (2 * bandwidth))

    if unbiased:
        within = (kernel(x, x).sum() - n) / (n * (n - 1)) + (kernel(y, y).sum() - m) / (m * (m - 1))
    else:
        within = kernel(x, x).mean() + kernel(y, y).mean()
    return within - 2 * kernel(x, y).mean()


def banks(shift=0.3):
    rng = np.random.default_rng(11)
    return rng.normal(size=(N, D)), rng.normal(size=(M, D)) + shift


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("bandwidth", [None, 5.0])
@pytest.mark.parametrize("offset", [0, 100])
def test_float32_matches_the_float64_oracle(bandwidth, unbiased, offset):
    x, y = ((bank + offset).astype(np.float32) for bank in banks())
    value = mmd(x, y, bandwidth=bandwidth, unbiased=unbiased)
    assert value.shape == ()
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, oracle(x, y, bandwidth, unbiased), rtol=1e-4)


def test_float32_resolves_the_null_band():
    x, y = (bank.astype(np.float32) for bank in banks(shift=0))
    np.testing.assert_allclose(mmd(x, y), oracle(x, y), rtol=1e-4)
    np.testing.assert_allclose(
        mmd(x, y, unbiased=True), oracle(x, y, unbiased=True), rtol=1e-4, atol=1e-7
    )


@pytest.mark.parametrize("unbiased", [False, True])
def test_float64_matches_the_oracle_to_rounding(unbiased):
    x, y = banks()
    with jax.enable_x64(True):
        value = mmd(x, y, unbiased=unbiased)
        assert value.dtype == jnp.float64
        np.testing.assert_allclose(value, oracle(x, y, unbiased=unbiased), rtol=1e-9)


def test_point_masses():
    # Two atoms at squared distance 2 s^2: 1 + 1 - 2 / e.
    x, y = np.zeros((3, 2)), np.tile([1.0, 1.0], (4, 1))
    np.testing.assert_allclose(mmd(x, y, bandwidth=1.0), 2 - 2 / np.e, rtol=1e-6)


def test_gaussians_in_closed_form():
    # E k(X, X') = (1 + 2 / s^2)^-1/2; between laws a apart, times exp(-a^2 / (2 (s^2 + 2))).
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(500, 1)), rng.normal(size=(500, 1)) + 1
    same = 1 / np.sqrt(1 + 2 / 0.5)
    expected = 2 * same * (1 - np.exp(-1 / (2 * 2.5)))
    value, stderr = mmd(x, y, bandwidth=0.5, unbiased=True), mmd_stderr(x, y, bandwidth=0.5)
    assert abs(value - expected) < 4 * stderr
    assert stderr < 0.2 * expected


def test_equal_banks_give_zero_and_the_bound_is_two():
    x, y = banks()
    assert mmd(x, x) == pytest.approx(0, abs=1e-7)
    assert mmd(x, x) >= 0
    assert mmd(x, y + 1e6, bandwidth=1e-6) <= 2


@pytest.mark.parametrize("n", [2, 4, N])
def test_median_is_exact_for_odd_and_even_numbers_of_pairs(n):
    x = banks()[0][:n].astype(np.float32)
    expected = np.median(pdist(x.astype(np.float64), "sqeuclidean"))
    np.testing.assert_allclose(median_squared_distance(x), expected, rtol=1e-6)
    with jax.enable_x64(True):
        value = median_squared_distance(x.astype(np.float64))
        np.testing.assert_allclose(value, expected, rtol=1e-13)


def test_median_in_blocks_with_ties_and_outliers(monkeypatch):
    monkeypatch.setattr(pairwise, "BLOCK_ENTRIES", 50)
    x = np.random.default_rng(0).integers(0, 3, size=(23, 18)).astype(np.float32)
    x[0] = 1e6
    expected = np.median(pdist(x.astype(np.float64), "sqeuclidean"))
    np.testing.assert_allclose(median_squared_distance(x), expected, rtol=1e-6)


def test_row_order_rotation_translation_and_swap_do_not_matter():
    x, y = banks()
    rng = np.random.default_rng(1)
    rotation, _ = np.linalg.qr(rng.normal(size=(D, D)))
    value = mmd(x, y)
    np.testing.assert_allclose(mmd(x[::-1], y[::-1]), value, rtol=1e-4)
    np.testing.assert_allclose(mmd(x @ rotation + 3, y @ rotation + 3), value, rtol=1e-4)
    np.testing.assert_allclose(mmd(5 * x, 5 * y), value, rtol=1e-4)
    fixed = mmd(x, y, bandwidth=20.0)
    np.testing.assert_allclose(mmd(y, x, bandwidth=20.0), fixed, rtol=1e-4)


def test_jit_vmap_and_nan():
    x, y = (jnp.asarray(bank[:12], jnp.float32) for bank in banks())
    reference, generated = jnp.stack([x, y, x]), jnp.stack([y, y, y.at[3, 7].set(jnp.nan)])
    values = jax.jit(jax.vmap(mmd))(reference, generated)
    np.testing.assert_allclose(values, [oracle(x, y), 0, np.nan], rtol=1e-4, atol=1e-6)


def test_gradients_in_closed_form_and_finite_at_distance_zero():
    x, y = (bank[:12].astype(np.float32) for bank in banks())
    s = 20.0

    def kernel(a, b):
        return np.exp(-cdist(a, b, "sqeuclidean") / (2 * s))

    def pull(a, b):
        return np.einsum("ij,ijd->id", kernel(a, b), a[:, None] - b[None]) / s

    def wider(a, b):
        return np.mean(kernel(a, b) * cdist(a, b, "sqeuclidean")) / (2 * s**2)

    gradients = jax.jit(jax.grad(lambda x, y, s: mmd(x, y, bandwidth=s), argnums=(0, 2)))
    by_x, by_s = gradients(x, y, s)
    np.testing.assert_allclose(by_x, 2 / 144 * (pull(x, y) - pull(x, x)), rtol=1e-4, atol=1e-6)
    expected = wider(x, x) + wider(y, y) - 2 * wider(x, y)
    np.testing.assert_allclose(by_s, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(gradients(x, x, s)[0], np.zeros_like(x), atol=1e-6)


@pytest.mark.parametrize("unbiased", [False, True])
def test_stderr_is_the_delete_one_jackknife_at_fixed_bandwidth(unbiased):
    x, y = banks()
    x, y = x[:15, :4], y[:11, :4]
    total = 0
    for n, leave_out in ((15, lambda k: (x[k], y)), (11, lambda k: (x, y[k]))):
        values = [oracle(*leave_out(np.arange(n) != i), 3.0, unbiased) for i in range(n)]
        total += (n - 1) / n * np.sum((values - np.mean(values)) ** 2)
    value = mmd_stderr(x, y, bandwidth=3.0, unbiased=unbiased)
    np.testing.assert_allclose(value, np.sqrt(total), rtol=1e-4)


def test_several_bandwidths_are_the_mean_of_their_kernels():
    x, y = (bank.astype(np.float32) for bank in banks())
    bandwidths = [5.0, 20.0, 90.0]
    value = mmd(x, y, bandwidth=bandwidths, unbiased=True)
    expected = np.mean([oracle(x, y, s, unbiased=True) for s in bandwidths])
    np.testing.assert_allclose(value, expected, rtol=1e-4)
    traced = jax.jit(lambda s: mmd(x, y, bandwidth=s))
    expected = np.mean([oracle(x, y, s) for s in bandwidths])
    np.testing.assert_allclose(traced(jnp.asarray(bandwidths)), expected, rtol=1e-4)
    np.testing.assert_allclose(mmd(x, y, bandwidth=[5.0]), mmd(x, y, bandwidth=5.0), rtol=1e-6)


def test_ladder_is_the_reference_median_times_factors():
    x = banks()[0].astype(np.float32)
    half = np.median(pdist(x.astype(np.float64), "sqeuclidean")) / 2
    ladder = bandwidth_ladder(x)
    np.testing.assert_allclose(ladder, half * np.array([0.25, 0.5, 1, 2, 4]), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(bandwidth_ladder)(x), ladder, rtol=1e-6)
    for factors in ((), (1, -1), (1, np.nan), ((1, 2), (3, 4))):
        with pytest.raises(ValueError, match="factors must be one or more positive numbers"):
            bandwidth_ladder(x, factors)
    with pytest.raises(ValueError, match="rows are equal"):
        bandwidth_ladder(np.ones((5, 3)))


def test_root_and_its_delta_method_error():
    x, y = (bank.astype(np.float32) for bank in banks())
    value, squared = mmd(x, y, bandwidth=5.0, root=True), mmd(x, y, bandwidth=5.0)
    np.testing.assert_allclose(value, np.sqrt(squared), rtol=1e-6)
    error = mmd_stderr(x, y, bandwidth=5.0, root=True)
    np.testing.assert_allclose(error, mmd_stderr(x, y, bandwidth=5.0) / (2 * value), rtol=1e-5)


def test_stderr_of_several_bandwidths_is_the_delete_one_jackknife():
    x, y = banks()
    x, y, bandwidths = x[:15, :4], y[:11, :4], (1.0, 8.0)
    total = 0
    for n, leave_out in ((15, lambda k: (x[k], y)), (11, lambda k: (x, y[k]))):
        values = [
            np.mean([oracle(*leave_out(np.arange(n) != i), s) for s in bandwidths])
            for i in range(n)
        ]
        total += (n - 1) / n * np.sum((values - np.mean(values)) ** 2)
    value = mmd_stderr(x, y, bandwidth=bandwidths)
    np.testing.assert_allclose(value, np.sqrt(total), rtol=1e-4)


def test_too_many_rows_for_the_exact_median_are_named():
    bank = jax.ShapeDtypeStruct((100_000, 4), jnp.float32)
    with pytest.raises(ValueError, match="features has 100000 rows, too many"):
        jax.eval_shape(median_squared_distance, bank)
    with pytest.raises(ValueError, match="reference has 100000 rows, too many"):
        jax.eval_shape(mmd, bank, bank)


@pytest.mark.parametrize("bandwidth", [0, -1.0, np.nan, np.inf, [1.0, 0.0]])
def test_bandwidth_must_be_positive(bandwidth):
    with pytest.raises(ValueError, match="bandwidth must be a positive number"):
        mmd(*banks(), bandwidth=bandwidth)


def test_other_bad_input_is_named():
    x, y = banks()
    with pytest.raises(
        ValueError, match=r"one number .* or a 1-D list of them, got shape \(2, 2\)"
    ):
        mmd(x, y, bandwidth=np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"bandwidth must be one number .* got shape \(0,\)"):
        mmd(x, y, bandwidth=[])
    with pytest.raises(ValueError, match="rows are equal; pass bandwidth"):
        mmd(np.ones((5, 3)), y[:, :3])
    with pytest.raises(ValueError, match="reference holds NaN"):
        mmd(np.where(x > 2, np.nan, x), y)
    with pytest.raises(ValueError, match="at least 3 rows"):
        mmd_stderr(x[:2], y)


@pytest.mark.parity
def test_kernel_equals_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics.pairwise")
    x, y = banks()
    gamma = 1 / (2 * 7.0)
    expected = (
        metrics.rbf_kernel(x, x, gamma).mean()
        + metrics.rbf_kernel(y, y, gamma).mean()
        - 2 * metrics.rbf_kernel(x, y, gamma).mean()
    )
    with jax.enable_x64(True):
        np.testing.assert_allclose(mmd(x, y, bandwidth=7.0), expected, rtol=1e-10)
