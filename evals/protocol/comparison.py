"""Two runs side by side: only where they are alike, arm by arm, paired where they can be."""

import math
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from ..errors import InputError, naming
from ..scoring.scores import Score, mean_score
from ..signature import merged
from ..statistics.paired import PairedTest, paired_test
from ..workdir.plan import PLAN
from .arm_records import ArmRecord, generated_arms
from .bank_points import metric_names, settings_text
from .comparability import UnlikeRunsError, comparability_key, key_values, unlike_fields
from .records import BankRecord, RunRecord, read_run

# Compared beside the four metrics.
COSTS = ("nfe_mean", "acceptance")


class Compared(NamedTuple):
    """One metric of an arm of the first run beside an arm of the second.

    Attributes:
        metric: its name.
        arms: labels in either run; None where a run has no such arm.
        scores: means over seeds in either run.
        difference: first minus second; its standard error is that of the paired differences, or
            else propagated from both sides as if they were independent.
        test: over the shared seeds, where the arms are paired.
        note: how the difference was taken, or why there is none.
    """

    metric: str
    arms: tuple[str | None, str | None]
    scores: tuple[Score | None, Score | None]
    difference: Score | None
    test: PairedTest | None
    note: str


class RunComparison(NamedTuple):
    """Two like runs side by side.

    Attributes:
        names: of the workdirs.
        rows: arm by arm, in the first run's order, then what only the second has.
    """

    names: tuple[str, str]
    rows: tuple[Compared, ...]


def compare_runs(first: str | pathlib.Path, second: str | pathlib.Path) -> RunComparison:
    """Puts the generated arms of two runs side by side.

    An arm is set against the arm of the other run with the same strategy, or else with the only
    other strategy left at the same temperature and budget. Where the two have the same seeds,
    references and prompts, their difference is tested in pairs; otherwise its standard error is
    propagated from both sides, as of independent runs.

    Args:
        first, second: workdirs whose stages sample and score are done.

    Raises:
        InputError: `UnlikeRunsError` where the runs differ in more than strategy, budget and seeds,
            naming every such field; otherwise a file that is missing or damaged.
    """
    runs = [read_run(path) for path in (first, second)]
    arms = [_arms(run) for run in runs]
    differences = unlike_fields(*map(_facts, runs, arms))
    if differences:
        raise UnlikeRunsError(
            f"{first} and {second} must not be compared; they differ in "
            + "; ".join(map(str, differences)),
            differences,
        )
    metrics = (*metric_names(arms[0][0].banks[0][1]), *COSTS)
    rows = [_compared(metric, one, other) for one, other in _partners(*arms) for metric in metrics]
    return RunComparison((str(first), str(second)), tuple(rows))


def _arms(run: RunRecord) -> list[ArmRecord]:
    """The generated arms of a run, all of them readable."""
    arms, problems = generated_arms(run)
    if problems:
        raise InputError(problems[0])
    if not arms:
        raise InputError(f"{run.workdir / PLAN} has no generated arms, so nothing is compared")
    return arms


def _facts(run: RunRecord, arms: Sequence[ArmRecord]) -> dict[str, list[str]]:
    """Values of the comparability key over all banks, and how each metric was measured."""
    keys = []
    for record in (record for arm in arms for _, record in arm.banks):
        key = comparability_key(run, record)
        for metric in metric_names(record):
            key[f"settings of {metric}"] = settings_text(record.score(metric).signature)
        keys.append(key)
    return key_values(keys)


def _partners(
    first: Sequence[ArmRecord], second: Sequence[ArmRecord]
) -> list[tuple[ArmRecord | None, ArmRecord | None]]:
    """Pairs of arms at the same temperature and budget: same strategy, else the only ones left."""
    left = list(second)
    found: dict[int, ArmRecord] = {}
    for place, arm in enumerate(first):
        same = [other for other in left if _same(other, arm)]
        if same:
            found[place] = same[0]
            left.remove(same[0])
    lone = [place for place in range(len(first)) if place not in found]
    for place in lone:
        near = [other for other in left if _setting(other) == _setting(first[place])]
        rivals = [p for p in lone if _setting(first[p]) == _setting(first[place])]
        if len(near) == len(rivals) == 1:
            found[place] = near[0]
            left.remove(near[0])
    pairs: list[tuple[ArmRecord | None, ArmRecord | None]] = [
        (arm, found.get(place)) for place, arm in enumerate(first)
    ]
    return pairs + [(None, arm) for arm in left]


def _same(one: ArmRecord, other: ArmRecord) -> bool:
    """Whether two arms are of one law; names that digests stand for may differ."""
    return one.key("model", "corpus") == other.key("model", "corpus")


def _setting(arm: ArmRecord) -> tuple[float, str]:
    return arm.unmask_temp, arm.budget


def _compared(metric: str, first: ArmRecord | None, second: ArmRecord | None) -> Compared:
    labels = (first and first.label, second and second.label)
    one = None if first is None else _mean(first, metric)
    other = None if second is None else _mean(second, metric)
    if first is None or second is None or one is None or other is None:
        note = "the other run has no such arm"
        return Compared(metric, labels, (one, other), None, None, note)
    if one.value is None or other.value is None:
        return Compared(metric, labels, (one, other), None, None, str(one.reason or other.reason))
    stderr, test, note = None, None, _unpaired(first, second)
    if one.stderr is not None and other.stderr is not None:
        stderr = math.hypot(one.stderr, other.stderr)
    if not note:
        test = paired_test(_values(first, metric), _values(second, metric))
        stderr = test.stderr
        note = f"paired over seeds {_listed(first.seeds)}"
        if test.t is None:
            note += "; no test, as all differences are equal"
    with naming(f"{metric} of {first.label} and {second.label}"):
        text = merged([one.signature, other.signature])
    value, n = one.value - other.value, one.n + other.n
    difference = Score(value, stderr, n, one.unit, None, text)
    return Compared(metric, labels, (one, other), difference, test, note)


def _unpaired(first: ArmRecord, second: ArmRecord) -> str:
    """Why two arms cannot be paired; empty where they can."""
    if first.seeds != second.seeds:
        return f"unpaired: seeds {_listed(first.seeds)} and {_listed(second.seeds)}"
    if len(first.seeds) < 2:
        return "unpaired: one seed"
    for (seed, one), (_, other) in zip(first.banks, second.banks, strict=True):
        for what, digest in (("references", _reference), ("prompts", _prompts)):
            if digest(one) != digest(other):
                return f"unpaired: other {what} at seed {seed}"
    return ""


def _reference(record: BankRecord) -> str:
    return record.score_fact("reference_digest", "digest")


def _prompts(record: BankRecord) -> str | None:
    prompts = record.manifest.get("prompts")
    return None if prompts is None else record.fact("prompts.digest", "digest")


def _mean(arm: ArmRecord, metric: str) -> Score:
    with naming(f"{metric} of {arm.label}"):
        return mean_score([record.score(metric) for _, record in arm.banks])


def _values(arm: ArmRecord, metric: str) -> list[float]:
    return [float(value) for _, r in arm.banks if (value := r.score(metric).value) is not None]


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
