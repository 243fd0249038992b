"""The same arms on several corpora: what may stand side by side, though never be averaged."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..cell import Cell, arm_labels
from ..errors import InputError
from ..scoring.scores import Score, aggregate
from .plan import read_plan
from .score_stage import load_scores

# What follows from the corpus or names a draw; all other fields of two arms must be equal.
_OF_THE_CORPUS = ("corpus", "corpus_digest", "offset", "part", "seed")


class CorpusArms(NamedTuple):
    """The arms of one scored workdir.

    Attributes:
        workdir: its path as given.
        corpus: source of its real text.
        arms: {label: {metric: Score}}, seeds averaged; real text is "reference".
        banks: {label: {seed: bank digest}}.
    """

    workdir: str
    corpus: str
    arms: Mapping[str, Mapping[str, Score]]
    banks: Mapping[str, Mapping[int, str]]


def arms_by_corpus(workdirs: Sequence[pathlib.Path]) -> tuple[CorpusArms, ...]:
    """Scored workdirs whose arms differ in the corpus alone, in the order given.

    Raises:
        InputError: fewer than two workdirs, one that is not scored or has no real text, two of
            the same text, unlike arms or seeds, or an arm with other settings; what differs is
            named.
    """
    if len(workdirs) < 2:
        named = ",".join(map(str, workdirs))
        raise InputError(f"--workdirs={named}: name two or more scored workdirs, each on a corpus")
    found, facts = [], []
    for path in workdirs:
        arms, cells = _read(path)
        for other, known in zip(found, facts, strict=True):
            _check_alike(other.workdir, known, str(path), cells)
        found.append(arms)
        facts.append(cells)
    return tuple(found)


def _read(path: pathlib.Path) -> tuple[CorpusArms, dict[str, dict[int, Cell]]]:
    plan = read_plan(path)
    kept = [
        one
        for one in load_scores(plan, path)
        if not (one.cell.role == "reference" and one.cell.part)
    ]
    texts = {one.cell.corpus: one.cell for one in kept if one.cell.role == "reference"}
    if len(texts) != 1:
        raise InputError(f"{path} is compared with {len(texts)} corpora; it must be one")
    labels = arm_labels(one.cell for one in kept)
    cells: dict[str, dict[int, Cell]] = {}
    banks: dict[str, dict[int, str]] = {}
    for one in kept:
        label = labels[one.cell.fingerprint]
        cells.setdefault(label, {})[one.cell.seed] = one.cell
        banks.setdefault(label, {})[one.cell.seed] = one.bank_digest
    corpus = str(next(iter(texts)))
    return CorpusArms(str(path), corpus, aggregate(kept), banks), cells


def _check_alike(
    one: str,
    cells: Mapping[str, Mapping[int, Cell]],
    other: str,
    others: Mapping[str, Mapping[int, Cell]],
) -> None:
    texts = [
        {cell.corpus_digest for cell in some["reference"].values()} for some in (cells, others)
    ]
    if texts[0] & texts[1]:
        raise InputError(f"{one} and {other} have the same real text; name one of them")
    unlike = sorted(set(cells) ^ set(others))
    if unlike:
        raise InputError(f"{one} and {other} do not both have the arm {unlike[0]!r}")
    for label, seeds in cells.items():
        if set(seeds) != set(others[label]):
            raise InputError(
                f"{label} has the seeds {sorted(seeds)} in {one} and {sorted(others[label])} in"
                f" {other}; run the missing ones"
            )
        first, second = (_settings(next(iter(some.values()))) for some in (seeds, others[label]))
        for name in first:
            if first[name] != second[name]:
                raise InputError(
                    f"{label} has {name} {first[name]!r} in {one} and {second[name]!r} in {other};"
                    " only the corpus may differ"
                )


def _settings(cell: Cell) -> dict[str, Any]:
    return {k: v for k, v in dataclasses.asdict(cell).items() if k not in _OF_THE_CORPUS}
