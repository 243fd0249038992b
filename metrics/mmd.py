"""Squared maximum mean discrepancy with a Gaussian kernel."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .checks import check_banks, check_features
from .pairwise import center, contrast, contrast_stderr, fold_distances, pair_sums
from .token_rows import AnyArray, is_traced

_RADIX_BITS = 11


def mmd(
    reference: Float[AnyArray, "n d"],
    generated: Float[AnyArray, "m d"],
    *,
    bandwidth: float | Float[Array, ""] | None = None,
    unbiased: bool = False,
) -> Float[Array, ""]:
    """E k(X, X') + E k(Y, Y') - 2 E k(X, Y) with k = exp(-|u - v|^2 / (2 s^2)); lower is better.

    Squared, not rooted. The default is the V-statistic over all n^2 pairs: never negative, 0
    for equal banks, at most 2, biased up by about (1 - E k) (1/n + 1/m). `unbiased=True` is
    the U-statistic, which may be negative.

    Runs under `jax.jit`, `jax.vmap` and `jax.grad`; the default bandwidth counts as a constant
    in derivatives. Cost: O((n + m)^2 d) time in matrix products, O(block) memory; the default
    bandwidth adds three passes over the reference pairs (six under x64).

    Args:
      reference: Float[Array, "n d"], n >= 2.
      generated: Float[Array, "m d"], m >= 2.
      bandwidth: s^2, the kernel's variance, in squared units of the features. None = half the
        median squared distance within the reference (pairs i < j), so that k = 1/e at the
        median and the kernel is the same for every generator.
      unbiased: U-statistic instead of V-statistic.

    Returns:
      Float[Array, ""], dimensionless, float32 (float64 under x64).

    Raises:
      ValueError: wrong rank, unequal widths, fewer than two rows, NaN or infinity; a bandwidth
        that is not a positive number; a median of zero. Under `jax.jit` values cannot be
        checked and a bandwidth of zero gives NaN.

    Source: Gretton et al. 2012, eqs. 3 and 5.
    """
    reference, generated = check_banks(reference, generated)
    bandwidth = _checked_bandwidth(reference, bandwidth)
    return _mmd(reference, generated, bandwidth, unbiased=bool(unbiased))


def mmd_stderr(
    reference: Float[AnyArray, "n d"],
    generated: Float[AnyArray, "m d"],
    *,
    bandwidth: float | Float[Array, ""] | None = None,
    unbiased: bool = False,
) -> Float[Array, ""]:
    """Standard error of `mmd` when both banks are drawn anew, the bandwidth held fixed.

    Delete-one jackknife in closed form from row sums, see `energy_distance_stderr`. Arguments
    and errors as for `mmd`, with at least three rows a bank.
    """
    reference, generated = check_banks(reference, generated, min_rows=3)
    bandwidth = _checked_bandwidth(reference, bandwidth)
    return _mmd_stderr(reference, generated, bandwidth, unbiased=bool(unbiased))


def median_squared_distance(features: Float[AnyArray, "n d"]) -> Float[Array, ""]:
    """Median of |x_i - x_j|^2 over pairs i < j, exact, in O(block) memory.

    Radix selection on the bits of the distances (bits of non-negative floats sort like their
    values): every pass computes the distances again and fixes 11 bits of both middle order
    statistics. For an even number of pairs the two are averaged, as NumPy does. n <= 92,000
    (counts are 32 bits wide). Runs under `jax.jit` and `jax.vmap`; no derivative.
    """
    return _median_squared_distance(check_features("features", features))


def _checked_bandwidth(reference, bandwidth):
    given = bandwidth is not None
    if not given:
        bandwidth = _median_squared_distance(reference) / 2
    bandwidth = jnp.asarray(bandwidth, reference.dtype)
    if bandwidth.ndim:
        raise ValueError(f"bandwidth must be one number (s^2), got shape {bandwidth.shape}")
    if is_traced(bandwidth):
        return bandwidth
    if given and not (np.isfinite(bandwidth) and bandwidth > 0):
        raise ValueError(f"bandwidth must be a positive number (s^2), got {float(bandwidth)}")
    if not given and not bandwidth > 0:
        raise ValueError(
            "bandwidth=None takes half the median squared distance within reference, which is 0 "
            "since most of its rows are equal; pass bandwidth yourself"
        )
    return bandwidth


def _gaussian(bandwidth):
    return lambda squared: jnp.exp(-squared / (2 * bandwidth))


@functools.partial(jax.jit, static_argnames="unbiased")
def _mmd(reference, generated, bandwidth, *, unbiased):
    value = -contrast(pair_sums(_gaussian(bandwidth), reference, generated), unbiased=unbiased)
    return value if unbiased else jnp.maximum(value, 0)


@functools.partial(jax.jit, static_argnames="unbiased")
def _mmd_stderr(reference, generated, bandwidth, *, unbiased):
    return contrast_stderr(pair_sums(_gaussian(bandwidth), reference, generated), unbiased=unbiased)


@jax.jit
def _median_squared_distance(features):
    x = lax.stop_gradient(center(features)[0])
    n = x.shape[0]
    pairs = n * (n - 1) // 2
    scale = 2 * jnp.mean(jnp.sum(x**2, axis=1))
    word = jnp.uint64 if x.dtype == jnp.float64 else jnp.uint32
    width = 8 * np.dtype(word).itemsize
    columns, bins = jnp.arange(n), 2**_RADIX_BITS

    def select(state, shift):
        prefix, rank, known = state

        def count(histograms, squared, rows):
            bits = lax.bitcast_convert_type(squared, word)
            # Rows of padding come after every column, so i < j leaves them out.
            upper = rows[:, None] < columns[None, :]
            digit = ((bits >> shift) & word(bins - 1)).astype(jnp.int32)

            def histogram(start):
                inside = upper & ((bits & known) == start)
                return (
                    jnp.zeros(bins, jnp.uint32)
                    .at[jnp.where(inside, digit, bins)]
                    .add(jnp.uint32(1), mode="drop")
                )

            return histograms + jax.vmap(histogram)(prefix), jnp.zeros(rows.shape, x.dtype)

        histograms, _ = fold_distances(count, jnp.zeros((2, bins), jnp.uint32), x, x, scale)
        below = jnp.cumsum(histograms, axis=1)
        digit = jnp.sum(below <= rank[:, None], axis=1)
        before = jnp.take_along_axis(below - histograms, digit[:, None], axis=1)[:, 0]
        prefix = prefix | (digit.astype(word) << shift)
        return (prefix, rank - before, known | (word(bins - 1) << shift)), None

    ranks = jnp.asarray([(pairs - 1) // 2, pairs // 2], jnp.uint32)
    shifts = jnp.asarray(range(width - width % _RADIX_BITS, -1, -_RADIX_BITS), word)
    start = (jnp.zeros(2, word), ranks, jnp.zeros((), word))
    (prefix, _, _), _ = lax.scan(select, start, shifts)
    return jnp.mean(lax.bitcast_convert_type(prefix, x.dtype))
