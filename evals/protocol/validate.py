"""The seven points of the CaRE protocol, judged on a finished run (care.md, section 4.1)."""

import pathlib
from typing import NamedTuple

from ..errors import InputError, one_line
from ..workdir.plan import PLAN
from .bank_points import judge_compute, judge_filter, judge_metrics
from .design_points import judge_baseline, judge_seeds, judge_sweep
from .disclosure import judge_disclosure
from .records import RunRecord, read_run

_POINTS = (
    ("actual NFE", judge_compute),
    ("four metrics together", judge_metrics),
    ("temperature sweep", judge_sweep),
    ("seeds and pairing", judge_seeds),
    ("language filter", judge_filter),
    ("no-remask baseline", judge_baseline),
    ("full disclosure", judge_disclosure),
)


class Point(NamedTuple):
    """One point of the protocol.

    Attributes:
        number: 1 to 7.
        name: a few words.
        passed: whether the run meets it.
        reason: what was found, with warnings, or the first problems, each with its file.
    """

    number: int
    name: str
    passed: bool
    reason: str


class ProtocolReport(NamedTuple):
    """The seven points of a run; each stands for itself, `passed` says whether all are met."""

    points: tuple[Point, ...]
    passed: bool


def validate_run(path: str | pathlib.Path) -> ProtocolReport:
    """Judges a run by what its files say: plan.json, manifests, rows and scores.

    1 actual NFE, counted in every row and on target where arms are matched; 2 perplexity, MAUVE,
    Self-BLEU and Distinct-3 of every generated bank, measured alike; 3 every strategy drawn at
    unmask_temp 0, 0.1, 0.25 and 0.5; 4 at least three seeds, the same ones on the same prefixes
    and references; 5 the language filter's bounds, true verdicts and acceptance; 6 an arm without
    remasking beside each other strategy; 7 every field of care.md, appendix D, files as hashed,
    arms that differ by strategy, temperature, budget and seed alone.

    It loads no model. A file that is missing or damaged makes the points fail that need it, and
    their reasons name it.

    Args:
        path: workdir of any experiment of cells, with or without prefixes.

    Raises:
        InputError: `path` is no folder.
    """
    workdir = pathlib.Path(path)
    try:
        run = read_run(workdir)
    except InputError as error:
        if not workdir.is_dir():
            raise
        return _all_failed(one_line(error))
    if not run.with_role("generated"):
        return _all_failed(f"{workdir / PLAN} has no generated arms, so there is nothing to judge")
    points = tuple(_judged(number, run) for number in range(1, len(_POINTS) + 1))
    return ProtocolReport(points, all(point.passed for point in points))


def _judged(number: int, run: RunRecord) -> Point:
    name, judge = _POINTS[number - 1]
    try:
        finding = judge(run)
    except InputError as error:
        return Point(number, name, False, one_line(error))
    return Point(number, name, not finding.problems, finding.reason)


def _all_failed(reason: str) -> ProtocolReport:
    points = (Point(number, name, False, reason) for number, (name, _) in enumerate(_POINTS, 1))
    return ProtocolReport(tuple(points), False)
