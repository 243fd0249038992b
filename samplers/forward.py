"""The one place where the network runs, and where its evaluations are counted."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from .carry import check_same, moved
from .types import Carry, LogitsFn


class Tally(NamedTuple):
    """Running counts of a sampling run.

    Attributes:
      nfe: forwards charged to each sample.
      launches: forward calls of the batch.
      finite: False once a charged sample had a row without a finite largest logit, a NaN among
        its logits, or a quality that is not finite.
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
      forbidden_id: another id that is never emitted, or None.
      guidance: classifier-free guidance weight, or None for none.
    """

    logits_fn: LogitsFn
    params: Any
    prompt: Int[Array, "b p"]
    token_mask: Bool[Array, "b t"]
    mask_id: int
    num_ids: int | None
    suppress_mask_token: bool
    forbidden_id: int | None
    guidance: Float[Array, ""] | None


class Output(NamedTuple):
    """What a forward says of the canvas: float32 logits, -inf at ids that may not be emitted.

    quality is None for networks without a head that judges the tokens held.
    """

    logits: Float[Array, "b l v"]
    quality: Float[Array, "b l"] | None


def empty_tally(batch: int) -> Tally:
    return Tally(jnp.zeros(batch, jnp.int32), jnp.int32(0), jnp.bool_(True))


def counted_forward(
    network: Network,
    canvas: Int[Array, "b l"],
    charged: Bool[Array, "b"],
    tally: Tally,
    carry: Carry,
) -> tuple[Output, Tally, Carry]:
    """Runs the network on prompt and canvas and charges the samples it runs for.

    The carry of a stateful network moves for the samples charged; the forward of the others is
    none of theirs. None, for a stateless network, stays None.

    Guidance runs the prompt replaced by masks (padding too, as LLaDA's public code does) beside
    the conditional rows: one launch of twice the batch, 2 NFE a sample. Quality is that of the
    conditional rows.

    Raises ValueError while tracing if `logits_fn` returns another shape or dtype, or a carry unlike
    the one it was given.
    """
    batch, length = canvas.shape
    width = network.prompt.shape[1]
    region = slice(width, width + length)
    tokens = jnp.concatenate([network.prompt, canvas], axis=1)
    if network.guidance is None:
        (logits, quality), new = _call(network, tokens, network.token_mask, region, carry)
        carry = moved(charged, new, carry)
    else:
        blank = jnp.concatenate([jnp.full_like(network.prompt, network.mask_id), canvas], axis=1)
        rows = jnp.concatenate([tokens, blank])
        mask = jnp.concatenate([network.token_mask, network.token_mask])
        (both, quality), _ = _call(network, rows, mask, region, None)
        given, free = both[:batch], both[batch:]
        quality = None if quality is None else quality[:batch]
        # -inf - -inf is NaN: an id that the unconditional rows forbid is left to the others.
        guided = free + (network.guidance + 1.0) * (given - free)
        logits = jnp.where((given == free) | (free == -jnp.inf), given, guided)

    logits = _without_forbidden(network, logits)
    # The check reads the logits of every pass, so that XLA cannot drop a refresh pass, whose
    # logits nobody else need read, and the forwards counted are forwards run.
    # On CPU a compiled maximum may pass over NaN; a sum does not, and among -inf and finite logits
    # it is NaN for nothing else.
    sound = jnp.isfinite(jnp.max(logits, axis=-1)) & ~jnp.isnan(jnp.sum(logits, axis=-1))
    if quality is not None:
        sound &= jnp.isfinite(quality)
    sound = jnp.all(sound, axis=-1)
    cost = 1 if network.guidance is None else 2
    tally = Tally(
        nfe=tally.nfe + cost * charged.astype(jnp.int32),
        launches=tally.launches + 1,
        finite=tally.finite & jnp.all(sound | ~charged),
    )
    return Output(logits, quality), tally, carry


def _call(
    network: Network,
    tokens: Int[Array, "n t"],
    mask: Bool[Array, "n t"],
    region: slice,
    carry: Carry,
) -> tuple[Output, Carry]:
    if carry is None:
        returned = network.logits_fn(network.params, tokens, mask, region)
    else:
        returned = network.logits_fn(network.params, tokens, mask, region, carry=carry)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise ValueError(
                "logits_fn was given a carry and must return a pair (logits, carry), not "
                f"{type(returned).__name__}"
            )
        returned, new = returned
        check_same(carry, new)
        carry = new
    logits, quality = returned, None
    expected = (tokens.shape[0], region.stop - region.start)
    if isinstance(logits, tuple):
        if len(logits) != 2 or not hasattr(logits[1], "get"):
            raise ValueError(
                "logits_fn returned a tuple that is not (logits, {'quality': Float['b l']})"
            )
        logits, quality = logits[0], logits[1].get("quality")
    shape, dtype = jnp.shape(logits), jnp.result_type(logits)
    if len(shape) != 3 or shape[:2] != expected or not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(
            f"logits_fn returned {dtype}{list(shape)} for {region}; expected floating-point "
            f"[{expected[0]}, {expected[1]}, vocabulary]: the logits of that region only"
        )
    if quality is not None:
        if jnp.shape(quality) != expected:
            raise ValueError(
                f"logits_fn returned a quality of shape {list(jnp.shape(quality))} for {region}; "
                f"expected {list(expected)}: one number a position"
            )
        quality = quality.astype(jnp.float32)
    return Output(logits.astype(jnp.float32), quality), carry


def _without_forbidden(network: Network, logits: Float[Array, "b l v"]) -> Float[Array, "b l v"]:
    """-inf at the ids that may not be emitted, written in place: no pass over the others."""
    vocab, mask_id = logits.shape[-1], network.mask_id
    num_ids = vocab if network.num_ids is None else network.num_ids
    if num_ids > vocab:
        raise ValueError(f"num_ids={num_ids} exceeds the {vocab} columns of the logits")
    never_drawn = (network.forbidden_id, mask_id if network.suppress_mask_token else None)
    single = {number for number in never_drawn if number is not None and number < num_ids}
    spans = [(number, number + 1) for number in single]
    if num_ids == len(spans):
        raise ValueError(
            f"num_ids={num_ids}, mask_id={mask_id} and the ids that are suppressed leave no id "
            "that may be emitted"
        )
    if network.suppress_mask_token or not num_ids <= mask_id < vocab:
        spans.append((num_ids, vocab))
    else:  # the mask token may be emitted although it lies beyond
        spans += [(num_ids, mask_id), (mask_id + 1, vocab)]
    for start, stop in spans:
        if start < stop:
            never = jnp.full((*logits.shape[:2], stop - start), -jnp.inf, logits.dtype)
            logits = lax.dynamic_update_slice(logits, never, (0, 0, start))
    return logits
