"""Tables of a rebenchmark: Table 1, ranks with intervals, whether naive samplers come last."""

import dataclasses
import math
from collections.abc import Sequence

from ...cell import arm_labels
from ...scoring.heuristics import Offence, heuristics_last
from ...scoring.scores import CellScores, Score, mean_score, values_of
from ...statistics import RankIntervals, mean_rank, rank_intervals
from ..data import ROLE_NAMES, Arm, ReportData, missing
from ..profile import PROFILE, RANK, Column, with_mean_ranks
from ..tables import Entry, Head, Row, Table

TRAINED = ("generated", "external", "autoregressive")
GENERATED = (*TRAINED, "heuristic")
_BY_NAME = {column.metric: column for column in PROFILE}
# Table 1 of the paper and what it says beside it, in its order; six columns are ranked.
TABLE_ONE = (
    *(_BY_NAME[name] for name in ("gen_ppl", "h_uni", "h_pos", "mauve", "gradient_moment", "jcd")),
    *(_BY_NAME[name] for name in ("energy_distance", "frechet_distance", "mmd", RANK)),
    *(_BY_NAME[name] for name in ("self_bleu", "distinct_3", "gen_ppl_adjusted")),
    Column("gen_ppl_sample", "gen-PPL, mean of samples", "mean over samples of their perplexity"),
    Column("gen_ppl_macro", "gen-PPL, macro", "perplexity of the mean over samples of their NLL"),
    *(_BY_NAME[name] for name in ("jcd_coverage", "jcd_fidelity", "acceptance")),
)
# Columns that people have judged models by: each is put to the test, ranked or not.
_JUDGED = ("mauve", "gradient_moment", "jcd", "energy_distance", "frechet_distance", "mmd")
_JUDGED = (*_JUDGED, "gen_ppl", "gen_ppl_adjusted", "self_bleu", "distinct_3")
_NAMED = 3  # offending pairs that a table row spells out


def second_reference(scores: Sequence[CellScores]) -> Arm | None:
    """Real text of another draw as an arm, averaged over seeds; None without null draws."""
    draws = [s for s in scores if s.cell.role == "reference" and s.cell.part]
    if not draws:
        return None
    names = dict.fromkeys(name for one in draws for name in one.metrics)
    averaged = {
        name: mean_score([one.metrics[name] for one in draws if name in one.metrics])
        for name in names
    }
    return Arm("real text, another draw", "reference", averaged)


def with_second_reference(data: ReportData, scores: Sequence[CellScores]) -> ReportData:
    """The data with a row for real text of another draw, behind the reference."""
    arm = second_reference(scores)
    if arm is None:
        return data
    arms = [*data.with_role("reference"), arm, *data.with_role(*GENERATED)]
    return dataclasses.replace(data, arms=tuple(arms))


def rank_table(
    data: ReportData,
    scores: Sequence[CellScores],
    columns: Sequence[Column] = TABLE_ONE,
    *,
    name: str = "ranks",
) -> Table:
    """Every generated arm's rank in each ranked column, the mean rank and its interval."""
    arms = data.with_role(*GENERATED)
    directions = ranked_directions(arms, columns)
    table = values_of({arm.label: arm.scores for arm in arms})
    intervals, why = seed_intervals(scores, directions)
    averaged = {arm.label: arm for arm in with_mean_ranks(data, columns).with_role(*GENERATED)}
    singles = {metric: mean_rank(table, {metric: way}) for metric, way in directions.items()}
    titles = {column.metric: column.title for column in columns}
    close: dict[str, list[str]] = {arm.label: [] for arm in arms}
    for a, b in () if intervals is None else intervals.not_separated:
        close[a].append(b)
        close[b].append(a)
    rows = []
    for label, arm in sorted(averaged.items(), key=lambda pair: _order(pair[1])):
        entries = [Entry(label), Entry(ROLE_NAMES[arm.role]), Entry(number=arm.score(RANK))]
        for edge in ("low", "high"):
            entries.append(Entry(number=_edge(intervals, label, edge, why, arm.score(RANK))))
        for metric in directions:
            score = arm.score(metric)
            entries.append(Entry(number=_rank_score(singles[metric][label], score, len(arms))))
        entries.append(Entry(_listed(close[label]) if intervals is not None else why))
        rows.append(Row(tuple(entries), arm.role))
    return Table(
        name,
        "Ranks among all generated arms, 1 is best, and their mean.",
        (
            Head("arm", "arm", numeric=False),
            Head("kind", "kind", numeric=False),
            Head("mean rank", RANK, "mean over the ranked columns", "rank", "down"),
            Head("low", f"{RANK}_low", "lower end of the 95 % bootstrap interval", "rank"),
            Head("high", f"{RANK}_high", "upper end of the 95 % bootstrap interval", "rank"),
            *(Head(titles[m], f"rank_{m}", f"rank in {titles[m]}", "rank") for m in directions),
            Head(
                "not separated from",
                "not_separated",
                "pairs whose difference may be 0",
                numeric=False,
            ),
        ),
        tuple(rows),
        (
            "Intervals resample the seeds, jointly over arms and columns; they cannot see how far"
            " a seed that was never run would fall.",
            "An arm that lacks a column has no mean rank.",
        ),
    )


