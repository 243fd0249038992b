"""Rotary position embedding, half-split convention."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int


class RopeScaling(NamedTuple):
    """How frequencies are lowered for contexts longer than those of pre-training.

    Attributes:
        kind: "linear" divides all frequencies by `factor`; "llama3" divides those whose
            wavelength exceeds `original_length / low_freq_factor`, keeps those whose wavelength is
            below `original_length / high_freq_factor`, and blends both in between.
        factor: how much longer the contexts are.
        low_freq_factor, high_freq_factor, original_length: read by "llama3" alone;
            `original_length` is the pre-training context in tokens.
    """

    kind: str
    factor: float
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_length: float = 8192


class Rotation(NamedTuple):
    """Cosines and sines of every position's angles, float32, broadcast over heads."""

    cos: Float[Array, "b t 1 half"]
    sin: Float[Array, "b t 1 half"]


def frequencies(
    width: int, theta: float, scaling: RopeScaling | None = None
) -> Float[np.ndarray, "half"]:
    """Radians per token of each pair of channels, theta^(-2i/width), lowered by `scaling`.

    Computed on the host in float64, then rounded to float32; the public codes compute in float32
    and differ by a few units in the last place.
    """
    half = width // 2
    full = theta ** (-np.arange(half) / half)
    if scaling is None:
        return full.astype(np.float32)
    lowered = full / scaling.factor
    if scaling.kind == "linear":
        return lowered.astype(np.float32)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    turns = scaling.original_length * full / (2 * math.pi)  # within the pre-training context
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return (kept * full + (1 - kept) * lowered).astype(np.float32)


def positions(token_mask: Bool[Array, "b t"]) -> Int[Array, "b t"]:
    """Position of each valid token among the valid tokens of its row; pads share a neighbour's.

    Counting valid tokens makes the rotations of a row independent of its padding.
    """
    return jnp.maximum(jnp.cumsum(token_mask, axis=1) - 1, 0)


def rotation(
    position: Int[Array, "b t"],
    frequency: Float[np.ndarray, "half"],
    cache_dtype: str = "float32",
) -> Rotation:
    """The rotation of each position, once for all layers, queries and keys.

    Args:
        position: as `positions` gives them.
        frequency: as `frequencies` gives them.
        cache_dtype: the type to which cosines and sines are rounded before float32 use;
            "bfloat16" is what lit-gpt's cache holds.
    """
    angle = position[:, :, None, None].astype(jnp.float32) * frequency
    # Not a pair of casts, which XLA may drop as excess precision.
    kind = jnp.finfo(cache_dtype)
    cos, sin = (
        jax.lax.reduce_precision(x, kind.nexp, kind.nmant) for x in (jnp.cos(angle), jnp.sin(angle))
    )
    return Rotation(cos, sin)


def turn(x: Float[Array, "b t h d"], by: Rotation) -> Float[Array, "b t h d"]:
    """Rotates pairs (i, i + d/2) of channels, in float32 whatever x is.

    Matches LLaDA with `rope_full_precision` and Hugging Face's Llama.
    """
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = [first * by.cos - second * by.sin, second * by.cos + first * by.sin]
    return jax.lax.convert_element_type(jnp.concatenate(turned, axis=-1), x.dtype)


def rotate(
    x: Float[Array, "b t h d"], position: Int[Array, "b t"], theta: float
) -> Float[Array, "b t h d"]:
    """`turn` by the unscaled frequencies of `theta`."""
    return turn(x, rotation(position, frequencies(x.shape[-1], theta)))
