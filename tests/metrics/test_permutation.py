"""Permutation tests: exact laws of tiny banks, one-pass routes, calibration, bad input."""

import functools
import importlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from dlmeval.metrics import (
    energy_distance,
    energy_permutation_test,
    kernel_distance,
    kernel_distance_permutation_test,
    median_squared_distance,
    mmd,
    mmd_permutation_test,
    permutation_test,
)

N, M = 9, 13
FEW = 39


def gap(x, y):
    return abs(x.mean() - y.mean())


def banks(d, shift=0.5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, d)), rng.normal(size=(M, d)) + shift


def contrast_weights():
    """1/n for rows dealt to the reference and -1/m for the others, by deals drawn here."""
    rng = np.random.default_rng(0)
    orders = [np.arange(N + M), *(rng.permutation(N + M) for _ in range(FEW))]
    weights = np.full((FEW + 1, N + M), -1 / M)
    for row, order in zip(weights, orders):
        row[order[:N]] = 1 / N
    return weights


def test_the_null_is_the_law_over_all_splits():
    x, y = np.array([[1.0], [2.0], [4.0]]), np.array([[7.0], [8.0], [20.0]])
    pooled = np.concatenate([x, y])
    every = [
        gap(pooled[list(chosen)], np.delete(pooled, chosen, axis=0))
        for chosen in itertools.combinations(range(6), 3)
    ]
    p = 1999
    test = permutation_test(gap, x, y, num_permutations=p)
    np.testing.assert_allclose(test.value, gap(x, y), rtol=1e-6)
    # The banks and their exchange are the two worst of the 20 splits.
    exact = np.mean(np.array(every) >= gap(x, y) - 1e-9)
    assert exact == 0.1
    assert abs(test.p_value - exact) < 3 * (exact * (1 - exact) / p) ** 0.5
    assert abs(test.null_mean - np.mean(every)) < 3 * np.std(every) / p**0.5
    assert set(np.round(np.asarray(test.null), 3)) == set(np.round(every, 3).astype(np.float32))
    np.testing.assert_allclose(test.null_sd, np.std(test.null, ddof=1), rtol=1e-5)
    assert test.null.shape == (p,)
    assert all(field.shape == () for field in test[:4])


def test_p_value_counts_the_banks_themselves():
    x, y = np.arange(20.0)[:, None], np.arange(20.0)[:, None] + 100
    assert permutation_test(gap, x, y, num_permutations=99).p_value == np.float32(0.01)
    constant = permutation_test(lambda x, y: 3.0, x, y, num_permutations=9)
    assert constant.p_value == 1
    assert constant.null_sd == 0
    signed = permutation_test(lambda x, y: -gap(x, y), x, y, num_permutations=99)
    assert signed.p_value == 1


def test_seeds_fix_the_deals():
    x, y = banks(2)
    first = permutation_test(gap, x, y, num_permutations=20, seed=3)
    again = permutation_test(gap, x, y, num_permutations=20, seed=3)
    other = permutation_test(gap, x, y, num_permutations=20, seed=4)
    np.testing.assert_array_equal(first.null, again.null)
    assert (first.null != other.null).any()


def test_trees_keep_the_leaves_of_a_row_together_and_arrays_stay_numpy():
    ids = np.arange(N + M)
    tree = {"ids": ids[:, None] * np.ones(4, int), "lengths": ids}

    def statistic(reference, generated):
        for bank in (reference, generated):
            assert isinstance(bank["ids"], np.ndarray)
            np.testing.assert_array_equal(bank["ids"][:, 0], bank["lengths"])
        assert len(reference["lengths"]) == N
        both = np.concatenate([reference["lengths"], generated["lengths"]])
        assert sorted(both) == list(range(N + M))
        return reference["lengths"].mean()

    reference = jax.tree.map(lambda leaf: leaf[:N], tree)
    generated = jax.tree.map(lambda leaf: leaf[N:], tree)
    test = permutation_test(statistic, reference, generated, num_permutations=5)
    assert len(set(np.asarray(test.null).tolist())) > 1


ROUTES = {
    "energy U": (energy_permutation_test, energy_distance, {"unbiased": True}),
    "mmd U of two": (mmd_permutation_test, mmd, {"bandwidth": (1.0, 4.0), "unbiased": True}),
    "kernel": (
        kernel_distance_permutation_test,
        kernel_distance,
        {"scale": 0.5, "offset": 0.25},
    ),
}


