"""The pre-norm transformer behind LLaDA, Dream and Llama: RMSNorm, rotary attention, SwiGLU.

One module, causal or bidirectional. Layers are stacked and scanned, so that compile time does
not grow with depth. Beyond this file everything is a pure function of a plain dict of arrays.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from . import rotary

Params = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
    """Shape of a decoder; the names are those of Hugging Face's Llama.

    Attributes:
        causal: whether a position attends to earlier ones alone.
        qkv_bias: whether queries, keys and values have a bias.
        shift: whether the hidden state at i was trained to predict token i + 1 although the
            network is bidirectional; logits are then moved so that position i predicts token i.
    """

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    intermediate_size: int
    causal: bool
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5
    head_dim: int | None = None
    tie_embeddings: bool = False
    qkv_bias: bool = False
    shift: bool = False

    @property
    def width_per_head(self) -> int:
        return self.head_dim or self.hidden_size // self.num_heads


class Block(nnx.Module):
    """Attention and SwiGLU, each behind an RMSNorm and a residual connection."""

    def __init__(self, config: DecoderConfig, rngs: nnx.Rngs):
        d, f, w = config.hidden_size, config.intermediate_size, config.width_per_head
        q, kv = config.num_heads * w, config.num_kv_heads * w
        # Matrices that write into the residual stream start small, so depth does not inflate it.
        out_scale = (2 * config.num_layers) ** -0.5
        self.attn_norm = nnx.Param(jnp.ones(d))
        self.q_proj = nnx.Param(_normal(rngs, d, q))
        self.k_proj = nnx.Param(_normal(rngs, d, kv))
        self.v_proj = nnx.Param(_normal(rngs, d, kv))
        if config.qkv_bias:
            self.q_bias = nnx.Param(jnp.zeros(q))
            self.k_bias = nnx.Param(jnp.zeros(kv))
            self.v_bias = nnx.Param(jnp.zeros(kv))
        self.o_proj = nnx.Param(_normal(rngs, q, d) * out_scale)
        self.mlp_norm = nnx.Param(jnp.ones(d))
        self.gate_proj = nnx.Param(_normal(rngs, d, f))
        self.up_proj = nnx.Param(_normal(rngs, d, f))
        self.down_proj = nnx.Param(_normal(rngs, f, d) * out_scale)

    def __call__(
        self,
        config: DecoderConfig,
        hidden: Float[Array, "b t d"],
        token_mask: Bool[Array, "b t"],
        position: Int[Array, "b t"],
    ) -> Float[Array, "b t d"]:
        b, t, _ = hidden.shape
        x = rms_norm(hidden, self.attn_norm[...], config.rms_norm_eps)
        q, k, v = (dense(x, w[...]) for w in (self.q_proj, self.k_proj, self.v_proj))
        if config.qkv_bias:
            q, k, v = q + self.q_bias[...], k + self.k_bias[...], v + self.v_bias[...]
        q = rotary.rotate(q.reshape(b, t, config.num_heads, -1), position, config.rope_theta)
        k = rotary.rotate(k.reshape(b, t, config.num_kv_heads, -1), position, config.rope_theta)
        v = v.reshape(b, t, config.num_kv_heads, -1)
        mixed = jax.nn.dot_product_attention(
            q, k, v, mask=token_mask[:, None, None, :], is_causal=config.causal
        )
        hidden = hidden + dense(mixed.reshape(b, t, -1), self.o_proj[...])
        x = rms_norm(hidden, self.mlp_norm[...], config.rms_norm_eps)
        gated = jax.nn.silu(dense(x, self.gate_proj[...])) * dense(x, self.up_proj[...])
        return hidden + dense(gated, self.down_proj[...])


class Decoder(nnx.Module):
    """Embedding, scanned blocks, final norm and head."""

    def __init__(self, config: DecoderConfig, rngs: nnx.Rngs):
        self.config = config
        self.embed = nnx.Param(_normal(rngs, config.vocab_size, config.hidden_size, scale=0.02))

        @nnx.split_rngs(splits=config.num_layers)
        @nnx.vmap(in_axes=(None, 0), out_axes=0)
        def stack(config, rngs):
            return Block(config, rngs)

        self.blocks = stack(config, rngs)
        self.final_norm = nnx.Param(jnp.ones(config.hidden_size))
        if not config.tie_embeddings:
            self.head = nnx.Param(_normal(rngs, config.hidden_size, config.vocab_size))

    def hidden(
        self, tokens: Int[Array, "b t"], token_mask: Bool[Array, "b t"]
    ) -> Float[Array, "b t d"]:
        graph, layers = nnx.split(self.blocks)
        position = rotary.positions(token_mask)

        def layer(hidden, weights):
            return nnx.merge(graph, weights)(self.config, hidden, token_mask, position), None

        hidden, _ = jax.lax.scan(layer, self.embed[...][tokens], layers)
        return rms_norm(hidden, self.final_norm[...], self.config.rms_norm_eps)

    def logits(self, hidden: Float[Array, "b l d"]) -> Float[Array, "b l v"]:
        head = self.embed[...].T if self.config.tie_embeddings else self.head[...]
        return dense(hidden, head, preferred_element_type=jnp.float32)


def dense(x: Float[Array, "b t d"], weight: Float[Array, "d f"], **kwargs) -> Float[Array, "b t f"]:
    """x @ weight over flattened rows: the gradient is a plain matrix product, thrice as fast."""
    flat = jnp.matmul(x.reshape(-1, x.shape[-1]), weight, **kwargs)
    return flat.reshape(*x.shape[:-1], weight.shape[-1])


def rms_norm(
    x: Float[Array, "*s d"], weight: Float[Array, "d"], eps: float
) -> Float[Array, "*s d"]:
    """x / rms(x) in float32, cast back, then scaled: the order of LLaDA and Llama."""
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + eps)
    return (wide * scale).astype(x.dtype) * weight


def init_params(config: DecoderConfig, key: Array) -> Params:
    """Random float32 parameters: a plain nested dict, layers stacked on the first axis."""
    return nnx.to_pure_dict(nnx.state(Decoder(config, nnx.Rngs(key)), nnx.Param))


def abstract_params(config: DecoderConfig) -> Params:
    """Shapes and dtypes of `init_params` without computing anything."""
    return jax.eval_shape(functools.partial(init_params, config), jax.random.key(0))


def hidden_states(
    config: DecoderConfig,
    params: Params,
    tokens: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
) -> Float[Array, "b t d"]:
    """Hidden states after the final norm; rows of `token_mask` False are pads (keys masked)."""
    return nnx.merge(_graph(config), params).hidden(tokens, token_mask)


def region_logits(
    config: DecoderConfig,
    params: Params,
    tokens: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    region: slice,
) -> Float[Array, "b l v"]:
    """float32 logits of a contiguous region; the head is applied to that region alone."""
    hidden = hidden_states(config, params, tokens, token_mask)
    if config.shift:
        hidden = shift_right(hidden, token_mask)
    return project(config, params, hidden[:, region])


def shift_right(
    hidden: Float[Array, "b t d"], token_mask: Bool[Array, "b t"]
) -> Float[Array, "b t d"]:
    """The hidden state that predicts each token: its left neighbour's, or a row's first its own.

    A row's first token is its first valid one, not index 0, so left padding changes nothing; the
    public Dream code hands it the state of a pad there, which differs from row to row.
    """
    left = jnp.pad(hidden, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    has_left = jnp.pad(token_mask, ((0, 0), (1, 0)))[:, :-1]
    return jnp.where(has_left[..., None], left, hidden)


def project(
    config: DecoderConfig, params: Params, hidden: Float[Array, "b l d"]
) -> Float[Array, "b l v"]:
    """float32 logits of final hidden states."""
    return nnx.merge(_graph(config), params).logits(hidden)


@functools.cache
def _graph(config: DecoderConfig):
    return nnx.graphdef(nnx.eval_shape(lambda: Decoder(config, nnx.Rngs(0))))


def _normal(rngs: nnx.Rngs, rows: int, columns: int, scale: float | None = None):
    deviation = rows**-0.5 if scale is None else scale
    return jax.random.normal(rngs.params(), (rows, columns)) * deviation
