"""What a GGUF file says of a model, in the words of Hugging Face: config, names, tokenizer.

Names, defaults and the order of rotary rows are those that llama.cpp's converter writes
(github.com/ggml-org/llama.cpp, convert_hf_to_gguf.py; gguf-py/gguf/constants.py).
"""

import pathlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tokenizers

from . import gguf
from .gguf_tokenizer import build_tokenizer
from .stored import Stored

# Keys behind "{architecture}.": those that are needed, all that are read, and further ones with
# their accepted values.
_NEEDED = {
    "attention.head_count": int,
    "attention.layer_norm_rms_epsilon": float,
    "block_count": int,
    "context_length": int,
    "embedding_length": int,
    "feed_forward_length": int,
}
_READ = _NEEDED | {
    "attention.head_count_kv": int,
    "attention.key_length": int,
    "attention.value_length": int,
    "rope.dimension_count": int,
    "rope.freq_base": float,
    "vocab_size": int,
}
_ACCEPTED: Mapping[str, tuple[Any, ...]] = {
    "attention.causal": (True,),
    "expert_count": (0,),
    "expert_used_count": (0,),
    "rope.scaling.type": ("none",),
}
_TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_BIASED = ("attn_q", "attn_k", "attn_v")
# The scaled frequencies of Llama 3.1 and 3.2, whose `factor` is 8 or 32: a file stores the factor
# by which each frequency is divided, and these are the only published models that do.
_LLAMA3 = {
    "rope_type": "llama3",
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_ROPE_FACTORS = "rope_freqs.weight"


class _Family(NamedTuple):
    """A `general.architecture`.

    Attributes:
        biased: whether queries, keys and values have biases.
        interleaved: whether the converter reordered the rows of queries and keys, since llama.cpp
            rotates neighbours there instead of halves.
    """

    biased: bool
    interleaved: bool


_FAMILIES = {"llama": _Family(False, True), "qwen2": _Family(True, False)}


class GgufModel(NamedTuple):
    """A GGUF file in the words of Hugging Face.

    Attributes:
        config: the config.json of the model.
        tensors: by Hugging Face's names.
        tokenizer: None if the file holds none.
    """

    config: dict[str, Any]
    tensors: dict[str, Stored]
    tokenizer: tokenizers.Tokenizer | None


def open_gguf(path: pathlib.Path) -> GgufModel:
    """Reads the header of a GGUF file; weights are read by `tensors[name].read`.

    Raises:
        ValueError: names the file and everything about it that is not implemented or contradicts
            itself: architecture, hyper-parameters, tensors, tokenizer; or as `gguf.read_header`.
    """
    header = gguf.read_header(path)
    try:
        name = header.metadata.get("general.architecture")
        if name not in _FAMILIES:
            raise ValueError(
                f"general.architecture={name!r} is not implemented (accepted:"
                f" {', '.join(_FAMILIES)})"
            )
        config = _config(header, name, path)
        tokenizer = build_tokenizer(header.metadata)
        return GgufModel(config, _tensors(header, _FAMILIES[name], config, path), tokenizer)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _config(header: gguf.Header, name: str, path: pathlib.Path) -> dict[str, Any]:
    """The config.json that the converter was given, as far as it matters."""
    fields = _fields(header, name)
    heads, hidden = fields["attention.head_count"], fields["embedding_length"]
    rows, width = header.tensors["token_embd.weight"].shape[0], fields["attention.key_length"]
    config = {
        "model_type": name,
        "vocab_size": rows,
        "hidden_size": hidden,
        "intermediate_size": fields["feed_forward_length"],
        "num_hidden_layers": fields["block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": fields.get("attention.head_count_kv", heads),
        "rms_norm_eps": _decimal(fields["attention.layer_norm_rms_epsilon"]),
        "rope_theta": _decimal(fields.get("rope.freq_base", 10_000.0)),
        "max_position_embeddings": fields["context_length"],
        "tie_word_embeddings": "output.weight" not in header.tensors,
    }
    if width * heads != hidden:
        config["head_dim"] = width
    if _ROPE_FACTORS in header.tensors:
        entry = gguf.tensor(path, header.tensors[_ROPE_FACTORS])
        config["rope_scaling"] = _rope_scaling(entry, config["rope_theta"], width)
    for ours, theirs in {"bos": "bos", "eos": "eos", "pad": "padding"}.items():
        if (value := header.metadata.get(f"tokenizer.ggml.{theirs}_token_id")) is not None:
            config[f"{ours}_token_id"] = value
    return config


def _fields(header: gguf.Header, name: str) -> dict[str, Any]:
    """The hyper-parameters of an architecture, checked; the width of a head among them.

    Raises:
        ValueError: lists keys that are unknown, missing or have a value that is not implemented.
    """
    fields = {
        key.removeprefix(f"{name}."): value
        for key, value in header.metadata.items()
        if key.startswith(f"{name}.")
    }
    problems = [f"missing key {name}.{key}" for key in _NEEDED if key not in fields]
    for key, value in fields.items():
        if key in _READ:
            if type(value) is not _READ[key] or not value > 0:
                kind = _READ[key].__name__
                problems.append(f"{name}.{key}={value!r} is no positive {kind}")
        elif key not in _ACCEPTED:
            problems.append(f"unknown key {name}.{key}")
        elif value not in _ACCEPTED[key]:
            accepted = " or ".join(repr(v) for v in _ACCEPTED[key])
            problems.append(f"{name}.{key}={value!r} is not implemented (accepted: {accepted})")
    if "token_embd.weight" not in header.tensors:
        problems.append("missing tensor token_embd.weight")
    if problems:
        raise ValueError("; ".join(problems))
    heads, hidden = fields["attention.head_count"], fields["embedding_length"]
    width = fields.setdefault("attention.key_length", hidden // heads)
    expected = {
        "attention.value_length": width,
        "rope.dimension_count": width,
        "vocab_size": header.tensors["token_embd.weight"].shape[0],
    }
    for key, value in expected.items():
        if fields.get(key, value) != value:
            problems.append(f"{name}.{key}={fields[key]} is not implemented (accepted: {value})")
    if width < 2 or width % 2:
        problems.append(f"{name}: heads of width {width}; rotary attention needs an even one")
    if problems:
        raise ValueError("; ".join(problems))
    return fields


def _tensors(
    header: gguf.Header, family: _Family, config: Mapping[str, Any], path: pathlib.Path
) -> dict[str, Stored]:
    """The tensors under Hugging Face's names, rows of queries and keys in its order.

    Raises:
        ValueError: lists the tensors that such a model does not have.
    """
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    tensors, unknown = {}, []
    for name, span in header.tensors.items():
        layer, part, kind = _parts(name)
        if name in _TENSORS:
            tensors[_TENSORS[name]] = gguf.tensor(path, span)
        elif part in _LAYER and (kind == "weight" or (family.biased and part in _BIASED)):
            order = None
            if family.interleaved and part in heads:
                order = _halves(name, span.shape[0], heads[part])
            theirs = f"model.layers.{layer}.{_LAYER[part]}.{kind}"
            tensors[theirs] = gguf.tensor(path, span, order)
        elif name != _ROPE_FACTORS:
            unknown.append(name)
    if unknown:
        raise ValueError(
            f"tensors that a {config['model_type']} model does not have: {', '.join(unknown)}"
        )
    return tensors


def _parts(name: str) -> tuple[str, ...]:
    """Layer, part and kind in the name of a block's tensor; empty strings for other names."""
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
    return match.groups() if match else ("", "", "")


def _halves(name: str, rows: int, heads: int) -> np.ndarray:
    """Where in each head the rows lie that come in halves: 0, 2, 4, … then 1, 3, 5, …"""
    if rows % (2 * heads):
        raise ValueError(f"{name} has {rows} rows, which are not {heads} heads of an even width")
    return np.arange(rows).reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1)


def _rope_scaling(entry: Stored, theta: float, width: int) -> dict[str, Any]:
    """The Llama 3 scaling whose factors a file stores.

    Raises:
        ValueError: they are other factors.
    """
    held = np.empty(entry.shape, entry.dtype)
    entry.read(held)
    turns = _LLAMA3["original_max_position_embeddings"] / (
        2 * np.pi * theta ** (np.arange(0, width, 2) / width)
    )
    low, high = _LLAMA3["low_freq_factor"], _LLAMA3["high_freq_factor"]
    kept = np.clip((turns - low) / (high - low), 0, 1)
    for factor in (8.0, 32.0):
        expected = 1 / ((1 - kept) / factor + kept)
        if held.shape == expected.shape and np.allclose(held, expected, rtol=1e-4):
            return {**_LLAMA3, "factor": factor}
    raise ValueError(
        f"{_ROPE_FACTORS} holds other factors than those of Llama 3.1 (8) and 3.2 (32), up to"
        f" {held.max():g}, which is not implemented"
    )


def _decimal(value: float) -> float:
    """A stored float32 as the shortest decimal that rounds to it: 1e-05, not 9.99999975e-06."""
    return float(str(np.float32(value)))
