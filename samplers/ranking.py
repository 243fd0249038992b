"""Choosing positions by score, with counts that are known at run time only."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .types import Obs


def take_top(score: Float[Array, "b l"], count: Int[Array, "b"]) -> Bool[Array, "b l"]:
    """Marks the `count` highest scores of each row; ties go to the lowest index.

    Positions that score -inf or NaN are never marked, so a row may get fewer than its count.
    Cost: one sort of length l a row, small beside one pass over the vocabulary.
    """
    falling = -jnp.sort(-score, axis=-1)
    last = jnp.clip(count[:, None] - 1, 0, score.shape[-1] - 1)
    threshold = jnp.take_along_axis(falling, last, axis=-1)
    above = score > threshold
    tied = score == threshold
    places = count[:, None] - jnp.sum(above, axis=-1, keepdims=True)
    return (above | (tied & (jnp.cumsum(tied, axis=-1) <= places))) & (score > -jnp.inf)


def remask_top(obs: Obs, score: Float[Array, "b l"]) -> Bool[Array, "b l"]:
    """Marks the `obs.num_remask` highest scores among the positions that compete."""
    count = jnp.full(score.shape[:1], obs.num_remask)
    return take_top(jnp.where(obs.pool, score, -jnp.inf), count)


def entropy(logits: Float[Array, "b l v"]) -> Float[Array, "b l"]:
    """Entropy of softmax(logits) in nats; entries of -inf contribute 0.

    Two fused passes over the logits; the probabilities are never stored.
    """
    log_norm = jax.nn.logsumexp(logits, axis=-1)
    log_p = logits - log_norm[..., None]
    return -jnp.sum(jnp.where(logits > -jnp.inf, jnp.exp(log_p) * log_p, 0.0), axis=-1)


def probability(logits: Float[Array, "b l v"], tokens: Int[Array, "b l"]) -> Float[Array, "b l"]:
    """Temperature-free softmax probability of the given tokens (0 for ids outside v)."""
    chosen = jnp.take_along_axis(
        logits, tokens[..., None], axis=-1, mode="fill", fill_value=-jnp.inf
    )[..., 0]
    return jnp.exp(chosen - jax.nn.logsumexp(logits, axis=-1))
