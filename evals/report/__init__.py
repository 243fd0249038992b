"""Tables, figures and the self-contained HTML page."""

from .data import Arm, Bank, Compute, Provenance, ReportData, Trajectory, missing
from .figures import Figure, render
from .findings import (
    heuristics_last,
    introduced,
    perplexity_finding,
    ranking_finding,
    run_caveats,
    run_lead,
)
from .heatmap import Replay, heat_map, replay
from .page import Gallery, Record, Section, gallery, render_page
from .plots import frontier, sweep
from .profile import PROFILE, Column, compute_table, profile_table, with_mean_ranks
from .tables import Entry, Head, Row, Table, numbers_csv, to_csv, to_latex, to_markdown
from .write import write_report

__all__ = [
    "PROFILE",
    "Arm",
    "Bank",
    "Column",
    "Compute",
    "Entry",
    "Figure",
    "Gallery",
    "Head",
    "Provenance",
    "Record",
    "Replay",
    "ReportData",
    "Row",
    "Section",
    "Table",
    "Trajectory",
    "compute_table",
    "frontier",
    "gallery",
    "heat_map",
    "heuristics_last",
    "introduced",
    "missing",
    "numbers_csv",
    "perplexity_finding",
    "profile_table",
    "ranking_finding",
    "render",
    "render_page",
    "replay",
    "run_caveats",
    "run_lead",
    "sweep",
    "to_csv",
    "to_latex",
    "to_markdown",
    "with_mean_ranks",
    "write_report",
]
