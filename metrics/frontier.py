"""The divergence frontier of two histograms: the area under it (MAUVE) and its integral."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .token_rows import AnyArray, as_array, check_integer, is_traced

NUM_POINTS = 25


def mauve_from_histograms(
    p: Float[AnyArray, " k"],
    q: Float[AnyArray, " k"],
    *,
    scale: float = 5.0,
    num_points: int = NUM_POINTS,
) -> Float[Array, ""]:
    """MAUVE of two histograms over the same clusters: the mean area under the frontier.

    The frontier has the points exp(-scale KL(q | r)), exp(-scale KL(p | r)), r = w p + (1 - w) q
    for `num_points` weights w evenly spaced in [1e-6, 1 - 1e-6], and the corners (1, 0) and
    (0, 1). The area is taken by trapezoids along either axis. Points of equal abscissa are
    visited from the top down, so equal histograms give exactly 1 (mauve-text may give 0.75).
    Disjoint histograms give 0.00407, not 0. Symmetric in p and q. Runs under `jax.jit`,
    `jax.vmap` and `jax.grad`.

    Add 0.5 to every count for MAUVE*, which an empty cluster does not drag down.

    Args:
      p: Float[Array, "k"] reference: non-negative counts or probabilities, at least one positive.
      q: Float[Array, "k"] generated, likewise.
      scale: c > 0.
      num_points: mixture weights, >= 1.

    Returns:
      Float[Array, ""] in [0, 1], float32 (float64 under x64, then as mauve-text to 1e-10).

    Raises:
      ValueError: not 1-D, unequal lengths, negative or not finite entries, an empty histogram,
        num_points < 1, scale <= 0. Under `jax.jit` only shapes are checked.

    Source: Pillutla et al. 2021, eq. 3.

    >>> import numpy as np
    >>> round(float(mauve_from_histograms(np.array([3, 1]), np.array([1, 3]))), 4)
    0.5596
    """
    p, q = _checked_histograms(p, q)
    check_integer("num_points", num_points, 1)
    if not is_traced(scale) and not scale > 0:
        raise ValueError(f"scale must be positive, got {scale}")
    return _area(p, q, jnp.asarray(scale, p.dtype), num_points)


def frontier_integral_from_histograms(
    p: Float[AnyArray, " k"], q: Float[AnyArray, " k"]
) -> Float[Array, ""]:
    """2 int_0^1 [w KL(p | r) + (1 - w) KL(q | r)] dw with r = w p + (1 - w) q, in closed form.

    Lower is better: 0 for equal histograms, 1 for disjoint ones. Unlike MAUVE it has no scale
    and is not squeezed towards 0. Symmetric. Runs under `jax.jit`, `jax.vmap` and `jax.grad`.

    Args:
      p: Float[Array, "k"] reference: non-negative counts or probabilities, at least one positive.
      q: Float[Array, "k"] generated, likewise.

    Returns:
      Float[Array, ""] in [0, 1], float32 (float64 under x64).

    Raises:
      ValueError: as `mauve_from_histograms`.

    Source: Liu et al. 2021.

    >>> import numpy as np
    >>> round(float(frontier_integral_from_histograms(np.array([3, 1]), np.array([1, 3]))), 4)
    0.176
    """
    p, q = _checked_histograms(p, q)
    return frontier_integral(p / jnp.sum(p), q / jnp.sum(q))


@jax.jit
def areas(
    p: Float[Array, "s k"], q: Float[Array, "s k"], scale: Float[Array, ""]
) -> Float[Array, " s"]:
    """`mauve_from_histograms` of every pair of rows, without checks."""
    return jax.vmap(lambda p, q: _area(p, q, scale, NUM_POINTS))(p, q)


@functools.partial(jax.jit, static_argnames="num_points")
def frontier(
    p: Float[Array, " k"], q: Float[Array, " k"], scale: Float[Array, ""], num_points: int
) -> Float[Array, "points 2"]:
    """Points of the frontier of two laws, from (1, 0) to (0, 1)."""
    weights = np.linspace(1e-6, 1 - 1e-6, num_points)
    # Both weights from float64: 1 - w has no digits left in float32.
    left, right = jnp.asarray(weights, p.dtype), jnp.asarray(1 - weights, p.dtype)
    mixtures = left[:, None] * p + right[:, None] * q
    # Exactly p where p = q, with the derivative of the mixture there too.
    mixtures += lax.stop_gradient(jnp.where(p == q, p - mixtures, 0))

    def closeness(h):
        ratio = jnp.where(h > 0, h, 1) / jnp.where(h > 0, mixtures, 1)
        return jnp.exp(-scale * jnp.maximum(jnp.sum(h * jnp.log(ratio), axis=1), 0))

    points = jnp.stack([closeness(q), closeness(p)], axis=1)
    corners = jnp.asarray([[1, 0], [0, 1]], p.dtype)
    return jnp.concatenate([corners[:1], points, corners[1:]])


@jax.jit
def frontier_integral(p: Float[Array, " k"], q: Float[Array, " k"]) -> Float[Array, ""]:
    """The frontier integral of two laws, without checks."""
    # With m = (p + q) / 2 and d = (p - q) / 2m every cluster adds m - p q log(p / q) / (p - q) =
    # m (1 - (1 - d^2) artanh(d) / d), whose series keeps its digits where p and q are close.
    middle = (p + q) / 2
    d = (p - q) / jnp.where(middle > 0, 2 * middle, 1)
    series = sum(2 / ((2 * k - 1) * (2 * k + 1)) * d ** (2 * k) for k in range(1, 6))
    both = (p > 0) & (q > 0)
    apart = both & (jnp.abs(d) > 0.1)
    logarithm = jnp.log(jnp.where(apart, p, 1)) - jnp.log(jnp.where(apart, q, 1))
    shared = p * q * logarithm / jnp.where(apart, p - q, 1)
    close = both & ~apart
    return jnp.sum(jnp.where(close, middle * series, middle - shared))


@functools.partial(jax.jit, static_argnames="num_points")
def _area(p, q, scale, num_points):
    x, y = frontier(p / jnp.sum(p), q / jnp.sum(q), scale, num_points).T

    def along(x, y):
        order = jnp.lexsort((-y, x))
        return jnp.trapezoid(y[order], x[order])

    return (along(x, y) + along(y, x)) / 2


def _checked_histograms(p, q):
    p, q = _check_histogram("p", p), _check_histogram("q", q)
    if p.shape != q.shape:
        raise ValueError(f"p and q must have equal lengths, got shapes {p.shape} and {q.shape}")
    dtype = jnp.promote_types(p.dtype, q.dtype)
    return p.astype(dtype), q.astype(dtype)


def _check_histogram(name, histogram):
    histogram = as_array(histogram, name)
    if not np.issubdtype(histogram.dtype, np.number) or np.iscomplexobj(histogram):
        raise ValueError(f"{name} must hold real numbers, got dtype {histogram.dtype}")
    histogram = jnp.asarray(histogram)
    if histogram.ndim != 1 or histogram.shape[0] == 0:
        raise ValueError(f"{name} must be a 1-D histogram, got shape {histogram.shape}")
    histogram = histogram.astype(jnp.promote_types(histogram.dtype, jnp.float32))
    if not is_traced(histogram):
        host = np.asarray(histogram)
        if not (np.isfinite(host).all() and (host >= 0).all() and host.sum() > 0):
            raise ValueError(
                f"{name} must hold finite, non-negative counts or probabilities with a positive "
                f"sum, got minimum {host.min()} and sum {host.sum()}"
            )
    return histogram
