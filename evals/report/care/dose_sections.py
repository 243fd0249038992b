"""The page of a dose sweep: its table and figure, and what they say."""

from collections.abc import Mapping

from ...scoring.scores import Score
from ..data import ReportData
from ..heatmap import heat_map
from ..page import Record, Section, gallery
from ..profile import compute_table, profile_table
from .dose_tables import dose_figure, dose_table, response, response_finding


def dose_page(
    data: ReportData, churn: Mapping[str, Score]
) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """Findings and sections.

    Args:
        data: of `collect`.
        churn: {arm label: replacement rate of its recorded samples}.
    """
    sections = (
        Section("Dose and response", (dose_table(data, churn), dose_figure(data, churn))),
        Section("Compute", (compute_table(data),)),
        Section("Profile", (profile_table(data),)),
        Section("Unmasking", tuple(heat_map(one) for one in data.trajectories[-1:])),
        Section("Samples", (gallery(data),)),
        Section("How this was made", (Record(data.provenance, ("tables/numbers.csv",)),)),
    )
    return (response_finding(response(data, churn)),), sections
