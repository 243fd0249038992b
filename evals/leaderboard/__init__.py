"""The leaderboard: models side by side, each row from a run that can be read again."""

from .board import Board, build_board
from .record import board_record
from .rows import FOOTNOTES, STATUSES, BoardRow, Identity, RowArm
from .settings import Settings
from .site import write_site
from .submissions import read_submissions, submission_of, submission_schema
from .table import board_table

__all__ = [
    "FOOTNOTES",
    "STATUSES",
    "Board",
    "BoardRow",
    "Identity",
    "RowArm",
    "Settings",
    "board_record",
    "board_table",
    "build_board",
    "read_submissions",
    "submission_of",
    "submission_schema",
    "write_site",
]
