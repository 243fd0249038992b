"""Rows of many lengths in launches of few shapes."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int


class Launch(NamedTuple):
    """Rows that run together.

    Attributes:
        rows: their numbers in the bank, without the copies that fill the launch up.
        ids: ids cut to the launch's width; 0 beyond a row's length.
        token_mask: real tokens; a row without any shows its first position, so that no attention
            is empty.
        index: the bank's row behind each row of the launch.
    """

    rows: Int[np.ndarray, "m"]
    ids: Int[np.ndarray, "b w"]
    token_mask: Bool[np.ndarray, "b w"]
    index: Int[np.ndarray, "b"]


def bucket_width(length: int, limit: int) -> int:
    """The least of 16, 24, 32, 48, 64, 96, … that holds `length`, but at most `limit`."""
    width = 16
    while width < length:
        width = width * 3 // 2 if width & (width - 1) == 0 else width * 4 // 3
    return min(width, limit)


def launches(
    ids: Int[np.ndarray, "n t"], lengths: Int[np.ndarray, "n"], tokens: int, multiple: int = 1
) -> Iterator[Launch]:
    """Cuts a bank into launches, longest rows first, each as wide as its longest row.

    Sorting makes neighbours alike, so little is padded; widths come in two steps an octave, so
    that a bank of any lengths needs few compilations.

    Args:
        ids, lengths: the bank.
        tokens: most positions of a launch, unless one row has more.
        multiple: the number of rows of a launch is a multiple of it (devices of a mesh).
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        width = bucket_width(max(int(lengths[order[start]]), 1), ids.shape[1])
        full = max(tokens // width // multiple, 1) * multiple
        rows = order[start : start + full]
        # A last launch of few rows is filled up to the shape of others if it had some before it.
        size = full if start else -(-len(rows) // multiple) * multiple
        index = rows[np.minimum(np.arange(size), len(rows) - 1)]
        token_mask = np.arange(width) < np.maximum(lengths[index], 1)[:, None]
        yield Launch(rows, np.where(token_mask, ids[index, :width], 0), token_mask, index)
        start += len(rows)


def check_rows(
    ids, lengths, vocab_size: int, max_length: int | None
) -> tuple[Int[np.ndarray, "n t"], Int[np.ndarray, "n"]]:
    """Rows as int32, 0 beyond their lengths.

    Raises:
        ValueError: another shape or type, lengths outside the rows, ids outside the vocabulary, a
            row longer than the context.
    """
    ids, lengths = np.asarray(ids), np.asarray(lengths)
    if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer) or 0 in ids.shape:
        raise ValueError(f"ids must be a non-empty 2-D integer array, not {ids.dtype}{ids.shape}")
    if lengths.shape != (len(ids),) or not np.issubdtype(lengths.dtype, np.integer):
        raise ValueError(
            f"lengths must hold {len(ids)} integers, not {lengths.dtype}{lengths.shape}"
        )
    if lengths.min() < 0 or lengths.max() > ids.shape[1]:
        raise ValueError(
            f"lengths must lie in 0..{ids.shape[1]}, not {lengths.min()}..{lengths.max()}"
        )
    if max_length is not None and lengths.max() > max_length:
        row = int(np.argmax(lengths))
        raise ValueError(
            f"row {row} has {lengths[row]} tokens, more than the context of {max_length}; cut it,"
            " or score it in windows (`dlmeval.metrics.scoring_windows`)"
        )
    real = np.arange(ids.shape[1]) < lengths[:, None]
    valid = ids[real]
    if valid.size and (valid.min() < 0 or valid.max() >= vocab_size):
        raise ValueError(f"ids must lie in 0..{vocab_size - 1}, not {valid.min()}..{valid.max()}")
    # What lies beyond a row's length is the caller's business, but must index the embedding.
    return np.where(real, ids, 0).astype(np.int32), lengths.astype(np.int32)
