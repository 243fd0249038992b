"""From a workdir to what a report shows: arms with averaged scores, compute, texts, provenance."""

import dataclasses
import pathlib
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import samplers
from ..banks.bank import SampleBank, read_bank
from ..banks.trajectory import load_history
from ..cell import Cell, arm_labels
from ..experiment import load_experiment
from ..scoring.scores import aggregate, null_band
from ..sources import Sources
from ..workdir.plan import Plan, StudyPlan, read_plan
from ..workdir.sample_stage import bank_path
from ..workdir.score_stage import load_scores
from ..workdir.workdir_log import run_facts
from .data import Arm, Bank, Compute, Provenance, ReportData, Trajectory

# Texts of an arm that the report may show; it shows the first few, never chosen ones.
_TEXTS = 8


def collect(workdir: pathlib.Path, sources: Sources) -> ReportData:
    """Reads plan, banks and scores of a workdir; banks are verified on the way.

    Args:
        workdir: folder of a run whose stages sample and score are done.
        sources: loads the denoiser's tokenizer, for the pieces of the recorded samples.

    Raises:
        ValueError: something is missing, unfinished or edited.
    """
    plan = read_plan(workdir)
    scores = load_scores(plan, workdir)
    banks = {cell.fingerprint: read_bank(bank_path(workdir, cell)) for cell in plan.cells}
    averaged = aggregate(scores)
    kept = [
        cell
        for cell in plan.cells
        if cell.role != "trajectory" and not (cell.role == "reference" and cell.part)
    ]
    labels = arm_labels(kept)
    members: dict[str, list[Cell]] = {}
    for cell in kept:
        members.setdefault(labels[cell.fingerprint], []).append(cell)
    arms = tuple(
        Arm(
            label=label,
            role=cells[0].role,
            scores=averaged[label],
            fields={
                "strategy": cells[0].strategy,
                "unmask_temp": cells[0].unmask_temp,
                "num_steps": cells[0].num_steps,
                "target_nfe": cells[0].target_nfe,
                "match_mode": cells[0].match_mode,
                "remask_fraction": cells[0].remask_fraction,
                "num_samples": cells[0].num_samples,
                "size": cells[0].size,
            },
            compute=_compute([banks[cell.fingerprint] for cell in cells], cells[0]),
            samples=banks[cells[0].fingerprint].texts[:_TEXTS],
        )
        for label, cells in members.items()
    )
    trajectories = [cell for cell in plan.cells if cell.role == "trajectory"]
    return ReportData(
        title=f"dlmeval {plan.experiment}",
        arms=arms,
        provenance=_provenance(plan, workdir, banks),
        null_band=null_band(scores),
        trajectories=tuple(
            _trajectory(cell, workdir, banks[cell.fingerprint], sources) for cell in trajectories
        ),
    )


def _compute(banks: Sequence[SampleBank], cell: Cell) -> Compute | None:
    nfe = np.concatenate([bank.nfe for bank in banks])
    if not nfe.any():
        return None
    return Compute(
        nominal_steps=cell.num_steps,
        nfe_mean=float(nfe.mean()),
        nfe_min=int(nfe.min()),
        nfe_max=int(nfe.max()),
        launches=sum(bank.manifest["measured"]["launches"] for bank in banks),
        n=len(nfe),
    )


def _trajectory(
    cell: Cell, workdir: pathlib.Path, bank: SampleBank, sources: Sources
) -> Trajectory:
    """The first recorded sample of a trajectory cell."""
    history = load_history(bank_path(workdir, cell))
    classes = np.asarray(samplers.classify_cells(history))[:, 0]
    tokenizer = sources.denoiser(str(cell.model)).tokenizer
    canvas = np.asarray(history.canvas)[:, 0]
    texts = {int(i): tokenizer.decode([int(i)]) for i in np.unique(canvas) if i != history.mask_id}
    pieces = tuple(tuple(texts.get(int(token)) for token in row) for row in canvas)
    return Trajectory(f"{cell.arm} seed {cell.seed}", classes, pieces, bank.texts[0])


def _provenance(plan: Plan, workdir: pathlib.Path, banks: dict[str, SampleBank]) -> Provenance:
    facts = run_facts(workdir)
    models: dict[str, str] = {}
    versions: dict[str, str] = {}
    for bank in banks.values():
        model, environment = bank.manifest["model"], dict(bank.manifest["environment"])
        for name, digest in model["files"].items():
            models[f"{model['source']} {name}"] = digest
        versions = environment
    device = versions.pop("device", "")
    machine = {"device": device}
    if facts.peak_memory_bytes:
        machine["peak memory"] = f"{facts.peak_memory_bytes / 1e9:.2f} GB"
    return Provenance(
        command=command_line(plan),
        config=plan.config,
        banks=tuple(
            Bank(f"{c.arm} seed {c.seed}", c.fingerprint, b.digest, len(b.texts))
            for c, b in ((cell, banks[cell.fingerprint]) for cell in plan.cells)
        ),
        models=models,
        versions=versions,
        times=tuple((stage, *seconds) for stage, seconds in facts.seconds.items()),
        machine=machine,
    )


def command_line(plan: Plan | StudyPlan) -> str:
    """The command that runs a plan again, every flag spelled out, with a folder to fill in."""
    flags = [f"--experiment={plan.experiment}", "--workdir=DIR"]
    fields = dataclasses.fields(load_experiment(plan.experiment).Config)
    defaults = {field.name: field.default for field in fields}
    for name, value in plan.config.items():
        if value is not None or defaults.get(name) is not None:
            flags.append(f"--{name}={_flag_text(value)}")
    return " ".join(["python launch/run.py", *map(shlex.quote, flags)])


def _flag_text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
