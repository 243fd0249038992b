"""Scores of several workdirs as one table of generators, where they may be joined.

Banks are joined exactly: by corpus, generator and bank digest ("Hacking Generative Perplexity",
section 5: a mismatch is an error, never a fuzzy match). Two workdirs may hold other generators,
or other metrics of the same banks.
"""

import math
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..canonical import content_digest
from ..cell import Cell, arm_labels
from ..errors import InputError
from ..scoring.scores import CellScores, Score, mean_score
from .plan import Plan, read_plan
from .score_stage import load_scores

# Parts of a signature that follow from the bank, not from the settings of the metric.
_OF_THE_BANK = ("n", "ref", "fit", "K")


class JoinedArm(NamedTuple):
    """One generator: its numbers averaged over the seeds.

    Attributes:
        label, role: as in the workdirs.
        corpus: source of the real text that it is scored against.
        digests: {seed: bank digest}.
        metrics: {metric: Score}.
        workdirs: names of the folders that know it.
    """

    label: str
    role: str
    corpus: str
    digests: dict[int, str]
    metrics: dict[str, Score]
    workdirs: tuple[str, ...]


class _Bank(NamedTuple):
    workdir: str
    digest: str
    role: str
    metrics: dict[str, Score]


def join_workdirs(workdirs: Sequence[pathlib.Path]) -> tuple[JoinedArm, ...]:
    """The generators of scored workdirs, in order of first appearance; real text is no generator.

    Raises:
        InputError: workdirs of unlike lengths, corpora, references or seeds, a generator whose
            banks differ between them, a metric measured with unlike settings, a generator that
            lacks a seed, or a workdir that is not scored. What differs is named.
    """
    if not workdirs:
        raise InputError("--workdirs is empty; name at least one scored workdir")
    plans = {path.name or str(path): read_plan(path) for path in workdirs}
    if len(plans) < len(workdirs):
        raise InputError(f"--workdirs={','.join(map(str, workdirs))} has two of one name")
    facts = {name: _common_facts(name, plan) for name, plan in plans.items()}
    first, *others = facts
    for name in others:
        for key, value in facts[name].items():
            if value != facts[first][key]:
                raise InputError(
                    f"{first} and {name} differ in {key}: {_shown(facts[first][key])} and"
                    f" {_shown(value)}; such banks are not joined, run them on the same"
                )
    banks: dict[str, dict[int, list[_Bank]]] = {}
    for name, path in zip(plans, workdirs, strict=True):
        scores = [one for one in load_scores(plans[name], path) if one.cell.role != "reference"]
        labels = arm_labels(one.cell for one in scores)
        for one in scores:
            bank = _Bank(name, one.bank_digest, one.cell.role, one.metrics)
            seeds = banks.setdefault(labels[one.cell.fingerprint], {})
            seeds.setdefault(one.cell.seed, []).append(bank)
    _check_settings(bank for seeds in banks.values() for some in seeds.values() for bank in some)
    seeds_of_text = set(facts[first]["reference banks"])
    return tuple(
        _joined(label, seeds, seeds_of_text, str(facts[first]["corpus"]))
        for label, seeds in banks.items()
    )


def digests_of(workdirs: Sequence[str]) -> dict[str, str]:
    """{workdir: digest of its plan and scores}, which changes when any number does.

    Raises:
        InputError: a workdir that is not scored.
    """
    found = {}
    for name in workdirs:
        plan = read_plan(pathlib.Path(name))
        scores = load_scores(plan, pathlib.Path(name))
        found[name] = content_digest({one.cell.fingerprint: _leaves(one) for one in scores})
    return found


def reading_lines(workdirs: Sequence[str]) -> list[str]:
    """The end of a dry run of a study that reads scored workdirs and draws nothing."""
    return [
        "files needed:",
        *(f"  scores of {name}" for name in workdirs),
        "forwards: 0; time: seconds; memory: below 1 GB",
    ]


