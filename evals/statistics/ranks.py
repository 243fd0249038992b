"""Ranks: the mean rank over columns of a profile, and Spearman's correlation."""

import math
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import InputError
from .checks import is_number, plain_array


def mean_rank(
    table: Mapping[str, Mapping[str, float]], directions: Mapping[str, str]
) -> dict[str, float]:
    """Mean over columns of a bank's rank among the banks of the table; 1 is best.

    Ties share their average rank. A bank that lacks a column (absent or NaN) has no mean over
    fewer columns: its result is NaN, and the others are ranked in that column without it.

    Args:
        table: {bank: {column: value}}; put generated banks in, leave the reference out.
        directions: {column: "up" | "down"}; "up" means that higher is better. Columns that are
            not named here are ignored.

    Returns:
        {bank: mean rank}, in the table's order.

    Raises:
        InputError: empty table or directions, a direction that is neither up nor down, or a
            value that is infinite or no number.
    """
    if not table or not directions:
        raise InputError("table and directions must each name at least one bank and one column")
    for column, direction in directions.items():
        if direction not in ("up", "down"):
            raise InputError(f"directions[{column!r}] is {direction!r}; accepted: 'up', 'down'")
    banks = list(table)
    ranks = np.full((len(banks), len(directions)), math.nan)
    for c, (column, direction) in enumerate(directions.items()):
        values = np.array([_cell_value(table[bank], bank, column) for bank in banks])
        present = ~np.isnan(values)
        signed = -values[present] if direction == "up" else values[present]
        ranks[present, c] = _average_ranks(signed)
    return dict(zip(banks, ranks.mean(axis=1).tolist()))


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's rank correlation: Pearson's of average ranks, as in `scipy.stats.spearmanr`.

    Returns:
        A number in [-1, 1]; NaN when an input is constant or has fewer than three values.

    Raises:
        InputError: inputs of different or more than one dimension, or NaN among the values.
    """
    x_values, y_values = plain_array(x, "x"), plain_array(y, "y")
    if x_values.ndim != 1 or x_values.shape != y_values.shape:
        raise InputError(
            f"x and y have shapes {x_values.shape} and {y_values.shape}; both must be (n,)"
        )
    if np.isnan(x_values).any() or np.isnan(y_values).any():
        raise InputError("x or y holds NaN; drop or fill those pairs first")
    if x_values.size < 3 or min(len(np.unique(x_values)), len(np.unique(y_values))) < 2:
        return math.nan
    x_ranks, y_ranks = _average_ranks(x_values), _average_ranks(y_values)
    x_ranks, y_ranks = x_ranks - x_ranks.mean(), y_ranks - y_ranks.mean()
    scale = math.sqrt(float(x_ranks @ x_ranks) * float(y_ranks @ y_ranks))
    return min(1.0, max(-1.0, float(x_ranks @ y_ranks) / scale))


def _average_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1; equal values share the mean of the ranks they take up."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def _cell_value(row: Mapping[str, float], bank: str, column: str) -> float:
    value = row.get(column, math.nan)
    if not is_number(value) or abs(value) > sys.float_info.max:
        raise InputError(
            f"table[{bank!r}][{column!r}] is {value!r}, infinite or no number; ranks need finite"
            " ones, and NaN for none"
        )
    return float(value)
