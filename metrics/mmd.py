"""Squared maximum mean discrepancy with a Gaussian kernel of one or several bandwidths."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .checks import check_banks, check_features
from .pairwise import (
    Kernel,
    center,
    contrast,
    contrast_stderr,
    fold_distances,
    pair_sums,
    root_stderr,
)
from .pairwise import root as rooted
from .token_rows import AnyArray, is_traced

_RADIX_BITS = 11

Bandwidth = float | Sequence[float] | Float[AnyArray, ""] | Float[AnyArray, " k"]


def mmd(
    reference: Float[AnyArray, "n d"],
    generated: Float[AnyArray, "m d"],
    *,
    bandwidth: Bandwidth | None = None,
    unbiased: bool = False,
    root: bool = False,
) -> Float[Array, ""]:
    """E k(X, X') + E k(Y, Y') - 2 E k(X, Y) with k = exp(-|u - v|^2 / (2 s^2)); lower is better.

    Squared, not rooted. The default is the V-statistic over all n^2 pairs: never negative, 0
    for equal banks, at most 2, biased up by about (1 - E k) (1/n + 1/m). `unbiased=True` is
    the U-statistic, which may be negative.

    A kernel of one bandwidth is blind to differences on scales far from it; several bandwidths
    (see `bandwidth_ladder`) take the mean of their kernels, and so of their values.

    Runs under `jax.jit`, `jax.vmap` and `jax.grad`; the default bandwidth counts as a constant
    in derivatives. Cost: O((n + m)^2 d) time in matrix products, one pass for all bandwidths,
    memory of a few copies of the banks and one block; the default bandwidth adds three passes
    over the reference pairs (six under x64).

    Args:
      reference: Float[Array, "n d"], n >= 2.
      generated: Float[Array, "m d"], m >= 2.
      bandwidth: s^2, the kernel's variance, in squared units of the features. None = half the
        median squared distance within the reference (pairs i < j), so that k = 1/e at the
        median and the kernel is the same for every generator. A sequence or 1-D array of
        several s^2 stands for the mean of their Gaussian kernels.
      unbiased: U-statistic instead of V-statistic.
      root: the square root of the value, 0 where the U-statistic is negative (its derivative
        there is given as 0).

    Returns:
      Float[Array, ""], dimensionless, float32 (float64 under x64).

    Raises:
      ValueError: wrong rank, unequal widths, fewer than two rows, NaN or infinity; a bandwidth
        that is not a positive number or a non-empty list of them; a median of zero. Under
        `jax.jit` values cannot be checked and a bandwidth of zero gives NaN.

    Source: Gretton et al. 2012, eqs. 3 and 5.

    >>> import numpy as np
    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [2.0], [6.0]])
    >>> round(float(mmd(x, y)), 4)
    0.2222
    >>> round(float(mmd(x, y, bandwidth=[0.5, 2.0])), 4)
    0.2222
    """
    reference, generated = check_banks(reference, generated)
    bandwidth = checked_bandwidth(reference, bandwidth)
    return _mmd(reference, generated, bandwidth, unbiased=bool(unbiased), root=bool(root))


def mmd_stderr(
    reference: Float[AnyArray, "n d"],
    generated: Float[AnyArray, "m d"],
    *,
    bandwidth: Bandwidth | None = None,
    unbiased: bool = False,
    root: bool = False,
) -> Float[Array, ""]:
    """Standard error of `mmd` when both banks are drawn anew, the bandwidth held fixed.

    Delete-one jackknife in closed form from row sums; only of the right order for banks of the
    same law, and with `root` infinite where the value is 0: see `energy_distance_stderr`.
    Arguments and errors as for `mmd`, with at least three rows a bank.

    >>> import numpy as np
    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [2.0], [6.0]])
    >>> round(float(mmd_stderr(x, y, bandwidth=0.5)), 4)
    0.3009
    """
    reference, generated = check_banks(reference, generated, min_rows=3)
    bandwidth = checked_bandwidth(reference, bandwidth)
    return _mmd_stderr(reference, generated, bandwidth, unbiased=bool(unbiased), root=bool(root))


def bandwidth_ladder(
    reference: Float[AnyArray, "n d"], factors: Sequence[float] = (0.25, 0.5, 1, 2, 4)
) -> Float[Array, " k"]:
    """Bandwidths for `mmd`: half the median squared distance within the reference, times factors.

    Compute it once and pass it for every generator, so that all share one frozen kernel. Cost:
    three passes over the reference pairs.

    Args:
      reference: Float[Array, "n d"], n >= 2.
      factors: positive numbers.

    Returns:
      Float[Array, "k"] kernel variances s^2, in squared units of the features.

    Raises:
      ValueError: as `mmd` for the reference; a factor that is not a positive number, or none.

    >>> import numpy as np
    >>> bandwidth_ladder(np.array([[0.0], [1.0], [3.0]]), factors=(0.5, 1, 2)).tolist()
    [1.0, 2.0, 4.0]
    """
    multiples = np.asarray(factors, np.float64)
    if multiples.ndim != 1 or not multiples.size or not _positive(multiples):
        raise ValueError(f"factors must be one or more positive numbers, got {factors}")
    reference = check_features("reference", reference)
    return checked_bandwidth(reference, None) * jnp.asarray(multiples, reference.dtype)


def median_squared_distance(features: Float[AnyArray, "n d"]) -> Float[Array, ""]:
    """Median of |x_i - x_j|^2 over pairs i < j, exact, in O(block) memory.

    Radix selection on the bits of the distances (bits of non-negative floats sort like their
    values): every pass computes the distances again and fixes 11 bits of both middle order
    statistics. For an even number of pairs the two are averaged, as NumPy does. Runs under
    `jax.jit` and `jax.vmap`; no derivative.

    Args:
      features: Float[Array, "n d"], 2 <= n <= 92,681 (pairs are counted in 32 bits).

    Returns:
      Float[Array, ""], squared units of the features.

    Raises:
      ValueError: wrong rank, too few or too many rows, NaN or infinity.

    >>> import numpy as np
    >>> float(median_squared_distance(np.array([[0.0], [1.0], [3.0]])))
    4.0
    """
    features = check_features("features", features)
    _check_pairs("features", features)
    return _median_squared_distance(features)


def _check_pairs(name, features):
    n = features.shape[0]
    if n * (n - 1) // 2 >= 2**32:
        raise ValueError(
            f"{name} has {n} rows, too many for the exact median of its pairs (at most 92,681); "
            "take the median of a subset of rows and pass it as bandwidth = median / 2"
        )


def _positive(values) -> bool:
    return bool(np.all(np.isfinite(values) & (values > 0)))


def checked_bandwidth(reference, bandwidth):
    """Kernel variances as Float["k"], k = 1 for one number or the default."""
    if bandwidth is None:
        _check_pairs("reference", reference)
        bandwidth = _median_squared_distance(reference)[None] / 2
        if not is_traced(bandwidth) and not bandwidth[0] > 0:
            raise ValueError(
                "bandwidth=None takes half the median squared distance within reference, which "
                "is 0 since most of its rows are equal; pass bandwidth yourself"
            )
        return bandwidth
    bandwidth = jnp.asarray(bandwidth, reference.dtype)
    if bandwidth.ndim > 1 or not bandwidth.size:
        raise ValueError(
            f"bandwidth must be one number (s^2) or a 1-D list of them, got shape {bandwidth.shape}"
        )
    if not is_traced(bandwidth) and not _positive(np.asarray(bandwidth)):
        raise ValueError(f"bandwidth must be a positive number (s^2), got {np.asarray(bandwidth)}")
    return jnp.atleast_1d(bandwidth)


def gaussian_kernel(bandwidths: Float[Array, " k"]) -> Kernel:
    """The mean of the Gaussian kernels, as a function of squared distances."""

    # One term after the other: a block of distances is held once, not once a bandwidth.
    def kernel(squared):
        total = jnp.zeros_like(squared)
        for bandwidth in bandwidths:
            total += jnp.exp(-squared / (2 * bandwidth))
        return total / len(bandwidths)

    return kernel


@functools.partial(jax.jit, static_argnames=("unbiased", "root"))
def _mmd(reference, generated, bandwidths, *, unbiased, root):
    sums = pair_sums(gaussian_kernel(bandwidths), reference, generated)
    value = -contrast(sums, unbiased=unbiased)
    if root:
        return rooted(value)
    return value if unbiased else jnp.maximum(value, 0)


@functools.partial(jax.jit, static_argnames=("unbiased", "root"))
def _mmd_stderr(reference, generated, bandwidths, *, unbiased, root):
    sums = pair_sums(gaussian_kernel(bandwidths), reference, generated)
    stderr = contrast_stderr(sums, unbiased=unbiased)
    return root_stderr(-contrast(sums, unbiased=unbiased), stderr) if root else stderr


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
