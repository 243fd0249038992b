"""Scores: numbers with everything needed to read them, stored a file per cell, averaged per arm."""

import dataclasses
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .. import storage
from ..canonical import content_digest
from ..cell import Cell, arm_labels, cell_from_dict
from ..errors import InputError
from ..signature import merged

_SEAL = "sha256"
_LEAF = ("value", "stderr", "n", "unit", "direction", "signature")


@dataclasses.dataclass(frozen=True)
class Score:
    """One measured number.

    Attributes:
        value: None when it could not be measured; `reason` says why.
        stderr: standard error of `value`, None when not estimated.
        n: samples behind it.
        unit: such as "nats/token" or "bits/byte".
        direction: "up" or "down" is better, None where neither is.
        signature: the metric and all its settings.
        reason: why the value is missing.
    """

    value: float | None
    stderr: float | None
    n: int
    unit: str
    direction: str | None
    signature: str
    reason: str | None = None

    def __post_init__(self):
        for name in ("value", "stderr"):
            number = getattr(self, name)
            if number is not None and not math.isfinite(number):
                raise ValueError(f"{name} of {self.signature} is {number}; it must be finite")
        if self.value is None and not self.reason:
            raise ValueError(f"{self.signature} has no value and no reason")

    def leaf(self) -> dict[str, Any]:
        """The JSON form; `reason` appears only where the value is missing."""
        leaf = {name: getattr(self, name) for name in _LEAF}
        return leaf if self.value is not None else leaf | {"reason": self.reason}


class CellScores(NamedTuple):
    """All scores of one cell, and the digests of the bank and of its reference bank."""

    cell: Cell
    bank_digest: str
    reference_digest: str | None
    metrics: dict[str, Score]


class Band(NamedTuple):
    """What the reference's own law scores against the reference, over independent draws."""

    mean: float
    low: float
    high: float
    deviation: float
    num_banks: int
    unit: str
    signature: str


