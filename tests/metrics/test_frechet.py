"""Fréchet distance: closed forms, float64 oracles, singular covariances, derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax.test_util import check_grads

from dlmeval.metrics import frechet, frechet_distance, frechet_distance_stderr


def oracle(x, y):
    """The definition in float64, with square roots from symmetric eigendecompositions."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    first, second = np.atleast_2d(np.cov(x.T)), np.atleast_2d(np.cov(y.T))
    values, vectors = np.linalg.eigh(first)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ second @ root), 0)).sum()
    gap = x.mean(0) - y.mean(0)
    return gap @ gap + np.trace(first) + np.trace(second) - 2 * cross


def banks(n, m, d, seed=0):
    rng = np.random.default_rng(seed)
    scales = 1 / np.arange(1, d + 1) ** 0.7
    return rng.normal(size=(n, d)) * scales, rng.normal(size=(m, d)) * scales * 1.2 + 0.1


SHAPES = [(40, 50, 90), (80, 60, 20), (40, 90, 60), (90, 40, 60), (30, 30, 1)]


@pytest.mark.parametrize("offset", [0, 50])
@pytest.mark.parametrize("shape", SHAPES)
def test_float32_matches_the_float64_oracle(shape, offset):
    x, y = ((bank + offset).astype(np.float32) for bank in banks(*shape))
    value = frechet_distance(x, y)
    assert value.shape == ()
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, oracle(x, y), rtol=1e-4)


@pytest.mark.parametrize("shape", SHAPES[:4])
def test_float64_matches_the_nuclear_norm_to_rounding(shape):
    x, y = banks(*shape)
    n, m, _ = shape
    a, b = (x - x.mean(0)) / np.sqrt(n - 1), (y - y.mean(0)) / np.sqrt(m - 1)
    nuclear = np.linalg.svd(a @ b.T, compute_uv=False).sum()
    expected = ((x.mean(0) - y.mean(0)) ** 2).sum() + (a**2).sum() + (b**2).sum() - 2 * nuclear
    with jax.enable_x64(True):
        value = frechet_distance(x, y)
        assert value.dtype == jnp.float64
        np.testing.assert_allclose(value, expected, rtol=1e-9)


@pytest.mark.parametrize("shape", SHAPES[:3])
def test_the_routes_for_large_banks_give_the_same(shape, monkeypatch):
    x, y = banks(*shape)
    expected = frechet_distance(x, y)
    monkeypatch.setattr(frechet, "_VECTORS_UP_TO", 0)
    jax.clear_caches()
    np.testing.assert_allclose(jax.jit(frechet_distance)(x, y), expected, rtol=1e-5)
    jax.clear_caches()
    monkeypatch.setattr(frechet, "_frechet_distance", None)  # nothing but the host is left
    value = frechet_distance(jnp.asarray(x), y)
    assert (value.shape, value.dtype) == ((), jnp.float32)
    np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_large_concrete_banks_go_to_the_host_and_agree_with_a_traced_call(monkeypatch):
    x, y = (bank.astype(np.float32) for bank in banks(520, 530, 540))
    traced = jax.jit(frechet_distance)(x, y)
    value, same = frechet_distance(x, y), frechet_distance(x, x[::-1])
    np.testing.assert_allclose(traced, value, rtol=1e-4)
    assert 0 <= same <= 4e-7 * 2 * np.var(x, axis=0, ddof=1).sum()
    monkeypatch.setattr(frechet, "_frechet_distance", lambda x, y: "by XLA")
    assert frechet_distance(x, y) == value
    assert frechet_distance(x[:512], y) == "by XLA"
    with jax.enable_x64(True):
        assert frechet_distance(x.astype(np.float64), y.astype(np.float64)) == "by XLA"


def degenerate_banks():
    rng = np.random.default_rng(2)
    x, y = banks(130, 120, 140)
    low, narrow = rng.normal(size=(7, 140)), 0.0 * x
    narrow[:, 0] = x[:, 0]
    floor = 1e-5 * x
    floor[:, 0] = 100 * x[:, 0]
    return {
        "regular": (x, y),
        "offset": (x + 1e4, y + 1e4),
        "near": (x, x + 1e-3 * rng.normal(size=x.shape)),
        "equal": (x, x[::-1]),
        "rank 7": (rng.normal(size=(130, 7)) @ low, rng.normal(size=(120, 7)) @ low),
        "rank 7, equal": (narrow @ rng.normal(size=(140, 140)),) * 2,
        "few distinct rows": (np.repeat(x[:5], 26, axis=0), y),
        "one direction": (narrow, y),
        "one dominant direction": (floor, floor[::-1] + floor),
        "nothing in common": (x * (np.arange(140) < 70), y * (np.arange(140) >= 70)),
        "constant": (0 * x + 3, y),
        "both constant": (0 * x + 3, 0 * y + 3),
        "steep": (x * 2.0 ** -np.arange(140), y * 2.0 ** -np.arange(140)),
        "huge": (1e14 * x, 1e14 * y),
        "tiny": (1e-18 * x, 1e-18 * y),
    }


