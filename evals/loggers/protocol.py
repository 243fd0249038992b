"""What a logger is: three methods, called in this order."""

from collections.abc import Mapping
from typing import Any, Protocol

from ..scoring.scores import Score


class Logger(Protocol):
    """Takes the numbers of a run as they come; what it makes of them is its own affair.

    A logger serves one call of `run_experiment`. It only reads: banks, scores and reports are the
    same with and without.
    """

    def log_config(self, config: Mapping[str, Any]) -> None:
        """Once, before anything else: the plan of the run, as plain values."""
        ...

    def log_scores(self, step: int, label: str, scores: Mapping[str, Score]) -> None:
        """The scores of one cell, or of one arm at the report.

        Args:
            step: place in the plan; cells first, then the report's arms. Ascending in a run.
            label: "cells/ARM seed SEED" or "report/ARM".
            scores: by metric; a `Score` without a value says why.
        """
        ...

    def finish(self) -> None:
        """Once, at the end of the run, also where it failed."""
        ...


def flat_numbers(label: str, scores: Mapping[str, Score]) -> dict[str, float]:
    """Values and standard errors as "label/metric" and "label/metric_stderr"; missing ones are out.

    For back ends that know nothing but named numbers.
    """
    numbers = {}
    for name, score in scores.items():
        if score.value is not None:
            numbers[f"{label}/{name}"] = score.value
        if score.value is not None and score.stderr is not None:
            numbers[f"{label}/{name}_stderr"] = score.stderr
    return numbers
