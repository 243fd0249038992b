"""End-of-sequence tokens that finish a sample before its canvas is full."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


def ended(canvas: Int[Array, "b l"], eos_id: int, mask_id: int) -> Bool[Array, "b"]:
    """Samples whose first end-of-sequence token has nothing undecided before it."""
    at = _first(canvas, eos_id)
    before = jnp.arange(canvas.shape[1]) < at
    return (at < canvas.shape[1])[:, 0] & ~jnp.any(before & (canvas == mask_id), axis=-1)


def fill_after_eos(canvas: Int[Array, "b l"], eos_id: int, mask_id: int) -> Int[Array, "b l"]:
    """The canvas with everything after the first end-of-sequence token of ended samples replaced.

    The token itself fills the rest, so such a sample has no masks left.
    """
    after = jnp.arange(canvas.shape[1]) > _first(canvas, eos_id)
    return jnp.where(after & ended(canvas, eos_id, mask_id)[:, None], eos_id, canvas)


def _first(canvas: Int[Array, "b l"], eos_id: int) -> Int[Array, "b 1"]:
    """Position of the first end-of-sequence token, l where there is none."""
    length = canvas.shape[1]
    places = jnp.where(canvas == eos_id, jnp.arange(length), length)
    return jnp.min(places, axis=-1, keepdims=True)
