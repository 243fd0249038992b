"""Training and evaluation objectives: causal likelihood and the masked-diffusion bound."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from .decoder import DecoderConfig, Params, hidden_states, project


class MaskedBatch(NamedTuple):
    """Rows with an exact number of positions masked.

    Attributes:
        canvas: tokens with `mask_id` at the masked positions.
        mask: True where masked.
        count: masked positions per row, 1..t, stratified over the batch.
    """

    canvas: Int[Array, "b t"]
    mask: Array
    count: Int[Array, "b"]


def mask_tokens(tokens: Int[Array, "b t"], key: Array, mask_id: int) -> MaskedBatch:
    """Masks k positions of each row, k uniform on 1..t and stratified over the rows.

    Given a uniform time and the log-linear schedule the masked fraction is uniform, and the
    1/t-weighted bound equals the mean over k of the mean loss of k masked tokens; drawing k
    itself, one stratum a row, estimates the same bound with less variance.
    """
    b, t = tokens.shape
    offset_key, order_key, position_key = jax.random.split(key, 3)
    strata = jax.random.permutation(order_key, b) + jax.random.uniform(offset_key)
    count = jnp.clip(jnp.ceil(strata * t / b).astype(jnp.int32), 1, t)
    rank = jnp.argsort(jnp.argsort(jax.random.uniform(position_key, (b, t)), axis=1), axis=1)
    mask = rank < count[:, None]
    return MaskedBatch(jnp.where(mask, mask_id, tokens), mask, count)


def masked_bound(
    config: DecoderConfig, params: Params, tokens: Int[Array, "b t"], key: Array, mask_id: int
) -> Float[Array, "b"]:
    """Upper bound on -log p(row) / t in nats a token, one mask pattern a row.

    Unbiased for the absorbing-state bound (MDLM, LLaDA eq. 14): E_k[mean loss over k masked].
    The head runs at masked positions alone, about half of them.
    """
    b, t = tokens.shape
    batch = mask_tokens(tokens, key, mask_id)
    hidden = hidden_states(config, params, batch.canvas, jnp.ones((b, t), bool))
    # Stratified counts sum to at most t(b+1)/2 plus one a row for rounding up.
    size = min(b * t, t * (b + 1) // 2 + b)
    (index,) = jnp.nonzero(batch.mask.reshape(-1), size=size, fill_value=b * t)
    valid = index < b * t
    index = jnp.where(valid, index, 0)
    logits = project(config, params, hidden.reshape(1, b * t, -1)[:, index])[0]
    logits = logits.at[:, mask_id].set(-jnp.inf)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, tokens.reshape(-1)[index])
    row = index // t
    total = jnp.zeros(b).at[row].add(jnp.where(valid, loss, 0.0))
    return total / batch.count


def causal_nll(
    config: DecoderConfig, params: Params, tokens: Int[Array, "b t"]
) -> Float[Array, "b u"]:
    """-log p(token | earlier tokens of the row) in nats for targets 1..t-1 (u = t - 1)."""
    hidden = hidden_states(config, params, tokens, jnp.ones(tokens.shape, bool))
    logits = project(config, params, hidden[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
