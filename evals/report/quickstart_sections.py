"""The page of a quickstart: one profile, its figures, and what perplexity alone would prefer."""

from .data import ReportData
from .findings import perplexity_finding, ranking_finding
from .heatmap import heat_map, replay
from .page import Record, Section, gallery
from .plots import frontier, sweep
from .profile import compute_table, profile_table


def quickstart_page(data: ReportData) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """Findings and sections; `data` has mean ranks."""
    warm = [arm for arm in data.with_role("generated") if arm.fields["unmask_temp"]]
    findings = (
        perplexity_finding(data),
        ranking_finding(data, trained=warm, which="every diffusion arm at t > 0"),
    )
    traced = data.trajectories[:1]
    links = tuple(f"tables/{name}" for name in ("profile.csv", "compute.csv", "numbers.csv"))
    sections = (
        Section("Profile", (profile_table(data),)),
        Section("Figures", (frontier(data), sweep(data))),
        Section("Compute", (compute_table(data),)),
        Section("Unmasking", tuple(f(t) for t in traced for f in (heat_map, replay))),
        Section("Samples", (gallery(data),)),
        Section("How this was made", (Record(data.provenance, links),)),
    )
    return findings, sections
