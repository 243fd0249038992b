"""Masked-diffusion denoisers behind one pure logits function."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from . import precision, sources, text_tokens
from .family import NetworkConfig
from .loading import load_network
from .network import Network, Params


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


def load_denoiser(
    source: str,
    *,
    dtype: str = "float32",
    mesh: jax.sharding.Mesh | None = None,
    architecture: str | None = None,
    matmul_precision: str = "highest",
    digests: Mapping[str, str] | None = None,
) -> Denoiser:
    """Loads a denoiser from `embedded:NAME`, a folder, `hf:OWNER/REPO@REVISION` or `gguf:FILE`.

    Args:
        source: where the config.json and *.safetensors are.
        dtype: type of the parameters in memory: float32, bfloat16 or float16.
        mesh: a `jax.sharding.Mesh` with axes fsdp and tensor (`make_mesh`) to spread the
            parameters over; on other axes they are replicated. Default: one device.
        architecture: family to read the files as, where config.json has no `model_type`.
        matmul_precision: "highest", "high" or "default", recorded in the card.
        digests: {file: sha256} that the files must have.

    Raises:
        ValueError: what was not found, not understood or not implemented, all in one message.
    """
    loaded = load_network(
        source,
        "denoiser",
        dtype,
        mesh,
        architecture,
        matmul_precision=matmul_precision,
        digests=digests,
    )
    spec, tokenizer = loaded.spec, loaded.tokenizer
    mask_id = spec.mask_id
    if mask_id is None and tokenizer is not None:
        mask_id = text_tokens.mask_id(loaded.place, tokenizer)
    if mask_id is None:
        raise ValueError(
            f"model {source!r} declares no mask token, neither in config.json (mask_token_id) nor"
            " in its tokenizer's files (mask_token); a mask that was never trained cannot be used"
        )
    return Denoiser(
        logits_function(loaded.family.network, spec.network, matmul_precision),
        loaded.params,
        mask_id,
        spec.eos_id,
        spec.pad_id,
        loaded.num_ids,
        tokenizer,
        loaded.card,
    )


@functools.cache
def logits_function(
    network: Network, config: NetworkConfig, matmul_precision: str = "highest"
) -> Callable[..., Float[Array, "b l v"]]:
    """The logits function of a shape: one object per shape, hence one trace per sampler.

    Its keywords are those `network.inputs` names. It raises ValueError, while it is traced, for
    tokens or a mask of another shape or type, and for more tokens than the context.
    """
    forward = network.region_logits or functools.partial(_project_region, network)

    def logits_fn(
        params: Params,
        tokens: Int[Array, "b t"],
        token_mask: Bool[Array, "b t"],
        region: slice,
        **inputs: Any,
    ) -> Float[Array, "b l v"]:
        tokens, token_mask = _checked_inputs(tokens, token_mask)
        check_length(config, tokens.shape[1])
        with precision.products(matmul_precision):
            return forward(config, params, tokens, token_mask, region, **inputs)

    return logits_fn


def _checked_inputs(tokens: Any, token_mask: Any) -> tuple[jax.Array, jax.Array]:
    """Looks at shapes and types alone, hence at no cost to a compiled program."""
    tokens, token_mask = jnp.asarray(tokens), jnp.asarray(token_mask)
    if tokens.ndim != 2 or not jnp.issubdtype(tokens.dtype, jnp.integer):
        raise ValueError(f"tokens must be a 2-D integer array, not {tokens.dtype}{tokens.shape}")
    if token_mask.shape != tokens.shape:
        raise ValueError(
            f"token_mask has shape {token_mask.shape}, tokens {tokens.shape}; they must agree"
        )
    if token_mask.dtype.kind not in "biu":
        raise ValueError(f"token_mask must hold truth values, not {token_mask.dtype}")
    return tokens, token_mask.astype(bool)


def _project_region(network, config, params, tokens, token_mask, region, **inputs):
    hidden = network.hidden_states(config, params, tokens, token_mask, **inputs)
    return network.project(config, params, hidden[:, region])


def check_length(config: NetworkConfig, length: int) -> None:
    """Refuses canvases that the network has no positions for.

    Raises:
        ValueError: `length` is beyond the config's `max_length`.
    """
    if config.max_length is not None and length > config.max_length:
        raise ValueError(
            f"{length} tokens (prompt and generated) are more than the context of"
            f" {config.max_length} that the model's config gives"
        )
