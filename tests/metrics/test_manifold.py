"""Precision, recall, density, coverage: oracle, limits, ties, transformations, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from dlmeval.metrics import ManifoldScores, pairwise, precision_recall, precision_recall_stderr

N, M, D = 60, 45, 20


def memberships(x, y, k):
    """[n, m] tables: y in the ball of x, x in the ball of y."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)

    def radius(bank):
        distances = cdist(bank, bank)
        np.fill_diagonal(distances, np.inf)
        return np.sort(distances, axis=1)[:, k - 1]

    across = cdist(x, y)
    slack = 1 + 1e-6  # ties are inside
    return across <= radius(x)[:, None] * slack, across <= radius(y)[None, :] * slack


def oracle(x, y, k):
    in_x, in_y = memberships(x, y, k)
    return ManifoldScores(
        in_x.any(0).mean(), in_y.any(1).mean(), in_x.sum() / (k * len(y)), in_x.any(1).mean()
    )


def banks(shift=0.4):
    rng = np.random.default_rng(2)
    return rng.normal(size=(N, D)), rng.normal(size=(M, D)) * 1.1 + shift


@pytest.mark.parametrize("offset", [0, 100])
def test_matches_the_oracle(offset):
    x, y = ((bank + offset).astype(np.float32) for bank in banks())
    scores = precision_recall(x, y)
    for score in scores:
        assert score.shape == ()
        assert score.dtype == jnp.float32
    np.testing.assert_allclose(scores, oracle(x, y, 5), rtol=1e-5)


def test_float64():
    x, y = banks()
    with jax.enable_x64(True):
        scores = precision_recall(x, y, num_neighbors=M - 1)
        assert scores.density.dtype == jnp.float64
        np.testing.assert_allclose(scores, oracle(x, y, M - 1), rtol=1e-12)


@pytest.mark.parametrize(("k", "width"), [(5, D), (1, 2)])
def test_equal_banks_in_any_order_are_the_documented_limit(k, width):
    x = banks()[0][:, :width].astype(np.float32)
    shuffled = np.random.default_rng(0).permutation(x)
    for y in (x, shuffled):
        scores = precision_recall(x, y, num_neighbors=k)
        np.testing.assert_allclose(scores, [1, 1, (k + 1) / k, 1], rtol=1e-6)


def test_banks_far_apart_share_nothing():
    x, y = banks()
    np.testing.assert_array_equal(precision_recall(x, y + 1000), [0, 0, 0, 0])


def test_one_repeated_row_has_precision_but_no_recall():
    x, _ = banks()
    copy = np.tile(x[7], (M, 1))
    # Its ball has radius 0 and holds the row itself, only.
    scores = precision_recall(x, copy)
    np.testing.assert_allclose(scores[:2], [1, 1 / N], rtol=1e-6)
    np.testing.assert_allclose(scores, oracle(x, copy, 5), rtol=1e-5)
    # A hair away from it there is no recall at all, and a constant reference has no ball.
    nearby = copy + 1e-3
    assert precision_recall(x, nearby).recall == 0
    assert precision_recall(np.tile(x[7], (N, 1)), nearby).precision == 0
    constant = np.tile(x[7], (N, 1))
    np.testing.assert_allclose(precision_recall(constant, constant), [1, 1, N / 5, 1], rtol=1e-6)


def test_ties_on_a_lattice_are_inside():
    # Distances repeat massively; in float32 a centre that is no lattice point rounds them.
    rng = np.random.default_rng(8)
    x, y = rng.integers(0, 3, size=(N, D)), rng.integers(0, 3, size=(M, D))
    np.testing.assert_allclose(precision_recall(x, y), oracle(x, y, 5), rtol=1e-5)


def test_row_order_rotation_translation_and_scale_do_not_matter():
    x, y = (bank.astype(np.float32) for bank in banks())
    rng = np.random.default_rng(1)
    rotation, _ = np.linalg.qr(rng.normal(size=(D, D)))
    scores = precision_recall(x, y)
    same = precision_recall(x[rng.permutation(N)], y[rng.permutation(M)])
    np.testing.assert_allclose(same, scores, rtol=1e-6)
    moved = precision_recall(5 * x @ rotation + 3, 5 * y @ rotation + 3)
    np.testing.assert_allclose(moved, scores, rtol=1e-6)


