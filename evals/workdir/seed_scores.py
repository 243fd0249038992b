"""Scores seed by seed, with what says which seeds of two arms belong together.

Averages over seeds hide what a paired test needs: the value at each seed, the reference that it
was measured against, and the prompts that its texts continue.
"""

import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from .. import storage
from ..banks.bank import MANIFEST
from ..cell import Cell, arm_labels
from ..errors import InputError
from ..scoring.scores import Score
from .plan import read_plan
from .sample_stage import bank_path
from .score_stage import load_scores


class SeedScores(NamedTuple):
    """The scores of one bank.

    Attributes:
        metrics: {name: Score}.
        reference: digest of the bank that it was scored against; None for the reference itself.
        prompts: digest of the prompts that its rows continue; None without prefixes.
        match: the manifest's record of how a target is met; None without a target.
    """

    metrics: Mapping[str, Score]
    reference: str | None = None
    prompts: str | None = None
    match: Mapping[str, Any] | None = None


class SeededArm(NamedTuple):
    """An arm's scores at each of its seeds.

    Attributes:
        label: as `arm_labels` gives it; the arm of `collect` with this label is the average.
        cell: of the first seed.
        seeds: {seed: SeedScores}, in the plan's order.
    """

    label: str
    cell: Cell
    seeds: Mapping[int, SeedScores]

    def values(self, metric: str) -> dict[int, float]:
        """{seed: value} of a metric.

        Raises:
            InputError: a seed at which it has no value, with the reason.
        """
        found = {}
        for seed, scores in self.seeds.items():
            if metric not in scores.metrics:
                raise InputError(f"{self.label} has no {metric} at seed {seed}: it was not scored")
            score = scores.metrics[metric]
            if score.value is None:
                raise InputError(f"{self.label} has no {metric} at seed {seed}: {score.reason}")
            found[seed] = score.value
        return found


def read_seeded_arms(workdir: pathlib.Path) -> tuple[SeededArm, ...]:
    """The arms of a workdir in the plan's order, seed by seed; null draws are left out.

    Raises:
        InputError: a plan, manifest or score file that is missing or of another version, or an
            arm that has one seed twice.
    """
    plan = read_plan(workdir)
    kept = [
        scores
        for scores in load_scores(plan, workdir)
        if not (scores.cell.role == "reference" and scores.cell.part)
    ]
    labels = arm_labels(scores.cell for scores in kept)
    cells: dict[str, Cell] = {}
    members: dict[str, dict[int, SeedScores]] = {}
    for scores in kept:
        cell, label = scores.cell, labels[scores.cell.fingerprint]
        manifest = storage.read_json(bank_path(workdir, cell) / MANIFEST)
        prompts = manifest.get("prompts")
        cells.setdefault(label, cell)
        seeds = members.setdefault(label, {})
        if cell.seed in seeds:
            raise InputError(f"{workdir}: {label} has seed {cell.seed} twice; seeds tell draws")
        seeds[cell.seed] = SeedScores(
            scores.metrics,
            scores.reference_digest,
            None if prompts is None else prompts["digest"],
            manifest.get("match"),
        )
    return tuple(SeededArm(label, cells[label], seeds) for label, seeds in members.items())
