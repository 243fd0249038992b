"""Exact masked posteriors of a Markov chain: one pass of messages each way over the canvas.

For a chain of order k a state is the last k tokens. With e_t(x) = 1 where token x agrees with
position t (all tokens do where it is undecided),

    prior_t(s)  ~  sum over s' of (prior e)_{t-1}(s') p(s | s')          what is left of t says
    ahead_t(s)  ~  sum over s' of p(s' | s) (e ahead)_{t+1}(s')          what is right of t says

and p(x_t | the other decided tokens) is prior_t ahead_t, summed over the rest of the state.
Messages are rescaled to a maximum of 1 at every position, so that length never underflows; sums
run over positive terms, so that small probabilities keep their relative precision. A path whose
weight is under about 1e-38 of the best one to the same position counts as impossible.

Each run of True in the token mask is a string by itself: the chain begins at its first token.

**Contradictions.** Decided tokens that no string of the language has together leave nothing to
condition on (parallel unmasking gets there). The chain is then cut: the message that met the
contradiction starts again from the decided token, and where nothing agrees with both sides the
law given the left side is returned. Rows are distributions in every case.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int


class ChainParams(NamedTuple):
    """A chain as float32 probabilities.

    Attributes:
        first: law of the first token.
        second: order 2: law of the second token given the first; order 1: equal to `transition`.
        transition: law of the next token given the last k; its last axis sums to 1.
    """

    first: Float[Array, "v"]
    second: Float[Array, "v v"]
    transition: Float[Array, "*k v"]


class _Place(NamedTuple):
    """What the messages need to know of a position; stacked over positions for the scans.

    Rows are the last axis of everything here: vocabularies may be far smaller than a vector lane.
    """

    evidence: Float[Array, "v b"]
    is_token: Bool[Array, "b"]
    begins: Bool[Array, "b"]
    second: Bool[Array, "b"]


def log_posteriors(
    params: ChainParams,
    tokens: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    region: slice,
) -> Float[Array, "b l v"]:
    """log p(token | all decided tokens) of the region; decided positions are one-hot (0, -inf).

    A drop-in `Denoiser.logits_fn`. Ids from 0 to v - 1 under the mask are decided tokens, any
    other id is undecided.

    Returns:
        float32, normalised; impossible ids are -inf. Rows of padding have no meaning.

    Cost: v^(k+1) multiplications a position and row each way, v^k floats of memory.
    """
    return _posteriors(params, tokens, token_mask, region)[0]


def log_conditionals(
    params: ChainParams,
    tokens: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    region: slice,
) -> Float[Array, "b l v"]:
    """log p(token | the decided tokens elsewhere): as `log_posteriors`, without copying.

    A decided position shows what could stand in its place: what a network that judges the tokens
    it is given would say. At undecided positions the two agree.
    """
    return _posteriors(params, tokens, token_mask, region)[1]


def judged_posteriors(
    params: ChainParams,
    tokens: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    region: slice,
) -> tuple[Float[Array, "b l v"], dict[str, Float[Array, "b l"]]]:
    """`log_posteriors` beside the quality a perfect judge would give each token held.

    `quality` is p(token held | the decided tokens elsewhere), the target of PRISM's head (Kim et
    al., fine-tuning for provable self-correction); at undecided positions the probability of the
    most likely token.
    """
    posteriors, conditionals = _posteriors(params, tokens, token_mask, region)
    held = jnp.asarray(tokens)[:, region]
    inside = (held >= 0) & (held < conditionals.shape[-1])
    index = jnp.where(inside, held, jnp.argmax(conditionals, axis=-1))[..., None]
    quality = jnp.take_along_axis(jnp.exp(conditionals), index, axis=-1)[..., 0]
    return posteriors, {"quality": quality}


def _posteriors(params, tokens, token_mask, region):
    """Both laws of the region: given all decided tokens, and given those elsewhere."""
    params = ChainParams(*(jnp.asarray(leaf, jnp.float32) for leaf in params))
    tokens, is_token = jnp.asarray(tokens), jnp.asarray(token_mask, bool)
    vocab = params.first.shape[0]
    decided = is_token & (tokens >= 0) & (tokens < vocab)
    ids = jnp.arange(vocab)[:, None]
    columns, known = tokens.T[:, None, :], decided.T[:, None, :]
    evidence = jnp.where(known, columns == ids, True).astype(jnp.float32)  # [t, v, b]
    begins = is_token & ~_shifted(is_token)
    places = _Place(evidence, is_token.T, begins.T, (is_token & _shifted(begins)).T)

    prior = _from_left(params, places)[region]
    ahead = _from_right(params, places)[region]
    joint = jnp.log(prior) + jnp.log(ahead)
    if params.transition.ndim == 3:
        joint = jax.nn.logsumexp(joint, axis=1)
        prior = prior.sum(axis=1)
    explained = jnp.max(joint, axis=1, keepdims=True) > -jnp.inf
    joint = jnp.where(explained, joint, jnp.log(prior))
    conditionals = joint - jax.nn.logsumexp(joint, axis=1, keepdims=True)
    posteriors = jnp.where(known[region], jnp.log(evidence[region]), conditionals)
    return jnp.transpose(posteriors, (2, 0, 1)), jnp.transpose(conditionals, (2, 0, 1))


def _from_left(params: ChainParams, places: _Place) -> Float[Array, "t *k b"]:
    """prior_t: the law of the state at t given the decided tokens left of t."""
    pairs = params.transition.ndim == 3
    first = params.first[:, None]

    def step(carry, place):
        before, behind = carry  # filtered state at t - 1, evidence there
        if pairs:
            prior = _product("abn,abc->bcn", before, params.transition)
            opening = before.sum(axis=0)[:, None] * params.second[..., None]
            prior = jnp.where(place.second, opening, prior)
            seen = behind[:, None] * place.evidence
        else:
            prior = _product("an,ab->bn", before, params.transition)
            seen = place.evidence
        prior = jnp.where(place.begins, first, prior)
        prior = _rescaled(jnp.where(place.is_token, prior, 1.0), otherwise=seen)
        return (_rescaled(prior * place.evidence, otherwise=seen), place.evidence), prior

    ones = jnp.ones_like(places.evidence[0])
    start = ones[:, None] * ones if pairs else ones
    return lax.scan(step, (start, ones), places)[1]


def _from_right(params: ChainParams, places: _Place) -> Float[Array, "t *k b"]:
    """ahead_t: what the decided tokens right of t say about the state at t."""
    pairs = params.transition.ndim == 3

    def step(after, place):
        # `place` is position t + 1, `after` its own message; the result belongs to position t.
        seen = jnp.broadcast_to(place.evidence, after.shape)
        seen = _rescaled(seen * after, otherwise=seen)
        if pairs:
            ahead = _product("abc,bcn->abn", params.transition, seen)
            opening = (params.second[..., None] * seen).sum(axis=1)
            ahead = jnp.where(place.second, opening, ahead)
        else:
            ahead = _product("ab,bn->an", params.transition, seen)
        ahead = jnp.where(~place.is_token | place.begins, 1.0, ahead)
        ahead = _rescaled(ahead, otherwise=jnp.ones_like(ahead))
        return ahead, ahead

    ones = jnp.ones_like(places.evidence[0])
    end = ones[:, None] * ones if pairs else ones
    later = jax.tree.map(lambda x: x[1:], places)
    messages = lax.scan(step, end, later, reverse=True)[1]
    return jnp.concatenate([messages, end[None]])


def _product(equation: str, left: Array, right: Array) -> Array:
    # Accelerators would round the factors to bfloat16 by default.
    return jnp.einsum(equation, left, right, precision=lax.Precision.HIGHEST)


def _rescaled(message: Float[Array, "*k b"], otherwise: Float[Array, "*k b"]) -> Array:
    """Each row divided by its maximum; rows that are 0 throughout become `otherwise`."""
    peak = jnp.max(message, axis=range(message.ndim - 1))
    return jnp.where(peak > 0, message / jnp.where(peak > 0, peak, 1.0), otherwise)


def _shifted(mask: Bool[Array, "b t"]) -> Bool[Array, "b t"]:
    """The mask of the position before; False at the first."""
    return jnp.pad(mask, ((0, 0), (1, 0)))[:, : mask.shape[1]]
