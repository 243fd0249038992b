"""Kernel distance (KID): float64 oracle, closed forms, invariances, transformations, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.metrics import kernel_distance, kernel_distance_stderr, pairwise
from dlmeval.metrics.kernel_distance import centred_kernel

N, M, D = 96, 80, 48


def kernels(x, y, degree, scale, offset):
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    scale = 1 / x.shape[1] if scale is None else scale
    return [(scale * a @ b.T + offset) ** degree for a, b in ((x, x), (y, y), (x, y))]


def oracle(x, y, degree=3, scale=None, offset=1.0, unbiased=True):
    k_xx, k_yy, k_xy = kernels(x, y, degree, scale, offset)

    def within(k):
        n = len(k)
        return (k.sum() - np.trace(k)) / (n * (n - 1)) if unbiased else k.mean()

    return within(k_xx) + within(k_yy) - 2 * k_xy.mean()


def banks(case="shifted"):
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(N, D)), rng.normal(size=(M, D))
    return {
        "same law": (x, y),
        "shifted": (x, y + 0.3),
        "positive activations": (np.abs(x) * 0.4, np.abs(y) * 0.45),
        "large common offset": (x + 30, y + 30.2),
        "wider": (x, 1.5 * y),
        "one row repeated": (x, np.tile(y[:1], (M, 1))),
    }[case]


CASES = (
    "same law",
    "shifted",
    "positive activations",
    "large common offset",
    "wider",
    "one row repeated",
)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_float32_matches_the_float64_oracle(case, unbiased):
    x, y = (bank.astype(np.float32) for bank in banks(case))
    value = kernel_distance(x, y, unbiased=unbiased)
    assert value.shape == ()
    assert value.dtype == jnp.float32
    # The unbiased form crosses zero: there the error is judged against the biased value.
    slack = 1e-5 * oracle(x, y, unbiased=False) if unbiased else 0
    np.testing.assert_allclose(value, oracle(x, y, unbiased=unbiased), rtol=1e-4, atol=slack)


def test_scale_and_offset():
    x, y = (bank.astype(np.float32) for bank in banks("positive activations"))
    for options in ({"scale": 0.1, "offset": 0.5}, {"scale": 0.02, "offset": 4.0}):
        value = kernel_distance(x, y, **options)
        np.testing.assert_allclose(value, oracle(x, y, **options), rtol=1e-4)


def test_float64_matches_the_oracle_to_rounding():
    x, y = banks()
    with jax.enable_x64(True):
        value = kernel_distance(x, y)
        assert value.dtype == jnp.float64
        np.testing.assert_allclose(value, oracle(x, y), rtol=1e-10)


@pytest.mark.parametrize("degree", [1, 2, 3, 6])
def testcentred_kernel_is_the_kernel_less_its_values_at_the_centre(degree):
    u, v, inner, c = 0.7, -0.4, 0.3, 1.9
    expected = (c + u + v + inner) ** degree - (c + u) ** degree - (c + v) ** degree + c**degree
    np.testing.assert_allclose(centred_kernel(inner, u, v, c, degree), expected, rtol=1e-12)


def test_quadratic_kernel_without_offset_compares_second_moments():
    x, y = banks("wider")
    gap = x.T @ x / N - y.T @ y / M
    value = kernel_distance(x, y, degree=2, offset=0.0, unbiased=False)
    np.testing.assert_allclose(value, np.sum(gap**2) / D**2, rtol=1e-4)


def test_row_order_and_rotation_do_not_matter_but_translation_does():
    x, y = banks()
    rng = np.random.default_rng(1)
    rotation, _ = np.linalg.qr(rng.normal(size=(D, D)))
    value = kernel_distance(x, y)
    np.testing.assert_allclose(kernel_distance(x[::-1], y[::-1]), value, rtol=1e-4)
    np.testing.assert_allclose(kernel_distance(x @ rotation, y @ rotation), value, rtol=1e-4)
    assert kernel_distance(x + 1, y + 1) > 1.5 * value


def test_blocks_change_nothing(monkeypatch):
    x, y = (bank[:37].astype(np.float32) for bank in banks())
    monkeypatch.setattr(pairwise, "BLOCK_ENTRIES", 7 * 37 + 3)
    np.testing.assert_allclose(kernel_distance(x, y), oracle(x, y), rtol=1e-4)


def test_jit_vmap_swap_equal_banks_and_nan():
    x, y = (jnp.asarray(bank[:12], jnp.float32) for bank in banks())
    reference, generated = jnp.stack([x, y, y, x]), jnp.stack([y, x, y, y.at[3, 7].set(jnp.nan)])
    traced = jax.jit(
        jax.vmap(lambda x, y, s: kernel_distance(x, y, scale=s, unbiased=False), (0, 0, None))
    )
    value = oracle(x, y, unbiased=False)
    expected = [value, value, 0, np.nan]
    np.testing.assert_allclose(traced(reference, generated, 1 / D), expected, rtol=1e-4, atol=1e-6)


def test_gradient_in_closed_form():
    x, y = banks()
    k_xx, k_xy = (3 / D * (a @ b.T / D + 1) ** 2 for a, b in ((x, x), (x, y)))
    np.fill_diagonal(k_xx, 0)
    expected = 2 * k_xx @ x / (N * (N - 1)) - 2 * k_xy @ y / (N * M)
    value = jax.grad(kernel_distance)(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))
    np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_stderr_is_the_delete_one_jackknife():
    x, y = banks("positive activations")
    x, y = x[:15], y[:11]
    total = 0.0
    for n, leave_out in ((15, lambda k: (x[k], y)), (11, lambda k: (x, y[k]))):
        values = [oracle(*leave_out(np.arange(n) != i)) for i in range(n)]
        total += (n - 1) / n * np.sum((values - np.mean(values)) ** 2)
    np.testing.assert_allclose(kernel_distance_stderr(x, y), np.sqrt(total), rtol=1e-4)


def test_stderr_predicts_the_spread_and_the_mean_has_no_bias():
    # N(0, I) against N(1, I) in 3-d: E (<u, v> / 3 + 1)^3 = (1 + a)^3 + 3 (1 + a) s2, where
    # <u, v> / 3 has mean a and variance s2 = (3 + |mu|^2 + |nu|^2) / 9; its third central
    # moment, 6 <mu, nu> / 27, is added.
    rng = np.random.default_rng(3)
    draws = rng.normal(size=(400, 40, 3)), rng.normal(size=(400, 60, 3)) + 1
    values = jax.vmap(kernel_distance)(*draws)
    near, far = 1 + 3 * 3 / 9, 8 + 6 * 9 / 9 + 6 * 3 / 27
    expected = near + far - 2 * (1 + 3 * 6 / 9)
    assert abs(values.mean() - expected) < 4 * values.std() / 20
    predicted = np.mean(jax.vmap(kernel_distance_stderr)(*draws))
    assert 0.75 < predicted / values.std() < 1.3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degree": 0}, "degree must be at least 1, got 0"),
        ({"degree": 2.5}, "degree must be an integer"),
        ({"scale": 0.0}, "scale must be a finite number > 0, got 0.0"),
        ({"scale": np.nan}, "scale must be a finite number"),
        ({"offset": -1.0}, "offset must be a finite number >= 0, got -1.0"),
        ({"offset": np.ones(2)}, r"offset must be one number >= 0, got shape \(2,\)"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        kernel_distance(np.ones((3, 2)), np.ones((3, 2)), **options)


def test_bad_banks_are_named():
    x, y = banks()
    with pytest.raises(ValueError, match="equally wide"):
        kernel_distance(x, y[:, :3])
    with pytest.raises(ValueError, match="reference holds NaN"):
        kernel_distance(np.where(x > 2, np.nan, x), y)
    with pytest.raises(ValueError, match="at least 3 rows"):
        kernel_distance_stderr(x[:2], y)
    with pytest.raises(ValueError, match="beyond float32; pass a smaller scale"):
        kernel_distance(1e13 * x, 1e13 * y)


@pytest.mark.parity
def test_equals_torch_fidelity():
    kid = pytest.importorskip("torch_fidelity.metric_kid")
    x, y = banks("positive activations")
    x = x[:M]
    options = {"kid_kernel": "poly", "kid_kernel_poly_degree": 3, "kid_kernel_poly_coef0": 1}
    expected = kid.kernel_mmd(x, y, kid_kernel_poly_gamma=None, **options)
    with jax.enable_x64(True):
        np.testing.assert_allclose(kernel_distance(x, y), expected, rtol=1e-9)
