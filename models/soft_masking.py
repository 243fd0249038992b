"""Soft masking: a mask's input remembers what the network last thought should stand there.

From the second forward on, the input embedding of a masked position is

    (1 - λ) E[mask] + λ Σ w_j E[j]      j: the k most probable ids, w: softmax of their logits
    λ = scale · sigmoid(steepness · (-H - centre))     H: entropy in nats of the whole distribution

of the last forward's logits at that position (Hersche et al., Soft-Masked Diffusion Language
Models, arXiv 2510.17206). The network so becomes stateful, at the same number of forwards: see
`carry` of `samplers.sample`.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from . import architectures
from .denoiser import Denoiser
from .network import Params


class Feedback(NamedTuple):
    """What is carried from forward to forward: of the last logits, all that the mixture needs.

    Attributes:
        ids: the most probable ids of each position of the region.
        share: λ w, their parts of the input embedding; the mask's own part is 1 - their sum. 0
            where the position held a token: hard masks, should it be masked now.
    """

    ids: Int[Array, "b l k"]
    share: Float[Array, "b l k"]


@dataclasses.dataclass(frozen=True)
class SoftMasking:
    """How much a mask remembers; the defaults are those of the training-free example.

    Attributes:
        scale: largest λ, from 0 to 1.
        centre: the negative entropy, in nats, at which λ is half of that.
        steepness: of λ in the negative entropy, per nat; at least 0.
        top_k: ids in the mixture.

    Raises:
        ValueError: a value is out of range.
    """

    scale: float = 0.25
    centre: float = -1.0
    steepness: float = 5.0
    top_k: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.scale <= 1:
            raise ValueError(f"scale={self.scale!r} must lie between 0 and 1")
        if not math.isfinite(self.centre):
            raise ValueError(f"centre={self.centre!r} must be finite")
        if not 0 <= self.steepness < math.inf:
            raise ValueError(f"steepness={self.steepness!r} must be finite and at least 0")
        if not isinstance(self.top_k, int) or isinstance(self.top_k, bool) or self.top_k < 1:
            raise ValueError(f"top_k={self.top_k!r} must be a whole number of at least 1")

    @classmethod
    def from_raw(
        cls, scale: float, centre: float, steepness: float, *, top_k: int = 3
    ) -> "SoftMasking":
        """From the unconstrained numbers that are trained: sigmoid, -softplus and softplus."""
        softplus = [max(x, 0.0) + math.log1p(math.exp(-abs(x))) for x in (centre, steepness)]
        return cls(0.5 + 0.5 * math.tanh(0.5 * scale), -softplus[0], softplus[1], top_k)

    def initial_carry(self, batch: int, length: int) -> Feedback:
        """The carry of a first forward, in which all masks are hard. `length`: of the region."""
        shape = (batch, length, self.top_k)
        return Feedback(jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.float32))


def soft_masked(denoiser: Denoiser, settings: SoftMasking | None = None) -> Denoiser:
    """The same denoiser with soft masks: a stateful `logits_fn`, everything else as it was.

    `logits_fn(params, tokens, token_mask, region, *, carry)` returns (logits, carry); the first
    carry is `settings.initial_carry(batch, length)`. Settings None are `SoftMasking()`. The card's
    config holds them beside the checkpoint's own fields, as "soft_masking".

    Raises:
        ValueError: the network, as any but decoders, takes no embeddings as input.
    """
    network = architectures.ARCHITECTURES[denoiser.card.architecture].network
    if "embeddings" not in network.inputs:
        raise ValueError(
            f"model {denoiser.card.source!r} is a {denoiser.card.architecture} model; soft masking "
            "needs a decoder, such as llada or dream, whose input may be embeddings"
        )
    chosen = SoftMasking() if settings is None else settings
    logits_fn = soft_masked_logits(denoiser.logits_fn, denoiser.mask_id, chosen)
    config = denoiser.card.config | {"soft_masking": dataclasses.asdict(chosen)}
    return denoiser._replace(logits_fn=logits_fn, card=denoiser.card._replace(config=config))


@functools.cache
def soft_masked_logits(
    logits_fn: Callable[..., Float[Array, "b l v"]], mask_id: int, settings: SoftMasking
) -> Callable[..., tuple[Float[Array, "b l v"], Feedback]]:
    """The stateful logits function around one that takes the keyword `embeddings` Float["b t d"].

    `params["embed"]` must be the embeddings by id. One object for the same arguments, hence one
    trace per sampler; other settings are another program. Embeddings are mixed in float32 and
    rounded to the type of the parameters.

    Cost: one forward, and one pass over the logits for entropy and top k; b·l·k ids and numbers
    are carried, b·(t + l·k)·d embeddings are made.
    """

    def stateful(
        params: Params,
        tokens: Int[Array, "b t"],
        token_mask: Bool[Array, "b t"],
        region: slice,
        *,
        carry: Feedback | None = None,
        **inputs: Any,
    ) -> tuple[Float[Array, "b l v"], Feedback]:
        tokens = jnp.asarray(tokens)
        held = tokens[:, region]
        if carry is None or carry.ids.shape != (*held.shape, settings.top_k):
            got = None if carry is None else list(carry.ids.shape)
            raise ValueError(
                f"carry is {got}, the region {list(held.shape)} with top_k={settings.top_k}; a "
                "network with soft masks needs carry=settings.initial_carry(batch, gen_length) at "
                "its first forward and then the carry it returned"
            )
        masked = held == mask_id
        table = jnp.asarray(params["embed"])
        embeddings = table[tokens]
        soft = _mixture(table, embeddings[:, region], carry)
        embeddings = embeddings.at[:, region].set(
            jnp.where(masked[..., None], soft, embeddings[:, region])
        )
        logits = logits_fn(params, tokens, token_mask, region, embeddings=embeddings, **inputs)
        return logits, feedback(logits, masked, settings)

    return stateful


def feedback(
    logits: Float[Array, "b l v"], masked: Bool[Array, "b l"], settings: SoftMasking
) -> Feedback:
    """What the next forward is told of these logits, temperature-free, at masked positions.

    All columns compete, that of the mask too where its logit is not -inf. At a position that held
    a token the logits say what the network saw, not what it would put there: a token that is put
    back must not return through its own mask, which then starts hard.

    Raises ValueError if there are fewer than top_k columns.
    """
    if settings.top_k > logits.shape[-1]:
        raise ValueError(f"top_k={settings.top_k} exceeds the {logits.shape[-1]} logits")
    wide = logits.astype(jnp.float32)
    top, ids = jax.lax.top_k(wide, settings.top_k)
    log_probs = jax.nn.log_softmax(wide, axis=-1)
    terms = jnp.where(log_probs > -jnp.inf, jnp.exp(log_probs) * log_probs, 0.0)
    certainty = jnp.sum(terms, axis=-1)  # -H
    mixing = settings.scale * jax.nn.sigmoid(settings.steepness * (certainty - settings.centre))
    share = mixing[..., None] * jax.nn.softmax(top, axis=-1)
    return Feedback(ids, jnp.where(masked[..., None], share, 0.0))


def _mixture(
    table: Float[Array, "n d"], hard: Float[Array, "b l d"], carry: Feedback
) -> Float[Array, "b l d"]:
    """The input embeddings of masks; exactly `hard` where nothing is remembered."""
    remembered = jnp.sum(carry.share[..., None] * table[carry.ids].astype(jnp.float32), axis=2)
    rest = 1.0 - jnp.sum(carry.share, axis=-1, keepdims=True)
    return (rest * hard.astype(jnp.float32) + remembered).astype(hard.dtype)
