"""Hands a run's numbers to its loggers: each cell as it is scored, each arm at the report."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from ..cell import Cell, arm_labels
from ..scoring.scores import aggregate, read_scores
from ..workdir.plan import Plan
from ..workdir.score_stage import load_scores, score_path
from .protocol import Logger


class RunLog:
    """Follows one call of `run_experiment`.

    Cells that an earlier call scored are not logged again; the report's arms always are, so the
    log of a resumed run ends with the whole picture.
    """

    def __init__(self, plan: Plan, workdir: pathlib.Path, loggers: Sequence[Logger]):
        self._plan, self._workdir, self._loggers = plan, workdir, loggers
        self._steps = {cell.fingerprint: i for i, cell in enumerate(plan.cells)}
        self._labels = arm_labels(plan.cells)
        record = plan.record()
        config = record | {"cells": len(record["cells"])}
        for logger in loggers:
            logger.log_config(config)

    def on_event(self, record: Mapping[str, Any]) -> None:
        """Logs what an event of `events.jsonl` tells of: a cell that has its scores now."""
        if not self._loggers:
            return
        if record["event"] == "score":
            step = self._steps[record["fingerprint"]]
            cell = self._plan.cells[step]
            scores = read_scores(score_path(self._workdir, cell)).metrics
            for logger in self._loggers:
                logger.log_scores(step, self._label(cell), scores)
        elif record["event"] == "stage" and record["stage"] == "report":
            table = aggregate(load_scores(self._plan, self._workdir))
            for step, (arm, scores) in enumerate(table.items(), len(self._plan.cells)):
                for logger in self._loggers:
                    logger.log_scores(step, f"report/{arm}", scores)

    def _label(self, cell: Cell) -> str:
        """Of one bank; null draws of the reference differ by their part."""
        part = f" part {cell.part}" if cell.part else ""
        return f"cells/{self._labels[cell.fingerprint]} seed {cell.seed}{part}"
