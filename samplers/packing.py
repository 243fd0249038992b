"""Working only on the positions that matter, a chunk of rows at a time.

The needed positions of each sample are moved to the front and taken in chunks until no sample has
any left. Work is proportional to the sample with most needed positions, and temporaries are as
large as a chunk, not as the logits. No row meets another sample's, so an array that is sharded
over the batch stays where it is.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool

# Entries of logits in a chunk: 8 MiB of float32 stay in a CPU's cache; a GPU wants some hundred
# rows of a large vocabulary to be busy.
_ENTRIES = {"cpu": 2**21}
_ENTRIES_ELSEWHERE = 2**24


def map_needed(
    function: Callable[..., Any],
    arrays: Any,
    needed: Bool[Array, "b l"] | None,
    *,
    entries: int | None = None,
    weight: int = 1,
) -> Any:
    """`function` of rows of the arrays, at least for the needed positions.

    Args:
      function: maps the arrays with their first two axes flattened, [n, ...], row by row to
        arrays [n].
      arrays: a pytree of arrays [b, l, ...].
      needed: positions whose result is used; None: all. The results at the others are valid
        numbers without meaning.
      entries: how many numbers of the largest array a chunk may hold; None: what suits the
        backend. A chunk has at least one position of each sample.
      weight: bytes of temporaries that `function` makes, in units of its float32 input; larger
        ones get smaller chunks.

    Returns:
      The results [b, l].
    """
    leaves = jax.tree.leaves(arrays)
    batch, length = leaves[0].shape[:2]
    if entries is None:
        entries = _ENTRIES.get(jax.default_backend(), _ENTRIES_ELSEWHERE)
    row_size = max(leaf.size // (batch * length) for leaf in leaves)
    chunk = max(1, entries // (weight * batch * row_size))

    def call(part):
        rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), part)
        return jax.tree.map(lambda y: y.reshape(batch, -1), function(rows))

    if chunk >= length:
        return call(arrays)
    if needed is None:
        needed = jnp.ones((batch, length), bool)
    # Stable: the rest follows in order, so a last chunk that is not full still has valid rows.
    order = jnp.argsort(~needed, axis=-1, stable=True).astype(jnp.int32)
    take = jax.vmap(lambda x, index: x.at[index].get(mode="promise_in_bounds"))

    def one_chunk(i, packed):
        # Both slices clamp a start too close to the end in the same way.
        index = lax.dynamic_slice_in_dim(order, i * chunk, chunk, axis=1)
        part = call(jax.tree.map(lambda x: take(x, index), arrays))
        return jax.tree.map(
            lambda all, new: lax.dynamic_update_slice_in_dim(all, new, i * chunk, axis=1),
            packed,
            part,
        )

    shapes = jax.eval_shape(call, arrays)
    empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    count = jnp.max(jnp.sum(needed, axis=-1, dtype=jnp.int32))
    packed = lax.fori_loop(0, lax.div(count + (chunk - 1), jnp.int32(chunk)), one_chunk, empty)
    place = jnp.maximum(jnp.cumsum(needed, axis=-1, dtype=jnp.int32) - 1, 0)
    return jax.tree.map(lambda x: jnp.take_along_axis(x, place, axis=1), packed)
