"""safetensors files to parameters and back, by the tables of `architectures`."""

import contextlib
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from . import decoder, dit
from .decoder import DecoderConfig, Params
from .family import Architecture, NetworkConfig, Tensor

_STORED = ("F32", "F16", "BF16")


def load_params(
    folder: pathlib.Path, family: Architecture, config: NetworkConfig, dtype: str
) -> Params:
    """Reads every `*.safetensors` of a folder into stacked parameters, tensor by tensor.

    Raises:
        ValueError: no file, an unreadable file, or tensors that are missing, unexpected, stored
            twice, misshapen, of another type than F32, F16, BF16, or constants of other values
            than the config gives them; all of them in one message.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ValueError(f"{folder}: no *.safetensors file found")
    with contextlib.ExitStack() as stack:
        try:
            opened = [stack.enter_context(safetensors.safe_open(f, "numpy")) for f in files]
        except (OSError, safetensors.SafetensorError) as error:
            raise ValueError(f"{folder}: cannot read {files}: {error}") from error
        holder = {}
        problems = []
        for handle in opened:
            for name in handle.keys():  # noqa: SIM118 (a safe_open handle, not a dict)
                if name in holder:
                    problems.append(f"stored twice {name}")
                holder[name] = handle
        expected = expected_tensors(family, config)
        problems += [f"missing {name}" for name in sorted(expected.keys() - holder.keys())]
        constants = {name: of(config) for name, of in family.constants.items() if name in holder}
        known = expected.keys() | constants.keys()
        problems += [f"unexpected {name}" for name in sorted(holder.keys() - known)]
        for name, value in constants.items():
            stored = holder[name].get_tensor(name)
            if stored.shape != value.shape or not np.allclose(stored, value, rtol=1e-2):
                problems.append(f"{name} does not hold the values {value} of this config")
        for name in sorted(expected.keys() & holder.keys()):
            view = holder[name].get_slice(name)
            if tuple(view.get_shape()) != expected[name]:
                problems.append(f"{name} has shape {view.get_shape()}, not {expected[name]}")
            if view.get_dtype() not in _STORED:
                problems.append(f"{name} has type {view.get_dtype()}, not one of {_STORED}")
        if problems:
            raise ValueError(f"{folder}: tensors of a {family.name} model: " + "; ".join(problems))
        return _assemble(family, config, lambda name: holder[name].get_tensor(name), dtype)


def save_params(
    path: pathlib.Path, family: Architecture, config: NetworkConfig, params: Params
) -> None:
    """Writes parameters in bfloat16 under the family's own tensor names."""
    tensors = {}
    for row in _rows(family, config):
        value: Any = params
        for part in row.path:
            value = value[part]
        value = np.asarray(value).astype(ml_dtypes.bfloat16)
        for layer, name in enumerate(_names(row, config)):
            matrix = value[layer] if "{i}" in row.name else value
            tensors[name] = np.ascontiguousarray(matrix.T if row.transpose else matrix)
    path.parent.mkdir(parents=True, exist_ok=True)
    safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
    path.chmod(0o644)  # the library writes for the owner alone


def expected_tensors(family: Architecture, config: NetworkConfig) -> Mapping[str, tuple[int, ...]]:
    """Name and stored shape of every tensor a checkpoint of this shape must hold."""
    if isinstance(config, DecoderConfig):
        shapes = decoder.abstract_params(config)
    else:
        shapes = dit.abstract_params(config)
    expected = {}
    for row in _rows(family, config):
        value: Any = shapes
        for part in row.path:
            value = value[part]
        shape = value.shape[1:] if "{i}" in row.name else value.shape
        for name in _names(row, config):
            expected[name] = tuple(reversed(shape)) if row.transpose else tuple(shape)
    return expected


def _assemble(family, config, fetch, dtype) -> Params:
    params: Params = {}
    for row in _rows(family, config):
        names = _names(row, config)
        tensors = (fetch(name).T if row.transpose else fetch(name) for name in names)
        if "{i}" in row.name:
            first = next(tensors)
            value = np.empty((len(names), *first.shape), jnp.dtype(dtype))
            value[0] = first
            for layer, tensor in enumerate(tensors, start=1):
                value[layer] = tensor
        else:
            value = next(tensors).astype(jnp.dtype(dtype))
        node = params
        for part in row.path[:-1]:
            node = node.setdefault(part, {})
        node[row.path[-1]] = jax.device_put(value)
    return params


def _rows(family: Architecture, config: NetworkConfig) -> list[Tensor]:
    tied = family.tied if isinstance(config, DecoderConfig) and config.tie_embeddings else ()
    return [row for row in family.tensors if row.path[0] not in tied]


def _names(row: Tensor, config: NetworkConfig) -> list[str]:
    if "{i}" not in row.name:
        return [row.name]
    return [row.name.replace("{i}", str(layer)) for layer in range(config.num_layers)]
