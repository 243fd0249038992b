"""Reductions over a vocabulary in two levels: runs of 128 ids, then the ids of one run.

One pass over the logits gives a number per run; all that follows touches about the square root
of the vocabulary. On CPU, XLA's argmax is an order of magnitude slower than its max, so the
largest entry too is found by the largest run.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

RUN = 128  # ids per run: about the square root of usual vocabularies
_DIRECT = 1024  # up to here one pass by XLA's own argmax is as fast


def reduce_runs(reduce, rows: Float[Array, "n v"]) -> Float[Array, "n r"]:
    """`reduce` (jnp.max or jnp.sum) of each run of ids; the last run may be shorter."""
    count, vocab = rows.shape
    whole = vocab - vocab % RUN
    runs = reduce(rows[:, :whole].reshape(count, whole // RUN, RUN), axis=-1)
    if whole == vocab:
        return runs
    return jnp.concatenate([runs, reduce(rows[:, whole:], axis=-1, keepdims=True)], axis=-1)


def take_run(rows: Float[Array, "n v"], run: Int[Array, "n"], fill: float) -> Float[Array, "n 128"]:
    """The entries of one run of each row; `fill` beyond the end of the vocabulary."""
    ids = run[:, None] * RUN + jnp.arange(RUN, dtype=jnp.int32)
    return jnp.take_along_axis(rows, ids, axis=-1, mode="fill", fill_value=fill)


def largest(rows: Float[Array, "n v"]) -> tuple[Int[Array, "n"], Float[Array, "n"]]:
    """Index (int32) and value of each row's largest entry, ties to the lowest index."""
    if rows.shape[1] <= _DIRECT:
        best = lax.argmax(rows, 1, jnp.int32)
        return best, jnp.max(rows, axis=-1)
    run = lax.argmax(reduce_runs(jnp.max, rows), 1, jnp.int32)
    near = take_run(rows, run, -jnp.inf)
    return run * RUN + lax.argmax(near, 1, jnp.int32), jnp.max(near, axis=-1)


def two_largest(rows: Float[Array, "n v"]) -> tuple[Float[Array, "n"], Float[Array, "n"]]:
    """The two largest entries of each row, equal if they tie; -inf for a second of one entry."""
    tops = reduce_runs(jnp.max, rows)
    run = lax.argmax(tops, 1, jnp.int32)
    near = take_run(rows, run, -jnp.inf)
    first = lax.argmax(near, 1, jnp.int32)
    inside = jnp.where(jnp.arange(RUN) == first[:, None], -jnp.inf, near)
    outside = jnp.where(jnp.arange(tops.shape[1]) == run[:, None], -jnp.inf, tops)
    second = jnp.maximum(jnp.max(inside, axis=-1), jnp.max(outside, axis=-1))
    return jnp.max(near, axis=-1), second