def test_dropped_mode_costs_recall_and_noise_costs_precision():
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(size=(30, D)), rng.normal(size=(30, D)) + 8])
    half = precision_recall(x, rng.normal(size=(M, D)))
    assert half.precision > 0.9
    assert half.recall <= 0.5
    assert half.coverage <= 0.5
    noisy = precision_recall(x, 20 * rng.normal(size=(M, D)))
    assert noisy.precision == 0
    assert noisy.density == 0


def test_one_law_has_density_one_and_coverage_one_less_a_power_of_two():
    rng = np.random.default_rng(5)
    mean = np.mean(jax.vmap(precision_recall)(*rng.normal(size=(2, 120, N, 4))), axis=1)
    np.testing.assert_allclose(mean[2], 1, atol=0.04)
    np.testing.assert_allclose(mean[3], 1 - 2.0**-5, atol=0.01)


def test_blocks_change_nothing(monkeypatch):
    x, y = (bank[:33].astype(np.float32) for bank in banks())
    monkeypatch.setattr(pairwise, "BLOCK_ENTRIES", 5 * 33)
    np.testing.assert_allclose(precision_recall(x, y), oracle(x, y, 5), rtol=1e-5)


def test_jit_vmap_swap_and_nan():
    x, y = (jnp.asarray(bank[:12], jnp.float32) for bank in banks())
    reference, generated = jnp.stack([x, y, y, x]), jnp.stack([y, y, x, y.at[3, 7].set(jnp.nan)])
    scores = np.stack(jax.jit(jax.vmap(precision_recall))(reference, generated), axis=1)
    expected = oracle(x, y, 5), (1, 1, 1.2, 1), oracle(y, x, 5), np.full(4, np.nan)
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


def test_stderr_is_the_jackknife_over_tested_rows():
    x, y = banks()
    in_x, in_y = memberships(x, y, 5)
    rows = (in_x.any(0), in_y.any(1), in_x.sum(0) / 5, in_x.any(1))
    expected = []
    for values in rows:
        n = len(values)
        left_out = (values.sum() - values) / (n - 1)
        expected.append(np.sqrt((n - 1) / n * np.sum((left_out - left_out.mean()) ** 2)))
    np.testing.assert_allclose(precision_recall_stderr(x, y), expected, rtol=1e-5)
    inside = precision_recall_stderr(x, x[:M])
    assert inside.precision == 0


def test_stderr_is_a_lower_bound_of_the_spread_of_the_right_order():
    rng = np.random.default_rng(6)
    draws = rng.normal(size=(120, N, 4)), rng.normal(size=(120, N, 4)) + 0.8
    spread = np.std(jax.vmap(precision_recall)(*draws), axis=1)
    predicted = np.mean(jax.vmap(precision_recall_stderr)(*draws), axis=1)
    assert (predicted / spread > 0.45).all()
    assert (predicted / spread < 1).all()


@pytest.mark.parametrize("k", [0, M, 2.5, None])
def test_num_neighbors_out_of_range_is_named(k):
    with pytest.raises(ValueError, match="num_neighbors must be an integer from 1 to"):
        precision_recall(*banks(), num_neighbors=k)


def test_bad_banks_are_named():
    x, y = banks()
    with pytest.raises(ValueError, match="equally wide"):
        precision_recall(x, y[:, :3])
    with pytest.raises(ValueError, match="generated holds NaN"):
        precision_recall(x, np.where(y > 2, np.nan, y))
    with pytest.raises(ValueError, match=r"one less than the rows of generated \(5, 20\), got 5"):
        precision_recall_stderr(x, y[:5])


@pytest.mark.parity
def test_equals_prdc():
    prdc = pytest.importorskip("prdc")
    x, y = banks()
    expected = prdc.compute_prdc(x, y, nearest_k=5)
    np.testing.assert_allclose(
        precision_recall(x, y), [expected[k] for k in ManifoldScores._fields]
    )
