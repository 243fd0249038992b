"""The page of the encoder study: ranks, distances, what agrees with what."""

from collections.abc import Mapping, Sequence

from ...statistics.correlations import Correlations
from ..data import ReportData
from ..figures import Figure
from ..line_figures import rank_figure
from ..page import Record, Section
from ..tables import Table
from .correlation_figures import correlation_figure
from .encoder_tables import (
    across_encoders,
    correlations_table,
    distance_table,
    encoder_finding,
    encoder_rank_table,
    encoder_ranks,
    within_encoders,
)


def encoder_page(
    data: ReportData, encoders: Sequence[str]
) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """Findings and sections.

    Args:
        data: of `collect`.
        encoders: names of the encoders that the distances are under, `SCORER` among them.
    """
    within = _agreement(
        within_encoders(data, encoders),
        "within_encoders",
        "Agreement of the four distances within an encoder.",
        "encoder",
    )
    across = _agreement(
        across_encoders(data, encoders),
        "across_encoders",
        "Agreement of the encoders on a distance.",
        "distance",
    )
    ranks = rank_figure(data, encoder_ranks(data, encoders)), encoder_rank_table(data, encoders)
    links = tuple(f"tables/{name}" for name in ("encoders.csv", "numbers.csv"))
    sections = (
        Section("Ranks", ranks),
        Section("Distances", (distance_table(data, encoders),)),
        Section("Agreement", (*within, *across)),
        Section("How this was made", (Record(data.provenance, links),)),
    )
    return (encoder_finding(data, encoders),), sections


def _agreement(
    found: Mapping[str, Correlations], name: str, caption: str, group_title: str
) -> tuple[Figure | Table, ...]:
    """The correlations as figure and table; nothing where there are none."""
    if not found:
        return ()
    turned = "Spearman correlations over the arms, turned so that higher is better."
    return (
        correlation_figure(found, name=name, caption=turned),
        correlations_table(found, name=name, caption=caption, group_title=group_title),
    )
