"""The page of recorded unmaskings and of scores along compute, and what it says."""

from collections.abc import Mapping, Sequence

from ....samplers import History
from ...cell import Cell
from ...scoring.churn import churn_scores, step_rates
from ..data import ReportData
from ..heatmap import replay
from ..page import Record, Section, gallery
from ..profile import PROFILE, compute_table
from .trajectory_figures import VARIETY, nfe_figure, replacement_curves, stability
from .trajectory_tables import (
    churn_finding,
    churn_table,
    collapse_findings,
    collapse_table,
    collapses,
    nfe_table,
)


def trajectory_page(
    data: ReportData, recorded: Sequence[Cell], histories: Mapping[str, History]
) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """Findings and sections.

    Args:
        data: of `collect`; its trajectories are the first samples of the recorded cells.
        recorded: those cells, one a strategy.
        histories: {strategy: history of its cell}, in the same order.
    """
    churn = {strategy: churn_scores(history) for strategy, history in histories.items()}
    curves = {strategy: step_rates(history) for strategy, history in histories.items()}
    maps = dict(zip(histories, data.trajectories, strict=True))
    about = _about(recorded[0])
    found = collapses(data)
    others = [c.metric for c in PROFILE if c.metric not in VARIETY]
    links = ("tables/churn.csv", "tables/nfe_profile.csv", "tables/collapse.csv")
    along_compute = (
        collapse_table(found),
        nfe_figure(data, VARIETY, name="nfe_variety"),
        nfe_figure(data, others, name="nfe_distances"),
        nfe_table(data),
    )
    sections = (
        Section(
            "Churn", (churn_table(churn, about=about), replacement_curves(curves, about=about))
        ),
        Section("Stability", (stability(maps, about=about),)),
        Section("Along compute", along_compute),
        Section("Compute", (compute_table(data),)),
        *(Section(f"Replay: {strategy}", (replay(one),)) for strategy, one in maps.items()),
        Section("Samples", (gallery(data),)),
        Section("How this was made", (Record(data.provenance, links),)),
    )
    return (churn_finding(churn), *collapse_findings(found)), sections


def _about(one: Cell) -> str:
    """What was recorded of each strategy, in a sentence."""
    return (
        f"{one.num_samples} samples of {one.gen_length} tokens a strategy, {one.num_steps} nominal"
        f" steps, t = {one.unmask_temp:g}."
    )
