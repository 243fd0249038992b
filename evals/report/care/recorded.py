"""Recorded unmaskings of a finished run: which cells they are, and what their banks hold."""

import pathlib

from ....samplers import History
from ...banks.trajectory import load_history
from ...cell import Cell, arm_labels
from ...errors import InputError
from ...scoring.churn import churn_scores
from ...scoring.scores import Score
from ...workdir.plan import read_plan
from ...workdir.sample_stage import bank_path
from .dose_tables import CHURN


def recorded_cells(workdir: pathlib.Path) -> list[Cell]:
    """The cells whose unmasking was recorded, in the order of the plan.

    Raises:
        InputError: there are none.
    """
    found = [cell for cell in read_plan(workdir).cells if cell.role == "trajectory"]
    if not found:
        raise InputError(f"{workdir}: the plan records no samples; it comes from another version")
    return found


def recorded_histories(workdir: pathlib.Path) -> dict[str, History]:
    """{strategy: history of its recorded samples}."""
    cells = recorded_cells(workdir)
    return {cell.strategy: load_history(bank_path(workdir, cell)) for cell in cells}


def recorded_churn(workdir: pathlib.Path) -> dict[str, Score]:
    """{label of a generated arm: replacement rate of the samples recorded beside it}."""
    generated = [cell for cell in read_plan(workdir).cells if cell.role == "generated"]
    labels = arm_labels(generated)
    arms = {(c.strategy, c.remask_fraction): labels[c.fingerprint] for c in generated}
    churn = {}
    for cell in recorded_cells(workdir):
        history = load_history(bank_path(workdir, cell))
        churn[arms[cell.strategy, cell.remask_fraction]] = churn_scores(history)[CHURN]
    return churn
