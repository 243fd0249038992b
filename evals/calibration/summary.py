"""What the records of a study say of each metric, and the table of it."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...metrics.spread import deviation
from ..statistics import spearman
from .measures import MEASURES
from .power import SEEN, detectable, null_band, power
from .study import CLEAN

DIVERGENCES = ("missed", "invented", "variation")
_ARROWS = {"down": "↓", "up": "↑", None: "="}
_CLEAR = 2.0  # standard errors by which a mean must fall to count as a step back

Records = Sequence[Mapping[str, Any]]


class Detection(NamedTuple):
    """How a metric sees one ladder at one size of bank.

    Attributes:
        level: least level seen, in the ladder's unit; None = not even the highest.
        power: share of draws outside the null band, at each level.
        rewarded: whether a level that is seen scores better than the language itself.
    """

    level: float | None
    power: tuple[float, ...]
    rewarded: bool


class Summary(NamedTuple):
    """One number of one metric.

    Attributes:
        name, direction: "down" or "up" for better, None where the language's value is the aim.
        spearman: rank correlation with each divergence, over all laws where that is finite, of the
            value at the largest size, turned so that more is worse; for direction None, of its
            distance from the clean mean.
        gap_spearman: the same of the distance from the clean mean, whatever the direction.
        monotone: by ladder, whether the turned value never clearly falls from a level to the next.
        detection: by size and ladder.
        clean: by size, mean and standard deviation of clean draws.
        seconds: by size, of the call that gives this number.
    """

    name: str
    direction: str | None
    spearman: dict[str, float]
    gap_spearman: dict[str, float]
    monotone: dict[str, bool]
    detection: dict[str, dict[str, Detection]]
    clean: dict[str, tuple[float, float]]
    seconds: dict[str, float]


def summarise(records: Records) -> list[Summary]:
    """Summaries of the numbers that the study measured; sizes from the smallest to the largest.

    Those of `refused_numbers` are left out: they have no null band.

    Raises:
        ValueError: records without the clean law.
    """
    clean = _clean(records)
    damaged = [record for record in records if record["ladder"] != CLEAN]
    left_out = refused_numbers(records)
    found = []
    for measure_name, measure in MEASURES.items():
        for name, direction in measure.directions.items():
            if name in next(iter(clean["values"].values())) and name not in left_out:
                found.append(_summary(name, direction, measure_name, clean, damaged))
    return found


def refused_numbers(records: Records) -> tuple[str, ...]:
    """Numbers that a metric refused to give of some clean bank."""
    found: dict[str, None] = {}
    for values in _clean(records)["values"].values():
        found |= dict.fromkeys(name for name, draws in values.items() if None in draws)
    return tuple(found)


def _clean(records: Records) -> Mapping[str, Any]:
    clean = [record for record in records if record["ladder"] == CLEAN]
    if len(clean) != 1:
        raise ValueError(f"records hold {len(clean)} clean laws; a study has one")
    return clean[0]


def ladder_names(records: Records) -> list[str]:
    """Names of the ladders, in order."""
    return list(dict.fromkeys(r["ladder"] for r in records if r["ladder"] != CLEAN))


def _summary(name, direction, measure_name, clean, damaged) -> Summary:
    sizes = sorted(damaged[0]["values"], key=int)
    largest = sizes[-1]

    def turned(values: np.ndarray, centre: float) -> np.ndarray:
        if direction is None:
            return np.abs(values - centre)
        return values if direction == "down" else -values

    centre = _six_digits(_numbers(clean, largest, name).mean())
    laws = [r for r in [clean, *damaged] if len(_numbers(r, largest, name))]
    means = np.array([_six_digits(_numbers(r, largest, name).mean()) for r in laws])
    worse = turned(means, centre)

    def correlations(values: np.ndarray) -> dict[str, float]:
        found = {}
        for divergence in DIVERGENCES:
            truths = [r["truth"][divergence]["value"] for r in laws]
            finite = [i for i, value in enumerate(truths) if value is not None]
            found[divergence] = spearman(values[finite].tolist(), [truths[i] for i in finite])
        return found

    ladders = {n: [r for r in damaged if r["ladder"] == n] for n in ladder_names(damaged)}
    monotone = {
        ladder: _never_falls([turned(_numbers(r, largest, name), centre) for r in [clean, *steps]])
        for ladder, steps in ladders.items()
    }
    detection = {
        size: {
            ladder: _detection(name, direction, size, clean, steps)
            for ladder, steps in ladders.items()
        }
        for size in sizes
    }
    spread = {}
    for size in sorted(clean["values"], key=int):
        values = _numbers(clean, size, name)
        spread[size] = float(values.mean()), float(deviation(values))
    return Summary(
        name=name,
        direction=direction,
        spearman=correlations(worse),
        gap_spearman=correlations(np.abs(means - centre)),
        monotone=monotone,
        detection=detection,
        clean=spread,
        seconds={size: times[measure_name] for size, times in clean["seconds"].items()},
    )


def _detection(name, direction, size, clean, steps) -> Detection:
    baseline = _numbers(clean, size, name)
    band = null_band(baseline)
    levels, powers, rewarded = [], [], False
    for step in steps:
        values = _numbers(step, size, name)
        if not len(values):  # refused on every draw: nobody can miss that
            values = np.array([math.inf])
        levels.append(step["level"])
        powers.append(power(values, band))
        shift = float(values.mean() - baseline.mean())
        better = shift < 0 if direction == "down" else shift > 0
        rewarded |= direction is not None and powers[-1] >= SEEN and better and shift != math.inf
    return Detection(detectable(levels, powers), tuple(powers), bool(rewarded))


def _never_falls(draws: Sequence[np.ndarray]) -> bool:
    """Whether means rise or stay from each array to the next, within their standard errors."""
    known = [values for values in draws if len(values) > 1]
    for before, after in itertools.pairwise(known):
        error = math.hypot(*(v.std(ddof=1) / math.sqrt(len(v)) for v in (before, after)))
        if after.mean() < before.mean() - _CLEAR * error - 1e-12:
            return False
    return True


def _numbers(record: Mapping[str, Any], size: str, name: str) -> np.ndarray:
    known = [v for v in record["values"][size][name] if v is not None]
    return np.array([_six_digits(value) for value in known], np.float64)


def _six_digits(value: float) -> float:
    """What float32 holds for sure: its rounding is no difference between laws and no rank."""
    return float(f"{value:.6g}")


def metrics_table(summaries: Sequence[Summary]) -> str:
    """One line a number, in Markdown: what it follows, what it sees, what it rewards, its cost."""
    sizes, ladders = list(summaries[0].detection), list(summaries[0].monotone)
    heads = ["metric", "better", "ρ KL(P‖Q)", "ρ KL(Q‖P)", "ρ TV", "monotone"]
    heads += [*(f"seen, n={size}" for size in sizes), "rewards", f"s, n={sizes[-1]}"]
    rows = []
    for row in summaries:
        seen = [
            sum(found.level is not None for found in row.detection[size].values()) for size in sizes
        ]
        rewards = [n for n in ladders if any(row.detection[size][n].rewarded for size in sizes)]
        cells = [f"`{row.name}`", _ARROWS[row.direction]]
        cells += [_correlation(row.spearman[d]) for d in DIVERGENCES]
        cells += [f"{count}/{len(ladders)}" for count in (sum(row.monotone.values()), *seen)]
        rows.append([*cells, ", ".join(rewards) or "–", f"{row.seconds[sizes[-1]]:.2g}"])
    return _markdown(heads, rows, words=2)


def bias_table(summaries: Sequence[Summary]) -> str:
    """One line a number, in Markdown: mean and deviation of clean banks by size."""
    heads = ["metric", *(f"n={size}" for size in summaries[0].clean)]
    rows = [
        [f"`{row.name}`", *(f"{mean:.3g} ± {sd:.1g}" for mean, sd in row.clean.values())]
        for row in summaries
    ]
    return _markdown(heads, rows)


def truth_table(records: Records) -> str:
    """One line a law, in Markdown: what the damage truly is."""
    heads = ["damage", "level", "KL(P‖Q)", "KL(Q‖P)", "TV", "entropy"]
    rows = [
        [
            record["ladder"],
            f"{record['level']:.3g}",
            *(_known(record["truth"][name]) for name in (*DIVERGENCES, "entropy")),
        ]
        for record in records
    ]
    return _markdown(heads, rows)


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A pipe table; the first `words` columns are words, the rest numbers."""
    marks = [":---"] * words + ["---:"] * (len(heads) - words)
    return "".join("| " + " | ".join(cells) + " |\n" for cells in (heads, marks, *rows))


def _known(entry: Mapping[str, Any]) -> str:
    if entry["how"] == "infinite":
        return "∞"
    digits = f"{entry['value']:.3g}"
    sampled = entry["how"] == "sampled" and entry["stderr"] > 1e-3 * abs(entry["value"])
    return f"{digits} ± {entry['stderr']:.1g}" if sampled else digits


def _correlation(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def summary_record(summaries: Sequence[Summary]) -> dict[str, Any]:
    """The JSON form; NaN becomes None."""

    def plain(value: Any) -> Any:
        if isinstance(value, Detection):
            return plain(value._asdict())
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, tuple):
            return [plain(item) for item in value]
        if isinstance(value, float):
            return None if math.isnan(value) else float(f"{value:.5g}")
        return value

    return {row.name: plain(row._asdict()) for row in summaries}
