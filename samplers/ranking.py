"""Choosing positions by score, with counts that are known at run time only."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .packing import map_needed
from .runs import two_largest
from .types import Obs


def take_top(score: Float[Array, "b l"], count: Int[Array, "b"]) -> Bool[Array, "b l"]:
    """Marks the `count` highest scores of each row; ties go to the lowest index.

    Positions that score -inf or NaN are never marked, so a row may get fewer than its count.
    Cost: one sort of length l a row, small beside one pass over the vocabulary.
    """
    score = jnp.where(jnp.isnan(score), -jnp.inf, score)
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


def entropy(
    logits: Float[Array, "b l v"], needed: Bool[Array, "b l"] | None = None
) -> Float[Array, "b l"]:
    """Entropy of softmax(logits) in nats; entries of -inf contribute 0.

    Computed for the `needed` positions (None: all), a chunk of rows at a time: the probabilities
    of the whole region are never stored. Elsewhere the result has no meaning.
    """
    return map_needed(_row_entropy, logits, needed)


def _row_entropy(rows: Float[Array, "n v"]) -> Float[Array, "n"]:
    # Below, both terms are at least 0: no cancellation, however peaked the row. exp(-1e4) is 0,
    # and unlike exp(-inf) it stays 0 when multiplied by its exponent.
    drop = jnp.maximum(rows - jnp.max(rows, axis=-1, keepdims=True), -1e4)
    weights = jnp.exp(drop)
    total = jnp.sum(weights, axis=-1)
    return jnp.log(total) - jnp.sum(weights * drop, axis=-1) / total


def _row_margin(rows: Float[Array, "n v"]) -> Float[Array, "n"]:
    first, second = two_largest(rows)
    total = jnp.sum(jnp.exp(rows - first[:, None]), axis=-1)
    return -jnp.expm1(second - first) / total  # p1 - p2, exact where they are close


def probability(
    logits: Float[Array, "b l v"],
    tokens: Int[Array, "b l"],
    log_norm: Float[Array, "b l"] | None = None,
) -> Float[Array, "b l"]:
    """Softmax probability of the given tokens (0 for ids outside v).

    `log_norm` is logsumexp(logits) where it is known already, as in `noise.Draw`; it saves the
    passes over the vocabulary.
    """
    chosen = jnp.take_along_axis(
        logits, tokens[..., None], axis=-1, mode="fill", fill_value=-jnp.inf
    )[..., 0]
    if log_norm is None:
        log_norm = jax.nn.logsumexp(logits, axis=-1)
    return jnp.exp(chosen - log_norm)


def confidence(
    kind: str,
    logits: Float[Array, "b l v"],
    tokens: Int[Array, "b l"],
    *,
    log_norm: Float[Array, "b l"] | None = None,
    needed: Bool[Array, "b l"] | None = None,
) -> Float[Array, "b l"]:
    """Confidence in the given tokens; higher is surer (Dream's generation_utils names the kinds).

    Args:
      kind: "probability" of the token; "entropy": sum p log p of its position in nats, whatever
        token is held; "margin": difference of the two largest probabilities, 0 for ties.
      logits: float32, already divided by the temperature that the confidence is meant at.
      tokens: ids held or drawn.
      log_norm: logsumexp(logits) where known; read by "probability" alone.
      needed: positions whose result is used; None: all. Elsewhere the result has no meaning.

    Raises:
      ValueError: while tracing, for an unknown kind.
    """
    if kind == "probability":
        return probability(logits, tokens, log_norm)
    if kind == "entropy":
        return -entropy(logits, needed)
    if kind == "margin":
        return map_needed(_row_margin, logits, needed)
    raise ValueError(f"confidence={kind!r} is unknown; choose probability, entropy or margin")
