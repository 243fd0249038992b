"""The pages of CaRE experiments: which tables and figures stand where, and what they say."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import InputError, one_line
from ...protocol import ProtocolReport
from ...protocol.tables import protocol_table
from ...workdir.seed_scores import SeededArm
from ..data import ReportData
from ..figures import Figure
from ..page import Record, Section, gallery
from ..profile import profile_table
from ..reported_table import reported_table
from ..tables import Table
from .factors import FactorEffects, effects_table, factor_effects
from .figures import cost_figure, interaction_figure, strategies_figure
from .findings import effects_finding, gap_finding, protocol_finding, ranking_claim
from .gap_tables import gaps_table
from .gaps import interaction_gaps
from .pareto_figure import pareto_figure
from .polar_charts import temperature_charts
from .tables import (
    TITLES,
    four_metrics,
    metrics_table,
    nfe_table,
    perplexity_metric,
    pivot_table,
    seeds_table,
)

LINKS = ("tables/numbers.csv", "badge.svg")
SEEDS_CAVEAT = (
    "Few seeds bound what any test can say: with three, a bootstrap interval is the range of the "
    "differences and a sign-flip test cannot go below p = 0.25."
)
BUDGET_CAVEAT = (
    "Arms of equal nominal budget differ in counted forwards; a gap between them is not one at "
    "matched compute."
)


def grid_arms(arms: Sequence[SeededArm], config: Mapping[str, Any]) -> list[SeededArm]:
    """The generated arms of the full grid; strategies that were run beside it are left out."""
    return [
        arm
        for arm in arms
        if arm.cell.role == "generated"
        and arm.cell.strategy in config["strategies"]
        and arm.cell.unmask_temp in config["unmask_temps"]
        and arm.cell.num_steps in config["num_steps"]
    ]


def care_page(
    data: ReportData, arms: Sequence[SeededArm], protocol: ProtocolReport
) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """Findings and sections of the grid's report.

    Args:
        data: of `collect`; its configuration says which arms are the grid.
        arms: the same run seed by seed.
        protocol: the verdict on the run.
    """
    grid = grid_arms(arms, data.provenance.config)
    labels = {arm.label for arm in grid}
    kept = (arm for arm in data.arms if arm.role != "generated" or arm.label in labels)
    shown = dataclasses.replace(data, arms=tuple(kept))
    perplexity = perplexity_metric(data)
    gaps = {metric: interaction_gaps(grid, metric) for metric in ("mauve", perplexity)}
    effects, refused = _effects(grid, ("mauve", perplexity))
    findings = (
        gap_finding(gaps["mauve"]),
        *(effects_finding(found) for found in effects),
        ranking_claim(grid, "mauve", protocol),
        *refused,
        protocol_finding(protocol),
    )
    gap_tables = [gaps_table(found, f"gaps_{metric}") for metric, found in gaps.items() if found]
    steps = ("strategy", "num_steps")
    beside = [metric for metric in four_metrics(data) if metric != "mauve"]
    by_temperature = [
        pivot_table(
            shown,
            perplexity,
            rows=steps,
            along="unmask_temp",
            name="perplexity_by_temperature",
            caption=f"{TITLES[perplexity][0]} by temperature: low is not good by itself.",
        ),
        pivot_table(
            shown,
            "mauve",
            rows=("strategy", "unmask_temp"),
            along="num_steps",
            name="mauve_by_budget",
            caption="MAUVE by strategy and nominal budget at each temperature.",
        ),
    ]
    acceptance = pivot_table(
        shown,
        "acceptance",
        rows=steps,
        along="unmask_temp",
        name="acceptance",
        caption="Share of samples that pass the language filter; text: "
        f"{data.provenance.config['reference']}.",
        notes=(
            "Scores are of accepted samples alone: rates that differ between arms hide what "
            "was thrown away.",
        ),
    )
    sections = (
        Section("Protocol", (protocol_table(protocol),)),
        Section(
            "Strategy by temperature",
            (
                *_along_temperature(shown, ("mauve",)),
                *((strategies_figure(shown, gaps["mauve"]),) if gap_tables else ()),
                *gap_tables,
            ),
        ),
        Section(
            "Four metrics",
            (
                metrics_table(data),
                pareto_figure(shown),
                *_along_temperature(shown, beside),
                *_charts(shown),
                *by_temperature,
            ),
        ),
        Section("Compute", (nfe_table(data), cost_figure(shown))),
        Section("Effects", tuple(effects_table(f, TITLES[f.metric][0]) for f in effects)),
        Section("Strategies at temperature 0", _deterministic(data)),
        Section("Acceptance", (acceptance,)),
        Section("Profile", (profile_table(data),)),
        Section("Seeds", tuple(seeds_table(arms, metric, data) for metric in gaps)),
        Section("What the paper reports", (_reported(),)),
        *closing(data),
    )
    return findings, sections


def closing(data: ReportData) -> tuple[Section, Section]:
    """Samples, and how the report was made."""
    return (
        Section("Samples", (gallery(data),)),
        Section("How this was made", (Record(data.provenance, LINKS),)),
    )


def _effects(
    arms: Sequence[SeededArm], metrics: Sequence[str]
) -> tuple[list[FactorEffects], list[str]]:
    """The analyses of variance, and a sentence for each that is refused."""
    found, refused = [], []
    for metric in metrics:
        try:
            found.append(factor_effects(arms, metric))
        except InputError as error:
            refused.append(f"No analysis of variance of {TITLES[metric][0]}: {one_line(error)}.")
    return found, refused


def _along_temperature(data: ReportData, metrics: Sequence[str]) -> tuple[Figure, ...]:
    """Metrics against temperature; no figures of a single one."""
    config: Mapping[str, Any] = data.provenance.config
    if len(config["unmask_temps"]) < 2:
        return ()
    return tuple(interaction_figure(data, metric) for metric in metrics)


def _deterministic(data: ReportData) -> tuple[Table | Figure, ...]:
    """All strategies at temperature 0, where there are more than the grid's."""
    arms = [arm for arm in data.with_role("generated") if arm.fields["unmask_temp"] == 0]
    config: Mapping[str, Any] = data.provenance.config
    if {arm.fields["strategy"] for arm in arms} <= set(config["strategies"]):
        return ()
    steps = config["more_steps"]
    arms = [arm for arm in arms if arm.fields["num_steps"] == steps]
    beside = tuple(arm for arm in data.arms if arm.role != "generated")
    return (
        cost_figure(dataclasses.replace(data, arms=(*beside, *arms)), name="strategies_at_0"),
        metrics_table(
            data,
            arms=arms,
            name="strategies",
            caption=f"All strategies at temperature 0 and N={steps}; one temperature, so no "
            "ranking.",
        ),
    )


def _charts(data: ReportData) -> tuple[Figure, ...]:
    """Four metrics at the largest budget, of the coldest arms and of those nearest t = 0.25."""
    config: Mapping[str, Any] = data.provenance.config
    warm = min(config["unmask_temps"], key=lambda temp: (not temp, abs(temp - 0.25)))
    return temperature_charts(data, warm, num_steps=max(config["num_steps"]))


def _reported() -> Table:
    return reported_table("care", ("mauve", "interaction_gap", "strategy_gap", "gen_ppl"))
