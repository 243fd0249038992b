"""Energy distance between two banks of feature vectors."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .checks import check_banks
from .pairwise import contrast, contrast_stderr, pair_sums
from .token_rows import AnyArray


def energy_distance(
    reference: Float[AnyArray, "n d"], generated: Float[AnyArray, "m d"], *, unbiased: bool = False
) -> Float[Array, ""]:
    """2 E|X - Y| - E|X - X'| - E|Y - Y'| with Euclidean norms, not rooted; lower is better.

    The default is the V-statistic: within-bank means run over all n^2 pairs, the value is
    never negative and is 0 for equal banks, and it is biased up by about
    E|X - X'| / n + E|Y - Y'| / m, so compare banks of the same n and print the null band.
    `unbiased=True` divides by n (n - 1) instead (U-statistic; may be negative).

    Runs under `jax.jit`, `jax.vmap` and `jax.grad` (a pair at distance zero contributes no
    gradient). The absolute error in float32 is a few 1e-8 of a typical distance, also for large
    common offsets and duplicated rows. Cost: O((n + m)^2 d) time in matrix products, O(block)
    memory; many near-duplicates of one row cost more time.

    Args:
      reference: Float[Array, "n d"], n >= 2.
      generated: Float[Array, "m d"], m >= 2.
      unbiased: U-statistic instead of V-statistic.

    Returns:
      Float[Array, ""] in the unit of the features, float32 (float64 under x64).

    Raises:
      ValueError: wrong rank, unequal widths, fewer than two rows, NaN or infinity.

    Source: Szekely and Rizzo 2013; equals `dcor.energy_distance` (V), and the square of
    `scipy.stats.energy_distance` in one dimension.
    """
    return _energy_distance(*check_banks(reference, generated), unbiased=bool(unbiased))


def energy_distance_stderr(
    reference: Float[AnyArray, "n d"], generated: Float[AnyArray, "m d"], *, unbiased: bool = False
) -> Float[Array, ""]:
    """Standard error of `energy_distance` when both banks are drawn anew.

    Delete-one jackknife over the rows of either bank, in closed form from row sums: the cost
    is that of the distance itself. For banks of the same law the distance is degenerate and
    not normal, and the value is only of the right order. Arguments and errors as for
    `energy_distance`, with at least three rows a bank.
    """
    banks = check_banks(reference, generated, min_rows=3)
    return _energy_distance_stderr(*banks, unbiased=bool(unbiased))


@functools.partial(jax.jit, static_argnames="unbiased")
def _energy_distance(reference, generated, *, unbiased):
    value = contrast(pair_sums(_root, reference, generated), unbiased=unbiased)
    # Rounding alone can make a V-statistic negative.
    return value if unbiased else jnp.maximum(value, 0)


@functools.partial(jax.jit, static_argnames="unbiased")
def _energy_distance_stderr(reference, generated, *, unbiased):
    return contrast_stderr(pair_sums(_root, reference, generated), unbiased=unbiased)


def _root(squared):
    # Two wheres: the square root has no finite derivative at zero. NaN is not zero and stays.
    zero = squared <= 0
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, squared)))
