"""The order of the rows, with intervals, and which rows the seeds do not tell apart."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..statistics import RankInterval, rank_intervals
from .rows import BoardRow
from .settings import RANKED, Settings


class Ranking(NamedTuple):
    """Ranks of the rows that can be ranked, by their place in the list of rows.

    Attributes:
        ranks: {place: mean rank with its interval}.
        not_separated: {place: places of the rows that it cannot be told apart from}.
        refused: {place: why a row is not ranked}.
        seeds: that the ranked rows share.
    """

    ranks: Mapping[int, RankInterval]
    not_separated: Mapping[int, tuple[int, ...]]
    refused: Mapping[int, str]
    seeds: tuple[int, ...]


def rank_rows(rows: Sequence[BoardRow], settings: Settings) -> Ranking:
    """Ranks verified rows by the arms without remasking at the board's temperature.

    Rows that share their seeds are ranked: the largest such group or, of two, the one with more
    seeds. Seeds are resampled jointly (`rank_intervals`). Rows that are not verified, are at
    another temperature or lack a number are not ranked.
    """
    refused: dict[int, str] = {}
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, row in enumerate(rows):
        reason = _refusal(row, settings)
        if reason:
            refused[place] = reason
        else:
            groups.setdefault(tuple(sorted(row.seeds)), []).append(place)
    kept = max(groups, key=lambda seeds: (len(groups[seeds]), len(seeds)), default=())
    for seeds, places in groups.items():
        if seeds != kept:
            reason = f"its seeds are {_listed(seeds)}, those of the ranked rows {_listed(kept)}"
            refused |= dict.fromkeys(places, reason)
    members = groups.get(kept, [])
    if len(members) < 2:
        refused |= dict.fromkeys(members, "no other row can be ranked with it")
        return Ranking({}, {}, refused, ())
    table = {
        str(place): {metric: _values(rows[place], metric) for metric in settings.rank_by}
        for place in members
    }
    found = rank_intervals(table, {metric: RANKED[metric] for metric in settings.rank_by})
    pairs = [(int(a), int(b)) for a, b in found.not_separated]
    alike = {
        place: tuple(b if a == place else a for a, b in pairs if place in (a, b))
        for place in members
    }
    ranks = {int(place): interval for place, interval in found.ranks.items()}
    return Ranking(ranks, alike, refused, kept)


def _refusal(row: BoardRow, settings: Settings) -> str:
    """Why a row cannot be ranked; empty where it can."""
    if row.status != "verified":
        return f"{row.status} rows are not ranked"
    if row.unmask_temp != settings.unmask_temp:
        return f"it was measured at t = {row.unmask_temp:g}"
    lacking = [m for m in settings.rank_by if m not in row.arms["baseline"].values]
    return f"it has no {', '.join(lacking)}" if lacking else ""


def _values(row: BoardRow, metric: str) -> list[float]:
    """Values in the order of the seeds."""
    arm = row.arms["baseline"]
    by_seed = dict(zip(arm.seeds, arm.values[metric], strict=True))
    return [by_seed[seed] for seed in sorted(by_seed)]


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
