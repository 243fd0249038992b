"""Softmax attention over valid keys, causal or not: one meaning, two programs.

Accelerators run `jax.nn.dot_product_attention`. On CPU that writes all scores of all heads to
memory and reads them back several times; from some length on, two heads at a time, a block of
queries at a time, whose scores stay in the cache, take a third of its time, and a causal block
does not compute the keys it cannot see.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

# Queries whose scores are held at a time, and the length below which blocks gain nothing.
_BLOCK = 256
_SHORT = 192
# Finite, so that a query with no valid key (a pad) gives a mean rather than NaN.
_MASKED = -1e30


def attend(
    q: Float[Array, "b t h w"],
    k: Float[Array, "b t g w"],
    v: Float[Array, "b t g w"],
    token_mask: Bool[Array, "b t"],
    *,
    causal: bool,
    bias: Float[Array, "b h t t"] | None = None,
) -> Float[Array, "b t h w"]:
    """softmax(q kᵀ / √w + bias) v, scores and softmax in float32; g divides h (grouped queries).

    Args:
        q, k, v: of one dtype, which the result has too.
        token_mask: keys that may be seen; False at pads.
        causal: whether a query sees keys up to its own position alone.
        bias: added to the scores.
    """
    if jax.default_backend() == "cpu" and q.shape[1] >= _SHORT and bias is None:
        return _by_heads(q, k, v, token_mask, causal)
    return jax.nn.dot_product_attention(
        q, k, v, bias, token_mask[:, None, None, :], is_causal=causal
    )


def _by_heads(q, k, v, token_mask, causal):
    b, t, h, w = q.shape
    group = h // k.shape[2]
    # Two or three heads a turn keep two cores busy where a single one would leave gaps.
    turns = next(n for n in (2, 3, 1) if h % n == 0)
    q = (q * w**-0.5).transpose(0, 2, 1, 3).reshape(b * h // turns, turns, t, w)
    k, v = (x.transpose(0, 2, 1, 3).reshape(-1, t, w) for x in (k, v))
    head = jnp.arange(b * h).reshape(-1, turns)

    def turn(part):
        queries, index = part
        return jnp.stack(
            [
                _one_head(queries[i], k[n // group], v[n // group], token_mask[n // h], causal)
                for i, n in ((i, index[i]) for i in range(turns))
            ]
        )

    mixed = jax.lax.map(turn, (q, head))
    return mixed.reshape(b, h, t, w).transpose(0, 2, 1, 3)


def _one_head(q, k, v, key_mask, causal):
    t = len(q)
    blocks = []
    for start in range(0, t, _BLOCK):
        end = min(start + _BLOCK, t)
        seen = end if causal else t
        scores = jnp.matmul(q[start:end], k[:seen].T, preferred_element_type=jnp.float32)
        visible = key_mask[None, :seen]
        if causal:
            visible &= jnp.arange(start, end)[:, None] >= jnp.arange(seen)
        scores = jnp.where(visible, scores, _MASKED)
        weight = jnp.exp(scores - jax.lax.stop_gradient(scores.max(axis=1, keepdims=True)))
        mixed = jnp.matmul(weight.astype(v.dtype), v[:seen], preferred_element_type=jnp.float32)
        blocks.append(mixed / weight.sum(axis=1, keepdims=True))
    return jnp.concatenate(blocks).astype(q.dtype)