def seed_intervals(
    scores: Sequence[CellScores], directions: dict[str, str]
) -> tuple[RankIntervals | None, str]:
    """Rank intervals over the seeds of the generated arms, or None and the reason."""
    found: dict[str, dict[str, list[float]]] = {}
    kept = [s for s in scores if s.cell.role in GENERATED]
    labels = arm_labels(one.cell for one in kept)
    for one in sorted(kept, key=lambda one: one.cell.seed):
        for metric in directions:
            score = one.metrics.get(metric)
            if score is None or score.value is None:
                return None, f"{metric} of {labels[one.cell.fingerprint]} is missing at a seed"
            values = found.setdefault(labels[one.cell.fingerprint], {})
            values.setdefault(metric, []).append(score.value)
    if len({one.cell.seed for one in kept}) < 2:
        return None, "one seed gives no interval"
    if len(found) < 2 or not directions:
        return None, "a rank needs two arms and a column"
    return rank_intervals(found, directions), ""


def ranked_directions(arms: Sequence[Arm], columns: Sequence[Column]) -> dict[str, str]:
    """{metric: "up" | "down"} of the ranked columns that some arm has."""
    ranked = [column.metric for column in columns if column.ranked]
    return {m: way for m in ranked if (way := direction_of(arms, m)) is not None}


def direction_of(arms: Sequence[Arm], metric: str) -> str | None:
    """The direction that a metric's numbers carry; None where no arm has one."""
    for arm in arms:
        score = arm.score(metric)
        if score.value is not None and score.direction is not None:
            return score.direction
    return None


def offences(data: ReportData, metrics: Sequence[str] = _JUDGED) -> list[Offence]:
    """Naive samplers that a metric does not place below a trained arm, imports included."""
    arms = data.with_role(*GENERATED)
    directions = {m: way for m in metrics if (way := direction_of(arms, m)) is not None}
    return heuristics_last(
        values_of({arm.label: arm.scores for arm in arms}),
        directions,
        heuristics=[arm.label for arm in data.with_role("heuristic")],
        trained=[arm.label for arm in data.with_role(*TRAINED)],
    )


def heuristics_table(data: ReportData, *, name: str = "heuristics_last") -> Table:
    """For each judged column, whether all naive samplers are worse than all trained arms."""
    arms = data.with_role(*GENERATED)
    found = offences(data)
    pairs = len(data.with_role("heuristic")) * len(data.with_role(*TRAINED))
    rows = []
    for metric in _JUDGED:
        if direction_of(arms, metric) is None:
            continue
        broken = [(o.heuristic, o.trained) for o in found if o.column == metric]
        column = _BY_NAME[metric]
        count = Score(
            len(broken), None, pairs, "pairs", "down", f"heuristics_last|of:{metric}|pairs:{pairs}"
        )
        rows.append(
            Row(
                (
                    Entry(column.title),
                    Entry("yes" if column.ranked else "no"),
                    Entry("no" if broken else "yes"),
                    Entry(number=count),
                    Entry(_listed([f"{naive} is not worse than {arm}" for naive, arm in broken])),
                )
            )
        )
    return Table(
        name,
        f"Whether a column places every naive sampler below every trained arm ({pairs} pairs).",
        (
            Head("column", "column", numeric=False),
            Head("in the mean rank", "ranked", numeric=False),
            Head("naive samplers last", "last", numeric=False),
            Head("offending pairs", "offending", "pairs in the wrong order", "pairs", "down"),
            Head("which", "which", numeric=False),
        ),
        tuple(rows),
        ("Trained arms are diffusion arms, the AR model and texts drawn elsewhere.",),
    )


def heuristics_finding(data: ReportData) -> str:
    """Which columns resist the naive samplers, and which do not."""
    arms = data.with_role(*GENERATED)
    judged = [metric for metric in _JUDGED if direction_of(arms, metric) is not None]
    if not data.with_role("heuristic") or not data.with_role(*TRAINED) or not judged:
        return ""
    fooled = {offence.column for offence in offences(data)}
    parts = []
    for ranked, kind in ((True, "ranked"), (False, "other")):
        columns = [m for m in judged if _BY_NAME[m].ranked is ranked]
        held = [_BY_NAME[m].title for m in columns if m not in fooled]
        if columns:
            names = f" ({', '.join(held)})" if held else ""
            parts.append(f"{len(held)} of {len(columns)} {kind} columns{names}")
    return f"{' and '.join(parts)} place every naive sampler below every trained arm."


def _order(arm: Arm) -> float:
    value = arm.score(RANK).value
    return math.inf if value is None else value


def _edge(intervals: RankIntervals | None, label: str, edge: str, why: str, rank: Score) -> Score:
    if intervals is None:
        return missing(why)
    value = getattr(intervals.ranks[label], edge)
    return Score(value, None, rank.n, "rank", None, f"{rank.signature}|bootstrap:95%:{edge}")


def _rank_score(rank: float, score: Score, count: int) -> Score:
    if math.isnan(rank):
        return missing(score.reason or "missing for this arm")
    signature = f"rank|of:{score.signature}|ties:average|arms:{count}"
    return Score(rank, None, score.n, "rank", "down", signature)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return "; ".join(names[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
