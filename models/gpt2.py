"""GPT-2: learned positions, LayerNorm with bias before each half, tanh-approximated GELU.

A causal scorer, whose last hidden states also serve as features. Layers are stacked and scanned
as in `decoder`; queries, keys and values come from one product, as in its checkpoints.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from . import rotary
from .attention import attend
from .decoder import dense
from .network import Network, Params, head_logits, scan_layers


@dataclasses.dataclass(frozen=True)
class GPT2Config:
    """Shape of a GPT-2.

    Attributes:
        max_length: rows of the table of positions, hence most tokens a row may have.
        tie_embeddings: whether the head is the transposed embedding.
    """

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    max_length: int
    layer_norm_eps: float = 1e-5
    tie_embeddings: bool = True


class Block(nnx.Module):
    """Attention and MLP, each behind a LayerNorm and a residual connection."""

    def __init__(self, config: GPT2Config, rngs: nnx.Rngs):
        d, f = config.hidden_size, config.intermediate_size
        # Matrices that write into the residual stream start small, so depth does not inflate it.
        out_scale = (2 * config.num_layers) ** -0.5
        self.attn_norm = nnx.Param(jnp.ones(d))
        self.attn_norm_bias = nnx.Param(jnp.zeros(d))
        self.qkv_proj = nnx.Param(_normal(rngs, d, 3 * d, d**-0.5))
        self.qkv_bias = nnx.Param(jnp.zeros(3 * d))
        self.o_proj = nnx.Param(_normal(rngs, d, d, d**-0.5 * out_scale))
        self.o_bias = nnx.Param(jnp.zeros(d))
        self.mlp_norm = nnx.Param(jnp.ones(d))
        self.mlp_norm_bias = nnx.Param(jnp.zeros(d))
        self.up_proj = nnx.Param(_normal(rngs, d, f, d**-0.5))
        self.up_bias = nnx.Param(jnp.zeros(f))
        self.down_proj = nnx.Param(_normal(rngs, f, d, f**-0.5 * out_scale))
        self.down_bias = nnx.Param(jnp.zeros(d))

    def __call__(
        self, config: GPT2Config, hidden: Float[Array, "b t d"], token_mask: Bool[Array, "b t"]
    ) -> Float[Array, "b t d"]:
        b, t, _ = hidden.shape
        eps = config.layer_norm_eps
        x = layer_norm(hidden, self.attn_norm[...], self.attn_norm_bias[...], eps)
        qkv = affine(x, self.qkv_proj, self.qkv_bias).reshape(b, t, 3, config.num_heads, -1)
        q, k, v = (qkv[:, :, i] for i in range(3))
        mixed = attend(q, k, v, token_mask, causal=True)
        hidden = hidden + affine(mixed.reshape(b, t, -1), self.o_proj, self.o_bias)
        x = layer_norm(hidden, self.mlp_norm[...], self.mlp_norm_bias[...], eps)
        x = jax.nn.gelu(affine(x, self.up_proj, self.up_bias), approximate=True)
        return hidden + affine(x, self.down_proj, self.down_bias)


class GPT2(nnx.Module):
    """Embeddings of tokens and positions, scanned blocks, final norm and head."""

    def __init__(self, config: GPT2Config, rngs: nnx.Rngs):
        self.config = config
        d = config.hidden_size
        self.embed = nnx.Param(_normal(rngs, config.vocab_size, d, 0.02))
        self.position_embed = nnx.Param(_normal(rngs, config.max_length, d, 0.01))

        @nnx.split_rngs(splits=config.num_layers)
        @nnx.vmap(in_axes=(None, 0), out_axes=0)
        def stack(config, rngs):
            return Block(config, rngs)

        self.blocks = stack(config, rngs)
        self.final_norm = nnx.Param(jnp.ones(d))
        self.final_norm_bias = nnx.Param(jnp.zeros(d))
        if not config.tie_embeddings:
            self.head = nnx.Param(_normal(rngs, d, config.vocab_size, d**-0.5))

    def hidden(
        self, tokens: Int[Array, "b t"], token_mask: Bool[Array, "b t"], remat: bool
    ) -> Float[Array, "b t d"]:
        graph, layers = nnx.split(self.blocks)
        position = rotary.positions(token_mask)

        def layer(hidden, weights):
            return nnx.merge(graph, weights)(self.config, hidden, token_mask)

        embedded = self.embed[...][tokens] + self.position_embed[...][position]
        hidden = scan_layers(layer, embedded, layers, remat=remat)
        return layer_norm(
            hidden, self.final_norm[...], self.final_norm_bias[...], self.config.layer_norm_eps
        )

    def logits(
        self, hidden: Float[Array, "b l d"], columns: tuple[Any, int] | None
    ) -> Float[Array, "b l v"]:
        if self.config.tie_embeddings:
            return head_logits(hidden, self.embed[...], columns, tied=True)
        return head_logits(hidden, self.head[...], columns, tied=False)


def layer_norm(
    x: Float[Array, "*s d"], weight: Float[Array, "d"], bias: Float[Array, "d"], eps: float
) -> Float[Array, "*s d"]:
    """Standardised over the last axis, scaled and moved: all in float32, then cast back."""
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
    return (centred * jax.lax.rsqrt(variance + eps) * weight + bias).astype(x.dtype)


def affine(x: Float[Array, "b t d"], weight: nnx.Param, bias: nnx.Param) -> Float[Array, "b t f"]:
    """x @ weight + bias."""
    return dense(x, weight[...]) + bias[...]


def init_params(config: GPT2Config, key: Array) -> Params:
    """Random float32 parameters: a plain nested dict, layers stacked on the first axis."""
    return nnx.to_pure_dict(nnx.state(GPT2(config, nnx.Rngs(key)), nnx.Param))


def abstract_params(config: GPT2Config) -> Params:
    """Shapes and dtypes of `init_params` without computing anything."""
    return jax.eval_shape(functools.partial(init_params, config), jax.random.key(0))


def hidden_states(
    config: GPT2Config,
    params: Params,
    tokens: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    *,
    remat: bool = False,
) -> Float[Array, "b t d"]:
    """Hidden states after the final norm, in the type of the parameters.

    Matches Hugging Face's `GPT2Model` given the positions of valid tokens among themselves.

    Args:
        tokens: t may exceed `max_length` if no row has so many valid tokens.
        token_mask: True at valid tokens; others are masked as keys.
        remat: whether a gradient computes each layer again to save memory.
    """
    return nnx.merge(_graph(config), params).hidden(tokens, token_mask, remat)


def project(
    config: GPT2Config,
    params: Params,
    hidden: Float[Array, "b l d"],
    columns: tuple[Any, int] | None = None,
) -> Float[Array, "b l v"]:
    """float32 logits of final hidden states; `columns`: first id and number of those wanted."""
    return nnx.merge(_graph(config), params).logits(hidden, columns)


NETWORK = Network(abstract_params, hidden_states, project)


@functools.cache
def _graph(config: GPT2Config):
    return nnx.graphdef(nnx.eval_shape(lambda: GPT2(config, nnx.Rngs(0))))


def _normal(rngs: nnx.Rngs, rows: int, columns: int, scale: float):
    return jax.random.normal(rngs.params(), (rows, columns)) * scale
