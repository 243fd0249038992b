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
from .token_rows import AnyArray

# Entries of the largest array (runs x clusters x points) held at once.
_ENTRIES = 2**24


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
    """Clusters points once for every key; keys and restarts share every matrix product.

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
      `KMeans`. Cost a Lloyd iteration: two matrix products of n x d x (s num_restarts k).

    Raises:
      ValueError: wrong rank, NaN or infinity, num_clusters not in 1..n, a count below 1.

    Source: Lloyd 1982; Arthur and Vassilvitskii 2007 (k-means++, without the greedy variant).
    """
    points = check_features("points", points, min_rows=1)
    if not 1 <= num_clusters <= points.shape[0]:
        raise ValueError(
            f"num_clusters must lie in 1..{points.shape[0]}, the number of points, "
            f"got {num_clusters}"
        )
    if num_restarts < 1 or max_iterations < 1:
        raise ValueError(
            f"num_restarts and max_iterations must be at least 1, "
            f"got {num_restarts} and {max_iterations}"
        )
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
    s, n = keys.shape[0], points.shape[0]
    points = points - jnp.mean(points, axis=0)
    norms = jnp.sum(points**2, axis=1)
    runs = jax.vmap(lambda key: jax.random.split(key, num_restarts))(keys).reshape(-1)
    centroids = _seed(runs, points, norms, num_clusters)

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

    r = runs.shape[0]
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
    best = jnp.argmin(state.inertia.reshape(s, num_restarts), axis=1)
    best = best + num_restarts * jnp.arange(s)
    return KMeans(
        state.labels[best], state.centroids[best], state.inertia[best], state.num_iterations[best]
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

    Walks over blocks of points, so that runs x clusters x points never exceeds a fixed size.
    """
    (r, k, d), n = centroids.shape, points.shape[0]
    flat = centroids.reshape(r * k, d)
    lengths = jnp.sum(centroids**2, axis=2)[..., None]
    block = min(n, max(1, _ENTRIES // (r * k)))
    count = -(-n // block)
    padding = count * block - n

    def body(carry, inputs):
        xs, norm, valid = inputs
        squared = lengths - 2 * dot(flat, xs.T).reshape(r, k, -1)
        labels = jnp.argmin(squared, axis=1).astype(jnp.int32)
        nearest = jnp.maximum(jnp.min(squared, axis=1) + norm, 0)
        member = (labels[:, None, :] == jnp.arange(k)[:, None]) & valid
        member = member.astype(xs.dtype).reshape(r * k, -1)
        sums, counts = carry
        carry = sums + dot(member, xs), counts + jnp.sum(member, axis=1)
        return carry, (labels, nearest)

    def blocks(array):
        padded = jnp.pad(array, ((0, padding),) + ((0, 0),) * (array.ndim - 1))
        return padded.reshape(count, block, *array.shape[1:])

    carry = jnp.zeros((r * k, d), points.dtype), jnp.zeros(r * k, points.dtype)
    inputs = blocks(points), blocks(norms), blocks(jnp.ones(n, bool))
    (sums, counts), (labels, nearest) = lax.scan(body, carry, inputs)

    def join(array):
        return jnp.moveaxis(array, 0, 1).reshape(r, -1)[:, :n]

    return join(labels), join(nearest), sums.reshape(r, k, d), counts.reshape(r, k)


def _refill(moved, counts, nearest, points):
    k = counts.shape[1]
    _, farthest = lax.top_k(nearest, k)
    empty = counts == 0
    rank = jnp.maximum(jnp.cumsum(empty, axis=1) - 1, 0)
    refill = points[jnp.take_along_axis(farthest, rank, axis=1)]
    return jnp.where(empty[..., None], refill, moved)
