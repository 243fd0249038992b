"""Rotary position embedding, half-split convention."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def positions(token_mask: Bool[Array, "b t"]) -> Int[Array, "b t"]:
    """Position of each valid token among the valid tokens of its row; pads share a neighbour's.

    Counting valid tokens makes the rotations of a row independent of its padding.
    """
    return jnp.maximum(jnp.cumsum(token_mask, axis=1) - 1, 0)


def rotate(
    x: Float[Array, "b t h d"], position: Int[Array, "b t"], theta: float
) -> Float[Array, "b t h d"]:
    """Rotates pairs (i, i + d/2) by position * theta^(-2i/d), in float32 whatever x is.

    Matches LLaDA with `rope_full_precision` and Hugging Face's Llama.
    """
    half = x.shape[-1] // 2
    frequency = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = position[:, :, None, None].astype(jnp.float32) * frequency
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    rotated = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    return jax.lax.convert_element_type(rotated, x.dtype)
