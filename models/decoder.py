"""The pre-norm transformer behind LLaDA, Dream, SMDM, Qwen2 and Llama.

RMSNorm, rotary attention with grouped queries, and SwiGLU, dense or as a mixture of experts.

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

from . import moe, rotary
from .attention import attend
from .network import Network, Params, head_logits, scan_layers


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
    """Shape of a decoder; the names are those of Hugging Face's Llama.

    Attributes:
        causal: whether a position attends to earlier ones alone.
        intermediate_size: width of the MLP, or of each expert.
        rope_scaling: how rotary frequencies are lowered for long contexts, or None.
        rope_cache_dtype: the type to which rotary cosines and sines are rounded.
        qkv_bias: whether queries, keys and values have a bias.
        qk_norm: whether each head's queries and keys are normed before rotation.
        num_experts: 0 for a dense MLP; else every layer is a mixture of that many.
        experts_per_token: how many of them a token goes to.
        expert_bias: whether the router's weights have a bias.
        shift: whether the hidden state at i was trained to predict token i + 1 although the
            network is bidirectional; logits are then moved so that position i predicts token i.
        max_length: most tokens a row may have, or None.
        num_outputs: columns of the logits where the embedding has more rows (an id that is only
            ever an input, as SMDM's mask); None where they agree.
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
    max_length: int | None = None
    rope_scaling: rotary.RopeScaling | None = None
    rope_cache_dtype: str = "float32"
    qk_norm: bool = False
    num_experts: int = 0
    experts_per_token: int = 0
    expert_bias: bool = False
    num_outputs: int | None = None

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
        if config.qk_norm:
            self.q_norm = nnx.Param(jnp.ones(w))
            self.k_norm = nnx.Param(jnp.ones(w))
        self.o_proj = nnx.Param(_normal(rngs, q, d) * out_scale)
        self.mlp_norm = nnx.Param(jnp.ones(d))
        if config.num_experts:
            e = config.num_experts
            self.router_proj = nnx.Param(_normal(rngs, d, e))
            if config.expert_bias:
                self.router_bias = nnx.Param(jnp.zeros(e))
            self.expert_gate_proj = nnx.Param(_normal(rngs, e, d, f))
            self.expert_up_proj = nnx.Param(_normal(rngs, e, d, f))
            self.expert_down_proj = nnx.Param(_normal(rngs, e, f, d) * out_scale)
            return
        self.gate_proj = nnx.Param(_normal(rngs, d, f))
        self.up_proj = nnx.Param(_normal(rngs, d, f))
        self.down_proj = nnx.Param(_normal(rngs, f, d) * out_scale)

    def __call__(
        self,
        config: DecoderConfig,
        hidden: Float[Array, "b t d"],
        token_mask: Bool[Array, "b t"],
        rotation: rotary.Rotation,
    ) -> Float[Array, "b t d"]:
        b, t, _ = hidden.shape
        x = rms_norm(hidden, self.attn_norm[...], config.rms_norm_eps)
        q, k, v = (dense(x, w[...]) for w in (self.q_proj, self.k_proj, self.v_proj))
        if config.qkv_bias:
            q, k, v = q + self.q_bias[...], k + self.k_bias[...], v + self.v_bias[...]
        q = q.reshape(b, t, config.num_heads, -1)
        k, v = (y.reshape(b, t, config.num_kv_heads, -1) for y in (k, v))
        if config.qk_norm:
            q = rms_norm(q, self.q_norm[...], config.rms_norm_eps)
            k = rms_norm(k, self.k_norm[...], config.rms_norm_eps)
        q, k = rotary.turn(q, rotation), rotary.turn(k, rotation)
        mixed = attend(q, k, v, token_mask, causal=config.causal)
        hidden = hidden + dense(mixed.reshape(b, t, -1), self.o_proj[...])
        x = rms_norm(hidden, self.mlp_norm[...], config.rms_norm_eps)
        return hidden + (self.mix(config, x) if config.num_experts else self.mlp(x))

    def mlp(self, x: Float[Array, "b t d"]) -> Float[Array, "b t d"]:
        gated = jax.nn.silu(dense(x, self.gate_proj[...])) * dense(x, self.up_proj[...])
        return dense(gated, self.down_proj[...])

    def mix(self, config: DecoderConfig, x: Float[Array, "b t d"]) -> Float[Array, "b t d"]:
        flat = x.reshape(-1, x.shape[-1])
        bias = self.router_bias[...] if config.expert_bias else None
        weights, chosen = moe.route(flat, self.router_proj[...], bias, config.experts_per_token)
        experts = (self.expert_gate_proj, self.expert_up_proj, self.expert_down_proj)
        mixed = moe.mix_experts(flat, weights, chosen, *(w[...] for w in experts))
        return mixed.reshape(x.shape)


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
            columns = config.num_outputs or config.vocab_size
            self.head = nnx.Param(_normal(rngs, config.hidden_size, columns))

    def hidden(
        self, embeddings: Float[Array, "b t d"], token_mask: Bool[Array, "b t"], remat: bool
    ) -> Float[Array, "b t d"]:
        config = self.config
        graph, layers = nnx.split(self.blocks)
        rotation = rotary.rotation(
            rotary.positions(token_mask),
            rotary.frequencies(config.width_per_head, config.rope_theta, config.rope_scaling),
            config.rope_cache_dtype,
        )

        def layer(hidden, weights):
            return nnx.merge(graph, weights)(config, hidden, token_mask, rotation)

        hidden = scan_layers(layer, embeddings, layers, remat=remat)
        return rms_norm(hidden, self.final_norm[...], config.rms_norm_eps)

    def logits(
        self, hidden: Float[Array, "b l d"], columns: tuple[Any, int] | None
    ) -> Float[Array, "b l v"]:
        if self.config.tie_embeddings:
            rows = self.embed[...][: self.config.num_outputs]
            return head_logits(hidden, rows, columns, tied=True)
        return head_logits(hidden, self.head[...], columns, tied=False)


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


def embed(
    config: DecoderConfig, params: Params, tokens: Int[Array, "b t"]
) -> Float[Array, "b t d"]:
    """The input of the first layer: rows of the embedding, in the parameters' type."""
    return nnx.merge(_graph(config), params).embed[...][tokens]


def hidden_states(
    config: DecoderConfig,
    params: Params,
    tokens: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    *,
    embeddings: Float[Array, "b t d"] | None = None,
    remat: bool = False,
) -> Float[Array, "b t d"]:
    """Hidden states after the final norm; where `token_mask` is False are pads (keys masked).

    Args:
        config, params: the network.
        tokens: ids below `vocab_size`.
        token_mask: which of them are real.
        embeddings: what to run on in place of `embed(config, params, tokens)`.
        remat: whether a gradient computes each layer again to save memory.
    """
    if embeddings is None:
        embeddings = embed(config, params, tokens)
    return nnx.merge(_graph(config), params).hidden(embeddings, token_mask, remat)


def region_logits(
    config: DecoderConfig,
    params: Params,
    tokens: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    region: slice,
    *,
    embeddings: Float[Array, "b t d"] | None = None,
) -> Float[Array, "b l v"]:
    """float32 logits of a contiguous region; the head is applied to that region alone.

    Columns are ids; ids from `num_outputs` on have none. `embeddings` as in `hidden_states`.
    """
    hidden = hidden_states(config, params, tokens, token_mask, embeddings=embeddings)
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
    config: DecoderConfig,
    params: Params,
    hidden: Float[Array, "b l d"],
    columns: tuple[Any, int] | None = None,
) -> Float[Array, "b l v"]:
    """float32 logits of final hidden states; `columns`: first id and number of those wanted."""
    return nnx.merge(_graph(config), params).logits(hidden, columns)


NETWORK = Network(abstract_params, hidden_states, project, region_logits, inputs=("embeddings",))


@functools.cache
def _graph(config: DecoderConfig):
    return nnx.graphdef(nnx.eval_shape(lambda: Decoder(config, nnx.Rngs(0))))


def _normal(rngs: nnx.Rngs, *shape: int, scale: float | None = None):
    deviation = shape[-2] ** -0.5 if scale is None else scale
    return jax.random.normal(rngs.params(), shape) * deviation