def write_scores(path: pathlib.Path, scores: CellScores) -> None:
    """Stores the scores of a cell as JSON, one leaf per metric at the top level, under a seal."""
    record = {
        "fingerprint": scores.cell.fingerprint,
        "cell": dataclasses.asdict(scores.cell),
        "bank_digest": scores.bank_digest,
        "reference_digest": scores.reference_digest,
    }
    record |= {name: score.leaf() for name, score in scores.metrics.items()}
    storage.write_json(path, sealed(record))


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a score file with the digest of all else in it, as `sha256`."""
    content = {name: value for name, value in record.items() if name != _SEAL}
    return content | {_SEAL: content_digest(content)}


def read_scores(path: pathlib.Path) -> CellScores:
    """Reads the scores of a cell.

    Raises:
        InputError: missing, not JSON, edited since it was written, or not of the cell that the
            file is named after. A file without a seal is taken as it is.
    """
    record = storage.read_json(path)
    try:
        if _SEAL in record and record != sealed(record):
            raise InputError(f"{path} was edited: its digest differs; delete it and score again")
        record.pop(_SEAL, None)
        cell = cell_from_dict(record.pop("cell"))
        fingerprint = record.pop("fingerprint")
        digests = record.pop("bank_digest"), record.pop("reference_digest")
        metrics = {name: parse_leaf(leaf) for name, leaf in record.items()}
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path} is not a score file ({error}); delete it and score again"
        ) from error
    if not cell.fingerprint == fingerprint == path.stem:
        raise InputError(f"{path} holds the scores of another cell; delete it and score again")
    return CellScores(cell, *digests, metrics)


def parse_leaf(leaf: Mapping[str, Any]) -> Score:
    """A score from its JSON form, whose fields may have been edited into anything.

    Raises:
        ValueError: a field of another kind than `Score` has.
        TypeError: fields that are unknown or missing.
    """
    score = Score(**leaf)
    numbers = [number for number in (score.value, score.stderr) if number is not None]
    texts = [score.unit, score.signature, *(() if score.reason is None else (score.reason,))]
    if (
        not all(isinstance(number, (int, float)) for number in numbers)
        or isinstance(score.n, bool)
        or not isinstance(score.n, int)
        or score.n < 0
        or not all(isinstance(text, str) for text in texts)
        or score.direction not in ("up", "down", None)
    ):
        raise ValueError(f"{score} has fields of another kind; delete the file and score again")
    return score


def aggregate(cells: Iterable[CellScores]) -> dict[str, dict[str, Score]]:
    """Averages the seeds of each arm; null draws are left to `null_band`.

    The standard error is the larger of two: the one propagated from the banks' own errors, and
    the spread of the seeds over sqrt(number of seeds). Neither sees everything: the first ignores
    what differs between seeds, the second is itself noisy with few of them.

    Returns:
        {arm label: {metric: Score}} with the labels of `arm_labels`, so that cells which differ in
        more than their draw are never averaged; in order of first appearance; n is summed over
        seeds.

    Raises:
        ValueError: cells of one arm whose signatures differ in more than digests and counts.
    """
    kept = [s for s in cells if not (s.cell.role == "reference" and s.cell.part)]
    labels = arm_labels(scores.cell for scores in kept)
    arms: dict[str, list[CellScores]] = {}
    for scores in kept:
        arms.setdefault(labels[scores.cell.fingerprint], []).append(scores)
    table: dict[str, dict[str, Score]] = {}
    for arm, members in arms.items():
        names = dict.fromkeys(name for scores in members for name in scores.metrics)
        table[arm] = {
            name: mean_score([_at_seed(s, name, members) for s in members]) for name in names
        }
    return table


def _at_seed(scores: CellScores, name: str, members: Sequence[CellScores]) -> Score:
    """A metric of one seed; where only other seeds have it, a score that says so."""
    if name in scores.metrics:
        return scores.metrics[name]
    known = next(other.metrics[name] for other in members if name in other.metrics)
    reason = f"not measured at seed {scores.cell.seed}"
    return dataclasses.replace(known, value=None, stderr=None, n=0, reason=reason)


def mean_score(scores: Sequence[Score]) -> Score:
    """The mean over seeds; missing as soon as one seed is missing.

    Its standard error is that of the seeds' values, or what the banks' own errors leave of a mean
    of independent banks where that is larger: few seeds often agree by chance.
    """
    first = scores[0]
    total = sum(score.n for score in scores)
    text = merged([score.signature for score in scores])
    missing = [score for score in scores if score.value is None]
    if missing:
        return dataclasses.replace(missing[0], n=total, signature=text)
    values = [score.value for score in scores if score.value is not None]
    count = len(values)
    errors = [score.stderr for score in scores if score.stderr is not None]
    stderr = math.sqrt(sum(e * e for e in errors)) / count if len(errors) == count else None
    if count > 1:
        stderr = max(stderr or 0.0, _deviation(values) / math.sqrt(count))
    return dataclasses.replace(
        first, value=sum(values) / count, stderr=stderr, n=total, signature=text
    )


def null_band(cells: Iterable[CellScores]) -> dict[str, Band]:
    """Mean, range and standard deviation of each metric over the null draws of all seeds.

    Returns:
        {metric: Band}; empty without null draws.
    """
    found: dict[str, list[Score]] = {}
    for scores in cells:
        if scores.cell.role == "reference" and scores.cell.part:
            for name, score in scores.metrics.items():
                found.setdefault(name, []).append(score)
    bands = {}
    for name, scores in found.items():
        values = [score.value for score in scores if score.value is not None]
        if values:
            bands[name] = Band(
                mean=sum(values) / len(values),
                low=min(values),
                high=max(values),
                deviation=_deviation(values),
                num_banks=len(values),
                unit=scores[0].unit,
                signature=merged([score.signature for score in scores]),
            )
    return bands


def values_of(table: Mapping[str, Mapping[str, Score]]) -> dict[str, dict[str, float]]:
    """{arm: {metric: value}} for `ranks.mean_rank`; missing values become NaN."""
    return {
        arm: {n: math.nan if s.value is None else s.value for n, s in metrics.items()}
        for arm, metrics in table.items()
    }


def _deviation(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
