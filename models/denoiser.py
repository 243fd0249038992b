"""Masked-diffusion denoisers behind one pure logits function."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from . import architectures, decoder, dit, sources, text_tokens, weights
from .decoder import Params
from .family import ModelSpec, NetworkConfig


class Denoiser(NamedTuple):
    """A denoiser as the samplers want it.

    Attributes:
        logits_fn: (params, tokens Int["b t"], token_mask Bool["b t"], region: slice) ->
            float32 logits Float["b l v"]; position i predicts token i. The same object for the
            same architecture, so that a jitted sampler is traced once. Time-conditioned networks
            take a keyword more, sigma Float["b"] (default: from each row's masked fraction).
        params: plain nested dict of arrays.
        mask_id: id of the absorbing state.
        eos_id: end-of-text id, or None.
        pad_id: id to put under padding, or None.
        num_ids: ids below this may be generated (the mask id apart).
        tokenizer: None where the folder has no tokenizer file.
        card: source, digests, sizes.
    """

    logits_fn: Callable[..., Float[Array, "b l v"]]
    params: Params
    mask_id: int
    eos_id: int | None
    pad_id: int | None
    num_ids: int
    tokenizer: text_tokens.Tokenizer | None
    card: sources.ModelCard


class LoadedNetwork(NamedTuple):
    """What both kinds of adapter are made of."""

    spec: ModelSpec
    params: Params
    tokenizer: text_tokens.Tokenizer | None
    card: sources.ModelCard


def load_denoiser(
    source: str, *, dtype: str = "float32", mesh: Any = None, architecture: str | None = None
) -> Denoiser:
    """Loads a denoiser from `embedded:NAME`, a folder, or `hf:OWNER/REPO@REVISION`.

    Args:
        source: where the config.json and *.safetensors are.
        dtype: type of the parameters in memory: float32, bfloat16 or float16.
        mesh: a `jax.sharding.Mesh` to replicate the parameters over; default: one device.
        architecture: family to read the files as, where config.json has no `model_type`.

    Raises:
        ValueError: what was not found, not understood or not implemented, all in one message.
    """
    loaded = load_network(source, "denoiser", dtype, mesh, architecture)
    spec = loaded.spec
    if spec.mask_id is None:
        raise ValueError(f"model {source!r} declares no mask token")
    num_ids = spec.num_ids
    if loaded.tokenizer is not None:
        num_ids = min(num_ids, loaded.tokenizer.vocab_size)
    return Denoiser(
        logits_function(spec.network),
        loaded.params,
        spec.mask_id,
        spec.eos_id,
        spec.pad_id,
        num_ids,
        loaded.tokenizer,
        loaded.card,
    )


def load_network(
    name: str, kind: str, dtype: str, mesh: Any, architecture: str | None
) -> LoadedNetwork:
    """Reads config, tokenizer and weights of a folder through the tables of its family.

    Raises:
        ValueError: as `load_denoiser`.
    """
    if dtype not in ("float32", "bfloat16", "float16"):
        raise ValueError(f"dtype {dtype!r} is not accepted; use float32, bfloat16 or float16")
    name = str(name)
    folder = sources.resolve(name)
    config = sources.read_json(folder / "config.json")
    family = architectures.architecture_of(config, architecture, name)
    if kind not in family.kinds:
        raise ValueError(f"model {name!r} is a {family.name} model and cannot serve as a {kind}")
    spec = architectures.read_config(config, family, name)
    params = weights.load_params(folder, family, spec.network, dtype)
    if mesh is not None:
        replicated = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        params = jax.device_put(params, replicated)
    tokenizer_file = folder / "tokenizer.json"
    tokenizer = text_tokens.load(tokenizer_file) if tokenizer_file.is_file() else None
    card = sources.ModelCard(
        name,
        family.name,
        dtype,
        sources.file_digests(folder),
        sum(x.size for x in jax.tree.leaves(params)),
        config,
    )
    return LoadedNetwork(spec, params, tokenizer, card)


@functools.cache
def logits_function(config: NetworkConfig) -> Callable[..., Float[Array, "b l v"]]:
    """The logits function of a shape: one object per shape, hence one trace per sampler."""
    if isinstance(config, dit.DiTConfig):

        def dit_logits_fn(
            params: Params,
            tokens: Int[Array, "b t"],
            token_mask: Bool[Array, "b t"],
            region: slice,
            *,
            sigma: Float[Array, "b"] | None = None,
        ) -> Float[Array, "b l v"]:
            tokens, token_mask = jnp.asarray(tokens), jnp.asarray(token_mask, bool)
            return dit.region_logits(config, params, tokens, token_mask, region, sigma)

        return dit_logits_fn

    def logits_fn(
        params: Params,
        tokens: Int[Array, "b t"],
        token_mask: Bool[Array, "b t"],
        region: slice,
    ) -> Float[Array, "b l v"]:
        return decoder.region_logits(config, params, tokens, jnp.asarray(token_mask, bool), region)

    return logits_fn