@pytest.mark.parametrize("name", ROUTES)
def test_one_pass_equals_one_call_a_permutation(name):
    route, metric, options = ROUTES[name]
    x, y = banks(3)
    statistic = functools.partial(metric, **options)
    fast = route(x, y, num_permutations=FEW, seed=7, **options)
    slow = permutation_test(statistic, x, y, num_permutations=FEW, seed=7, compiled=True)
    scale = float(np.max(np.abs(slow.null)))
    np.testing.assert_allclose(fast.null, slow.null, rtol=1e-4, atol=2e-5 * scale)
    np.testing.assert_allclose(fast.value, metric(x, y, **options), rtol=1e-4)
    assert fast.p_value == slow.p_value
    np.testing.assert_allclose(fast.null_mean, np.mean(slow.null), rtol=1e-3, atol=1e-4 * scale)
    np.testing.assert_allclose(fast.null_sd, np.std(slow.null, ddof=1), rtol=1e-3)


def test_compiled_deals_equal_plain_ones():
    x, y = banks(3)
    plain = permutation_test(energy_distance, x, y, num_permutations=19, seed=2)
    traced = permutation_test(energy_distance, x, y, num_permutations=19, seed=2, compiled=True)
    for a, b in zip(plain, traced):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    nulls = jax.jit(
        lambda x, y: (
            permutation_test(energy_distance, x, y, num_permutations=19, seed=2, compiled=True).null
        )
    )
    np.testing.assert_allclose(nulls(x, y), plain.null, rtol=1e-5)


@pytest.mark.parametrize("d", [2, 24])
def test_oracle_in_double_precision_on_hard_banks(d):
    x, y = banks(d)
    hard = [
        (x + 1e3, y + 1e3),
        (1e-4 * x, 1e-4 * y),
        (np.repeat(x[:3], 3, axis=0), np.r_[x[:3], y[:10]]),
    ]
    weights = contrast_weights()
    for x, y in hard:
        x, y = x.astype(np.float32), y.astype(np.float32)
        pooled = np.concatenate([x, y]).astype(np.float64)
        matrix = cdist(pooled, pooled)
        centred = pooled - pooled.mean(0)
        for route, kernel, options in (
            (energy_permutation_test, -matrix, {}),
            (mmd_permutation_test, np.exp(-(matrix**2) / 6), {"bandwidth": 3.0}),
            (
                kernel_distance_permutation_test,
                centred @ centred.T / d,
                {"degree": 1, "unbiased": False},
            ),
        ):
            expected = np.einsum("pi,ij,pj->p", weights, kernel, weights)
            test = route(x, y, num_permutations=FEW, **options)
            got = np.r_[test.value, test.null]
            tolerance = 3e-7 * np.abs(kernel).mean()
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=tolerance)


def test_oracle_under_x64():
    x, y = banks(3)
    pooled = np.concatenate([x, y])
    weights = contrast_weights()
    expected = -np.einsum("pi,ij,pj->p", weights, cdist(pooled, pooled), weights)
    with jax.enable_x64(True):
        test = energy_permutation_test(x, y, num_permutations=FEW)
    assert test.null.dtype == np.float64
    np.testing.assert_allclose(np.r_[test.value, test.null], expected, rtol=1e-9)


def test_blocks_change_nothing(monkeypatch):
    x, y = banks(2)
    whole = energy_permutation_test(x, y, num_permutations=FEW)
    pairwise = importlib.import_module("dlmeval.metrics.pairwise")
    monkeypatch.setattr(pairwise, "BLOCK_ENTRIES", 200)
    # Another number of permutations is another program, with blocks of five rows.
    parts = energy_permutation_test(x, y, num_permutations=FEW - 1)
    np.testing.assert_allclose(whole.null[:-1], parts.null, rtol=1e-4, atol=1e-6)


def test_the_default_bandwidth_is_that_of_the_reference_for_every_permutation():
    x, y = banks(3, shift=4.0)
    default = mmd_permutation_test(x, y, num_permutations=FEW)
    frozen = mmd_permutation_test(
        x, y, bandwidth=median_squared_distance(x) / 2, num_permutations=FEW
    )
    np.testing.assert_allclose(default.null, frozen.null, rtol=1e-5)
    np.testing.assert_allclose(default.value, mmd(x, y), rtol=1e-4)


def test_null_mean_in_closed_form():
    """Over all splits the V-statistic has the mean D (1/n + 1/m), D the mean pooled distance."""
    x, y = banks(3)
    pooled = np.concatenate([x, y])
    rows = len(pooled)
    mean = cdist(pooled, pooled).sum() / rows / (rows - 1)
    test = energy_permutation_test(x, y, num_permutations=1999)
    assert abs(test.null_mean - mean * (1 / N + 1 / M)) < 3 * test.null_sd / 1999**0.5


def test_one_pass_under_jit_and_vmap():
    stack = [np.stack(pair) for pair in zip(banks(3, seed=1), banks(3, seed=2))]
    mapped = jax.jit(jax.vmap(lambda x, y: energy_permutation_test(x, y, num_permutations=FEW)))(
        *stack
    )
    single = energy_permutation_test(stack[0][1], stack[1][1], num_permutations=FEW)
    np.testing.assert_allclose(mapped.null[1], single.null, rtol=1e-4, atol=1e-6)
    assert mapped.p_value[1] == single.p_value


