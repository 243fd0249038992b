"""The leaderboard as JSON: every number with its n, error and signature, and where it is from."""

import json
from typing import Any

from ..protocol import badge
from ..reported import PAPERS
from .board import Board
from .rows import BoardRow
from .table import reported_gaps

VERSION = 1


def board_record(board: Board) -> dict[str, Any]:
    """All that the page shows, in the order of its rows.

    What the paper prints is apart, under "reported".
    """
    rows = [_row(board, place) for place in range(len(board.rows))]
    first = next((row for row in board.rows if row.facts), None)
    return {
        "version": VERSION,
        "strategy": board.settings.strategy,
        "unmask_temp": board.settings.unmask_temp,
        "num_steps": board.num_steps,
        "rank_by": list(board.settings.rank_by),
        "shared": {} if first is None else facts_of(first),
        "rows": rows,
        "reported": {"paper": PAPERS["care"], "interaction_gap": reported_gaps()},
    }


def facts_of(row: BoardRow) -> dict[str, Any]:
    """What a row shares with all others: {field: its value, or the list of them}."""
    found = {}
    for name, texts in row.facts.items():
        values = [json.loads(text) for text in texts]
        found[name] = values[0] if len(values) == 1 else values
    return found


def _row(board: Board, place: int) -> dict[str, Any]:
    row, ranking = board.rows[place], board.ranking
    rank = ranking.ranks.get(place)
    alike = ranking.not_separated.get(place, ())
    return {
        "name": board.names[place],
        "model": row.model._asdict(),
        "status": row.status,
        "reasons": list(row.reasons),
        "marks": list(row.marks),
        "num_steps": row.num_steps,
        "unmask_temp": row.unmask_temp,
        "seeds": list(row.seeds),
        "rank": None if rank is None else rank._asdict(),
        "rank_refused": ranking.refused.get(place),
        "not_separated": [board.names[other] for other in alike],
        "gap": row.gap.leaf(),
        "gap_test": row.gap_test,
        "arms": {
            name: {
                "strategy": arm.strategy,
                "unmask_temp": arm.unmask_temp,
                "seeds": list(arm.seeds),
                "values": {metric: list(values) for metric, values in arm.values.items()},
                "means": {metric: score.leaf() for metric, score in arm.means.items()},
            }
            for name, arm in row.arms.items()
        },
        "lacking": dict(row.lacking),
        "protocol": None
        if row.protocol is None
        else {
            "badge": badge(row.protocol),
            "points": [point._asdict() for point in row.protocol.points],
        },
        "origin": row.origin,
        "command": row.command,
        "url": row.url,
        "files": dict(row.files),
        "banks": [
            {"label": b.label, "fingerprint": b.fingerprint, "digest": b.digest, "n": b.n}
            for b in row.banks
        ],
    }
