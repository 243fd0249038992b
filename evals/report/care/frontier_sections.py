"""The page of frontiers over temperature: curves, gaps that curves hide, four metrics at once."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...workdir.seed_scores import SeededArm
from ..data import ReportData
from ..page import Record, Section, gallery
from ..profile import compute_table, profile_table
from .findings import gap_finding
from .frontier_figures import frontier_entropy, frontier_overlay
from .frontier_table import frontier_finding, frontier_table
from .gap_tables import gaps_table
from .gaps import interaction_gaps
from .polar_charts import temperature_charts


def frontier_page(
    data: ReportData, arms: Sequence[SeededArm]
) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """Findings and sections.

    Args:
        data: of `collect`; its configuration says the budget, and the temperature of the gaps.
        arms: the same run seed by seed.
    """
    config: Mapping[str, Any] = data.provenance.config
    temp, steps = float(config["gap_temp"]), max(config["num_steps"])
    gaps = interaction_gaps([arm for arm in arms if arm.cell.unmask_temp == temp], "mauve")
    figures = frontier_overlay(data, gaps, temp=temp), frontier_entropy(data)
    sections = (
        Section("Frontiers", figures),
        Section("Points", (frontier_table(data, about=f"{steps} nominal steps."),)),
        Section("Gaps", (gaps_table(gaps),) if gaps else ()),
        Section("Four metrics", temperature_charts(data, temp)),
        Section("Profile", (profile_table(data),)),
        Section("Compute", (compute_table(data),)),
        Section("Samples", (gallery(data),)),
        Section("How this was made", (Record(data.provenance, ("tables/numbers.csv",)),)),
    )
    return (frontier_finding(data), gap_finding(gaps)), sections
