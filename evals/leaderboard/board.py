"""The whole leaderboard: rows of runs, submissions and models without a run, in order."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from ..errors import InputError
from .comparable import check_comparable
from .identity import awaited_rows
from .ranking import Ranking, rank_rows
from .rows import STATUSES, BoardRow
from .run_rows import OpenRun, open_run, run_row
from .settings import Settings
from .submissions import read_submissions


class Board(NamedTuple):
    """Rows in the order of the table.

    Attributes:
        settings: what was asked for.
        rows: ranked ones first, then by status; models without numbers last.
        names: of the rows, all different.
        ranking: by place in `rows`.
        num_steps: the nominal budget of all rows; None without numbers.
    """

    settings: Settings
    rows: tuple[BoardRow, ...]
    names: tuple[str, ...]
    ranking: Ranking
    num_steps: int | None


def build_board(settings: Settings, *, verify: bool = True) -> Board:
    """Reads runs and submissions into one table.

    Args:
        verify: read and judge every bank of every run. Without it all rows are pending, which is
            enough to see that the inputs fit together.

    Raises:
        InputError: a run or file that cannot be a row, runs without a common budget, two runs of
            one model, or `UnlikeRunsError` for rows that must not be compared.
    """
    runs = [open_run(workdir, settings) for workdir in settings.workdirs]
    rows = []
    if runs:
        num_steps = _budget(runs, settings.num_steps)
        rows = [run_row(run, settings, num_steps, verify=verify) for run in runs]
    _check_apart(rows)
    for path in settings.submissions:
        rows += read_submissions(path, settings)
    _check_once(rows)
    check_comparable(rows)
    rows = _marked(rows)
    if settings.registered:
        rows += awaited_rows(rows)
    unordered = rank_rows(rows, settings)
    statuses = list(STATUSES)

    def order(place: int) -> tuple[float, ...]:
        row = rows[place]
        rank = unordered.ranks[place].mean_rank if place in unordered.ranks else float("inf")
        return not row.arms, rank, statuses.index(row.status)

    rows = [rows[place] for place in sorted(range(len(rows)), key=order)]
    budget = next((row.num_steps for row in rows if row.num_steps), None)
    return Board(settings, tuple(rows), _names(rows), rank_rows(rows, settings), budget)


def _budget(runs: Sequence[OpenRun], wanted: int | None) -> int:
    """The nominal budget that all runs have, the largest or the one asked for."""
    listed = "; ".join(f"{run.workdir}: {sorted(run.budgets)}" for run in runs)
    shared = set.intersection(*(run.budgets for run in runs))
    if wanted is not None and wanted not in shared:
        raise InputError(f"--num_steps={wanted} is not a budget of every run; they have {listed}")
    if not shared:
        raise InputError(f"--workdirs share no nominal budget; they have {listed}")
    return max(shared) if wanted is None else wanted


def _check_apart(rows: Sequence[BoardRow]) -> None:
    """Two runs of one model would be two answers to one question."""
    seen: dict[str, BoardRow] = {}
    for row in rows:
        if row.digest in seen:
            raise InputError(
                f"{seen[row.digest].origin} and {row.origin} are runs of one model,"
                f" {row.model.name}; leave one out of --workdirs"
            )
        seen[row.digest] = row


def _check_once(rows: Sequence[BoardRow]) -> None:
    """One submission given twice would look like two that agree."""
    seen: list[BoardRow] = []
    for row in (row for row in rows if row.status == "self-reported"):
        for other in seen:
            if (row.model, row.facts, row.seeds, row.arms) == (
                other.model,
                other.facts,
                other.seeds,
                other.arms,
            ):
                raise InputError(
                    f"{row.model.name} is given twice with the same numbers, in {other.origin} and"
                    f" {row.origin}; give each row once"
                )
        seen.append(row)


def _marked(rows: Sequence[BoardRow]) -> list[BoardRow]:
    """Rows with § where their references are not those of the first row that has any."""
    first = next((row for row in rows if row.references), None)
    found = []
    for row in rows:
        other = first is not None and any(
            digest != first.references.get(seed, digest) for seed, digest in row.references.items()
        )
        found.append(dataclasses.replace(row, marks=(*row.marks, "§")) if other else row)
    return found


def _names(rows: Sequence[BoardRow]) -> tuple[str, ...]:
    """Names of the models; further rows of one model are numbered."""
    found: list[str] = []
    for row in rows:
        name, count = row.model.name, 1
        while name in found:
            count += 1
            name = f"{row.model.name} ({count})"
        found.append(name)
    return tuple(found)
