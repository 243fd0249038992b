"""Histories of a sampling run, stored beside its bank."""

import pathlib
from typing import Any

import numpy as np
import safetensors.numpy

from ... import samplers
from ..errors import InputError
from . import bank

HISTORY = "history.safetensors"


def encode_history(history: samplers.History) -> bytes:
    """A history as a safetensors file of `canvas` (step, sample, position), `mask_id` and notes.

    Notes are stored under the names of `samplers.StepNotes`, and absent where the sampler took
    none.
    """
    arrays = {
        "canvas": np.ascontiguousarray(history.canvas, np.int32),
        "mask_id": np.array([history.mask_id], np.int32),
    }
    if history.notes is not None:
        notes = history.notes._asdict().items()
        arrays |= {name: np.ascontiguousarray(value) for name, value in notes}
    return safetensors.numpy.save(arrays)


def join_histories(parts: list[samplers.History]) -> samplers.History:
    """One history of the samples of several, in order."""
    canvas: Any = np.concatenate([np.asarray(part.canvas) for part in parts], axis=1)
    notes = [part.notes for part in parts if part.notes is not None]
    if not notes:
        return samplers.History(canvas, parts[0].mask_id)
    joined = (np.concatenate([np.asarray(x) for x in field], axis=1) for field in zip(*notes))
    return samplers.History(canvas, parts[0].mask_id, samplers.StepNotes(*joined))  # type: ignore[arg-type]


def first_samples(history: samplers.History, count: int) -> samplers.History:
    """The history of the first `count` samples of a batch."""
    notes = history.notes
    if notes is not None:
        notes = samplers.StepNotes(*(field[:, :count] for field in notes))
    return samplers.History(history.canvas[:, :count], history.mask_id, notes)


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
    canvas: Any = stored.pop("canvas")
    mask_id = int(stored.pop("mask_id")[0])
    notes: Any = samplers.StepNotes(**stored) if stored else None  # type: ignore[arg-type]
    return samplers.History(canvas, mask_id, notes)
