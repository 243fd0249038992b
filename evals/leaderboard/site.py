"""Writes the leaderboard: a page that needs nothing beside it, and its tables as files."""

import json
import pathlib
from typing import Any

from markupsafe import Markup

from .. import storage
from ..protocol import badge_svg
from ..report import page
from ..report.reported_table import reported_table
from ..report.tables import to_csv, to_latex, to_markdown
from .board import Board
from .record import board_record, facts_of
from .rows import METRICS, STATUSES, BoardRow
from .submissions import submission_of, submission_schema
from .table import MODEL, PROTOCOL, REPORTED, STATUS, board_table

_HERE = pathlib.Path(__file__).parent
_REPORT = pathlib.Path(page.__file__).parent
_SYMBOLS = {"verified": "✓", "pending": "○", "self-reported": "✎"}
_ARM_TITLES = {"cold": "no remasking, t = 0", "baseline": "no remasking", "strategy": "remasking"}
_METRIC_TITLES: dict[str, str] = dict(
    zip(METRICS, ("MAUVE", "PPL", "Self-BLEU", "Distinct-3", "NFE", "accepted"), strict=True)
)


def write_site(folder: pathlib.Path, board: Board) -> pathlib.Path:
    """Writes `folder`/index.html, leaderboard.{json,csv,md,tex} and the schema of submissions.

    Where rows of runs have all numbers, `submission.json` holds them in the form of a submission.
    The page comes last, so that it never links to missing files.

    Returns:
        The path of index.html.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table = board_table(board)
    storage.write_json(folder / "leaderboard.json", board_record(board))
    for suffix, write in (("csv", to_csv), ("md", to_markdown), ("tex", to_latex)):
        storage.write_bytes(folder / f"leaderboard.{suffix}", write(table).encode("utf-8"))
    storage.write_json(folder / "submission.schema.json", submission_schema())
    submission = submission_of(board.rows)
    if submission is not None:
        storage.write_json(folder / "submission.json", submission)
    html = render_site(board, has_submission=submission is not None)
    storage.write_bytes(folder / "index.html", html.encode("utf-8"))
    return folder / "index.html"


def render_site(board: Board, *, has_submission: bool = False) -> str:
    """The page as HTML: one self-contained file."""
    environment = page.page_environment(_HERE)
    environment.globals.update(
        statuses=STATUSES,
        symbols=_SYMBOLS,
        arm_titles=_ARM_TITLES,
        metric_titles=_METRIC_TITLES,
        model_key=MODEL,
        status_key=STATUS,
        protocol_key=PROTOCOL,
        reported_key=REPORTED,
    )
    table = board_table(board)
    first = next((row for row in board.rows if row.facts), None)
    return environment.get_template("board.html").render(
        title="Leaderboard of masked diffusion language models",
        board=board,
        table=table,
        rows=[_shown(board, place) for place in range(len(board.rows))],
        choices=_choices(board),
        shared={} if first is None else {k: _text(v) for k, v in facts_of(first).items()},
        names=None if first is None else (first.reference, first.scorer),
        reported=reported_table("care", ("interaction_gap", "mauve")),
        ranked_by=", ".join(_METRIC_TITLES[name] for name in board.settings.rank_by),
        has_submission=has_submission,
        css=Markup(_asset(_REPORT / "page.css") + _asset(_HERE / "board.css")),
        script=Markup(_asset(_REPORT / "page.js") + _asset(_HERE / "board.js")),
    )


def _shown(board: Board, place: int) -> dict[str, Any]:
    """A row with what the page draws beside its table entries."""
    row = board.rows[place]
    svg = "" if row.protocol is None else badge_svg(row.protocol)
    return {
        "row": row,
        "name": board.names[place],
        "id": f"row-{place + 1}",
        "badge": Markup(svg),
        "tier": row.model.tier or "none",
        "family": row.model.family or "unknown",
        "refused": board.ranking.refused.get(place, ""),
        "values": _values(row),
    }


def _values(row: BoardRow) -> list[tuple[str, str, list[str]]]:
    """(arm, metric, its value at each seed of the row), as text."""
    found = []
    for arm in row.arms.values():
        for metric, values in arm.values.items():
            by_seed = dict(zip(arm.seeds, values, strict=True))
            texts = [f"{by_seed[seed]:.4g}" if seed in by_seed else "–" for seed in row.seeds]
            found.append((f"{arm.strategy} t={arm.unmask_temp:g}", _METRIC_TITLES[metric], texts))
    return found


def _choices(board: Board) -> list[tuple[str, str, list[str]]]:
    """(field, label, values) of each filter, in the order of the rows."""
    columns = {
        "status": [row.status for row in board.rows],
        "tier": [row.model.tier or "none" for row in board.rows],
        "family": [row.model.family or "unknown" for row in board.rows],
    }
    return [(name, name.capitalize(), sorted(set(values))) for name, values in columns.items()]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _asset(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8")
