"""Writes a trained decoder as a folder that the loaders read."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from . import architectures, text_tokens, weights
from .decoder import DecoderConfig, Params


def save_pretrained(
    folder: pathlib.Path,
    architecture: str,
    config: DecoderConfig,
    params: Params,
    tokenizer: text_tokens.Tokenizer,
    ids: Mapping[str, int],
) -> None:
    """Writes config.json, tokenizer.json and model.safetensors (bfloat16).

    Args:
        folder: created if missing; files of the same names are replaced.
        architecture: family whose field and tensor names are used.
        config: shape of the decoder.
        params: its parameters.
        tokenizer: written beside the weights.
        ids: special ids under the family's own field names.
    """
    family = architectures.ARCHITECTURES[architecture]
    if family.write is None:
        raise ValueError(f"a {architecture} model cannot be written, only read")
    written = family.write(config, ids)
    if architectures.read_config(written, family, str(folder)).network != config:
        raise ValueError(f"a {architecture} config.json cannot express {config}")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", written)
    tokenizer.save(folder / "tokenizer.json")
    weights.save_params(folder / "model.safetensors", family, config, params)


def write_json(path: pathlib.Path, value: Mapping[str, Any]) -> None:
    """Indented JSON with a final newline."""
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
