"""The four distances under several encoders: ranks of the arms, and what agrees with what."""

import itertools
import math
from collections.abc import Mapping, Sequence

from ...scoring.scores import Score, values_of
from ...statistics import mean_rank
from ...statistics.correlations import Correlations, correlation_matrix
from ..data import ROLE_NAMES, ReportData, missing
from ..rounding import plain_text
from ..tables import Entry, Head, Row, Table
from .size_tables import SIZED
from .tables import GENERATED, direction_of

SCORER = "scorer"


def suffixed(metric: str, encoder: str) -> str:
    """Name of a metric under an encoder; `SCORER` stands for the distances without a name."""
    return metric if encoder == SCORER else f"{metric}@{encoder}"


def distance_table(data: ReportData, encoders: Sequence[str], *, name: str = "encoders") -> Table:
    """Four distances under every encoder, one row an arm."""
    columns = [
        (f"{title} {encoder}", suffixed(metric, encoder))
        for encoder in encoders
        for metric, title in SIZED
    ]
    arms = data.with_role(*GENERATED)
    return Table(
        name,
        "Four distances to real text under every encoder.",
        (
            Head("arm", "arm", numeric=False),
            Head("kind", "kind", numeric=False),
            *(Head(title, key, "", "", direction_of(arms, key) or "") for title, key in columns),
        ),
        tuple(
            Row(
                (
                    Entry(arm.label),
                    Entry(ROLE_NAMES[arm.role]),
                    *(Entry(number=arm.score(key)) for _, key in columns),
                ),
                arm.role,
            )
            for arm in arms
        ),
    )


def encoder_ranks(data: ReportData, encoders: Sequence[str]) -> dict[str, dict[str, float]]:
    """{encoder: {arm: mean rank over its four distances}}; NaN where an arm lacks one."""
    arms = data.with_role(*GENERATED)
    found = {}
    for encoder in encoders:
        names = [suffixed(metric, encoder) for metric, _ in SIZED]
        ways = {name: way for name in names if (way := direction_of(arms, name)) is not None}
        if ways:
            found[encoder] = mean_rank(values_of({a.label: a.scores for a in arms}), ways)
    return found


def encoder_rank_table(
    data: ReportData, encoders: Sequence[str], *, name: str = "encoder_ranks"
) -> Table:
    """Every arm's mean rank under every encoder, and how far it moves between them."""
    ranks = encoder_ranks(data, encoders)
    arms = data.with_role(*GENERATED)
    rows = []
    for arm in arms:
        values = [ranks[encoder][arm.label] for encoder in ranks]
        numbers = [_rank(value, encoder, len(arms)) for encoder, value in zip(ranks, values)]
        moved = max(values, default=math.nan) - min(values, default=math.nan)
        entries = [Entry(arm.label), Entry(ROLE_NAMES[arm.role])]
        entries += [Entry(number=number) for number in (*numbers, _rank(moved, "range", len(arms)))]
        rows.append(Row(tuple(entries), arm.role))
    return Table(
        name,
        "Mean rank over the four distances, by encoder; 1 is best.",
        (
            Head("arm", "arm", numeric=False),
            Head("kind", "kind", numeric=False),
            *(Head(encoder, f"rank_{encoder}", "", "rank", "down") for encoder in ranks),
            Head("moves by", "range", "largest less smallest mean rank", "ranks"),
        ),
        tuple(rows),
    )


def within_encoders(data: ReportData, encoders: Sequence[str]) -> dict[str, Correlations]:
    """{encoder: correlations of its four distances over the generated arms} (Fig. 12)."""
    arms = data.with_role(*GENERATED)
    table = values_of({arm.label: arm.scores for arm in arms})
    found = {}
    for encoder in encoders:
        ways = {
            title: (name, way)
            for metric, title in SIZED
            if (way := direction_of(arms, name := suffixed(metric, encoder))) is not None
        }
        if len(ways) > 1:
            renamed = {
                arm: {title: row.get(name, math.nan) for title, (name, _) in ways.items()}
                for arm, row in table.items()
            }
            found[encoder] = correlation_matrix(renamed, {t: way for t, (_, way) in ways.items()})
    return found


def across_encoders(data: ReportData, encoders: Sequence[str]) -> dict[str, Correlations]:
    """{distance: correlations of its values under the encoders over the generated arms}."""
    arms = data.with_role(*GENERATED)
    table = values_of({arm.label: arm.scores for arm in arms})
    found = {}
    for metric, title in SIZED:
        ways = {
            encoder: way
            for encoder in encoders
            if (way := direction_of(arms, suffixed(metric, encoder))) is not None
        }
        if len(ways) > 1:
            renamed = {
                arm: {e: row.get(suffixed(metric, e), math.nan) for e in ways}
                for arm, row in table.items()
            }
            found[title] = correlation_matrix(renamed, ways)
    return found


def correlations_table(
    groups: Mapping[str, Correlations], *, name: str, caption: str, group_title: str
) -> Table:
    """Every correlation on a line: its group, its two columns, its banks."""
    rows = []
    for group, matrix in groups.items():
        for one, other, rho, count in matrix.pairs():
            number = rho_score(rho, one, other, count)
            rows.append(Row((Entry(group), Entry(one), Entry(other), Entry(number=number))))
    return Table(
        name,
        caption,
        (
            Head(group_title, "group", numeric=False),
            Head("column", "column", numeric=False),
            Head("and column", "other", numeric=False),
            Head("Spearman", "spearman", "rank correlation, turned so that higher is better"),
        ),
        tuple(rows),
    )


def rho_score(rho: float, one: str, other: str, count: int) -> Score:
    """A correlation as a number that tells what it is of."""
    if math.isnan(rho):
        return missing(f"{count} banks have both, or one column is constant")
    return Score(rho, None, count, "correlation", None, f"spearman|of:{one},{other}|arms:{count}")


def encoder_finding(data: ReportData, encoders: Sequence[str]) -> str:
    """How well distances agree within an encoder, and encoders on a distance."""
    parts = []
    for groups, text in (
        (within_encoders(data, encoders), "the four distances agree within an encoder"),
        (across_encoders(data, encoders), "encoders agree on one distance"),
    ):
        pairs = itertools.chain.from_iterable(matrix.pairs() for matrix in groups.values())
        values = [rho for *_, rho, _ in pairs if not math.isnan(rho)]
        if values:
            mean = sum(values) / len(values)
            low, high, centre = (
                plain_text(Score(round(v, 3), None, len(values), "", None, "spearman|summary"))
                for v in (min(values), max(values), mean)
            )
            parts.append(f"{text} at {centre} on average ({low} to {high})")
    return f"Over the arms, {' and '.join(parts)} (Spearman)." if parts else ""


def _rank(value: float, what: str, count: int) -> Score:
    if math.isnan(value):
        return missing("a distance is missing for this arm")
    unit = "ranks" if what == "range" else "rank"
    signature = f"encoder_rank|{what}|distances:{len(SIZED)}|arms:{count}"
    return Score(value, None, count, unit, "down" if unit == "rank" else None, signature)
