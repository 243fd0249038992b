"""Which metrics agree: Spearman correlations of the columns of a profile over its banks."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..errors import InputError
from . import spearman
from .checks import plain_array


class Correlations(NamedTuple):
    """Spearman correlations of columns.

    Attributes:
        columns: names, in order of both axes.
        rho: 1 on the diagonal; NaN where fewer than three banks have both or one is constant.
        num_banks: banks behind each correlation.
    """

    columns: tuple[str, ...]
    rho: Float[np.ndarray, "c c"]
    num_banks: Int[np.ndarray, "c c"]

    def pairs(self) -> list[tuple[str, str, float, int]]:
        """(column, column, rho, banks) above the diagonal."""
        count = len(self.columns)
        return [
            (self.columns[i], self.columns[j], float(self.rho[i, j]), int(self.num_banks[i, j]))
            for i in range(count)
            for j in range(i + 1, count)
        ]


def correlation_matrix(
    table: Mapping[str, Mapping[str, float]], directions: Mapping[str, str]
) -> Correlations:
    """Spearman's correlation of every pair of columns, turned so that higher is better in each.

    A positive number means that two columns prefer the same banks. Each pair takes the banks that
    have both numbers (spec genppl §11).

    Args:
        table: {bank: {column: value}}; NaN is a missing value.
        directions: {column: "up" | "down"}, in the order wanted.

    Raises:
        InputError: no banks, fewer than two columns, or a direction that is neither up nor down.
    """
    if not table or len(directions) < 2:
        raise InputError(
            f"{len(table)} banks and {len(directions)} columns; correlations need banks and at"
            " least two columns"
        )
    signs = {"up": 1.0, "down": -1.0}
    for column, direction in directions.items():
        if direction not in signs:
            raise InputError(f"directions[{column!r}] is {direction!r}; accepted: 'up', 'down'")
    values = np.array([signs[way] for way in directions.values()]) * plain_array(
        [[row.get(column, math.nan) for column in directions] for row in table.values()], "table"
    )
    count = len(directions)
    rho, banks = np.full((count, count), math.nan), np.zeros((count, count), np.int64)
    present = ~np.isnan(values)
    for i in range(count):
        for j in range(i, count):
            both = present[:, i] & present[:, j]
            rho[i, j] = rho[j, i] = spearman(values[both, i].tolist(), values[both, j].tolist())
            banks[i, j] = banks[j, i] = both.sum()
    return Correlations(tuple(directions), rho, banks)
