"""Permutation tests of energy distance and MMD: one pass over the pairs for all permutations.

With the kernel matrix K of the pooled rows (zero on the diagonal) and labels s of +1 for the
reference and -1 for the generated bank, the sums within and across the banks follow from s K s,
s K 1 and 1 K 1. A block of rows of K times the matrix of all labels serves every permutation at
once, so p permutations cost (n + m)^2 p more multiplications and no further distance.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .checks import check_banks
from .kernel_distance import centred_kernel, check_finite, checked_options
from .mmd import checked_bandwidth, gaussian_kernel
from .pairwise import center, dot, fold_rows, root, squared_distances
from .permutation import PermutationTest, deal_rows, summarise
from .token_rows import AnyArray

# Rows whose kernel values stand for all in the choice of an offset.
_SAMPLE = 8


def energy_permutation_test(
    reference: Float[AnyArray, "n d"],
    generated: Float[AnyArray, "m d"],
    *,
    unbiased: bool = False,
    num_permutations: int = 999,
    seed: int = 0,
) -> PermutationTest:
    """`permutation_test` of `energy_distance` in one pass over the pairs of pooled rows.

    Same deals of the rows, same values up to rounding (about 1e-7 of a typical distance), same
    p-value (the V- and the U-statistic have the same one if n = m). Runs under `jax.jit` and
    `jax.vmap`. Cost: (n + m)^2 (d + p) multiplications; memory O(block + (n + m) p).

    Args:
      reference: Float[Array, "n d"], n >= 2.
      generated: Float[Array, "m d"], m >= 2.
      unbiased: test the U-statistic.
      num_permutations: p >= 2.
      seed: of the deals, as in `permutation_test`.

    Returns:
      `PermutationTest`, null values in the unit of the features.

    Raises:
      ValueError: as `energy_distance` and `permutation_test`.

    Source: Szekely and Rizzo 2004 (the test), here for all permutations at once.

    >>> import numpy as np
    >>> x, y = np.arange(8.0)[:, None], np.arange(8.0)[:, None] + 20
    >>> test = energy_permutation_test(x, y, num_permutations=199)
    >>> round(float(test.value), 4), round(float(test.p_value), 4)
    (34.75, 0.005)
    """
    reference, generated = check_banks(reference, generated)
    options = {"unbiased": unbiased, "num_permutations": num_permutations, "seed": seed}
    return _pair_test(_euclidean, (), reference, generated, sign=-1, **options)


def mmd_permutation_test(
    reference: Float[AnyArray, "n d"],
    generated: Float[AnyArray, "m d"],
    *,
    bandwidth: float | Float[AnyArray, ""] | Float[AnyArray, " k"] | None = None,
    unbiased: bool = False,
    num_permutations: int = 999,
    seed: int = 0,
) -> PermutationTest:
    """`permutation_test` of `mmd` with a frozen kernel, in one pass over the pairs.

    bandwidth=None is half the median squared distance of the reference as it is, and that one
    number holds for every permutation too: the value is that of `mmd`, and the null is that of
    the same kernel. (The bandwidth is not taken anew from the dealt references, as
    `permutation_test(mmd, ...)` would. A kernel that depends on which rows are the reference
    leaves the p-value exact only as far as the medians of both banks agree; with a bandwidth
    fixed beforehand it is exact.) Cost and invariances as `energy_permutation_test`.

    Args:
      reference: Float[Array, "n d"], n >= 2.
      generated: Float[Array, "m d"], m >= 2.
      bandwidth: s^2, or several of them for the mean of their kernels, as in `mmd`.
      unbiased: test the U-statistic.
      num_permutations: p >= 2.
      seed: of the deals, as in `permutation_test`.

    Returns:
      `PermutationTest`.

    Raises:
      ValueError: as `mmd` and `permutation_test`.

    >>> import numpy as np
    >>> x, y = np.arange(8.0)[:, None], np.arange(8.0)[:, None] + 20
    >>> test = mmd_permutation_test(x, y, bandwidth=4.0, num_permutations=199)
    >>> round(float(test.value), 4), round(float(test.p_value), 4)
    (1.0086, 0.005)
    """
    reference, generated = check_banks(reference, generated)
    bandwidths = checked_bandwidth(reference, bandwidth)
    options = {"unbiased": unbiased, "num_permutations": num_permutations, "seed": seed}
    return _pair_test(_gaussian, (bandwidths,), reference, generated, sign=1, **options)


def kernel_distance_permutation_test(
    reference: Float[AnyArray, "n d"],
    generated: Float[AnyArray, "m d"],
    *,
    degree: int = 3,
    scale: float | Float[Array, ""] | None = None,
    offset: float | Float[Array, ""] = 1.0,
    unbiased: bool = True,
    num_permutations: int = 999,
    seed: int = 0,
) -> PermutationTest:
    """`permutation_test` of `kernel_distance` in one pass over the pairs of pooled rows.

    Values equal those of `kernel_distance` up to rounding (about 1e-6 of the mean magnitude of
    the kernel centred at the pooled mean, divided by n). Cost and invariances as
    `energy_permutation_test`.

    Args:
      reference: Float[Array, "n d"], n >= 2.
      generated: Float[Array, "m d"], m >= 2.
      degree: power of the kernel (scale <u, v> + offset)^degree, >= 1.
      scale: factor of the inner product, > 0; None = 1 / d.
      offset: added to it, >= 0.
      unbiased: U-statistic (the default, as in KID) instead of V-statistic.
      num_permutations: p >= 2.
      seed: of the deals, as in `permutation_test`.

    Returns:
      `PermutationTest`.

    Raises:
      ValueError: as `kernel_distance` and `permutation_test`.

    >>> import numpy as np
    >>> x, y = np.arange(8.0)[:, None], np.arange(8.0)[:, None] + 20
    >>> test = kernel_distance_permutation_test(x, y, degree=1, num_permutations=199)
    >>> round(float(test.value), 4), round(float(test.p_value), 4)
    (398.5, 0.005)
    """
    reference, generated = check_banks(reference, generated)
    *parameters, power = checked_options(reference, degree, scale, offset)
    kernel = _polynomial(power)
    options = {"unbiased": unbiased, "num_permutations": num_permutations, "seed": seed}
    test = _pair_test(kernel, tuple(parameters), reference, generated, sign=1, **options)
    check_finite(test.null_sd)
    return test


def _euclidean(_, rows, others, scale, centre):
    return root(squared_distances(rows, others, scale))


def _gaussian(parameters, rows, others, scale, centre):
    return gaussian_kernel(parameters[0])(squared_distances(rows, others, scale))


@functools.cache  # One object a degree, for the sake of compilation caches.
def _polynomial(degree: int):
    """The kernel centred at the pooled mean, from rows less that mean: the same statistics."""

    def kernel(parameters, rows, others, scale, centre):
        factor, constant = parameters
        base = constant + factor * jnp.sum(centre**2)
        left, right = factor * dot(rows, centre)[:, None], factor * dot(others, centre)
        return centred_kernel(factor * dot(rows, others.T), left, right, base, degree)

    return kernel


def _pair_test(
    kernel, parameters, reference, generated, *, sign, unbiased, num_permutations, seed
) -> PermutationTest:
    n, m = reference.shape[0], generated.shape[0]
    deals = deal_rows(n + m, num_permutations, seed)
    labels = np.full((num_permutations + 1, n + m), -1, np.int8)
    for row, deal in zip(labels, deals):
        row[deal[:n]] = 1
    pooled = jnp.concatenate([reference, generated])
    values, resolution = _contrasts(
        parameters, pooled, labels, kernel=kernel, n=n, unbiased=bool(unbiased)
    )
    # Rounding alone can make a V-statistic negative.
    values = sign * values if unbiased else jnp.maximum(sign * values, 0)
    return summarise(values, resolution)


@functools.partial(jax.jit, static_argnames=("kernel", "n", "unbiased"))
def _contrasts(parameters, pooled, labels, *, kernel, n, unbiased):
    """E k(X, X') + E k(Y, Y') - 2 E k(X, Y) for every row of labels, and its rounding error."""
    rows, centre = center(pooled)
    signs = labels.T.astype(rows.dtype)
    total_rows, p = signs.shape
    m = total_rows - n
    scale = 2 * jnp.mean(jnp.sum(rows**2, axis=1))

    def values_of(block):
        return kernel(parameters, block, rows, scale, centre)

    sample = values_of(rows[:: -(-total_rows // _SAMPLE)])
    # The offset cancels in the contrast, as in `pair_sums`, and keeps the sums small.
    offset = jnp.mean(sample)

    def step(quadratic, block, index):
        values = values_of(block) - offset
        own = index[:, None] == jnp.arange(total_rows)
        diagonal = jnp.sum(jnp.where(own, values, 0), axis=1)
        values = jnp.where(own | (index[:, None] >= total_rows), 0, values)
        owners = signs[jnp.minimum(index, total_rows - 1)]
        quadratic += jnp.sum(owners * dot(values, signs), axis=0)
        return quadratic, (jnp.sum(values, axis=1), diagonal)

    quadratic, (sums, diagonal) = fold_rows(
        step, jnp.zeros(p, rows.dtype), rows, max(total_rows, p)
    )
    # Off the diagonal: XX + YY - 2 XY, XX - YY and XX + YY + 2 XY.
    difference, total = dot(signs.T, sums), jnp.sum(sums)
    both, across = (total + quadratic) / 2, (total - quadratic) / 4
    reference, generated = (both + difference) / 2, (both - difference) / 2
    if unbiased:
        within = reference / n / (n - 1) + generated / m / (m - 1)
    else:
        trace, lean = jnp.sum(diagonal), dot(signs.T, diagonal)
        within = (reference + (trace + lean) / 2) / n / n
        within += (generated + (trace - lean) / 2) / m / m
    resolution = 8 * jnp.finfo(rows.dtype).eps * jnp.mean(jnp.abs(sample))
    return within - 2 * across / n / m, resolution