def test_p_values_are_uniform_under_the_null_and_small_under_a_shift():
    rng = np.random.default_rng(0)
    for route in (energy_permutation_test, mmd_permutation_test):
        p_values = np.array(
            [
                route(*rng.normal(size=(2, 8, 2)), num_permutations=99, seed=trial).p_value
                for trial in range(100)
            ]
        )
        counts = np.bincount((np.round(100 * p_values).astype(int) - 1) // 20, minlength=5)
        assert counts.shape == (5,)
        # Five bins of probability 1/5 each: chi-square with mean 4 and variance 8.
        assert np.sum((counts - 20) ** 2 / 20) < 4 + 3 * 8**0.5
        shifted = [
            route(rng.normal(size=(8, 2)), 3 + rng.normal(size=(8, 2)), num_permutations=99).p_value
            for _ in range(10)
        ]
        assert np.median(shifted) <= 0.02


def test_banks_that_are_alike_have_p_value_one():
    x, ones = np.random.default_rng(0).normal(size=(8, 2)), np.ones((8, 2))
    for test in (
        energy_permutation_test(x, x, num_permutations=99),
        energy_permutation_test(ones, ones, num_permutations=99),
        mmd_permutation_test(ones, ones, bandwidth=1, num_permutations=99),
        kernel_distance_permutation_test(
            np.full((N, 3), 3.3), np.full((M, 3), 3.3), num_permutations=FEW
        ),
    ):
        assert test.p_value == 1
        assert abs(test.value) < 1e-6


def test_bad_input_is_named():
    x, y = banks(3)
    with pytest.raises(ValueError, match=r"equal shapes.*\(9, 3\) and \(13, 2\)"):
        permutation_test(gap, x, y[:, :2])
    with pytest.raises(ValueError, match="reference holds NaN"):
        permutation_test(gap, np.where(x > 1, np.nan, x), y)
    with pytest.raises(ValueError, match="generated must be an array"):
        permutation_test(gap, x, y[:0])
    with pytest.raises(ValueError, match="generated must be an array"):
        permutation_test(gap, [x, x], [y, y[:2]])
    with pytest.raises(ValueError, match="one structure"):
        permutation_test(gap, x, [y])
    with pytest.raises(ValueError, match="generated must be an array"):
        permutation_test(gap, x, np.float64(3))
    with pytest.raises(ValueError, match="num_permutations must be at least 2"):
        permutation_test(gap, x, y, num_permutations=1)
    with pytest.raises(ValueError, match="seed must be at least 0"):
        permutation_test(gap, x, y, seed=-1)
    for compiled in (False, True):
        with pytest.raises(ValueError, match=r"one number, got an array of shape \(3,\)"):
            permutation_test(lambda x, y: x.mean(0), x, y, compiled=compiled)
        with pytest.raises(ValueError, match="statistic gave nan for"):
            permutation_test(lambda x, y: x.mean() * np.nan, x, y, compiled=compiled)
    with pytest.raises(ValueError, match="only compiled=True"):
        jax.jit(lambda x: permutation_test(gap, x, x).value)(jnp.asarray(x))


def test_bad_options_of_the_routes_are_named():
    x, y = banks(3)
    for bandwidth in (0.0, [1.0, -1.0], [], np.ones((1, 1)), np.nan):
        with pytest.raises(ValueError, match=r"bandwidth must be (a positive|one) number"):
            mmd_permutation_test(x, y, bandwidth=bandwidth)
    with pytest.raises(ValueError, match="pass bandwidth yourself"):
        mmd_permutation_test(np.ones((N, 3)), y)
    with pytest.raises(ValueError, match="degree must be at least 1"):
        kernel_distance_permutation_test(x, y, degree=0)
    with pytest.raises(ValueError, match="scale must be a finite number"):
        kernel_distance_permutation_test(x, y, scale=0.0)
    with pytest.raises(ValueError, match="offset must be a finite number >= 0"):
        kernel_distance_permutation_test(x, y, offset=-1.0)
    with pytest.raises(ValueError, match="beyond float32"):
        kernel_distance_permutation_test(1e8 * x, y, num_permutations=FEW)
    with pytest.raises(ValueError, match="reference holds NaN"):
        energy_permutation_test(x * np.nan, y)
    with pytest.raises(ValueError, match="num_permutations must be at least 2"):
        energy_permutation_test(x, y, num_permutations=0)


def test_nan_inside_jit_is_no_significant_result():
    x = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    bad = x.copy()
    bad[4, 1] = np.nan
    test = jax.jit(lambda a, b: energy_permutation_test(a, b, num_permutations=9))(bad, x)
    assert np.isnan(test.p_value)
    assert np.isnan(test.value)
