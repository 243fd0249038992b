"""k-means: planted clusters, fixed points, independence of runs, empty clusters, bad input."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.metrics import kmeans


def keys(*seeds):
    return jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))


def planted(k=6, per_cluster=20, d=4, spread=0.05):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(k, d)) * 5
    truth = np.repeat(np.arange(k), per_cluster)
    return centres[truth] + spread * rng.normal(size=(k * per_cluster, d)), truth


def within_sum(points, labels):
    return sum(
        ((points[labels == c] - points[labels == c].mean(0)) ** 2).sum() for c in np.unique(labels)
    )


def test_planted_clusters_are_found_by_every_key():
    points, truth = planted()
    result = kmeans(points, 6, keys(0, 1, 2))
    for labels, centroids in zip(np.asarray(result.labels), np.asarray(result.centroids)):
        pairs = {(a, b) for a, b in zip(truth, labels)}
        assert len(pairs) == 6
        assert len({b for _, b in pairs}) == 6
        for cluster in range(6):
            expected = points[labels == cluster].mean(0)
            np.testing.assert_allclose(centroids[cluster], expected, atol=1e-4)
    assert result.labels.shape == (3, 120)
    assert result.labels.dtype == jnp.int32


def test_few_points_reach_the_global_optimum():
    points = np.random.default_rng(1).normal(size=(9, 2))
    best = min(
        within_sum(points, np.array(labels))
        for labels in itertools.product(range(2), repeat=9)
        if 0 < sum(labels) < 9
    )
    result = kmeans(points, 2, keys(3), num_restarts=20, tolerance=0.0)
    np.testing.assert_allclose(result.inertia[0], best, rtol=1e-5)
    np.testing.assert_allclose(within_sum(points, np.asarray(result.labels[0])), best, rtol=1e-5)


def test_at_tolerance_zero_the_result_is_a_fixed_point():
    points = np.random.default_rng(2).normal(size=(150, 3)).astype(np.float32)
    result = kmeans(points, 12, keys(0), tolerance=0.0)
    centroids = np.asarray(result.centroids[0])
    squared = ((points[:, None] - centroids) ** 2).sum(-1)
    np.testing.assert_array_equal(squared.argmin(1), result.labels[0])
    np.testing.assert_allclose(squared.min(1).sum(), result.inertia[0], rtol=1e-4)
    loose = kmeans(points, 12, keys(0))
    assert loose.num_iterations[0] <= result.num_iterations[0]
    assert loose.inertia[0] <= 1.02 * result.inertia[0]


def test_a_key_gives_the_same_alone_and_in_company():
    points = np.random.default_rng(3).normal(size=(80, 3))
    alone, together = kmeans(points, 7, keys(5)), kmeans(points, 7, keys(1, 5, 9))
    np.testing.assert_array_equal(alone.labels[0], together.labels[1])
    assert alone.num_iterations[0] == together.num_iterations[1]
    assert (np.asarray(together.labels[0]) != np.asarray(together.labels[1])).any()


def test_restarts_never_worsen_the_inertia():
    points = np.random.default_rng(4).normal(size=(60, 2))
    # The seeding keys of one restart and of five differ, so compare means over keys.
    many = kmeans(points, 8, keys(*range(12))).inertia
    single = kmeans(points, 8, keys(*range(12)), num_restarts=1).inertia
    assert np.mean(many) < np.mean(single)


def test_blocks_of_points_change_nothing(monkeypatch):
    import importlib

    module = importlib.import_module("dlmeval.metrics.kmeans")
    points = np.random.default_rng(5).normal(size=(70, 3))
    whole = kmeans(points, 5, keys(0))
    monkeypatch.setattr(module, "_ENTRIES", 5 * 5 * 16)
    jax.clear_caches()
    parts = kmeans(points, 5, keys(0))
    jax.clear_caches()
    np.testing.assert_array_equal(whole.labels, parts.labels)
    np.testing.assert_allclose(whole.inertia, parts.inertia, rtol=1e-5)


def test_both_ways_to_sum_a_cluster_agree():
    """Rows one after the other on processors, a product on accelerators."""
    from dlmeval.metrics.kmeans import _sums_by_product, _sums_by_row

    rng = np.random.default_rng(6)
    points = rng.normal(size=(70, 3)).astype(np.float32)
    labels = rng.integers(0, 6, size=(4, 70)).astype(np.int32)
    labels[labels == 2] = 1
    expected = [[points[run == c].sum(0) for c in range(6)] for run in labels]
    for sums in (_sums_by_row, _sums_by_product):
        np.testing.assert_allclose(sums(labels, points, k=6), expected, atol=1e-4)


def test_an_empty_cluster_takes_the_farthest_points_in_order():
    from dlmeval.metrics.kmeans import _refill

    points = jnp.asarray([[0.0], [1.0], [5.0], [9.0]])
    nearest = jnp.asarray([[0.0, 1.0, 25.0, 81.0]])
    moved = jnp.asarray([[[1.0], [7.0], [7.0]]])
    filled = _refill(moved, jnp.asarray([[4.0, 0.0, 0.0]]), nearest, points)
    np.testing.assert_array_equal(filled[0, :, 0], [1, 9, 5])


def test_more_clusters_than_distinct_points():
    points = np.repeat(np.arange(3.0)[:, None], 10, axis=0)
    result = kmeans(points, 8, keys(0))
    np.testing.assert_allclose(result.inertia[0], 0, atol=1e-6)
    labels = np.asarray(result.labels[0]).reshape(3, 10)
    assert (labels == labels[:, :1]).all()
    assert len(set(labels[:, 0])) == 3
    assert result.num_iterations[0] < 10


@pytest.mark.parametrize("k", [1, 5])
def test_one_cluster_and_one_per_point(k):
    points = np.random.default_rng(6).normal(size=(5, 2))
    result = kmeans(points, k, keys(0))
    expected = 0 if k == 5 else within_sum(points, np.zeros(5))
    np.testing.assert_allclose(result.inertia[0], expected, rtol=1e-5, atol=1e-6)


def test_bad_input_is_named():
    points = np.ones((4, 2))
    for k in (0, 5):
        with pytest.raises(ValueError, match=r"num_clusters must be in \[1, 4\]"):
            kmeans(points, k, keys(0))
    with pytest.raises(ValueError, match="num_restarts must be at least 1"):
        kmeans(points, 2, keys(0), num_restarts=0)
    with pytest.raises(ValueError, match="tolerance must be at least 0"):
        kmeans(points, 2, keys(0), tolerance=-1.0)
    for untyped in (np.arange(2), jax.random.key(0), keys(0)[:0]):
        with pytest.raises(ValueError, match="keys must be a 1-D array of typed keys"):
            kmeans(points, 2, untyped)
    with pytest.raises(ValueError, match="points holds NaN"):
        kmeans(points * np.nan, 2, keys(0))
    with pytest.raises(ValueError, match="points must be 2-D"):
        kmeans(points[0], 2, keys(0))