def _leaves(scores: CellScores) -> dict[str, Any]:
    leaves = {name: score.leaf() for name, score in scores.metrics.items()}
    return leaves | {"bank_digest": scores.bank_digest}


def _common_facts(name: str, plan: Plan) -> dict[str, Any]:
    """What must be equal for banks to be joined, from a plan's reference banks."""
    cells = [cell for cell in plan.cells if cell.role == "reference" and not cell.part]
    lengths = {cell.gen_length for cell in plan.cells if cell.role != "trajectory"}
    sizes = {cell.num_samples for cell in plan.cells if cell.role != "trajectory"}
    if not cells or len(lengths) > 1 or len(sizes) > 1:
        raise InputError(
            f"{name} holds banks of {len(lengths)} lengths and {len(sizes)} sizes and"
            f" {len(cells)} reference banks; only banks of one length and size against real text"
            " are joined"
        )
    return {
        "tokens a sample": next(iter(lengths)),
        "samples a bank": next(iter(sizes)),
        "corpus": cells[0].corpus,
        "text of the corpus": cells[0].corpus_digest,
        "reference banks": {cell.seed: _windows_of(cell) for cell in cells},
    }


def _windows_of(cell: Cell) -> tuple[Any, ...]:
    return cell.model_digest, cell.prefix_length, cell.offset, cell.ascii_min, cell.cjk_max


def _check_settings(banks: Iterable[_Bank]) -> None:
    """Every metric has one signature but for what follows from the bank."""
    known: dict[str, tuple[str, str]] = {}
    for bank in banks:
        for metric, score in bank.metrics.items():
            settings = "|".join(
                part
                for part in score.signature.split("|")
                if part.partition(":")[0] not in _OF_THE_BANK
            )
            workdir, first = known.setdefault(metric, (bank.workdir, settings))
            if first != settings:
                raise InputError(
                    f"{metric} is measured as {first} in {workdir} and as {settings} in"
                    f" {bank.workdir}; such numbers are not joined"
                )


def _joined(label: str, seeds: dict[int, list[_Bank]], wanted: set[int], corpus: str) -> JoinedArm:
    if set(seeds) != wanted:
        raise InputError(
            f"{label} has the seeds {_shown(sorted(seeds))} and the real text"
            f" {_shown(sorted(wanted))}; run the missing ones, means over unlike seeds are refused"
        )
    by_metric: dict[str, list[Score]] = {}
    for seed in sorted(seeds):
        merged: dict[str, tuple[str, Score]] = {}
        first = seeds[seed][0]
        for bank in seeds[seed]:
            if bank.digest != first.digest:
                raise InputError(
                    f"{label} at seed {seed} is another bank in {first.workdir}"
                    f" ({first.digest[:12]}) than in {bank.workdir} ({bank.digest[:12]}); rename"
                    " one of the generators"
                )
            for metric, score in bank.metrics.items():
                workdir, known = merged.setdefault(metric, (bank.workdir, score))
                if not _equal(known, score):
                    raise InputError(
                        f"{metric} of {label} at seed {seed} is {known.value} in {workdir} and"
                        f" {score.value} in {bank.workdir}, of the same bank; score one anew"
                    )
        for metric, (_, score) in merged.items():
            by_metric.setdefault(metric, []).append(score)
    return JoinedArm(
        label,
        seeds[min(seeds)][0].role,
        corpus,
        {seed: some[0].digest for seed, some in sorted(seeds.items())},
        {m: mean_score(found) for m, found in by_metric.items() if len(found) == len(seeds)},
        tuple(dict.fromkeys(bank.workdir for some in seeds.values() for bank in some)),
    )


def _equal(one: Score, other: Score) -> bool:
    if one.value is None or other.value is None:
        return one.value is None and other.value is None
    return math.isclose(one.value, other.value, rel_tol=1e-5, abs_tol=1e-9)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"seed {seed} {_shown(item)}" for seed, item in value.items())
    if isinstance(value, (list, tuple, set)):
        return ", ".join(_shown(item) for item in value)
    text = str(value)
    return text[:12] if len(text) == 64 else text
