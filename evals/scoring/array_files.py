"""Arrays in one file, sealed by a digest of their content: what a cache entry is."""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from .. import storage
from ..canonical import canonical_json
from ..errors import InputError


def write_arrays(
    path: pathlib.Path, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]
) -> None:
    """Stores arrays as safetensors, with facts about them and their digest as metadata.

    The folder is made if need be; the file is whole or absent.

    Args:
        path: of the file.
        arrays: by name; their order is part of the digest.
        facts: a JSON object, such as the key of a cache entry.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # One entry: safetensors writes several in no fixed order.
    metadata = {"key": canonical_json({**facts, "sha256": _arrays_digest(arrays)})}
    storage.write_bytes(path, safetensors.numpy.save(dict(arrays), metadata))


def read_arrays(path: pathlib.Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Reads the arrays that `write_arrays` stored.

    Args:
        path: of the file.
        names: of its arrays, in the order in which they were written.

    Raises:
        InputError: the file holds other arrays, was edited or damaged.
    """
    try:
        with safetensors.safe_open(path, "numpy") as file:
            recorded = json.loads((file.metadata() or {}).get("key", "{}")).get("sha256")
            if set(file.keys()) != set(names):
                raise ValueError(f"it holds {sorted(file.keys())}")
            arrays = {name: file.get_tensor(name) for name in names}
    except (safetensors.SafetensorError, ValueError) as error:
        raise InputError(f"feature file {path} is damaged ({error}); delete it") from error
    if _arrays_digest(arrays) != recorded:
        raise InputError(f"feature file {path} was edited: its digest differs; delete it")
    return arrays


def _arrays_digest(arrays: Mapping[str, np.ndarray]) -> str:
    parts = [
        f"{name}{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()
        for name, array in arrays.items()
    ]
    return storage.sha256_hex(b"".join(parts))
