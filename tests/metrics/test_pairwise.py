"""Sums over pairs: blocks, row-wise diagonals, jackknife, roots, memory at scale."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.metrics import energy_distance, kernel_distance, mmd, pairwise

F32 = np.float32


def brute_contrast(k_xx, k_yy, k_xy, unbiased):
    def within(k):
        n = len(k)
        return (k.sum() - np.trace(k)) / (n * (n - 1)) if unbiased else k.mean()

    return 2 * k_xy.mean() - within(k_xx) - within(k_yy)


def matrices(n=7, m=5):
    """Three blocks of a symmetric kernel whose diagonal differs from row to row."""
    values = np.random.default_rng(0).normal(size=(n + m, 4))
    k = values @ values.T + np.diag(np.arange(n + m))
    return k[:n, :n], k[n:, n:], k[:n, n:]


def pair_sums_of(k_xx, k_yy, k_xy):
    sums = pairwise.PairSums(
        k_xx.sum(1), k_yy.sum(1), k_xy.sum(1), k_xy.sum(0), np.diag(k_xx), np.diag(k_yy)
    )
    return pairwise.PairSums(*(jnp.asarray(field, jnp.float32) for field in sums))


@pytest.mark.parametrize("unbiased", [False, True])
def test_contrast_and_its_jackknife_with_a_diagonal_of_its_own_in_every_row(unbiased):
    k_xx, k_yy, k_xy = matrices()
    sums = pair_sums_of(k_xx, k_yy, k_xy)
    expected = brute_contrast(k_xx, k_yy, k_xy, unbiased)
    np.testing.assert_allclose(pairwise.contrast(sums, unbiased=unbiased), expected, rtol=1e-5)
    total = 0.0
    for n, without in (
        (7, lambda i: (np.delete(np.delete(k_xx, i, 0), i, 1), k_yy, np.delete(k_xy, i, 0))),
        (5, lambda i: (k_xx, np.delete(np.delete(k_yy, i, 0), i, 1), np.delete(k_xy, i, 1))),
    ):
        values = np.array([brute_contrast(*without(i), unbiased) for i in range(n)])
        total += (n - 1) / n * np.sum((values - values.mean()) ** 2)
    stderr = pairwise.contrast_stderr(sums, unbiased=unbiased)
    np.testing.assert_allclose(stderr, np.sqrt(total), rtol=1e-5)


def test_banks_beyond_32_bit_pair_counts_are_no_overflow():
    rows = jax.ShapeDtypeStruct((70_000,), jnp.float32)
    sums = pairwise.PairSums(rows, rows, rows, rows, rows, rows)
    for function, unbiased in itertools.product(
        (pairwise.contrast, pairwise.contrast_stderr), (False, True)
    ):
        shape = jax.eval_shape(lambda s, f=function, u=unbiased: f(s, unbiased=u), sums)
        assert shape.shape == ()


def few_modes(rows, modes=3, d=40):
    """Rows near a few centres far from the mean, a third of them exact copies of their centre."""
    rng = np.random.default_rng(2)
    centres = rng.normal(size=(modes, d)) + 10
    noise = rng.normal(size=(rows, d)) * (np.arange(rows) % 3 != 0)[:, None]
    return (centres[np.arange(rows) % modes] + 1e-4 * noise).astype(F32)


@pytest.mark.parametrize("modes", [3, 8])  # mode by mode, and pair by pair
def test_near_duplicates_beyond_one_pass_a_row_keep_their_digits(modes):
    x, y = (jnp.asarray(few_modes(rows, modes)) for rows in (160, 160))
    exact = np.sum((np.float64(x)[:, None] - np.float64(y)[None]) ** 2, axis=-1)
    close = (exact < 1e-5).sum(axis=1).max()
    assert (close > pairwise._PASSES * modes) == (modes == 3)
    found = pairwise.squared_distances(x, y, jnp.asarray(1.0))
    np.testing.assert_allclose(found, exact, rtol=2e-4, atol=1e-12)
    assert (np.asarray(found)[exact == 0] == 0).all()
    both = jax.vmap(pairwise.squared_distances, (0, None, None))(jnp.stack([x, x + 1]), y, F32(1))
    np.testing.assert_allclose(both[0], exact, rtol=2e-4, atol=1e-12)


def test_fold_rows_visits_every_row_once_and_drops_padding(monkeypatch):
    x = jnp.arange(22.0).reshape(11, 2)
    seen = []

    def step(total, block, rows):
        seen.append(block.shape)
        counted = rows < 11
        return total + jnp.sum(counted * block[:, 0]), {"first": block[:, 0], "row": block}

    for columns in (1, 3, 1000):
        monkeypatch.setattr(pairwise, "BLOCK_ENTRIES", 12)
        total, out = pairwise.fold_rows(step, 0.0, x, columns)
        assert total == jnp.sum(x[:, 0])
        np.testing.assert_array_equal(out["first"], x[:, 0])
        np.testing.assert_array_equal(out["row"], x)
    # 12 entries a block: all 11 rows at once, 4 rows, and never less than one row.
    assert sorted(set(seen)) == [(1, 2), (4, 2), (11, 2)]


def test_distances_in_blocks_equal_those_in_one(monkeypatch):
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(13, 20)).astype(F32), rng.normal(size=(9, 20)).astype(F32)
    y[:4] = x[:4]
    expected = np.sum((x[:, None].astype(float) - y[None].astype(float)) ** 2, axis=-1)
    monkeypatch.setattr(pairwise, "BLOCK_ENTRIES", 4 * 9)
    arguments = jnp.asarray(x), jnp.asarray(y), jnp.asarray(20.0)
    _, rows = pairwise.fold_distances(lambda c, s, _: (c, s), None, *arguments)
    np.testing.assert_allclose(rows, expected, rtol=1e-5)
    np.testing.assert_array_equal(np.diag(rows)[:4], 0)


def test_gradients_pass_through_blocks(monkeypatch):
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(11, 18)), rng.normal(size=(10, 18)) + 1

    def pull(a, b):
        gap = a[:, None] - b[None]
        length = np.linalg.norm(gap, axis=-1, keepdims=True)
        return np.mean(gap / np.where(length > 0, length, 1), axis=1)

    expected = 2 / 11 * (pull(x, y) - pull(x, x)), 2 / 10 * (pull(y, x) - pull(y, y))
    monkeypatch.setattr(pairwise, "BLOCK_ENTRIES", 4 * 10)
    # 11 rows in blocks of 4: the padding of the last block must not pull.
    arguments = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
    for one, other in zip(jax.jit(jax.grad(energy_distance, (0, 1)))(*arguments), expected):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_root_and_its_standard_error_at_and_below_zero():
    squared = np.array([4, 0, -1, np.nan, 0], np.float32)
    stderr = np.array([1, 1, 1, 1, 0], np.float32)

    @jax.jit
    def everything(squared, stderr):
        slope = jax.grad(lambda s: jnp.sum(pairwise.root(s)[:3]))(squared)
        return pairwise.root(squared), pairwise.root_stderr(squared, stderr), slope

    root, root_stderr, slope = everything(squared, stderr)
    np.testing.assert_array_equal(root, [2, 0, 0, np.nan, 0])
    np.testing.assert_array_equal(root_stderr, [0.25, np.inf, np.inf, np.nan, 0])
    np.testing.assert_array_equal(slope[:3], [0.25, 0, 0])


@pytest.mark.parametrize("metric", [energy_distance, mmd, kernel_distance])
def test_memory_at_scale_is_a_few_banks_never_a_matrix_of_all_pairs(metric):
    n, d = 50_000, 1280
    bank = jax.ShapeDtypeStruct((n, d), jnp.float32)
    memory = jax.jit(lambda x, y: metric(x, y)).lower(bank, bank).compile().memory_analysis()
    banks = 2 * n * d * 4
    assert memory.argument_size_in_bytes == banks
    assert memory.temp_size_in_bytes < 3.5 * banks
    assert memory.temp_size_in_bytes < n * n * 4 / 5
