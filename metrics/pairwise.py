"""Sums of a kernel of squared distances over all pairs of two banks, block by block.

Energy distance and MMD are both a contrast `2 E k(X,Y) - E k(X,X') - E k(Y,Y')` (MMD with the
opposite sign). Everything here serves that contrast in float32: distances come from one matrix
product of centred rows, pairs too close for that formula are recomputed from differences, and
the kernel is summed around an offset that cancels in the contrast. Memory is O(block + n d).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

BLOCK_ENTRIES = 2**22
# Up to this width differences are as cheap as a matrix product, and close pairs are common.
_NARROW = 16

Kernel = Callable[[Float[Array, "..."]], Float[Array, "..."]]


class PairSums(NamedTuple):
    """Kernel sums of every row, the pair of a row with itself included.

    Attributes:
      reference: sum over j of k(x_i, x_j).
      generated: sum over j of k(y_i, y_j).
      across_reference: sum over j of k(x_i, y_j).
      across_generated: sum over i of k(x_i, y_j).
      diagonal: k of a pair at distance zero.
    """

    reference: Float[Array, " n"]
    generated: Float[Array, " m"]
    across_reference: Float[Array, " n"]
    across_generated: Float[Array, " m"]
    diagonal: Float[Array, ""]


def dot(a: Float[Array, "n d"], b: Float[Array, "d m"]) -> Float[Array, "n m"]:
    """Matrix product in full precision: accelerators otherwise round float32 factors."""
    return jnp.dot(a, b, precision=lax.Precision.HIGHEST)


def center(x: Float[Array, "n d"]) -> tuple[Float[Array, "n d"], Float[Array, " d"]]:
    """Rows minus their mean, and the mean, accurate also for a large common offset."""
    shift = lax.stop_gradient(x[0])
    mean = shift + jnp.mean(x - shift, axis=0)
    return x - mean, mean


@jax.custom_jvp
def squared_distances(
    x: Float[Array, "n d"], y: Float[Array, "m d"], scale: Float[Array, ""]
) -> Float[Array, "n m"]:
    """|x_i - y_j|^2 for all pairs; exactly 0 for equal rows.

    |x|^2 + |y|^2 - 2 <x, y> loses its digits where a pair is close against the norms; such
    pairs are recomputed from the difference, one pair of every row at a time, so the cost
    grows with the largest number of near-duplicates of a row. Pairs whose norms are negligible
    against `scale` (a typical squared distance of the problem) are left alone.
    """
    if x.shape[1] <= _NARROW:
        return jnp.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1)
    norms = jnp.sum(x * x, axis=1)[:, None] + jnp.sum(y * y, axis=1)[None, :]
    squared = jnp.maximum(norms - 2 * dot(x, y.T), 0)
    eps = jnp.finfo(x.dtype).eps
    close = (squared < 3 * eps**0.5 * norms) & (norms > eps * scale)
    return _recompute(squared, close, x, y)


@squared_distances.defjvp
def _squared_distances_jvp(primals, tangents):
    # A rule of its own, since while loops have no transpose: 2 <x_i - y_j, dx_i - dy_j>.
    (x, y, scale), (dx, dy, _) = primals, tangents
    diagonal = jnp.sum(x * dx, axis=1)[:, None] + jnp.sum(y * dy, axis=1)[None, :]
    return squared_distances(x, y, scale), 2 * (diagonal - dot(dx, y.T) - dot(x, dy.T))


def _recompute(
    squared: Float[Array, "n m"],
    close: Bool[Array, "n m"],
    x: Float[Array, "n d"],
    y: Float[Array, "m d"],
) -> Float[Array, "n m"]:
    rows = jnp.arange(x.shape[0])

    def body(state):
        squared, close = state
        column = jnp.argmax(close, axis=1)
        exact = jnp.sum((x - y[column]) ** 2, axis=1)
        value = jnp.where(close[rows, column], exact, squared[rows, column])
        return squared.at[rows, column].set(value), close.at[rows, column].set(False)

    return lax.while_loop(lambda state: jnp.any(state[1]), body, (squared, close))[0]


def fold_distances(
    step: Callable, carry, x: Float[Array, "n d"], y: Float[Array, "m d"], scale: Float[Array, ""]
):
    """Folds `step` over blocks of rows of the distance matrix, O(block) memory.

    Args:
      step: (carry, squared Float["b m"], rows Int["b"]) -> (carry, out Float["b"]); rows >= n
        are padding and must be masked.
      carry: initial carry.
      x, y, scale: as for `squared_distances`.

    Returns:
      (carry, out Float["n"]).
    """
    n, d = x.shape
    block = min(n, max(1, BLOCK_ENTRIES // y.shape[0]))
    count = -(-n // block)
    padded = jnp.pad(x, ((0, count * block - n), (0, 0))).reshape(count, block, d)
    rows: Int[Array, "c b"] = jnp.arange(count * block).reshape(count, block)

    # Rematerialised: reverse mode then keeps no distance matrix either.
    @jax.checkpoint
    def body(carry, inputs):
        xs, index = inputs
        return step(carry, squared_distances(xs, y, scale), index)

    carry, out = lax.scan(body, carry, (padded, rows))
    return carry, out.reshape(-1)[:n]


def pair_sums(kernel: Kernel, reference: Float[Array, "n d"], generated: Float[Array, "m d"]):
    """`PairSums` of `kernel(squared distance) - offset`, O(n m d) time.

    The offset is the kernel at a typical distance. It cancels in every contrast and keeps the
    float32 sums small, which is what makes 1e-4 relative possible after the cancellation.
    """
    x, x_mean = center(reference)
    y, y_mean = center(generated)
    # Halfway between the means: for equal banks all three blocks are then bitwise the same.
    middle = (x_mean + y_mean) / 2
    x_middle, y_middle = reference - middle, generated - middle
    spread = jnp.mean(jnp.sum(x_middle**2, axis=1)) + jnp.mean(jnp.sum(y_middle**2, axis=1))
    scale = lax.stop_gradient(spread)
    offset = lax.stop_gradient(kernel(scale))

    def sums(a, b):
        def step(columns, squared, rows):
            values = jnp.where(rows[:, None] < a.shape[0], kernel(squared) - offset, 0)
            return columns + jnp.sum(values, axis=0), jnp.sum(values, axis=1)

        columns, rows = fold_distances(step, jnp.zeros(b.shape[0], b.dtype), a, b, scale)
        return rows, columns

    across_reference, across_generated = sums(x_middle, y_middle)
    return PairSums(
        reference=sums(x, x)[0],
        generated=sums(y, y)[0],
        across_reference=across_reference,
        across_generated=across_generated,
        diagonal=kernel(jnp.zeros((), x.dtype)) - offset,
    )


def contrast(sums: PairSums, *, unbiased: bool) -> Float[Array, ""]:
    """2 E k(X,Y) - E k(X,X') - E k(Y,Y'): V-statistic, or U-statistic if `unbiased`."""

    def within(rows):
        n = rows.shape[0]
        if unbiased:
            return (jnp.sum(rows) - n * sums.diagonal) / n / (n - 1)
        return jnp.sum(rows) / n / n

    n, m = sums.reference.shape[0], sums.generated.shape[0]
    across = jnp.sum(sums.across_reference) / n / m
    return 2 * across - within(sums.reference) - within(sums.generated)


def contrast_stderr(sums: PairSums, *, unbiased: bool) -> Float[Array, ""]:
    """Delete-one jackknife standard error of `contrast`, both banks varied; O(n + m).

    Dropping row i changes the contrast by an expression in its two row sums alone, so no
    distance is computed again. The variances of the two independent banks add up.
    """

    def variance(within, across, m):
        n = within.shape[0]
        pairs = (n - 1) * (n - 2 if unbiased else n - 1)
        dropped = 2 * within / pairs - 2 * across / ((n - 1) * m)
        return (n - 1) / n * jnp.sum((dropped - jnp.mean(dropped)) ** 2)

    n, m = sums.reference.shape[0], sums.generated.shape[0]
    return jnp.sqrt(
        variance(sums.reference, sums.across_reference, m)
        + variance(sums.generated, sums.across_generated, n)
    )
