"""The sample stage: every cell of the plan becomes a bank, shard by shard."""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from .. import storage
from ..banks.bank import SampleBank, is_complete, read_bank
from ..banks.bank_writer import BankWriter
from ..banks.trajectory import HISTORY, encode_history
from ..cell import Cell
from ..environment import device_name, environment
from ..errors import InputError, naming
from ..sampling.drawing import drawer, find_match, prompts, sampler_config, vocabulary
from ..sampling.matching import ComputeMatch
from ..sources import Sources, numerics
from .estimate import forwards
from .events import EventLog
from .plan import Plan
from .progress import reporting


def bank_path(workdir: pathlib.Path, cell: Cell) -> pathlib.Path:
    """Folder of a cell's bank."""
    return workdir / "banks" / cell.fingerprint


def read_cell_bank(workdir: pathlib.Path, cell: Cell) -> SampleBank:
    """The bank of a cell, verified: its content by its hashes, and that it is this cell's.

    Raises:
        InputError: missing, unfinished, edited, or the bank of another cell.
    """
    path = bank_path(workdir, cell)
    bank = read_bank(path)
    if bank.manifest.get("fingerprint") != cell.fingerprint:
        raise InputError(
            f"bank {path} is that of another cell,"
            f" {str(bank.manifest.get('fingerprint'))[:12]}…; delete the folder and sample again"
        )
    return bank


def run_sample_stage(
    plan: Plan,
    workdir: pathlib.Path,
    sources: Sources,
    log: EventLog,
    batch_size: int,
    shard_size: int,
) -> int:
    """Samples what is missing and verifies what is there.

    Returns:
        The number of banks that were written or completed.

    Raises:
        InputError: a stored bank was edited, or an arm that cannot be drawn as planned.
    """
    missing = []
    for cell in plan.cells:
        if is_complete(bank_path(workdir, cell)):
            read_cell_bank(workdir, cell)
        else:
            missing.append(cell)
    if not missing:
        return 0
    total = sum(work(cell) for cell in missing)
    with reporting("sample", total) as advance:
        for cell in missing:
            facts = {"fingerprint": cell.fingerprint, "arm": cell.arm, "seed": cell.seed}
            with log.span("sample", **facts, device=device_name()) as found:
                found |= sample_cell(
                    cell, bank_path(workdir, cell), sources, batch_size, shard_size
                )
            advance(work(cell), f"{cell.arm} seed {cell.seed}")
    return len(missing)


def sample_cell(
    cell: Cell, path: pathlib.Path, sources: Sources, batch_size: int, shard_size: int
) -> dict[str, Any]:
    """Writes the missing shards of a cell's bank and completes it.

    Returns:
        The measured totals of the bank, for the event log.
    """
    # A history is one file for all rows, so its rows are drawn in one piece.
    size = cell.num_samples if cell.record_history else shard_size
    arm = f"arm {cell.arm} seed {cell.seed}"
    with naming(arm):
        match = find_match(cell, sources)
    writer = BankWriter.open(path, cell_manifest(cell, sources, match), shard_size=size)
    missing = writer.missing()
    if missing:
        batch = min(batch_size, size, cell.num_samples)
        with naming(arm):
            draw = drawer(cell, sources, batch_size=batch, match=match)
        for rows in missing:
            with naming(arm):
                drawn = draw(rows)
            if drawn.history is not None:
                writer.attach(HISTORY, encode_history(drawn.history))
            writer.write(rows, drawn.samples, launches=drawn.launches)
    writer.finish()
    return writer.manifest["measured"]


def cell_manifest(
    cell: Cell, sources: Sources, match: ComputeMatch | None = None
) -> dict[str, Any]:
    """The planned part of a bank's manifest: cell, model's files, prompts, environment.

    `match` says at which settings a cell with a target costs it; it is stored under that name.
    """
    model = sources.network(str(cell.model), vocabulary(cell))
    config = None
    if cell.role in ("generated", "trajectory"):
        config = dataclasses.asdict(sampler_config(cell) if match is None else match.config)
    return {
        "n": cell.num_samples,
        "fingerprint": cell.fingerprint,
        "arm": cell.arm,
        "cell": dataclasses.asdict(cell),
        "sampler": config,
        "match": None if match is None else match._asdict() | {"config": config},
        "prompts": _prompts_record(cell, sources),
        "model": {
            "source": cell.model,
            "files": dict(model.card.digests),
            **numerics(model.card),
            # One's own model objects may say neither.
            "architecture": getattr(model.card, "architecture", None),
            "num_params": getattr(model.card, "num_params", None),
        },
        "environment": environment(),
    }


def _prompts_record(cell: Cell, sources: Sources) -> dict[str, Any] | None:
    """What tells that two banks continued, or answer, the same prompts."""
    if cell.prefix_length is None:
        return None
    ids = np.ascontiguousarray(prompts(cell, sources), np.int32)
    return {"prefix_length": cell.prefix_length, "digest": storage.sha256_hex(ids.tobytes())}


def work(cell: Cell) -> float:
    """Units of progress: forwards of a full batch, at least one."""
    return max(1.0, float(forwards(cell)))
