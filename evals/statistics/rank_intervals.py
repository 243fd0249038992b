"""Mean ranks with intervals, and the pairs that the data do not tell apart."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..errors import InputError
from .bootstrap import MOST_ENUMERATED, resampled_means
from .checks import ROUNDING, finite_values, probability


class RankInterval(NamedTuple):
    """Mean rank of one bank (1 is best) and the bounds of its bootstrap interval."""

    mean_rank: float
    low: float
    high: float


class RankIntervals(NamedTuple):
    """`ranks` by bank, in the table's order; `not_separated` pairs, the better ranked first."""

    ranks: dict[str, RankInterval]
    not_separated: tuple[tuple[str, str], ...]


def rank_intervals(
    table: Mapping[str, Mapping[str, Sequence[float]]],
    directions: Mapping[str, str],
    *,
    level: float = 0.95,
    num_resamples: int = 10_000,
    seed: int = 0,
) -> RankIntervals:
    """Percentile intervals of `mean_rank`, resampling seeds jointly over banks and columns.

    Each resample draws seeds (or rows), averages every cell over them and ranks anew. Two banks
    are not separated where the interval of the difference of their mean ranks holds 0. Up to five
    seeds all resamples are enumerated.

    Ranks of few seeds are known less well than this shows: resampling cannot see how far a seed
    that was never run would fall.

    Args:
        table: {bank: {column: one value a seed}}, the same seeds in the same order everywhere.
        directions: {column: "up" | "down"}; columns not named here are ignored.
        level: two-sided, of each interval and each pair.
        num_resamples: random resamples for more than five seeds.
        seed: of those.

    Raises:
        InputError: a bank that lacks a column, unequal numbers of seeds, fewer than two, values
            that are not finite, fewer than two banks.
    """
    tail = (1 - probability(level, "level")) / 2
    banks, values = list(table), _stacked(table, directions)
    unknown = [way for way in directions.values() if way not in ("up", "down")]
    if unknown:
        raise InputError(f"directions holds {unknown[0]!r}; accepted: 'up', 'down'")
    signs = np.array([-1.0 if way == "up" else 1.0 for way in directions.values()])
    means, weights = resampled_means(values * signs, num_resamples=num_resamples, seed=seed)
    ranks = _mean_ranks(means)
    # Ties up to rounding here too, or a rank could lie outside its own interval.
    centre = _mean_ranks((values * signs).mean(axis=0, keepdims=True))[0].tolist()
    observed = dict(zip(banks, centre))
    exact = len(values) <= MOST_ENUMERATED
    low, high = np.quantile(
        np.repeat(ranks, weights, axis=0),
        np.round([tail, 1 - tail], 12),
        axis=0,
        method="inverted_cdf" if exact else "linear",
    )
    intervals = {
        bank: RankInterval(observed[bank], float(low[i]), float(high[i]))
        for i, bank in enumerate(banks)
    }
    shares = weights / weights.sum()
    order = sorted(range(len(banks)), key=lambda i: observed[banks[i]])
    pairs = []
    for place, i in enumerate(order):
        for j in order[place + 1 :]:
            gap = ranks[:, i] - ranks[:, j]
            if shares @ (gap <= 0) > tail and shares @ (gap >= 0) > tail:
                pairs.append((banks[i], banks[j]))
    return RankIntervals(intervals, tuple(pairs))


def _stacked(
    table: Mapping[str, Mapping[str, Sequence[float]]], directions: Mapping[str, str]
) -> Float[np.ndarray, "seeds banks columns"]:
    if len(table) < 2 or not directions:
        raise InputError(
            f"table has {len(table)} banks, directions {len(directions)} columns; ranks need two "
            "banks and one column"
        )
    rows, first = [], ""
    for bank, columns in table.items():
        for column in directions:
            name = f"table[{bank!r}][{column!r}]"
            if column not in columns:
                raise InputError(f"{name} is missing; score it, or leave the bank or column out")
            rows.append(finite_values(columns[column], name))
            first = first or name
            if len(rows[-1]) != len(rows[0]):
                raise InputError(
                    f"{name} has {len(rows[-1])} seeds, {first} has {len(rows[0])}; all need the "
                    "same seeds: run the missing ones"
                )
    return np.array(rows).T.reshape(-1, len(table), len(directions))


def _mean_ranks(values: Float[np.ndarray, "r banks c"]) -> Float[np.ndarray, "r banks"]:
    """Mean over columns of the ranks of each row."""
    return np.mean([_ranks(values[:, :, c]) for c in range(values.shape[2])], axis=0)


def _ranks(values: Float[np.ndarray, "r banks"]) -> Float[np.ndarray, "r banks"]:
    """Ranks of each row from 1; values equal up to rounding share the mean of their ranks."""
    ranks, rounding = np.empty_like(values), ROUNDING * np.abs(values).max()
    for bank in range(values.shape[1]):
        gap = values[:, bank, None] - values
        ranks[:, bank] = (
            np.sum(gap > rounding, axis=1) + np.sum(np.abs(gap) <= rounding, axis=1) / 2 + 0.5
        )
    return ranks
