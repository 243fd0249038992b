"""Sliced Wasserstein: scipy and linear-programme oracles, closed forms, jackknife, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import linprog

from dlmeval.metrics import pairwise, sliced_wasserstein, sliced_wasserstein_stderr
from dlmeval.metrics.sliced_wasserstein import _coupling, _directions

N, M, D, P = 30, 21, 6, 16


def banks(shift=0.5):
    rng = np.random.default_rng(4)
    return rng.normal(size=(N, D)), rng.normal(size=(M, D)) * 1.3 + shift


def transport(u, v, order):
    """W_p^p in one dimension: quantile functions on a grid that both refine."""
    grid = (np.arange(len(u) * len(v)) + 0.5) / (len(u) * len(v))
    u, v = (np.sort(w)[(grid * len(w)).astype(int)] for w in (u, v))
    return np.mean(np.abs(u - v) ** order)


def projected(x, y, seed=0, num=P):
    directions = np.asarray(_directions(jax.random.key(seed), num, x.shape[1], jnp.float32), float)
    return [(x @ direction, y @ direction) for direction in directions]


def oracle(x, y, order, seed=0, num=P):
    return np.mean([transport(u, v, order) for u, v in projected(x, y, seed, num)])


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("offset", [0, 100])
def test_float32_matches_the_float64_oracle(order, offset):
    x, y = ((bank + offset).astype(np.float32) for bank in banks())
    value = sliced_wasserstein(x, y, num_projections=P, order=order)
    assert value.shape == ()
    assert value.dtype == jnp.float32
    expected = oracle(x.astype(float), y.astype(float), order)
    np.testing.assert_allclose(value, expected, rtol=1e-4)


def test_float64_uses_the_same_directions():
    x, y = banks()
    with jax.enable_x64(True):
        value = sliced_wasserstein(x, y, num_projections=P)
        assert value.dtype == jnp.float64
    np.testing.assert_allclose(value, oracle(x, y, 2), rtol=1e-6)


def test_the_oracle_is_optimal_transport():
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=6), rng.normal(size=4)
    np.testing.assert_allclose(transport(u, v, 1), stats.wasserstein_distance(u, v))
    cost = (u[:, None] - v[None, :]) ** 2
    rows = np.kron(np.eye(6), np.ones(4)), np.kron(np.ones(6), np.eye(4))
    plan = linprog(
        cost.ravel(), A_eq=np.vstack(rows), b_eq=np.r_[np.full(6, 1 / 6), np.full(4, 1 / 4)]
    )
    np.testing.assert_allclose(transport(u, v, 2), plan.fun, rtol=1e-9)


@given(st.integers(1, 60), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_coupling_gives_every_row_its_mass(n, m):
    i, j, length = _coupling(n, m)
    assert len(length) == n + m - np.gcd(n, m)
    assert (length > 0).all()
    assert (np.diff(i) >= 0).all()
    assert (np.diff(j) >= 0).all()
    np.testing.assert_allclose(np.bincount(i, length, n), 1 / n)
    np.testing.assert_allclose(np.bincount(j, length, m), 1 / m)


def test_a_shift_gives_its_squared_length_over_d():
    x, _ = banks()
    shift = np.linspace(-1, 2, D)
    for seed in (0, 5):
        directions = np.asarray(_directions(jax.random.key(seed), P, D, jnp.float32))
        np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1, rtol=1e-6)
        value = sliced_wasserstein(x, x + shift, num_projections=P, seed=seed)
        np.testing.assert_allclose(value, np.mean((directions @ shift) ** 2), rtol=1e-4)
    many = np.asarray(_directions(jax.random.key(1), 4096, D, jnp.float32))
    np.testing.assert_allclose(np.mean((many @ shift) ** 2), shift @ shift / D, rtol=0.1)


def test_equal_banks_are_at_distance_zero_and_order_and_offset_are_free():
    x, y = banks()
    assert sliced_wasserstein(x, x, num_projections=P) == 0
    assert sliced_wasserstein(x, x[::-1], num_projections=P) == 0
    value = sliced_wasserstein(x, y, num_projections=P)
    # Sums of the same numbers in another order: equal to a few units in the last place.
    reversed_rows = sliced_wasserstein(x[::-1], y + 0, num_projections=P)
    np.testing.assert_allclose(reversed_rows, value, rtol=1e-6)
    scaled = sliced_wasserstein(3 * x + 7, 3 * y + 7, num_projections=P)
    np.testing.assert_allclose(scaled, 9 * value, rtol=1e-4)
    assert sliced_wasserstein(x, y, num_projections=P, seed=1) != value


def test_blocks_of_projections_change_nothing(monkeypatch):
    x, y = (bank[:20].astype(np.float32) for bank in banks())
    monkeypatch.setattr(pairwise, "BLOCK_ENTRIES", 5 * 40)
    # 16 projections in blocks of 5: the padding of the last block must not count.
    stderr = sliced_wasserstein_stderr(x, y, num_projections=P)
    np.testing.assert_allclose(stderr, np.sqrt(jackknife(x, y, 2)), rtol=1e-4)


def test_jit_vmap_swap_and_nan():
    x, y = (jnp.asarray(bank[:12], jnp.float32) for bank in banks())
    reference, generated = jnp.stack([x, y, y, x]), jnp.stack([y, y, x, y.at[3, 2].set(jnp.nan)])
    values = jax.jit(jax.vmap(sliced_wasserstein))(reference, generated)
    expected = oracle(np.asarray(x, float), np.asarray(y, float), 2, num=256)
    np.testing.assert_allclose(values, [expected, 0, expected, np.nan], rtol=1e-4)


def test_gradient_in_closed_form_and_zero_for_equal_banks():
    x, y = (bank[:M].astype(np.float32) for bank in banks())
    directions = np.asarray(_directions(jax.random.key(0), P, D, jnp.float32), float)
    expected = np.zeros((2, M, D))
    for direction, (u, v) in zip(directions, projected(x, y), strict=True):
        gap = np.sort(u) - np.sort(v)
        for order, slope in ((1, np.sign(gap)), (2, 2 * gap)):
            expected[order - 1, np.argsort(u)] += slope[:, None] * direction / (M * P)
    gradients = jax.jit(
        jax.jacrev(
            lambda x, y: jnp.stack(
                [sliced_wasserstein(x, y, num_projections=P, order=order) for order in (1, 2)]
            )
        )
    )
    np.testing.assert_allclose(gradients(x, y), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(gradients(x, x), np.zeros((2, M, D)))


def jackknife(x, y, order):
    """Variance of rows, by deleting each, plus that of directions."""
    total = np.var([transport(u, v, order) for u, v in projected(x, y)], ddof=1) / P
    for n, left_out in ((len(x), lambda k: (x[k], y)), (len(y), lambda k: (x, y[k]))):
        values = [oracle(*left_out(np.arange(n) != i), order) for i in range(n)]
        total += (n - 1) / n * np.sum((values - np.mean(values)) ** 2)
    return total


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("case", ["unequal", "duplicated rows"])
def test_stderr_is_the_delete_one_jackknife_and_the_spread_of_directions(case, order):
    x, y = banks()
    if case == "duplicated rows":
        x = np.repeat(x[: N // 3], 3, axis=0)
    value = sliced_wasserstein_stderr(x, y, num_projections=P, order=order)
    np.testing.assert_allclose(value, np.sqrt(jackknife(x, y, order)), rtol=1e-4)


@pytest.mark.parametrize("order", [1, 2])
def test_stderr_predicts_the_spread_over_banks_and_directions(order):
    rng = np.random.default_rng(3)
    values, errors = [], []
    for seed in range(150):
        x, y = rng.normal(size=(N, D)), rng.normal(size=(M, D)) * [2, 1, 1, 1, 1, 1] + 0.7
        options = {"seed": seed, "num_projections": P, "order": order}
        values.append(sliced_wasserstein(x, y, **options))
        if seed < 40:
            errors.append(sliced_wasserstein_stderr(x, y, **options))
    assert 0.85 < np.mean(errors) / np.std(values) < 1.4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 3}, "order must be 1 or 2"),
        ({"num_projections": 0}, "num_projections must be at least 1, got 0"),
        ({"num_projections": 2.5}, "num_projections must be an integer"),
        ({"seed": -1}, "seed must be in"),
        ({"seed": None}, "seed must be an integer, got None"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        sliced_wasserstein(*banks(), **options)


def test_bad_banks_are_named():
    x, y = banks()
    with pytest.raises(ValueError, match="equally wide"):
        sliced_wasserstein(x, y[:, :3])
    with pytest.raises(ValueError, match="generated holds NaN or infinity"):
        sliced_wasserstein(x, np.where(y > 2, np.inf, y))
    with pytest.raises(ValueError, match="at least 3 rows"):
        sliced_wasserstein_stderr(x[:2], y)
    with pytest.raises(ValueError, match="num_projections must be at least 2"):
        sliced_wasserstein_stderr(x, y, num_projections=1)


@pytest.mark.parity
@pytest.mark.parametrize("order", [1, 2])
def test_equals_pot(order):
    ot = pytest.importorskip("ot")
    x, y = banks()
    directions = np.asarray(_directions(jax.random.key(0), P, D, jnp.float32), float)
    rooted = ot.sliced_wasserstein_distance(x, y, projections=directions.T, p=order)
    value = sliced_wasserstein(x, y, num_projections=P, order=order)
    np.testing.assert_allclose(value, rooted**order, rtol=1e-4)
