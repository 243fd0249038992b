"""Energy distance: float64 oracle, closed forms, invariances, transformations, bad input."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from dlmeval.metrics import energy_distance, energy_distance_stderr, pairwise

N, M, D = 96, 80, 48


def oracle(x, y, unbiased=False):
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    n, m = len(x), len(y)
    within = (n * (n - 1), m * (m - 1)) if unbiased else (n * n, m * m)
    return 2 * cdist(x, y).mean() - cdist(x, x).sum() / within[0] - cdist(y, y).sum() / within[1]


def banks(case):
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(N, D)), rng.normal(size=(M, D))
    return {
        "same law": (x, y),
        "shifted": (x, y + 0.3),
        "large common offset": (x + 100, y + 100.2),
        "one loud dimension": (x * np.r_[1000, np.ones(D - 1)], y * np.r_[1200, np.ones(D - 1)]),
        "groups of duplicates": (x, np.repeat(y[:8], 10, axis=0)),
        "one constant row": (x, np.tile(y[:1], (M, 1))),
        "tight and far away": (x, 5 + 1e-3 * y),
        "two dimensions": (x[:, :2], y[:, :2] + 0.5),
    }[case]


CASES = (
    "same law",
    "shifted",
    "large common offset",
    "one loud dimension",
    "groups of duplicates",
    "one constant row",
    "tight and far away",
    "two dimensions",
)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_float32_matches_the_float64_oracle(case, unbiased):
    x, y = (bank.astype(np.float32) for bank in banks(case))
    value = energy_distance(x, y, unbiased=unbiased)
    assert value.shape == ()
    assert value.dtype == jnp.float32
    # The unbiased form crosses zero: there the error is judged against a typical distance.
    slack = 1e-6 * cdist(x, y).mean() if unbiased else 0
    np.testing.assert_allclose(value, oracle(x, y, unbiased), rtol=1e-4, atol=slack)


@pytest.mark.parametrize("unbiased", [False, True])
def test_float64_matches_the_oracle_to_rounding(unbiased):
    for case in ("same law", "groups of duplicates"):
        x, y = banks(case)
        with jax.enable_x64(True):
            value = energy_distance(x, y, unbiased=unbiased)
            assert value.dtype == jnp.float64
            np.testing.assert_allclose(value, oracle(x, y, unbiased), rtol=1e-9)


def test_one_dimension_is_twice_the_cramer_distance():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=40).astype(np.float32), rng.exponential(size=30).astype(np.float32)
    expected = stats.energy_distance(x, y) ** 2
    np.testing.assert_allclose(energy_distance(x[:, None], y[:, None]), expected, rtol=1e-5)


def test_point_masses():
    # All of X at 0 and all of Y at distance 5: both within terms vanish.
    x, y = np.zeros((3, 2)), np.tile([3.0, 4.0], (4, 1))
    np.testing.assert_allclose(energy_distance(x, y), 10, rtol=1e-6)
    np.testing.assert_allclose(energy_distance(x, y, unbiased=True), 10, rtol=1e-6)


def test_equal_banks_are_at_distance_zero():
    x, _ = (bank.astype(np.float32) for bank in banks("same law"))
    assert 0 <= energy_distance(x, x) < 1e-7
    assert 0 <= energy_distance(x, x[::-1]) < 1e-6
    assert energy_distance(x, x, unbiased=True) < 0


def test_row_order_rotation_translation_and_swap_do_not_matter():
    x, y = banks("shifted")
    rng = np.random.default_rng(1)
    rotation, _ = np.linalg.qr(rng.normal(size=(D, D)))
    value = energy_distance(x, y)
    for a, b in (
        (x[rng.permutation(N)], y[rng.permutation(M)]),
        (x @ rotation + 3, y @ rotation + 3),
        (y, x),
    ):
        np.testing.assert_allclose(energy_distance(a, b), value, rtol=1e-4)
    np.testing.assert_allclose(energy_distance(3 * x, 3 * y), 3 * value, rtol=1e-4)


def test_blocks_change_nothing(monkeypatch):
    x, y = (bank.astype(np.float32) for bank in banks("groups of duplicates"))
    whole = jax.jit(lambda x, y: pairwise.pair_sums(jnp.sqrt, x, y))(x, y)
    monkeypatch.setattr(pairwise, "BLOCK_ENTRIES", 7 * M + 3)
    parts = jax.jit(lambda x, y: pairwise.pair_sums(jnp.sqrt, x, y))(x, y)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-3)


def test_jit_vmap_and_nan():
    x, y = (jnp.asarray(bank[:12], jnp.float32) for bank in banks("shifted"))
    reference, generated = jnp.stack([x, y, x]), jnp.stack([y, y, y.at[3, 7].set(jnp.nan)])
    values = jax.jit(jax.vmap(energy_distance))(reference, generated)
    np.testing.assert_allclose(values, [oracle(x, y), 0, np.nan], rtol=1e-4, atol=1e-6)


def test_gradient_in_closed_form_and_finite_at_distance_zero():
    x, y = (bank[:12].astype(np.float32) for bank in banks("shifted"))

    def pull(a, b):
        gap = a[:, None] - b[None]
        length = np.linalg.norm(gap, axis=-1, keepdims=True)
        return np.mean(gap / np.where(length > 0, length, 1), axis=1)

    gradient = jax.jit(jax.grad(energy_distance))
    np.testing.assert_allclose(gradient(x, y), (pull(x, y) - pull(x, x)) / 6, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(gradient(x, x), np.zeros_like(x), atol=1e-6)


@pytest.mark.parametrize("unbiased", [False, True])
def test_stderr_is_the_delete_one_jackknife(unbiased):
    x, y = banks("shifted")
    x, y = x[:15], y[:11]

    def variance(leave_out, n):
        values = np.array([leave_out(np.arange(n) != i) for i in range(n)])
        return (n - 1) / n * np.sum((values - values.mean()) ** 2)

    expected = variance(lambda keep: oracle(x[keep], y, unbiased), 15)
    expected += variance(lambda keep: oracle(x, y[keep], unbiased), 11)
    value = energy_distance_stderr(x, y, unbiased=unbiased)
    # V: dropping a row also changes the share of the pairs (i, i), which the form ignores only
    # as a constant, so equality is exact in both forms.
    np.testing.assert_allclose(value, np.sqrt(expected), rtol=1e-4)


def test_root_and_its_delta_method_error():
    x, y = (bank.astype(np.float32) for bank in banks("shifted"))
    for b in (y, np.resize(x, y.shape)):
        squared = float(energy_distance(x, b, unbiased=True))
        value = energy_distance(x, b, unbiased=True, root=True)
        np.testing.assert_allclose(value, max(squared, 0) ** 0.5, rtol=1e-6)
        plain = energy_distance_stderr(x, b, unbiased=True)
        expected = plain / (2 * value) if squared > 0 else np.inf
        error = energy_distance_stderr(x, b, unbiased=True, root=True)
        np.testing.assert_allclose(error, expected, rtol=1e-5)
    # Two equal point masses: no distance, no error.
    points = np.ones_like(x), np.ones_like(y)
    assert energy_distance_stderr(*points, unbiased=True, root=True) == 0


def test_root_is_the_distance_of_scipy_in_one_dimension():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=40), rng.exponential(size=30)
    value = energy_distance(x[:, None], y[:, None], root=True)
    np.testing.assert_allclose(value, stats.energy_distance(x, y), rtol=1e-5)


def test_stderr_predicts_the_spread_over_banks():
    rng = np.random.default_rng(3)
    draws = rng.normal(size=(150, 40, 3)), rng.normal(size=(150, 60, 3)) + 1
    spread = np.std(jax.vmap(energy_distance)(*draws))
    predicted = np.mean(jax.vmap(energy_distance_stderr)(*draws))
    assert 0.8 < predicted / spread < 1.25


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 4)), r"\(2, 3\) and \(2, 4\)"),
        (np.ones(3), np.ones((2, 3)), "reference must be 2-D"),
        (np.ones((2, 3)), np.ones((1, 3)), r"generated has shape \(1, 3\)"),
        (np.ones((2, 0)), np.ones((2, 0)), "at least 2 rows and 1 column"),
        (np.array([[1, np.nan], [0, 0]]), np.ones((2, 2)), "row 0"),
        (np.diag(np.full(40, np.nan)) + np.eye(40), np.ones((2, 40)), "in 40 of 40 rows"),
        (np.ones((2, 2)), np.array([[1, 1], [np.inf, 0]]), "generated holds NaN or infinity in 1"),
        (np.full((2, 2), 1e20), np.ones((2, 2)), "rescale"),
        (np.ones((2, 2), complex), np.ones((2, 2)), "real numbers"),
        (np.array([["a", "b"]] * 2), np.ones((2, 2)), "real numbers"),
    ],
)
def test_bad_input_is_named(x, y, message):
    with pytest.raises(ValueError, match=message):
        energy_distance(x, y)


def test_integer_and_half_precision_features_become_float32():
    grid = np.array(list(itertools.product(range(3), repeat=2)))
    expected = oracle(grid, grid + 1)
    for dtype in (np.int32, np.float16, jnp.bfloat16, bool):
        x, y = grid.astype(dtype), (grid + 1).astype(dtype)
        value = energy_distance(x, y)
        assert value.dtype == jnp.float32
        if dtype is not bool:
            np.testing.assert_allclose(value, expected, rtol=1e-5)


@pytest.mark.parity
def test_equals_dcor():
    dcor = pytest.importorskip("dcor")
    x, y = banks("shifted")
    with jax.enable_x64(True):
        np.testing.assert_allclose(energy_distance(x, y), dcor.energy_distance(x, y), rtol=1e-10)
        unbiased = dcor.energy_distance(x, y, estimation_stat=dcor.EstimationStatistic.U_STATISTIC)
        np.testing.assert_allclose(energy_distance(x, y, unbiased=True), unbiased, rtol=1e-9)
