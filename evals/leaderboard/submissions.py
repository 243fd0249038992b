"""Rows that people report themselves: read from JSON, checked in full, and written from runs."""

import functools
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError, naming
from ..scoring.scores import Score
from .comparable import SUBMITTED, submitted_facts
from .gap import paired_gap
from .identity import identify
from .rows import ARMS, METRICS, ORDERS, BoardRow, RowArm, marks_of
from .schema import problems
from .settings import RANKED, Settings

SCHEMA = pathlib.Path(__file__).with_name("submission.schema.json")
FORMAT = "dlmeval-leaderboard-1"
# Problems of a file that one message spells out.
_SHOWN = 8
# Strategies that decide a token once and for all, as fits: `origin` goes with an order.
_BASELINES = ("none", ORDERS[0])


@functools.cache
def submission_schema() -> dict[str, Any]:
    """The JSON schema of a file of submissions."""
    return json.loads(SCHEMA.read_text(encoding="utf-8"))


def read_submissions(path: str | pathlib.Path, settings: Settings) -> list[BoardRow]:
    """The rows of a file of submissions, all self-reported.

    Means, standard errors and gaps are computed from the values at each seed.

    Raises:
        InputError: not JSON, or everything that is wrong with it, each with its place.
    """
    path = pathlib.Path(path)
    with naming(f"--submissions={path}", "docs/leaderboard.md has an example"):
        text = path.read_text(encoding="utf-8")
        try:
            record = json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)
        except RecursionError as error:
            raise ValueError("its lists or objects are nested too deeply") from error
    found = list(problems(record, submission_schema(), "the file"))
    if not found:
        for index, row in enumerate(record["rows"]):
            found += _contradictions(row, f"rows[{index}]")
    if found:
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        shown = "; ".join(text.removeprefix("the file.") for text in found[:_SHOWN])
        raise InputError(f"--submissions={path}: {shown}{more}")
    return [_row(row, str(path), settings) for row in record["rows"]]


def submission_of(rows: Iterable[BoardRow]) -> dict[str, Any] | None:
    """Rows of runs as a file of submissions, for those who share numbers and not banks.

    Rows that lack a number of an arm are left out; None where no row is left.
    """
    found = [one for row in rows if (one := _submitted(row)) is not None]
    return {"format": FORMAT, "rows": found} if found else None


def _submitted(row: BoardRow) -> dict[str, Any] | None:
    complete = {name: arm for name, arm in row.arms.items() if set(METRICS) == set(arm.values)}
    if row.status == "self-reported" or not {"baseline", "strategy"} <= set(complete):
        return None
    if any(len(row.facts.get(name, ())) != 1 for name in {*SUBMITTED, *row.facts}):
        return None
    facts = {name: json.loads(row.facts[name][0]) for name in SUBMITTED}
    model = {name: value for name, value in row.model._asdict().items() if value and name != "tier"}
    arms = {}
    for name, arm in complete.items():
        if arm.seeds == row.seeds:
            values = {metric: list(arm.values[metric]) for metric in METRICS}
            arms[name] = {"strategy": arm.strategy, "unmask_temp": arm.unmask_temp} | values
    if not {"baseline", "strategy"} <= set(arms):
        return None
    return {
        "model": model,
        "settings": facts | {"reference": row.reference, "scorer": row.scorer},
        "seeds": list(row.seeds),
        "arms": arms,
        "command": row.command,
    }


def _row(record: Mapping[str, Any], origin: str, settings: Settings) -> BoardRow:
    seeds, stated = tuple(record["seeds"]), record["settings"]
    n = stated["num_samples"] * len(seeds)
    arms = {name: _arm(record["arms"][name], seeds, n) for name in ARMS if name in record["arms"]}
    baseline, strategy = arms["baseline"], arms["strategy"]
    gap, gap_test = paired_gap(
        baseline.values["mauve"],
        strategy.values["mauve"],
        seeds,
        f"{baseline.strategy}-{strategy.strategy}",
        "mauve,self-reported",
    )
    temp, pair = baseline.unmask_temp, (baseline.strategy, strategy.strategy)
    model = record["model"]
    known = identify({"source": model["source"]})
    total = model.get("params_total", known.params_total)
    return BoardRow(
        model=known._replace(
            name=model["name"],
            family=model.get("family", known.family),
            params_total=total,
            params_active=model.get("params_active", known.params_active or total),
        ),
        status="self-reported",
        reasons=("no bank was seen; means, errors and the gap are of the values given",),
        origin=origin,
        num_steps=stated["num_steps"],
        unmask_temp=temp,
        seeds=seeds,
        arms=arms,
        lacking={} if "cold" in arms else {"cold": "the submission has no such arm"},
        gap=gap,
        gap_test=gap_test,
        marks=marks_of(temp, settings.unmask_temp, seeds, pair),
        facts=submitted_facts(stated),
        reference=stated["reference"],
        scorer=stated["scorer"],
        command=record.get("command", ""),
        url=record.get("url", ""),
    )


def _arm(record: Mapping[str, Any], seeds: tuple[int, ...], n: int) -> RowArm:
    values = {metric: tuple(map(float, record[metric])) for metric in METRICS}
    means = {metric: _mean(metric, values[metric], n) for metric in METRICS}
    return RowArm(record["strategy"], float(record["unmask_temp"]), seeds, values, means)


def _mean(metric: str, values: Sequence[float], n: int) -> Score:
    """The mean over seeds; one seed has no standard error, as its own is not submitted."""
    found = np.array(values)
    stderr = float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else None
    signature = f"{metric}|self-reported|seeds:{len(found)}|n:{n}"
    return Score(float(found.mean()), stderr, n, "", RANKED.get(metric), signature)


def _contradictions(row: Mapping[str, Any], place: str) -> list[str]:
    """What a schema cannot say: lists as long as the seeds, arms that belong together."""
    found = []
    for name, arm in row["arms"].items():
        for metric in METRICS:
            if len(arm[metric]) != len(row["seeds"]):
                found.append(
                    f"{place}.arms.{name}.{metric} has {len(arm[metric])} values for"
                    f" {len(row['seeds'])} seeds; give one a seed, in their order"
                )
    baseline, strategy = row["arms"]["baseline"], row["arms"]["strategy"]
    cold = row["arms"].get("cold")
    where = f"{place}.arms"
    if baseline["strategy"] not in _BASELINES:
        found.append(
            f"{where}.baseline.strategy is {baseline['strategy']!r}; it must be"
            f" {' or '.join(_BASELINES)}, which put no token back"
        )
    if strategy["strategy"] in _BASELINES:
        found.append(f"{where}.strategy.strategy is {strategy['strategy']!r}, a baseline")
    if not baseline["unmask_temp"] == strategy["unmask_temp"] > 0:
        found.append(
            f"{where}: baseline and strategy are at temperatures {baseline['unmask_temp']} and"
            f" {strategy['unmask_temp']}; they must be equal and above 0"
        )
    if cold and (cold["unmask_temp"], cold["strategy"]) != (0, baseline["strategy"]):
        found.append(f"{where}.cold must be the baseline's strategy at unmask_temp 0")
    model = row["model"]
    if model.get("params_active", 0) > model.get("params_total", float("inf")):
        found.append(f"{place}.model has more active parameters than it has in all")
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = [name for index, name in enumerate(names) if name in names[:index]]
    if twice:
        raise ValueError(f"{twice[0]!r} is given twice in one object")
    return dict(pairs)
