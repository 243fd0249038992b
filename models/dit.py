"""The diffusion transformer (DiT) behind MDLM and SEDD.

Bidirectional rotary attention and a GELU MLP; the noise level sigma shifts, scales and gates
every block (adaLN-zero, Peebles and Xie 2023). Layers are stacked and scanned as in `decoder`.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from . import rotary
from .attention import attend
from .decoder import dense
from .network import Network, Params, scan_layers

_SIGMA_WIDTH = 256
_THETA = 10_000.0
_NORM_EPS = 1e-5
# sigma is -log(1 - masked fraction); a canvas without or full of masks needs a finite one. The
# public samplers run from t = 1 to 1e-5, of which the log-linear schedule masks (1 - 1e-3) t.
_LEAST_MASKED, _MOST_MASKED = 1e-5, 1.0 - 1e-3


@dataclasses.dataclass(frozen=True)
class DiTConfig:
    """Shape of a DiT and what its output means.

    Attributes:
        vocab_size: rows of the embedding, the mask among them.
        mask_id: the absorbing id; the default sigma counts it.
        time_conditioning: False replaces sigma by 0.
        log_score: the output is SEDD's log score: the entry of the token held is 0.
        scale_by_sigma: the log score is lowered by log(exp(sigma) - 1) + log(vocab_size - 1).
        max_length: most tokens a row may have, or None.
    """

    vocab_size: int
    hidden_size: int
    cond_size: int
    num_layers: int
    num_heads: int
    mask_id: int
    time_conditioning: bool = False
    log_score: bool = False
    scale_by_sigma: bool = False
    max_length: int | None = None


class Block(nnx.Module):
    """Attention and MLP, each normed, modulated, gated, and added to the residual stream."""

    def __init__(self, config: DiTConfig, rngs: nnx.Rngs):
        d = config.hidden_size
        self.attn_norm = nnx.Param(jnp.ones(d))
        self.qkv_proj = nnx.Param(_normal(rngs, d, 3 * d))
        self.o_proj = nnx.Param(_normal(rngs, d, d))
        self.mlp_norm = nnx.Param(jnp.ones(d))
        self.up_proj = nnx.Param(_normal(rngs, d, 4 * d))
        self.up_bias = nnx.Param(jnp.zeros(4 * d))
        self.down_proj = nnx.Param(_normal(rngs, 4 * d, d))
        self.down_bias = nnx.Param(jnp.zeros(d))
        self.modulation_proj = nnx.Param(jnp.zeros((config.cond_size, 6 * d)))
        self.modulation_bias = nnx.Param(jnp.zeros(6 * d))

    def __call__(
        self,
        config: DiTConfig,
        hidden: Float[Array, "b t d"],
        condition: Float[Array, "#b c"],
        token_mask: Bool[Array, "b t"],
        position: Int[Array, "b t"],
    ) -> Float[Array, "b t d"]:
        b, t, _ = hidden.shape
        modulation = _affine(condition, self.modulation_proj, self.modulation_bias)
        parts = jnp.split(modulation.astype(hidden.dtype)[:, None], 6, axis=-1)
        attn_shift, attn_scale, attn_gate, mlp_shift, mlp_scale, mlp_gate = parts

        x = layer_norm(hidden, self.attn_norm[...]) * (1 + attn_scale) + attn_shift
        qkv = dense(x, self.qkv_proj[...]).reshape(b, t, 3, config.num_heads, -1)
        q = rotary.rotate(qkv[:, :, 0], position, _THETA)
        k = rotary.rotate(qkv[:, :, 1], position, _THETA)
        mixed = attend(q, k, qkv[:, :, 2], token_mask, causal=False)
        hidden = hidden + attn_gate * dense(mixed.reshape(b, t, -1), self.o_proj[...])

        x = layer_norm(hidden, self.mlp_norm[...]) * (1 + mlp_scale) + mlp_shift
        x = jax.nn.gelu(_affine(x, self.up_proj, self.up_bias), approximate=True)
        return hidden + mlp_gate * _affine(x, self.down_proj, self.down_bias)


class DiT(nnx.Module):
    """Embedding, scanned blocks, modulated final norm and head."""

    def __init__(self, config: DiTConfig, rngs: nnx.Rngs):
        self.config = config
        d, c, v = config.hidden_size, config.cond_size, config.vocab_size
        self.embed = nnx.Param(_normal(rngs, v, d))
        self.sigma_in_proj = nnx.Param(_normal(rngs, _SIGMA_WIDTH, c))
        self.sigma_in_bias = nnx.Param(jnp.zeros(c))
        self.sigma_out_proj = nnx.Param(_normal(rngs, c, c))
        self.sigma_out_bias = nnx.Param(jnp.zeros(c))

        @nnx.split_rngs(splits=config.num_layers)
        @nnx.vmap(in_axes=(None, 0), out_axes=0)
        def stack(config, rngs):
            return Block(config, rngs)

        self.blocks = stack(config, rngs)
        self.final_norm = nnx.Param(jnp.ones(d))
        self.final_modulation_proj = nnx.Param(jnp.zeros((c, 2 * d)))
        self.final_modulation_bias = nnx.Param(jnp.zeros(2 * d))
        self.head_proj = nnx.Param(jnp.zeros((d, v)))
        self.head_bias = nnx.Param(jnp.zeros(v))

    def condition(self, sigma: Float[Array, "#b"]) -> Float[Array, "#b c"]:
        x = _affine(sigma_embedding(sigma), self.sigma_in_proj, self.sigma_in_bias)
        x = _affine(jax.nn.silu(x), self.sigma_out_proj, self.sigma_out_bias)
        return jax.nn.silu(x)

    def hidden(
        self,
        tokens: Int[Array, "b t"],
        token_mask: Bool[Array, "b t"],
        condition: Float[Array, "#b c"],
    ) -> Float[Array, "b t d"]:
        graph, layers = nnx.split(self.blocks)
        position = rotary.positions(token_mask)

        def layer(hidden, weights):
            block = nnx.merge(graph, weights)
            return block(self.config, hidden, condition, token_mask, position)

        return scan_layers(layer, self.embed[...][tokens], layers)

    def logits(
        self, hidden: Float[Array, "b l d"], condition: Float[Array, "#b c"]
    ) -> Float[Array, "b l v"]:
        modulation = _affine(condition, self.final_modulation_proj, self.final_modulation_bias)
        shift, scale = jnp.split(modulation.astype(hidden.dtype)[:, None], 2, axis=-1)
        x = layer_norm(hidden, self.final_norm[...]) * (1 + scale) + shift
        logits = dense(x, self.head_proj[...], preferred_element_type=jnp.float32)
        return logits + self.head_bias[...].astype(jnp.float32)


def layer_norm(x: Float[Array, "b t d"], weight: Float[Array, "d"]) -> Float[Array, "b t d"]:
    """Standardised over the last axis in float32, eps 1e-5, scaled by `weight`; no bias."""
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
    return (centred * jax.lax.rsqrt(variance + _NORM_EPS) * weight).astype(x.dtype)


def sigma_embedding(sigma: Float[Array, "b"]) -> Float[Array, "b 256"]:
    """128 cosines, then 128 sines, of sigma * 10000^(-i/128); sigma is taken as it is."""
    half = _SIGMA_WIDTH // 2
    angle = sigma[:, None] * jnp.exp(-jnp.log(_THETA) * jnp.arange(half, dtype=jnp.float32) / half)
    return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], axis=-1)


def masked_sigma(
    config: DiTConfig, tokens: Int[Array, "b t"], token_mask: Bool[Array, "b t"]
) -> Float[Array, "b"]:
    """The noise level at which the expected masked fraction is the canvas's own: -log(1 - m).

    Holds for every schedule, since an absorbing process masks 1 - exp(-sigma). m is the share of
    masks among valid tokens, kept within [1e-5, 0.999]: the range the public samplers run over.
    """
    masked = ((tokens == config.mask_id) & token_mask).sum(axis=1)
    fraction = masked / jnp.maximum(token_mask.sum(axis=1), 1)
    return -jnp.log1p(-jnp.clip(fraction, _LEAST_MASKED, _MOST_MASKED))


def init_params(config: DiTConfig, key: Array) -> Params:
    """Random float32 parameters; modulations and head start at zero (adaLN-zero)."""
    return nnx.to_pure_dict(nnx.state(DiT(config, nnx.Rngs(key)), nnx.Param))


def abstract_params(config: DiTConfig) -> Params:
    """Shapes and dtypes of `init_params` without computing anything."""
    return jax.eval_shape(functools.partial(init_params, config), jax.random.key(0))


def region_logits(
    config: DiTConfig,
    params: Params,
    tokens: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    region: slice,
    sigma: Float[Array, "b"] | None = None,
) -> Float[Array, "b l v"]:
    """float32 logits of a contiguous region; the head is applied to that region alone.

    Raw logits: the mask's own column is not suppressed and decided positions are predicted too.

    Args:
        sigma: noise level of each row, default `masked_sigma`. Networks without time
            conditioning are run at sigma 0 whatever is given, as the public code does.

    Raises:
        ValueError: sigma is not one number a row.
    """
    if sigma is None:
        sigma = masked_sigma(config, tokens, token_mask)
    if jnp.shape(sigma) != (tokens.shape[0],):
        raise ValueError(
            f"sigma has shape {jnp.shape(sigma)}; it must hold one number for each of the "
            f"{tokens.shape[0]} rows of tokens"
        )
    sigma = jnp.asarray(sigma, jnp.float32)
    network = nnx.merge(_graph(config), params)
    condition = network.condition(sigma if config.time_conditioning else jnp.zeros(1, jnp.float32))
    hidden = network.hidden(tokens, token_mask, condition)
    logits = network.logits(hidden[:, region], condition)
    if config.scale_by_sigma:
        offset = jnp.log(jnp.expm1(sigma)) + float(np.log(config.vocab_size - 1))
        logits = logits - offset[:, None, None]
    if config.log_score:
        held = tokens[:, region, None] == jnp.arange(config.vocab_size)
        logits = jnp.where(held, 0.0, logits)
    return logits


def rotary_frequencies(config: DiTConfig) -> np.ndarray:
    """The frequencies of rotary attention, float32 [head width / 2]."""
    half = config.hidden_size // config.num_heads // 2
    return (_THETA ** (-np.arange(half) / half)).astype(np.float32)


def _affine(x: Array, weight: nnx.Param, bias: nnx.Param) -> Array:
    return dense(x, weight[...]) + bias[...]


NETWORK = Network(abstract_params, region_logits=region_logits, inputs=("sigma",))


@functools.cache
def _graph(config: DiTConfig):
    return nnx.graphdef(nnx.eval_shape(lambda: DiT(config, nnx.Rngs(0))))


def _normal(rngs: nnx.Rngs, rows: int, columns: int):
    return jax.random.normal(rngs.params(), (rows, columns)) * rows**-0.5
