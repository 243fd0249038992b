"""End-of-sequence tokens: samples they finish early, and reveals that wait for the rest."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .ranking import take_top
from .types import Obs


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


def deferring(
    wanted: Bool[Array, "b l"],
    candidates: Bool[Array, "b l"],
    obs: Obs,
    score: Float[Array, "b l"],
    count: Int[Array, "b"],
    eos_id: int | None,
) -> Bool[Array, "b l"]:
    """The reveals if end-of-sequence tokens wait until nothing else is undecided.

    Where the order wants such tokens alone, the most confident of the others takes their place,
    so that the step is not lost.
    """
    ends = candidates & (obs.drawn == eos_id)
    others = candidates & ~ends
    first = take_top(jnp.where(others, score, -jnp.inf), count)
    stuck = jnp.any(wanted, axis=-1) & ~jnp.any(first, axis=-1)
    push = jnp.where(others, obs.confidence, -jnp.inf)
    first |= take_top(push, stuck.astype(jnp.int32))
    nothing_else = ~jnp.any(others & ~first, axis=-1, keepdims=True)
    left = jnp.maximum(count - jnp.sum(first, axis=-1), 0)
    return first | take_top(jnp.where(ends & nothing_else, score, -jnp.inf), left)


def _first(canvas: Int[Array, "b l"], eos_id: int) -> Int[Array, "b 1"]:
    """Position of the first end-of-sequence token, l where there is none."""
    length = canvas.shape[1]
    places = jnp.where(canvas == eos_id, jnp.arange(length), length)
    return jnp.min(places, axis=-1, keepdims=True)