@pytest.mark.parametrize("name", degenerate_banks())
def test_the_host_is_within_its_stated_error_of_a_float64_svd(name, monkeypatch):
    monkeypatch.setattr(frechet, "_VECTORS_UP_TO", 0)
    x, y = (bank.astype(np.float32) for bank in degenerate_banks()[name])
    wide = x.astype(np.float64), y.astype(np.float64)
    a, b = ((bank - bank.mean(0)) / np.sqrt(len(bank) - 1) for bank in wide)
    trace, gap = (a**2).sum() + (b**2).sum(), wide[0].mean(0) - wide[1].mean(0)
    nuclear = np.linalg.svd(a @ b.T, compute_uv=False).sum()
    expected = gap @ gap + max(trace - 2 * nuclear, 0)
    value = float(frechet_distance(x, y))
    assert value >= 0
    assert abs(value - expected) <= 4e-7 * trace + 1e-6 * gap @ gap
    if name == "regular":  # the roots alone are good to 1e-9 of the nuclear norm
        roots = frechet._nuclear_norm(b @ a.T, np.inf)
        assert roots == pytest.approx(nuclear, rel=1e-9)


def test_roots_that_would_miss_the_tolerance_are_replaced():
    """One large singular value and 299 of 0: roots of rounded zeros add up to 1e-7 and more."""
    rng = np.random.default_rng(3)
    matrix = np.outer(rng.normal(size=300), rng.normal(size=310))
    exact = np.linalg.norm(matrix)
    assert abs(frechet._nuclear_norm(matrix, np.inf) / exact - 1) > 2e-7
    assert abs(frechet._nuclear_norm(matrix, 1e-7 * exact) / exact - 1) < 1e-12
    assert frechet._nuclear_norm(np.zeros((3, 4)), 0.0) == 0


def exact_moments(rng, n, mean, covariance):
    """A bank whose sample mean and covariance are the given ones."""
    d = len(mean)
    x = rng.normal(size=(n, d))
    x -= x.mean(0)
    x = x @ np.linalg.inv(np.linalg.cholesky(np.cov(x.T).reshape(d, d))).T
    return x @ np.linalg.cholesky(covariance).T + mean


def test_closed_forms_of_gaussians():
    rng = np.random.default_rng(5)
    a, b = np.array([1.0, 4.0, 9.0, 0.25]), np.array([4.0, 1.0, 2.25, 0.25])
    x = exact_moments(rng, 30, np.zeros(4), np.diag(a))
    y = exact_moments(rng, 50, np.array([1.0, 2.0, 0.0, -1.0]), np.diag(b))
    expected = np.sum((np.sqrt(a) - np.sqrt(b)) ** 2) + 6
    np.testing.assert_allclose(frechet_distance(x, y), expected, rtol=1e-5)
    np.testing.assert_allclose(frechet_distance(x, x + 2), 16, rtol=1e-5)
    np.testing.assert_allclose(frechet_distance(x, 3 * x), 4 * a.sum(), rtol=1e-5)


@pytest.mark.parametrize("shape", [(20, 20, 40), (60, 60, 10)])
def test_equal_banks_are_at_distance_zero(shape):
    x, _ = banks(*shape)
    assert 0 <= frechet_distance(x, x) < 1e-6
    assert 0 <= frechet_distance(x, x[::-1]) < 1e-6


def test_constant_banks_and_unused_dimensions():
    x, y = banks(20, 30, 8)
    x[:, 3], y[:, 5] = 2, 0
    np.testing.assert_allclose(frechet_distance(x, y), oracle(x, y), rtol=1e-4)
    point = np.tile(x[:1], (9, 1))
    expected = np.sum((x.mean(0) - x[0]) ** 2) + np.trace(np.cov(x.T))
    np.testing.assert_allclose(frechet_distance(x, point), expected, rtol=1e-5)


def test_row_order_rotation_translation_and_swap_do_not_matter():
    x, y = banks(40, 50, 30)
    rotation, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(30, 30)))
    value = frechet_distance(x, y)
    for a, b in ((x[::-1], y[::-1]), (x @ rotation + 3, y @ rotation + 3), (y, x)):
        np.testing.assert_allclose(frechet_distance(a, b), value, rtol=1e-4)
    np.testing.assert_allclose(frechet_distance(2 * x, 2 * y), 4 * value, rtol=1e-5)


