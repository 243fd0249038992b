"""k-means in JAX: k-means++ seeding and Lloyd iterations, many restarts in one computation."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from .checks import check_features
from .pairwise import dot
from .token_rows import AnyArray, check_integer, is_traced

# Most entries of an array runs x clusters x points; on processors the faster caches are smaller.
_ENTRIES = 2**24
_CACHED_ENTRIES = 2**15
# Fewer points a block make slow matrix products.
_LEAST_BLOCK = 64


class KMeans(NamedTuple):
    """The best of the restarts, for every key.

    Attributes:
      labels: Int["s n"] cluster of every point.
      centroids: Float["s k d"] mean of the points of every cluster.
      inertia: Float["s"] sum of squared distances of the assignment that gave the labels.
      num_iterations: Int["s"] Lloyd iterations of the best restart.
    """

    labels: Int[Array, "s n"]
    centroids: Float[Array, "s k d"]
    inertia: Float[Array, " s"]
    num_iterations: Int[Array, " s"]


class _Lloyd(NamedTuple):
    centroids: Float[Array, "r k d"]
    labels: Int[Array, "r n"]
    inertia: Float[Array, " r"]
    num_iterations: Int[Array, " r"]
    done: Bool[Array, " r"]


def kmeans(
    points: Float[AnyArray, "n d"],
    num_clusters: int,
    keys: Key[Array, " s"],
    *,
    num_restarts: int = 5,
    max_iterations: int = 500,
    tolerance: float = 1e-4,
) -> KMeans:
    """Clusters points once for every key; the restarts of a key share every matrix product.

    A run ends when no label changes or the inertia falls by less than `tolerance` of itself;
    its result does not depend on the keys it runs beside. An empty cluster moves to the point
    farthest from its centroid (several: to the farthest points in order), without randomness.
    With fewer distinct points than clusters some clusters stay empty.

    Args:
      points: Float[Array, "n d"].
      num_clusters: k, 1 <= k <= n.
      keys: Key["s"] typed PRNG keys, one a clustering.
      num_restarts: k-means++ seedings a key; the lowest inertia wins (ties: the first).
      max_iterations: bound on Lloyd iterations.
      tolerance: relative decrease of inertia below which a run ends; 0 = run to a fixed point.

    Returns:
      `KMeans`. Cost a Lloyd iteration and key: a matrix product of n x d x (num_restarts k),
      and beside it num_restarts n d additions on a processor, or another such product elsewhere.

    Raises:
      ValueError: wrong rank, NaN or infinity, num_clusters not in 1..n, a count below 1, keys
        that are no 1-D array of typed keys, a negative tolerance.

    Source: Lloyd 1982; Arthur and Vassilvitskii 2007 (k-means++, without the greedy variant).

    >>> import numpy as np
    >>> keys = jax.vmap(jax.random.key)(np.arange(2))
    >>> result = kmeans(np.array([[0.0], [1.0], [8.0], [9.0]]), 2, keys)
    >>> result.labels.shape, result.inertia.tolist()
    ((2, 4), [1.0, 1.0])
    """
    points = check_features("points", points, min_rows=1)
    check_integer("num_clusters", num_clusters, 1, points.shape[0])
    check_integer("num_restarts", num_restarts, 1)
    check_integer("max_iterations", max_iterations, 1)
    typed = jnp.issubdtype(jnp.result_type(keys), jax.dtypes.prng_key)
    if not typed or keys.ndim != 1 or not keys.size:
        raise ValueError(
            f"keys must be a 1-D array of typed keys, as jax.random.split(jax.random.key(0), 5), "
            f"got {jnp.result_type(keys)} of shape {jnp.shape(keys)}"
        )
    if not is_traced(tolerance) and not tolerance >= 0:
        raise ValueError(f"tolerance must be at least 0, got {tolerance}")
    return _kmeans(
        points,
        keys,
        jnp.asarray(tolerance, points.dtype),
        num_clusters=int(num_clusters),
        num_restarts=int(num_restarts),
        max_iterations=int(max_iterations),
    )


@functools.partial(jax.jit, static_argnames=("num_clusters", "num_restarts", "max_iterations"))
def _kmeans(points, keys, tolerance, *, num_clusters, num_restarts, max_iterations):
    mean = jnp.mean(points, axis=0)
    points = points - mean
    norms = jnp.sum(points**2, axis=1)
    # Seeding shares every product among all runs; iterations share them among the restarts of
    # one key, so that no key waits for another's last restart.
    runs = jax.vmap(lambda key: jax.random.split(key, num_restarts))(keys)
    seeds = _seed(runs.reshape(-1), points, norms, num_clusters)
    seeds = seeds.reshape(*runs.shape, *seeds.shape[1:])
    lloyd = functools.partial(_lloyd, points, norms, tolerance, max_iterations)
    result = KMeans(*lax.map(lloyd, seeds))
    return result._replace(centroids=result.centroids + mean)


def _lloyd(points, norms, tolerance, max_iterations: int, centroids: Float[Array, "r k d"]):
    """Iterates all restarts of a key and returns the fields of `KMeans` of the best one."""

    def step(state: _Lloyd) -> _Lloyd:
        labels, nearest, sums, counts = _assign(points, norms, state.centroids)
        inertia = jnp.sum(nearest, axis=1)
        moved = sums / jnp.maximum(counts, 1)[..., None]
        moved = lax.cond(
            jnp.any(counts == 0), _refill, lambda moved, *_: moved, moved, counts, nearest, points
        )
        settled = jnp.all(labels == state.labels, axis=1) | (
            state.inertia - inertia < tolerance * inertia
        )
        new = _Lloyd(moved, labels, inertia, state.num_iterations + 1, state.done | settled)

        def keep(old, new):
            # A finished run stays as it is, whatever the others need.
            return jnp.where(state.done.reshape((-1,) + (1,) * (new.ndim - 1)), old, new)

        return jax.tree.map(keep, state, new)

    r, n = centroids.shape[0], points.shape[0]
    state = _Lloyd(
        centroids,
        jnp.full((r, n), -1, jnp.int32),
        jnp.full(r, jnp.inf, points.dtype),
        jnp.zeros(r, jnp.int32),
        jnp.zeros(r, bool),
    )
    state = lax.while_loop(
        lambda state: ~jnp.all(state.done) & (jnp.max(state.num_iterations) < max_iterations),
        step,
        state,
    )
    best = jnp.argmin(state.inertia)
    return (
        state.labels[best],
        state.centroids[best],
        state.inertia[best],
        state.num_iterations[best],
    )


def _seed(runs: Key[Array, " r"], points, norms, k: int) -> Float[Array, "r k d"]:
    """k-means++: every next centre is a point drawn in proportion to its squared distance."""
    n = points.shape[0]
    uniforms = jax.vmap(lambda key: jax.random.uniform(key, (k,), points.dtype))(runs)

    def squared_to(chosen):
        centres = points[chosen]
        return jnp.maximum(norms[chosen][:, None] + norms - 2 * dot(centres, points.T), 0)

    def draw(nearest, uniform):
        total = jnp.cumsum(nearest, axis=1)
        chosen = jnp.sum(total <= uniform[:, None] * total[:, -1:], axis=1)
        chosen = jnp.minimum(chosen, n - 1)
        return jnp.minimum(nearest, squared_to(chosen)), chosen

    first = jnp.minimum((uniforms[:, 0] * n).astype(jnp.int32), n - 1)
    _, rest = lax.scan(draw, squared_to(first), uniforms[:, 1:].T)
    return points[jnp.concatenate([first[None], rest]).T]


def _assign(points, norms, centroids):
    """Labels, squared distances to the nearest centroid, and sums and counts of clusters.

    Walks over blocks of points, which on a processor fit its cache.
    """
    (r, k, d), n = centroids.shape, points.shape[0]
    flat = centroids.reshape(r * k, d)
    lengths = jnp.sum(centroids**2, axis=2)[..., None]
    block = min(n, max(_ENTRIES // (r * k), 1))
    if jax.default_backend() == "cpu":
        # Wide rows want more points a block: every block reads all the centroids.
        block = min(block, max(_CACHED_ENTRIES // (r * k), _LEAST_BLOCK, d // 4))
    count = -(-n // block)
    padding = count * block - n

    def body(_, inputs):
        xs, norm = inputs
        squared = lengths - 2 * dot(flat, xs.T).reshape(r, k, -1)
        least = jnp.min(squared, axis=1)
        # The first of the smallest by two plain minima, which compile to far faster code than
        # argmin.
        indices = jnp.arange(k, dtype=jnp.int32)[:, None]
        labels = jnp.min(jnp.where(squared == least[:, None], indices, k), axis=1)
        return None, (labels, jnp.maximum(least + norm, 0))

    def blocks(array):
        padded = jnp.pad(array, ((0, padding),) + ((0, 0),) * (array.ndim - 1))
        return padded.reshape(count, block, *array.shape[1:])

    def join(array):
        return jnp.moveaxis(array, 0, 1).reshape(r, -1)[:, :n]

    _, (labels, nearest) = lax.scan(body, None, (blocks(points), blocks(norms)))
    labels = join(labels)
    counted = jnp.concatenate([points, jnp.ones((n, 1), points.dtype)], axis=1)
    sums = lax.platform_dependent(
        labels,
        counted,
        cpu=functools.partial(_sums_by_row, k=k),
        default=functools.partial(_sums_by_product, k=k),
    )
    return labels, join(nearest), sums[..., :-1], sums[..., -1]


def _sums_by_row(labels, points, *, k: int):
    """Sums of the points of every cluster, one addition of a row after the other."""
    return lax.map(lambda run: jax.ops.segment_sum(points, run, num_segments=k), labels)


def _sums_by_product(labels, points, *, k: int):
    """The same as a product: accelerators add rows in no fixed order, so results would vary."""
    r, (n, d) = labels.shape[0], points.shape
    block = min(n, max(_ENTRIES // (r * k), 1))
    count = -(-n // block)
    # A label no cluster has leaves padding out.
    labels = jnp.pad(labels, ((0, 0), (0, count * block - n)), constant_values=-1)
    points = jnp.pad(points, ((0, count * block - n), (0, 0))).reshape(count, block, d)

    def body(sums, inputs):
        labels, points = inputs
        member = (labels[:, None, :] == jnp.arange(k)[:, None]).astype(points.dtype)
        return sums + dot(member.reshape(r * k, -1), points), None

    labels = jnp.moveaxis(labels.reshape(r, count, block), 1, 0)
    sums, _ = lax.scan(body, jnp.zeros((r * k, d), points.dtype), (labels, points))
    return sums.reshape(r, k, d)


def _refill(moved, counts, nearest, points):
    k = counts.shape[1]
    _, farthest = lax.top_k(nearest, k)
    empty = counts == 0
    rank = jnp.maximum(jnp.cumsum(empty, axis=1) - 1, 0)
    refill = points[jnp.take_along_axis(farthest, rank, axis=1)]
    return jnp.where(empty[..., None], refill, moved)
