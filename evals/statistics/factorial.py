"""Grids of cells: from {levels: value} to an array, refusing holes by name."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..errors import InputError
from .checks import ROUNDING, plain_array

_SHOWN = 3


class FactorialTable(NamedTuple):
    """A full grid; `levels` holds the labels of each factor and, last, of the replicates."""

    values: Float[np.ndarray, "a b ... r"]
    names: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]


def factorial_table(
    cells: Mapping[tuple, float | None], names: Sequence[str], *, replicate: str = "seed"
) -> FactorialTable:
    """Arranges values by their levels, in order of first appearance.

    Args:
        cells: {(level of each factor, ..., replicate): value}.
        names: of the factors, without the replicate.
        replicate: name of the last part of a key, for messages.

    Returns:
        What `anova(table.values, table.names, levels=table.levels)` takes.

    Raises:
        InputError: no cells, a key of another length, or cells without a finite value, which are
            named: nothing is averaged over what is there.
    """
    names = tuple(names)
    if not isinstance(cells, Mapping) or not cells:
        raise InputError("cells is empty; run the grid first")
    for key in cells:
        if not isinstance(key, tuple) or len(key) != len(names) + 1:
            raise InputError(f"cell {key!r} must be a tuple of {[*names, replicate]}")
    levels = tuple(tuple(dict.fromkeys(axis)) for axis in zip(*cells))
    found = [cells.get(key) for key in itertools.product(*levels)]
    flat = plain_array([np.nan if value is None else value for value in found], "cells")
    values = flat.reshape([len(axis) for axis in levels])
    holes = np.argwhere(~np.isfinite(values))
    if len(holes):
        shown = "; ".join(
            cell_name(tuple(hole), (*names, replicate), levels) for hole in holes[:_SHOWN]
        )
        raise InputError(
            f"{len(holes)} of {values.size} cells have no finite value: {shown}"
            f"{'; ...' if len(holes) > _SHOWN else ''}; run them or leave their level out"
        )
    return FactorialTable(values, names, levels)


def zero_variance_cells(
    values: Float[np.ndarray, "a b ... r"], *, levels: Sequence[Sequence] | None = None
) -> list[tuple]:
    """Cells whose replicates are all equal up to rounding: there an F test's law does not hold.

    Args:
        values: as `anova` takes them.
        levels: labels of each factor (a further entry, the replicates', is ignored).

    Returns:
        A tuple of levels for each, or of indices where `levels` is None.
    """
    array = np.asarray(values, np.float64)
    equal = np.ptp(array, axis=-1) <= ROUNDING * np.abs(array).max(axis=-1)
    found = [tuple(index) for index in np.argwhere(equal).tolist()]
    if levels is None:
        return found
    return [tuple(axis[i] for axis, i in zip(levels, index)) for index in found]


def cell_name(
    index: tuple[int, ...], names: Sequence[str], levels: Sequence[Sequence] | None = None
) -> str:
    """Such as "strategy='none', temperature=0.25, seed=2"; indices where levels are not given."""
    if levels is None:
        return ", ".join(f"{name}[{int(i)}]" for name, i in zip(names, index))
    parts = []
    for axis, (name, i) in enumerate(zip(names, index)):
        parts.append(f"{name}={levels[axis][i]!r}" if axis < len(levels) else f"{name}[{int(i)}]")
    return ", ".join(parts)
