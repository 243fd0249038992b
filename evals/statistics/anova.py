"""Fixed-effects analysis of variance of a balanced factorial grid, by its cell means."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from ..errors import InputError
from .checks import ROUNDING, check_size, plain_array
from .factorial import cell_name

RESIDUAL = "residual"


class AnovaRow(NamedTuple):
    """One line of the table.

    Attributes:
        factor: "strategy", an interaction "strategy:temperature", the block, or "residual".
        sum_squares: in squared units of the values.
        df: degrees of freedom.
        f: mean square over the residual's; None for the residual and where that is 0.
        p: of f under the central F distribution; None with f.
        partial_eta2: SS / (SS + SS_residual); None for the residual and for 0 / 0.
        generalized_eta2: SS / (SS + SS_block + SS_residual) (Olejnik & Algina 2003: the factors
            are manipulated, the block is measured). Without a block it equals partial_eta2, with
            one it is what it would be without: it can be compared between the two designs.
    """

    factor: str
    sum_squares: float
    df: int
    f: float | None
    p: float | None
    partial_eta2: float | None
    generalized_eta2: float | None


def anova(
    values: Float[np.ndarray, "a b ... r"],
    names: Sequence[str],
    *,
    block: str | None = None,
    levels: Sequence[Sequence] | None = None,
) -> list[AnovaRow]:
    """Tests every effect and interaction of a balanced design (spec care.md 6.3, appendix E).

    Balanced data make types I, II and III one and the same: the sums of squares come from cell
    means and add up to the total.

    Where the residual is 0 there is no F and no p, whatever the effects; `zero_variance_cells`
    lists the cells whose replicates are all equal, which no F distribution describes:
    `permutation_anova` is the alternative there.

    Args:
        values: one axis a factor, in the order of `names`; the last holds the replicates (seeds).
        names: of the factors.
        block: name of the last axis when its index means the same in all cells (shared seeds);
            its sum of squares then leaves the residual and has a row of its own.
        levels: labels of each factor and of the replicates, for messages only.

    Returns:
        Main effects, then interactions of two, three, ... factors, then the block, last
        "residual".

    Raises:
        InputError: ragged values, fewer than two replicates or two levels of a factor, or a value
            that is missing or not finite, naming its cell: unbalanced data are refused.
    """
    array, names = checked_design(values, names, block=block, levels=levels)
    sums = effect_sums(array, len(names), blocked=block is not None)
    shape = array.shape[:-1]
    # What rounding alone leaves of sums that are 0.
    floor = array.size * (ROUNDING * np.abs(array).max()) ** 2
    residual, block_sum = (float(s) if s > floor else 0.0 for s in (sums.residual, sums.block))
    block_df = array.shape[-1] - 1 if block is not None else 0
    residual_df = math.prod(shape) * (array.shape[-1] - 1) - block_df
    error = block_sum + residual

    def row(factor: str, total: float, df: int, measured: float) -> AnovaRow:
        total = total if total > floor else 0.0
        f = (total / df) / (residual / residual_df) if residual else None
        p = None if f is None else float(special.fdtrc(df, residual_df, f))
        whole, general = total + residual, total + measured
        return AnovaRow(
            factor,
            total,
            df,
            f,
            p,
            partial_eta2=total / whole if whole else None,
            generalized_eta2=total / general if general else None,
        )

    rows = []
    for effect, total in sums.effects.items():
        df = math.prod(shape[axis] - 1 for axis in effect)
        rows.append(row(":".join(names[axis] for axis in effect), float(total), df, error))
    if block is not None:
        rows.append(row(block, block_sum, block_df, residual))
    return [*rows, AnovaRow(RESIDUAL, residual, residual_df, None, None, None, None)]


class EffectSums(NamedTuple):
    """Sums of squares of designs stacked on leading axes; `effects` by tuples of factor axes."""

    effects: dict[tuple[int, ...], Float[np.ndarray, "..."]]
    block: Float[np.ndarray, "..."]
    residual: Float[np.ndarray, "..."]


def effect_sums(
    values: Float[np.ndarray, "... a b r"], num_factors: int, *, blocked: bool
) -> EffectSums:
    """Splits the squared deviations from the grand mean; `block` is 0 unless `blocked`."""
    axes = tuple(range(-num_factors - 1, 0))
    # Deviations from the first replicate keep the residual of equal values at exactly 0.
    within = values - values[..., :1]
    residual = within - within.mean(axis=-1, keepdims=True)
    block = np.zeros_like(residual[..., :1])
    if blocked:
        block = residual.mean(axis=axes[:-1], keepdims=True)
        residual = residual - block
    effects = {}
    for effect, deviations in effect_deviations(values, num_factors).items():
        averaged = math.prod(values.shape[axis] for axis in axes if deviations.shape[axis] == 1)
        effects[effect] = averaged * (deviations**2).sum(axis=axes)
    cells = math.prod(values.shape[axis] for axis in axes[:-1])
    return EffectSums(effects, cells * (block**2).sum(axis=axes), (residual**2).sum(axis=axes))


def effect_deviations(
    values: Float[np.ndarray, "... a b r"], num_factors: int
) -> dict[tuple[int, ...], Float[np.ndarray, "..."]]:
    """{factor axes: what the effect adds to each cell mean}; every axis is kept, at 1 if averaged.

    The additions of all effects and the grand mean make up the cell means.
    """
    means = values.mean(axis=-1, keepdims=True)
    factor_axes = tuple(range(-num_factors - 1, -1))
    means = means - means.mean(axis=factor_axes, keepdims=True)
    found: dict[tuple[int, ...], np.ndarray] = {}
    for effect in _effects(num_factors):
        others = tuple(axis for i, axis in enumerate(factor_axes) if i not in effect)
        deviation = means.mean(axis=others, keepdims=True) if others else means
        for part, lower in found.items():
            if set(part) < set(effect):
                deviation = deviation - lower
        found[effect] = deviation
    return found


def checked_design(
    values: Float[np.ndarray, "a b ... r"],
    names: Sequence[str],
    *,
    block: str | None = None,
    levels: Sequence[Sequence] | None = None,
) -> tuple[Float[np.ndarray, "a b ... r"], tuple[str, ...]]:
    """The values as float64 and the names, if they make a balanced design.

    Raises:
        InputError: as `anova` does.
    """
    names = (names,) if isinstance(names, str) else tuple(names or ())
    everything = (*names, *(() if block is None else (block,)))
    texts = [name for name in everything if isinstance(name, str) and ":" not in name]
    if not names or len(texts) < len(everything) or len({*texts, RESIDUAL}) <= len(everything):
        raise InputError(
            f"names={list(names)}, block={block!r}; accepted: names that differ, hold no ':' and "
            f"are not {RESIDUAL!r}"
        )
    try:
        array = plain_array(values, "values")
    except InputError as error:
        raise InputError(
            f"values must be a full grid of numbers ({error}); every cell needs as many replicates "
            "as the others: run the missing ones"
        ) from error
    if array.ndim != len(names) + 1:
        raise InputError(
            f"values has shape {list(array.shape)}; {len(names)} factors need {len(names) + 1} "
            "axes, the last for replicates"
        )
    for name, size in zip(names, array.shape):
        if size < 2:
            raise InputError(f"factor {name!r} has {size} level; leave it out or give it two")
    if array.shape[-1] < 2:
        raise InputError(
            f"values has shape {list(array.shape)}: {array.shape[-1]} replicate a cell leaves no "
            "residual; run two seeds or more"
        )
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = cell_name(tuple(bad[0]), (*names, block or "replicate"), levels)
        raise InputError(
            f"values has no finite number at {where} ({array[tuple(bad[0])]}; {len(bad)} in all); "
            "unbalanced data are refused: run the missing cells or leave their level out"
        )
    check_size(array, "values")
    return array, names


def _effects(num_factors: int) -> Iterator[tuple[int, ...]]:
    for order in range(1, num_factors + 1):
        yield from itertools.combinations(range(num_factors), order)
