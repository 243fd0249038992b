"""MDLM: a DiT over tokens (github.com/kuleshov-group/mdlm).

Two kinds of config.json describe it: the flat one of the Hugging Face checkpoints
(`hidden_dim`, `model_length`) and the training code's, whose shape lies under `model`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..dit import NETWORK, DiTConfig, rotary_frequencies
from ..family import Architecture, ModelSpec, Tensor, layer_tensors

# The fields of `model` in the training code's config: read, or with one accepted value.
_SHAPE = ("hidden_size", "cond_dim", "n_blocks", "n_heads")
# `length` is that of training crops, which nothing in the network keeps to.
_WITHOUT_EFFECT = ("dropout", "length", "name", "scale_by_sigma")
_ACCEPTED = {"type": "ddit", "tie_word_embeddings": False}


def read_shape(c: Mapping[str, Any], *, vocab_size: int, mask_id: int, **choices: bool):
    """The DiT that either kind of config describes.

    Args:
        c: the config.json.
        vocab_size: rows of the embedding.
        mask_id: the absorbing id.
        choices: further fields of `DiTConfig`.

    Raises:
        ValueError: lists the faults of the fields under `model` and of the numbers.
    """
    shape = c.get("model")
    problems = []
    if shape is None:
        shape = {name: c[name] for name in ("cond_dim", "n_blocks", "n_heads")}
        shape["hidden_size"] = c["hidden_dim"]
    for field, value in shape.items():
        if field in _ACCEPTED and value != _ACCEPTED[field]:
            problems.append(
                f"model.{field}={value!r} is not implemented (accepted: {_ACCEPTED[field]!r})"
            )
        elif field not in (*_SHAPE, *_WITHOUT_EFFECT, *_ACCEPTED):
            problems.append(f"unknown field 'model.{field}'")
    problems += [f"missing field 'model.{field}'" for field in _SHAPE if field not in shape]
    if not 0 <= mask_id < vocab_size:
        problems.append(f"the mask id {mask_id} is outside the vocabulary of {vocab_size}")
    if not problems and shape["hidden_size"] % (2 * shape["n_heads"]):
        problems.append(
            f"hidden_size={shape['hidden_size']} is not a multiple of 2 * n_heads="
            f"{2 * shape['n_heads']}, which rotary attention needs"
        )
    if problems:
        raise ValueError("; ".join(problems))
    return DiTConfig(
        vocab_size=vocab_size,
        hidden_size=shape["hidden_size"],
        cond_size=shape["cond_dim"],
        num_layers=shape["n_blocks"],
        num_heads=shape["n_heads"],
        mask_id=mask_id,
        max_length=c.get("model_length"),
        **choices,
    )


def tensors(prefix: str) -> tuple[Tensor, ...]:
    """The weight table, every name behind `prefix`."""
    block, output = f"{prefix}blocks.", f"{prefix}output_layer."
    return (
        Tensor(f"{prefix}vocab_embed.embedding", ("embed",)),
        *_dense(f"{prefix}sigma_map.mlp.0", "sigma_in"),
        *_dense(f"{prefix}sigma_map.mlp.2", "sigma_out"),
        *layer_tensors(
            block,
            {
                "attn_norm": "norm1",
                "qkv_proj": "attn_qkv",
                "o_proj": "attn_out",
                "mlp_norm": "norm2",
            },
        ),
        *_dense(f"{block}{{i}}.mlp.0", "blocks", "up"),
        *_dense(f"{block}{{i}}.mlp.2", "blocks", "down"),
        *_dense(f"{block}{{i}}.adaLN_modulation", "blocks", "modulation"),
        Tensor(f"{output}norm_final.weight", ("final_norm",)),
        *_dense(f"{output}adaLN_modulation", "final_modulation"),
        *_dense(f"{output}linear", "head"),
    )


def constants(prefix: str) -> dict[str, Callable[[Any], np.ndarray]]:
    """The buffer of rotary frequencies, which the config fixes."""
    return {f"{prefix}rotary_emb.inv_freq": rotary_frequencies}


def _dense(theirs: str, *ours: str) -> tuple[Tensor, Tensor]:
    *parents, name = ours
    return (
        Tensor(f"{theirs}.weight", (*parents, f"{name}_proj"), transpose=True),
        Tensor(f"{theirs}.bias", (*parents, f"{name}_bias")),
    )


def _spec(c: Mapping[str, Any]) -> ModelSpec:
    vocab_size = c["vocab_size"]
    mask_id = c.get("mask_index", vocab_size - 1)  # appended to the tokenizer's vocabulary
    network = read_shape(
        c,
        vocab_size=vocab_size,
        mask_id=mask_id,
        time_conditioning=bool(c.get("time_conditioning", False)),
    )
    return ModelSpec(
        network,
        mask_id,
        eos_id=c.get("eos_token_id"),
        pad_id=c.get("pad_token_id"),
        bos_id=c.get("bos_token_id"),
        num_ids=vocab_size,
    )


MDLM = Architecture(
    name="mdlm",
    model_types=("mdlm",),
    kinds=frozenset({"denoiser"}),
    network=NETWORK,
    read=frozenset(
        """cond_dim dropout eos_token_id hidden_dim length_used mask_index model model_length
        n_blocks n_heads pad_token_id time_conditioning vocab_size""".split()
    ),
    accepted={
        "backbone": ("dit",),
        "parameterization": ("subs",),
        "tie_word_embeddings": (True, False),  # of no effect: the head is a matrix of its own
    },
    spec=_spec,
    tensors=tensors("backbone."),
    constants=constants("backbone."),
)
