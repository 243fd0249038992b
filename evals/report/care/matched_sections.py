"""The page of strategies at matched compute: the table, paired gaps, the verdict on the run."""

from collections.abc import Sequence

from ...protocol import ProtocolReport
from ...protocol.tables import protocol_table
from ...workdir.seed_scores import SeededArm
from ..data import ReportData
from ..page import Section
from ..profile import compute_table, profile_table
from .findings import protocol_finding
from .gap_tables import gaps_table
from .gaps import interaction_gaps
from .matched_tables import matched_finding, matched_table, saturation_finding
from .sections import closing
from .tables import perplexity_metric, seeds_table


def matched_page(
    data: ReportData, arms: Sequence[SeededArm], protocol: ProtocolReport
) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """Findings and sections.

    Args:
        data: of `collect`.
        arms: the same run seed by seed, with the records of the matches.
        protocol: the verdict on the run.
    """
    metrics = ("mauve", perplexity_metric(data))
    gaps = {metric: interaction_gaps(arms, metric) for metric in metrics}
    sections = (
        Section("Matched compute", (matched_table(data, arms),)),
        Section("Gaps", tuple(gaps_table(gaps[m], f"gaps_{m}") for m in metrics if gaps[m])),
        Section("Protocol", (protocol_table(protocol),)),
        Section("Compute", (compute_table(data),)),
        Section("Profile", (profile_table(data),)),
        Section("Seeds", tuple(seeds_table(arms, metric, data) for metric in metrics)),
        *closing(data),
    )
    findings = (
        matched_finding(gaps["mauve"], arms),
        saturation_finding(arms),
        protocol_finding(protocol),
    )
    return findings, sections