def test_jit_and_vmap_agree_with_the_plain_call():
    x, y = (jnp.asarray(bank, jnp.float32) for bank in banks(12, 12, 20))
    expected = frechet_distance(x, y)
    np.testing.assert_allclose(jax.jit(frechet_distance)(x, y), expected, rtol=1e-5)
    batch = jax.vmap(frechet_distance)(jnp.stack([x, y]), jnp.stack([y, y]))
    np.testing.assert_allclose(batch, [expected, 0], rtol=1e-5, atol=1e-6)


def test_nan_inside_jit_comes_out_as_nan():
    x, y = banks(60, 50, 20)
    x[40, 7] = np.nan
    assert jnp.isnan(jax.jit(frechet_distance)(jnp.asarray(x), jnp.asarray(y)))


@pytest.mark.parametrize("shape", [(5, 6, 9), (12, 10, 4), (12, 5, 7)])
def test_gradients_are_right_with_singular_and_regular_covariances(shape):
    with jax.enable_x64(True):
        x, y = (jnp.asarray(bank) for bank in banks(*shape))
        check_grads(frechet_distance, (x, y), order=1, modes=["rev"])


def test_gradients_stay_finite_where_the_distance_has_a_corner():
    x = jnp.asarray(banks(8, 8, 5)[0], jnp.float32)
    assert jnp.isfinite(jax.grad(frechet_distance)(x, x)).all()
    assert jnp.isfinite(jax.grad(frechet_distance)(x, 0 * x)).all()
    assert jnp.isfinite(jax.grad(frechet_distance)(0 * x, x)).all()


@pytest.mark.parametrize("shape", [(10, 12, 30), (40, 30, 4)])
def test_stderr_is_the_infinitesimal_jackknife(shape):
    """The influence of a row is the derivative in its weight; here by finite differences."""
    x, y = banks(*shape)
    n, m, _ = shape

    def weighted(x, y, wx, wy):
        ax, by = x - wx @ x, y - wy @ y
        a = ax * np.sqrt(wx * n / (n - 1))[:, None]
        b = by * np.sqrt(wy * m / (m - 1))[:, None]
        nuclear = np.linalg.svd(a @ b.T, compute_uv=False).sum()
        return ((wx @ x - wy @ y) ** 2).sum() + (a**2).sum() + (b**2).sum() - 2 * nuclear

    def variance(n, value):
        step, uniform = 1e-5, np.full(n, 1 / n)
        bumped = [(1 - step) * uniform + step * np.eye(n)[i] for i in range(n)]
        lowered = [(1 + step) * uniform - step * np.eye(n)[i] for i in range(n)]
        slopes = [(value(up) - value(down)) / (2 * step) for up, down in zip(bumped, lowered)]
        return np.var(slopes, ddof=1) / n

    expected = variance(n, lambda w: weighted(x, y, w, np.full(m, 1 / m)))
    expected += variance(m, lambda w: weighted(x, y, np.full(n, 1 / n), w))
    np.testing.assert_allclose(frechet_distance_stderr(x, y), np.sqrt(expected), rtol=1e-4)


def test_stderr_predicts_the_spread_over_banks():
    rng = np.random.default_rng(3)
    draws = [(rng.normal(size=(60, 3)), 2 * rng.normal(size=(50, 3)) + 1) for _ in range(150)]
    spread = np.std([frechet_distance(*draw) for draw in draws])
    predicted = np.mean([frechet_distance_stderr(*draw) for draw in draws[:30]])
    assert 0.8 < predicted / spread < 1.25


def test_bad_input_is_named():
    x, y = banks(6, 7, 5)
    with pytest.raises(ValueError, match=r"\(6, 5\) and \(7, 4\)"):
        frechet_distance(x, y[:, :4])
    with pytest.raises(ValueError, match="generated holds NaN"):
        frechet_distance(x, np.where(y > 0.5, np.nan, y))
    with pytest.raises(ValueError, match=r"reference has shape \(1, 5\)"):
        frechet_distance(x[:1], y)


@pytest.mark.parity
def test_equals_the_square_root_of_a_product():
    # The route of the usual FID codes, accurate where covariances are regular.
    x, y = banks(200, 150, 6)
    first, second = np.cov(x.T), np.cov(y.T)
    root = np.real(scipy.linalg.sqrtm(first @ second))
    expected = ((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(first + second - 2 * root)
    with jax.enable_x64(True):
        np.testing.assert_allclose(frechet_distance(x, y), expected, rtol=1e-6)
