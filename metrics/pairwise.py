"""Sums of a kernel of squared distances over all pairs of two banks, block by block.

Energy distance and MMD are both a contrast `2 E k(X,Y) - E k(X,X') - E k(Y,Y')` (MMD with the
opposite sign). Everything here serves that contrast in float32: distances come from one matrix
product of centred rows, pairs too close for that formula are recomputed from differences, and
the kernel is summed around an offset that cancels in the contrast. Memory is O(block + n d):
a few copies of the banks and blocks of at most 2^22 entries, never a matrix of n m entries.
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
# Passes over one pair of every row that cost about as much as one matrix product of a block.
_PASSES = 16

Kernel = Callable[[Float[Array, "..."]], Float[Array, "..."]]


class PairSums(NamedTuple):
    """Kernel sums of every row, the pair of a row with itself included.

    Attributes:
      reference: sum over j of k(x_i, x_j).
      generated: sum over j of k(y_i, y_j).
      across_reference: sum over j of k(x_i, y_j).
      across_generated: sum over i of k(x_i, y_j).
      reference_diagonal: k(x_i, x_i), one number if it is the same for all rows.
      generated_diagonal: k(y_j, y_j), likewise.
    """

    reference: Float[Array, " n"]
    generated: Float[Array, " m"]
    across_reference: Float[Array, " n"]
    across_generated: Float[Array, " m"]
    reference_diagonal: Float[Array, "*n"]
    generated_diagonal: Float[Array, "*m"]


def dot(a: Float[Array, "n d"], b: Float[Array, "d m"]) -> Float[Array, "n m"]:
    """Matrix product in full precision: accelerators otherwise round float32 factors."""
    return jnp.dot(a, b, precision=lax.Precision.HIGHEST)


def center(x: Float[Array, "n d"]) -> tuple[Float[Array, "n d"], Float[Array, " d"]]:
    """Rows minus their mean, and the mean, accurate also for a large common offset.

    >>> rows, mean = center(jnp.asarray([[1.0, 5.0], [3.0, 5.0]]))
    >>> rows.tolist(), mean.tolist()
    ([[-1.0, 0.0], [1.0, 0.0]], [2.0, 5.0])
    """
    shift = lax.stop_gradient(x[0])
    mean = shift + jnp.mean(x - shift, axis=0)
    return x - mean, mean


@jax.custom_jvp
def squared_distances(
    x: Float[Array, "n d"], y: Float[Array, "m d"], scale: Float[Array, ""]
) -> Float[Array, "n m"]:
    """|x_i - y_j|^2 for all pairs; exactly 0 for equal rows.

    |x|^2 + |y|^2 - 2 <x, y> loses its digits where a pair is close against the norms; such
    pairs are recomputed: from the difference, one pair of every row at a time, or by the formula
    around a row of the mode that has most of them. The cost grows with the largest number of
    near-duplicates of a row or with the number of modes, whichever is cheaper. Pairs whose norms
    are negligible against `scale` (a typical squared distance of the problem) are left alone.

    The derivative is formed from products and not recomputed: a kernel whose slope grows without
    bound at distance 0 shows what digits that costs.

    >>> x = jnp.asarray([[0.0, 0.0], [3.0, 4.0]])
    >>> squared_distances(x, x, jnp.asarray(25.0)).tolist()
    [[0.0, 25.0], [25.0, 0.0]]
    """
    if x.shape[1] <= _NARROW:
        return jnp.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1)
    squared, norms, close = _by_products(x, y)
    close &= norms > jnp.finfo(x.dtype).eps * scale
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

    def one_a_row(state):
        step, squared, close = state
        column = jnp.argmax(close, axis=1)
        exact = jnp.sum((x - y[column]) ** 2, axis=1)
        value = jnp.where(close[rows, column], exact, squared[rows, column])
        squared = squared.at[rows, column].set(value)
        return step + 1, squared, close.at[rows, column].set(False)

    def one_mode(state):
        # Around the column with the most close pairs the formula has its digits for its mode.
        squared, close = state
        pivot = y[jnp.argmax(jnp.sum(close, axis=0))]
        local, _, still = _by_products(x - pivot, y - pivot)
        settled = close & ~still
        return jnp.where(settled, local, squared), close & ~settled

    def passes(state):
        def more(state):
            return (state[0] < _PASSES) & jnp.any(state[2])

        return lax.while_loop(more, one_a_row, (0, *state))[1:]

    def modes_are_few(state):
        counts = jnp.sum(state[1], axis=1)
        modes = jnp.sum(counts > 0) / jnp.maximum(jnp.max(jnp.sum(state[1], axis=0)), 1)
        return jnp.max(counts) > _PASSES * modes

    # No conditional: under `vmap` both its branches would run in every pass.
    return lax.while_loop(
        lambda state: jnp.any(state[1]),
        lambda state: passes(lax.while_loop(modes_are_few, one_mode, state)),
        (squared, close),
    )[0]


def _by_products(
    x: Float[Array, "n d"], y: Float[Array, "m d"]
) -> tuple[Float[Array, "n m"], Float[Array, "n m"], Bool[Array, "n m"]]:
    """Squared distances from one matrix product, |x|^2 + |y|^2, and which distances lack digits."""
    norms = jnp.sum(x * x, axis=1)[:, None] + jnp.sum(y * y, axis=1)[None, :]
    squared = jnp.maximum(norms - 2 * dot(x, y.T), 0)
    return squared, norms, squared < 3 * jnp.finfo(x.dtype).eps ** 0.5 * norms


def fold_rows(step: Callable, carry, x: Float[Array, "n d"], num_columns: int):
    """Folds `step` over blocks of rows of x, each of at most BLOCK_ENTRIES / num_columns rows.

    Args:
      step: (carry, block Float["b d"], rows Int["b"]) -> (carry, out); out is a pytree of arrays
        with one entry a row. Rows >= n are padding (the last row again): their out is dropped,
        but a carry must mask them.
      carry: initial carry.
      x: rows to fold over.
      num_columns: entries that `step` makes of every row.

    Returns:
      (carry, out with n entries in place of b).

    >>> x = jnp.asarray([[1.0], [2.0], [3.0]])
    >>> total, squares = fold_rows(lambda c, xs, rows: (c + xs.sum(), xs[:, 0] ** 2), 0.0, x, 4)
    >>> float(total), squares.tolist()
    (6.0, [1.0, 4.0, 9.0])
    """
    n = x.shape[0]
    block = min(n, max(1, BLOCK_ENTRIES // num_columns))
    count = -(-n // block)
    rows: Int[Array, "c b"] = jnp.arange(count * block).reshape(count, block)

    # Rematerialised: reverse mode then keeps no block of entries either.
    @jax.checkpoint
    def body(carry, index):
        # Taken from x itself, since a padded copy of a large bank would cost its memory again.
        return step(carry, x if count == 1 else x[jnp.minimum(index, n - 1)], index)

    carry, out = lax.scan(body, carry, rows)
    return carry, jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:n], out)


def fold_distances(
    step: Callable, carry, x: Float[Array, "n d"], y: Float[Array, "m d"], scale: Float[Array, ""]
):
    """Folds `step` over blocks of rows of the distance matrix, O(block) memory.

    Args:
      step: (carry, squared Float["b m"], rows Int["b"]) -> (carry, out), as in `fold_rows`;
        rows >= n are padding and must be masked.
      carry: initial carry.
      x, y, scale: as for `squared_distances`.

    Returns:
      (carry, out with n entries), for example the nearest neighbour of every row:

    >>> x, y = jnp.asarray([[0.0], [9.0]]), jnp.asarray([[1.0], [3.0], [7.0]])
    >>> nearest = lambda carry, squared, rows: (carry, jnp.argmin(squared, axis=1))
    >>> fold_distances(nearest, None, x, y, jnp.asarray(1.0))[1].tolist()
    [0, 2]
    """
    return fold_rows(
        lambda carry, block, rows: step(carry, squared_distances(block, y, scale), rows),
        carry,
        x,
        y.shape[0],
    )


def pair_sums(
    kernel: Kernel, reference: Float[Array, "n d"], generated: Float[Array, "m d"]
) -> PairSums:
    """`PairSums` of `kernel(squared distance) - offset`, O(n m d) time.

    The offset is the kernel at a typical distance. It cancels in every contrast and keeps the
    float32 sums small, which is what makes 1e-4 relative possible after the cancellation.

    >>> x, y = jnp.asarray([[0.0], [2.0]]), jnp.asarray([[1.0], [3.0]])
    >>> float(contrast(pair_sums(jnp.sqrt, x, y), unbiased=False))
    1.0
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
    diagonal = kernel(jnp.zeros((), x.dtype)) - offset
    return PairSums(
        reference=sums(x, x)[0],
        generated=sums(y, y)[0],
        across_reference=across_reference,
        across_generated=across_generated,
        reference_diagonal=diagonal,
        generated_diagonal=diagonal,
    )


