"""MPNet: BERT's blocks, RoBERTa's positions, and T5's relative positions in every attention.

One table of biases, a row a bucket of distances, serves all layers (Song et al. 2020; the buckets
are those of Raffel et al. 2020, both directions apart).
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from . import rotary
from .bert import normal, positions_after_pad, run_blocks, stack_blocks
from .gpt2 import layer_norm
from .network import Network, Params

# Buckets a direction: the distances 0..7 have their own, the eight others share 8, 9, … to 127,
# growing by sqrt(2); from 128 on all are in the last.
_DIRECTION, _EXACT = 16, 8


@dataclasses.dataclass(frozen=True)
class MPNetConfig:
    """Shape of an MPNet; the names are those of Hugging Face.

    Attributes:
        num_positions: rows of the table of positions.
        pad_id: absolute positions are counted from this id + 1.
        relative_rows: rows of the table of biases; the buckets are 32 whatever it is.
    """

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    num_positions: int
    pad_id: int = 1
    layer_norm_eps: float = 1e-12
    relative_rows: int = 2 * _DIRECTION

    @property
    def max_length(self) -> int:
        """Most tokens a row may have."""
        return self.num_positions - self.pad_id - 1


class MPNet(nnx.Module):
    """Embeddings of tokens and positions, their norm, and scanned blocks with one bias."""

    def __init__(self, config: MPNetConfig, rngs: nnx.Rngs):
        self.config = config
        d = config.hidden_size
        self.embed = nnx.Param(normal(rngs, config.vocab_size, d, 0.02))
        self.position_embed = nnx.Param(normal(rngs, config.num_positions, d, 0.02))
        self.embed_norm = nnx.Param(jnp.ones(d))
        self.embed_norm_bias = nnx.Param(jnp.zeros(d))
        self.relative_bias = nnx.Param(normal(rngs, config.relative_rows, config.num_heads))
        self.blocks = stack_blocks(config.num_layers, d, config.intermediate_size, rngs)

    def hidden(
        self, tokens: Int[Array, "b t"], token_mask: Bool[Array, "b t"]
    ) -> Float[Array, "b t d"]:
        config, eps = self.config, self.config.layer_norm_eps
        position = positions_after_pad(tokens, token_mask, config.pad_id)
        embedded = self.embed[...][tokens] + self.position_embed[...][position]
        embedded = layer_norm(embedded, self.embed_norm[...], self.embed_norm_bias[...], eps)
        bias = position_bias(self.relative_bias[...], token_mask)
        return run_blocks(self.blocks, embedded, token_mask, config.num_heads, eps, bias)


def relative_buckets(relative: Int[Array, "*s"]) -> Int[Array, "*s"]:
    """The bucket 0..31 of a key's position less its query's.

    Distances d >= 8 are in bucket 8 + floor(2 log2(d / 8)), at most 15; keys after their query 16
    further on. In integers, since a logarithm may fall short of a whole number.
    """
    distance = jnp.abs(relative)
    # floor(2 log2(d / 8)) >= k where d^2 >= 64 * 2^k; d is cut so that its square stays small.
    squared = jnp.minimum(distance, 1 << 10) ** 2
    steps = sum((squared >= _EXACT**2 << k).astype(jnp.int32) for k in range(1, _EXACT))
    bucket = jnp.where(distance < _EXACT, distance, _EXACT + steps)
    return bucket + jnp.where(relative > 0, _DIRECTION, 0)


def position_bias(
    table: Float[Array, "r h"], token_mask: Bool[Array, "b t"]
) -> Float[Array, "b h t t"]:
    """What every layer adds to the scores of query (third axis) and key (fourth).

    Distances are between valid tokens counted among themselves, so padding changes nothing; on
    rows padded at one end they are the distances in the row. Memory: b h t^2 numbers, as many as
    the scores of one layer.
    """
    position = rotary.positions(token_mask)
    t = position.shape[1]
    relative = position[:, None, :] - position[:, :, None]
    by_distance = table[relative_buckets(jnp.arange(1 - t, t))]
    return jnp.swapaxes(by_distance.T[:, relative + t - 1], 0, 1)


def init_params(config: MPNetConfig, key: Array) -> Params:
    """Random float32 parameters: a plain nested dict, layers stacked on the first axis."""
    return nnx.to_pure_dict(nnx.state(MPNet(config, nnx.Rngs(key)), nnx.Param))


def abstract_params(config: MPNetConfig) -> Params:
    """Shapes and dtypes of `init_params` without computing anything."""
    return jax.eval_shape(functools.partial(init_params, config), jax.random.key(0))


def hidden_states(
    config: MPNetConfig,
    params: Params,
    tokens: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
) -> Float[Array, "b t d"]:
    """Hidden states of the last layer, in the type of the parameters.

    Matches `last_hidden_state` of Hugging Face's `MPNetModel`.

    Args:
        tokens: t may exceed `max_length` if no row has so many valid tokens.
        token_mask: True at valid tokens; others are masked as keys.
    """
    return nnx.merge(_graph(config), params).hidden(tokens, token_mask)


NETWORK = Network(abstract_params, hidden_states)


@functools.cache
def _graph(config: MPNetConfig):
    return nnx.graphdef(nnx.eval_shape(lambda: MPNet(config, nnx.Rngs(0))))
