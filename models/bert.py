"""BERT and its kin: bidirectional encoders that normalise after each residual connection.

Covers BERT, MiniLM, E5 and RoBERTa, which differ in sizes and in where positions start. Layers
are stacked and scanned as in `decoder`; `mpnet` runs the same blocks with a bias of attention.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from . import rotary
from .attention import attend
from .gpt2 import affine, layer_norm
from .network import Network, Params, scan_layers


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """Shape of a BERT; the names are those of Hugging Face.

    Attributes:
        num_positions: rows of the table of positions.
        type_vocab_size: rows of the table of token types.
        position_pad_id: None counts positions from 0, as BERT does; an id counts them from that
            id + 1, as RoBERTa does (`positions_after_pad`).
    """

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    num_positions: int
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    position_pad_id: int | None = None

    @property
    def max_length(self) -> int:
        """Most tokens a row may have."""
        return self.num_positions - (
            0 if self.position_pad_id is None else self.position_pad_id + 1
        )


class Block(nnx.Module):
    """Attention and MLP; each is added to its input, and the sum is normalised."""

    def __init__(self, hidden_size: int, intermediate_size: int, rngs: nnx.Rngs):
        d, f = hidden_size, intermediate_size
        self.q_proj = nnx.Param(normal(rngs, d, d))
        self.q_bias = nnx.Param(jnp.zeros(d))
        self.k_proj = nnx.Param(normal(rngs, d, d))
        self.k_bias = nnx.Param(jnp.zeros(d))
        self.v_proj = nnx.Param(normal(rngs, d, d))
        self.v_bias = nnx.Param(jnp.zeros(d))
        self.o_proj = nnx.Param(normal(rngs, d, d))
        self.o_bias = nnx.Param(jnp.zeros(d))
        self.attn_norm = nnx.Param(jnp.ones(d))
        self.attn_norm_bias = nnx.Param(jnp.zeros(d))
        self.up_proj = nnx.Param(normal(rngs, d, f))
        self.up_bias = nnx.Param(jnp.zeros(f))
        self.down_proj = nnx.Param(normal(rngs, f, d))
        self.down_bias = nnx.Param(jnp.zeros(d))
        self.mlp_norm = nnx.Param(jnp.ones(d))
        self.mlp_norm_bias = nnx.Param(jnp.zeros(d))

    def __call__(
        self,
        hidden: Float[Array, "b t d"],
        token_mask: Bool[Array, "b t"],
        num_heads: int,
        eps: float,
        bias: Float[Array, "b h t t"] | None,
    ) -> Float[Array, "b t d"]:
        b, t, _ = hidden.shape
        q, k, v = (
            affine(hidden, *pair).reshape(b, t, num_heads, -1)
            for pair in (
                (self.q_proj, self.q_bias),
                (self.k_proj, self.k_bias),
                (self.v_proj, self.v_bias),
            )
        )
        mixed = attend(q, k, v, token_mask, causal=False, bias=bias)
        mixed = affine(mixed.reshape(b, t, -1), self.o_proj, self.o_bias)
        hidden = layer_norm(hidden + mixed, self.attn_norm[...], self.attn_norm_bias[...], eps)
        x = jax.nn.gelu(affine(hidden, self.up_proj, self.up_bias), approximate=False)
        x = affine(x, self.down_proj, self.down_bias)
        return layer_norm(hidden + x, self.mlp_norm[...], self.mlp_norm_bias[...], eps)


class Bert(nnx.Module):
    """Embeddings of tokens, positions and token types, their norm, and scanned blocks."""

    def __init__(self, config: BertConfig, rngs: nnx.Rngs):
        self.config = config
        d = config.hidden_size
        self.embed = nnx.Param(normal(rngs, config.vocab_size, d, 0.02))
        self.position_embed = nnx.Param(normal(rngs, config.num_positions, d, 0.02))
        self.type_embed = nnx.Param(normal(rngs, config.type_vocab_size, d, 0.02))
        self.embed_norm = nnx.Param(jnp.ones(d))
        self.embed_norm_bias = nnx.Param(jnp.zeros(d))
        self.blocks = stack_blocks(config.num_layers, d, config.intermediate_size, rngs)

    def hidden(
        self,
        tokens: Int[Array, "b t"],
        token_mask: Bool[Array, "b t"],
        token_types: Int[Array, "b t"],
    ) -> Float[Array, "b t d"]:
        config = self.config
        if config.position_pad_id is None:
            position = rotary.positions(token_mask)
        else:
            position = positions_after_pad(tokens, token_mask, config.position_pad_id)
        embedded = (
            self.embed[...][tokens]
            + self.type_embed[...][token_types]
            + self.position_embed[...][position]
        )
        eps = config.layer_norm_eps
        embedded = layer_norm(embedded, self.embed_norm[...], self.embed_norm_bias[...], eps)
        return run_blocks(self.blocks, embedded, token_mask, config.num_heads, eps)


def stack_blocks(
    num_layers: int, hidden_size: int, intermediate_size: int, rngs: nnx.Rngs
) -> Block:
    """Blocks whose parameters are stacked on the first axis."""

    @nnx.split_rngs(splits=num_layers)
    @nnx.vmap
    def stack(rngs):
        return Block(hidden_size, intermediate_size, rngs)

    return stack(rngs)


def run_blocks(
    blocks: Block,
    hidden: Float[Array, "b t d"],
    token_mask: Bool[Array, "b t"],
    num_heads: int,
    eps: float,
    bias: Float[Array, "b h t t"] | None = None,
) -> Float[Array, "b t d"]:
    """Scans over stacked blocks; `bias` is added to the attention scores of every layer."""
    graph, layers = nnx.split(blocks)

    def layer(hidden, weights):
        return nnx.merge(graph, weights)(hidden, token_mask, num_heads, eps, bias)

    return scan_layers(layer, hidden, layers)


def positions_after_pad(
    tokens: Int[Array, "b t"], token_mask: Bool[Array, "b t"], pad_id: int
) -> Int[Array, "b t"]:
    """RoBERTa's positions: valid tokens count from `pad_id` + 1; pads are all at `pad_id`.

    A valid token that happens to be `pad_id` is not counted, as in Hugging Face, which goes by ids
    alone; masked tokens are not counted whatever their id.
    """
    counted = token_mask & (tokens != pad_id)
    return jnp.cumsum(counted, axis=1) * counted + pad_id


def init_params(config: BertConfig, key: Array) -> Params:
    """Random float32 parameters: a plain nested dict, layers stacked on the first axis."""
    return nnx.to_pure_dict(nnx.state(Bert(config, nnx.Rngs(key)), nnx.Param))


def abstract_params(config: BertConfig) -> Params:
    """Shapes and dtypes of `init_params` without computing anything."""
    return jax.eval_shape(functools.partial(init_params, config), jax.random.key(0))


def hidden_states(
    config: BertConfig,
    params: Params,
    tokens: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    *,
    token_types: Int[Array, "b t"] | None = None,
) -> Float[Array, "b t d"]:
    """Hidden states of the last layer, in the type of the parameters.

    Matches `last_hidden_state` of Hugging Face's `BertModel` and `RobertaModel`.

    Args:
        tokens: t may exceed `max_length` if no row has so many valid tokens.
        token_mask: True at valid tokens; others are masked as keys.
        token_types: below `type_vocab_size`; default 0 everywhere.

    Raises:
        ValueError: token_types has another shape than tokens.
    """
    if token_types is None:
        token_types = jnp.zeros(tokens.shape, jnp.int32)
    elif jnp.shape(token_types) != jnp.shape(tokens):
        raise ValueError(
            f"token_types has shape {jnp.shape(token_types)}; it must be that of tokens,"
            f" {jnp.shape(tokens)}"
        )
    return nnx.merge(_graph(config), params).hidden(tokens, token_mask, jnp.asarray(token_types))


NETWORK = Network(abstract_params, hidden_states, inputs=("token_types",))


def normal(rngs: nnx.Rngs, rows: int, columns: int, scale: float | None = None) -> Array:
    """A random float32 matrix of deviation `scale`, by default 1 / sqrt(rows)."""
    deviation = rows**-0.5 if scale is None else scale
    return jax.random.normal(rngs.params(), (rows, columns)) * deviation


@functools.cache
def _graph(config: BertConfig):
    return nnx.graphdef(nnx.eval_shape(lambda: Bert(config, nnx.Rngs(0))))