def contrast(sums: PairSums, *, unbiased: bool) -> Float[Array, ""]:
    """2 E k(X,Y) - E k(X,X') - E k(Y,Y'): V-statistic, or U-statistic if `unbiased`."""

    def within(rows, diagonal):
        n = rows.shape[0]
        if unbiased:
            return jnp.sum(rows - diagonal) / n / (n - 1)
        return jnp.sum(rows) / n / n

    n, m = sums.reference.shape[0], sums.generated.shape[0]
    across = jnp.sum(sums.across_reference) / n / m
    return (
        2 * across
        - within(sums.reference, sums.reference_diagonal)
        - within(sums.generated, sums.generated_diagonal)
    )


def contrast_stderr(sums: PairSums, *, unbiased: bool) -> Float[Array, ""]:
    """Delete-one jackknife standard error of `contrast`, both banks varied; O(n + m).

    Dropping row i changes the contrast by an expression in its two row sums and k(x_i, x_i)
    alone, so no pair is computed again. The variances of the two independent banks add up.
    """

    def variance(within, diagonal, across, m):
        n = within.shape[0]
        if unbiased:
            own = 2 * (within - diagonal) / (n - 2)
        else:
            own = (2 * within - diagonal) / (n - 1)
        # Divisors one after the other: their products are beyond 32 bits for large banks.
        dropped = (own - 2 * across / m) / (n - 1)
        return (n - 1) / n * jnp.sum((dropped - jnp.mean(dropped)) ** 2)

    n, m = sums.reference.shape[0], sums.generated.shape[0]
    return jnp.sqrt(
        variance(sums.reference, sums.reference_diagonal, sums.across_reference, m)
        + variance(sums.generated, sums.generated_diagonal, sums.across_generated, n)
    )


def root(squared: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Square root, 0 below zero, with derivative 0 instead of infinity there; NaN stays NaN.

    >>> root(jnp.asarray([4.0, 0.0, -1.0])).tolist()
    [2.0, 0.0, 0.0]
    """
    # Two wheres: the square root has no finite derivative at zero. NaN is not zero and stays.
    zero = squared <= 0
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, squared)))


def root_stderr(squared: Float[Array, ""], stderr: Float[Array, ""]) -> Float[Array, ""]:
    """Delta-method standard error of `root(squared)`: stderr / (2 root).

    Where squared <= 0 the root has no derivative: infinity, or 0 if `stderr` is 0 itself.

    >>> float(root_stderr(jnp.asarray(4.0), jnp.asarray(1.0)))
    0.25
    """
    limit = jnp.where(stderr > 0, jnp.inf, stderr)
    return jnp.where(squared <= 0, limit, stderr / (2 * jnp.where(squared <= 0, 1, root(squared))))
