"""Plug-in entropies of concrete token sequences, counted on the host in float64."""

from collections import Counter

import numpy as np
from jaxtyping import Float, Int

from .token_rows import INT32, valid_positions


def count_entropies(
    ids: Int[np.ndarray, "n t"], lengths: Int[np.ndarray, " n"]
) -> dict[str, Float[np.ndarray, "..."]]:
    """The fields of `Entropies` by name, float64, of checked int32 ids and lengths.

    Sorting brings equal tokens together within rows, within columns and in the whole bank;
    whole rows are counted as strings of bytes, so the joint entropy is exact.

    >>> found = count_entropies(np.array([[0, 0], [0, 1]], np.int32), np.array([2, 2]))
    >>> [round(float(found[field]), 4) for field in ("uni", "pool", "pos", "joint")]
    [0.3466, 0.5623, 0.3466, 0.3466]
    """
    n, t = ids.shape
    valid = valid_positions(lengths, t)
    if not valid.all():
        ids = np.where(valid, ids, INT32.max)  # sorts last
    reaching = np.count_nonzero(valid, axis=0)
    longest = lengths.max()

    by_row = np.sort(ids, axis=1)
    uni_rows, _ = _sorted_entropy(by_row, lengths)
    bank = np.sort(by_row, axis=None)[None]
    pool, _ = _sorted_entropy(bank, lengths.sum(keepdims=True, dtype=np.int64))
    columns = np.ascontiguousarray(ids.T)  # a strided view sorts at half the speed
    by_position, distinct = _sorted_entropy(np.sort(columns, axis=1), reaching)
    correction = np.sum((distinct - 1)[:longest] / (2 * reaching[:longest]))

    copies = Counter(row[:length].tobytes() for row, length in zip(ids, lengths, strict=True))
    pos_total = by_position.sum()
    joint_total = np.sum(_surprise(np.fromiter(copies.values(), np.int64), n)) / n
    return {
        "uni": uni_rows.mean(),
        "uni_rows": uni_rows,
        "pool": pool[0],
        "pos": pos_total / longest,
        "pos_mm": (pos_total + correction) / longest,
        "joint": joint_total / longest,
        "total_correlation": pos_total - joint_total,
    }


def _sorted_entropy(
    rows: Int[np.ndarray, "r m"], counts: Int[np.ndarray, " r"]
) -> tuple[Float[np.ndarray, " r"], Int[np.ndarray, " r"]]:
    """Entropy and number of distinct values of the first counts[r] entries of sorted rows."""
    r, m = rows.shape
    edge = np.ones((r, m), bool)
    np.not_equal(rows[:, 1:], rows[:, :-1], out=edge[:, 1:])
    # A real id equal to the padding shares its run, which therefore ends at counts[r].
    edge &= valid_positions(counts, m)
    start = np.flatnonzero(edge)
    row = start // m
    stop = np.minimum(np.append(start[1:], r * m), (row * m + counts[row]))
    summed = np.bincount(row, _surprise(stop - start, counts[row]), minlength=r)
    return summed / np.maximum(counts, 1), np.bincount(row, minlength=r)


def _surprise(
    runs: Int[np.ndarray, " k"], totals: Int[np.ndarray, " k"] | int
) -> Float[np.ndarray, " k"]:
    """c log(N / c) of counts c out of N, as a log1p: accurate where c is nearly N, 0 at N."""
    return runs * np.log1p((totals - runs) / runs)
