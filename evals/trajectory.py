"""Histories of a sampling run, stored beside its bank."""

import pathlib

import numpy as np
import safetensors.numpy

from .. import samplers
from . import bank
from .errors import InputError

HISTORY = "history.safetensors"


def encode_history(history: samplers.History) -> bytes:
    """A history as a safetensors file of `canvas` (step, sample, position) and `mask_id`."""
    canvas = np.ascontiguousarray(history.canvas, np.int32)
    return safetensors.numpy.save(
        {"canvas": canvas, "mask_id": np.array([history.mask_id], np.int32)}
    )


def load_history(path: str | pathlib.Path) -> samplers.History:
    """Reads the history of a bank that was sampled with `record_history`.

    The bank is verified first, as `bank.read_bank` does.

    Args:
        path: folder of the bank.

    Returns:
        History whose canvas[s, i, l] is the token of sample i at position l after nominal step
        s + 1; `samplers.classify_cells` and its kin read it.

    Raises:
        ValueError: the bank is unfinished or edited, or carries no history.
    """
    path = pathlib.Path(path)
    manifest = bank.read_bank(path).manifest
    if HISTORY not in manifest["files"]:
        raise InputError(f"bank {path} carries no history; sample it with record_history=True")
    stored = safetensors.numpy.load((path / HISTORY).read_bytes())
    return samplers.History(stored["canvas"], int(stored["mask_id"][0]))  # type: ignore[arg-type]
