"""The one place where the network runs, and where its evaluations are counted."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .types import LogitsFn


class Tally(NamedTuple):
    """Running counts of a sampling run.

    Attributes:
      nfe: forwards charged to each sample.
      launches: forward calls of the batch.
      finite: False once a charged sample had a row without a finite largest logit.
    """

    nfe: Int[Array, "b"]
    launches: Int[Array, ""]
    finite: Bool[Array, ""]


class Network(NamedTuple):
    """A network bound to its prompts: everything a forward needs besides the canvas.

    Attributes:
      logits_fn, params: the denoiser, same-position convention.
      prompt: ids left of the generated region, possibly of width 0.
      token_mask: which positions of prompt and region are tokens, not padding.
      mask_id, num_ids: the absorbing id; ids from num_ids on are never emitted (None: no limit).
      suppress_mask_token: never emit the mask id either.
      guidance: classifier-free guidance weight, or None for none.
    """

    logits_fn: LogitsFn
    params: Any
    prompt: Int[Array, "b p"]
    token_mask: Bool[Array, "b t"]
    mask_id: int
    num_ids: int | None
    suppress_mask_token: bool
    guidance: Float[Array, ""] | None


def empty_tally(batch: int) -> Tally:
    return Tally(jnp.zeros(batch, jnp.int32), jnp.int32(0), jnp.bool_(True))


def counted_forward(
    network: Network, canvas: Int[Array, "b l"], charged: Bool[Array, "b"], tally: Tally
) -> tuple[Float[Array, "b l v"], Tally]:
    """Runs the network on prompt and canvas and charges the samples it runs for.

    Guidance runs the prompt replaced by masks (padding too, as LLaDA's public code does) beside
    the conditional rows: one launch of twice the batch, 2 NFE a sample.

    Returns float32 logits of the canvas, -inf at ids that may not be emitted, and the new tally.
    Raises ValueError while tracing if `logits_fn` returns another shape or dtype.
    """
    batch, length = canvas.shape
    width = network.prompt.shape[1]
    tokens = jnp.concatenate([network.prompt, canvas], axis=1)
    if network.guidance is None:
        logits = _call(network, tokens, network.token_mask, slice(width, width + length))
    else:
        blank = jnp.concatenate([jnp.full_like(network.prompt, network.mask_id), canvas], axis=1)
        rows = jnp.concatenate([tokens, blank])
        mask = jnp.concatenate([network.token_mask, network.token_mask])
        both = _call(network, rows, mask, slice(width, width + length))
        given, free = both[:batch], both[batch:]
        # Where both forbid an id (-inf), so does the guided distribution; -inf - -inf is NaN.
        guided = free + (network.guidance + 1.0) * (given - free)
        logits = jnp.where(given == free, given, guided)

    logits = jnp.where(_emittable(network, logits.shape[-1]), logits, -jnp.inf)
    # The check reads the logits of every pass, so that XLA cannot drop a refresh pass, whose
    # logits nobody else need read, and the forwards counted are forwards run.
    # NaN is looked for by itself: on CPU a compiled maximum may pass over it.
    finite_peak = jnp.isfinite(jnp.max(logits, axis=-1))
    sound = jnp.all(finite_peak & ~jnp.any(jnp.isnan(logits), axis=-1), axis=-1)
    cost = 1 if network.guidance is None else 2
    return logits, Tally(
        nfe=tally.nfe + cost * charged.astype(jnp.int32),
        launches=tally.launches + 1,
        finite=tally.finite & jnp.all(sound | ~charged),
    )


def _call(
    network: Network, tokens: Int[Array, "n t"], mask: Bool[Array, "n t"], region: slice
) -> Float[Array, "n l v"]:
    logits = network.logits_fn(network.params, tokens, mask, region)
    expected = (tokens.shape[0], region.stop - region.start)
    shape, dtype = jnp.shape(logits), jnp.result_type(logits)
    if len(shape) != 3 or shape[:2] != expected or not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(
            f"logits_fn returned {dtype}{list(shape)} for {region}; expected floating-point "
            f"[{expected[0]}, {expected[1]}, vocabulary]: the logits of that region only"
        )
    return logits.astype(jnp.float32)


def _emittable(network: Network, vocab: int) -> Bool[Array, "v"]:
    """Which columns may be emitted."""
    num_ids = vocab if network.num_ids is None else network.num_ids
    if num_ids > vocab:
        raise ValueError(f"num_ids={num_ids} exceeds the {vocab} columns of the logits")
    ids = jnp.arange(vocab)
    is_mask = ids == network.mask_id
    if network.suppress_mask_token:
        if num_ids == 1 and network.mask_id == 0:
            raise ValueError("num_ids=1 and mask_id=0 leave no id that may be emitted")
        return (ids < num_ids) & ~is_mask
    return (ids < num_ids) | is_mask
