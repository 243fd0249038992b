"""The leaderboard (CaRE, arXiv 2607.24763, Tables 12 and 21) from finished runs, as a static site.

    python launch/run.py --experiment=leaderboard --workdir=runs/leaderboard \\
        --workdirs=runs/care,runs/care-llada --submissions=theirs.json

It draws and scores nothing. `report/index.html` is one file; beside it lie leaderboard.json, .csv,
.md and .tex. A folder keeps to the runs that it was made of: name another for more of them.
"""

import pathlib
from collections.abc import Mapping

from .. import storage
from ..banks.bank import MANIFEST
from ..errors import naming
from ..leaderboard import STATUSES, Settings, build_board, write_site
from ..leaderboard.board import Board
from ..sources import Sources
from ..workdir.plan import PLAN

Config = Settings


def inputs(config: Settings, *, sources: Sources) -> Mapping[str, str]:
    """Digests of plans, manifests and scores of the runs, and of the submissions.

    Raises:
        InputError: a run or submission that cannot be a row, or rows that must not be compared.
    """
    build_board(config, verify=False)
    found = {workdir: _run_digest(pathlib.Path(workdir)) for workdir in config.workdirs}
    for path in config.submissions:
        with naming(f"--submissions={path}"):
            found[path] = storage.sha256_hex(pathlib.Path(path).read_bytes())
    return found


def description(config: Settings, *, sources: Sources) -> list[str]:
    """Rows and the files that they are read from."""
    board = build_board(config, verify=False)
    budget = "" if board.num_steps is None else f" at N={board.num_steps}"
    lines = [f"leaderboard of {len(board.rows)} rows{budget}", ""]
    lines += [f"  {row.model.name:<32}{row.origin}" for row in board.rows]
    banks = sum(len(row.banks) for row in board.rows)
    return [*lines, "", f"forwards: none; {banks} banks are read and hashed"]


def run_stage(
    stage: str, config: Settings, workdir: pathlib.Path, *, sources: Sources
) -> tuple[int, str]:
    """Judges the runs and writes the site at the stage "report"; the others have nothing to do.

    Raises:
        InputError: as `inputs`.
    """
    if stage != "report":
        return 0, f"{stage}: nothing to do; a leaderboard reads finished runs"
    board = build_board(config)
    page = write_site(workdir / "report", board)
    return 1, f"report: {page} ({_counts(board)})"


def _counts(board: Board) -> str:
    counts = {status: sum(row.status == status for row in board.rows) for status in STATUSES}
    return ", ".join(f"{count} {status}" for status, count in counts.items() if count)


def _run_digest(workdir: pathlib.Path) -> str:
    """Of all that rows are made of; texts are named by the digests in the manifests."""
    files = [workdir / PLAN, *sorted(workdir.glob(f"banks/*/{MANIFEST}"))]
    files += sorted(workdir.glob("scores/*.json"))
    lines = [f"{f.relative_to(workdir)} {storage.sha256_hex(f.read_bytes())}" for f in files]
    return storage.sha256_hex("\n".join(lines).encode("utf-8"))
