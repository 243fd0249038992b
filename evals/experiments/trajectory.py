"""What happens while a denoiser unmasks, and what more forwards do to its text.

Two looks at each strategy. Recorded samples at one temperature and budget: how many tokens a step
takes back, whether they come back as others, what never settles (CaRE, arXiv 2607.24763, Figs. 4
and 7). And scored banks over budgets: every metric along counted forwards, with a flag where
perplexity falls because the text loses variety.

    python launch/run.py --flagfile=launch/flags/trajectory.flags --workdir=runs/trajectory
"""

import dataclasses
import pathlib

from ..arms import (
    World,
    base_scoring,
    causal_cells,
    denoised_cell,
    grid_cells,
    open_world,
    reference_cells,
)
from ..banks.trajectory import load_history
from ..cell import Cell
from ..errors import InputError
from ..experiment import option
from ..options import PromptedOptions
from ..report import (
    PROFILE,
    Record,
    Section,
    compute_table,
    gallery,
    replay,
    run_caveats,
    run_lead,
    write_report,
)
from ..report.care.trajectory_figures import VARIETY, nfe_figure, replacement_curves, stability
from ..report.care.trajectory_tables import (
    churn_finding,
    churn_table,
    collapse_findings,
    collapse_table,
    collapses,
    nfe_table,
)
from ..report.collect import collect
from ..scoring.churn import churn_scores, step_rates
from ..scoring.score_settings import ScoreSettings
from ..sources import Sources
from ..workdir.plan import read_plan
from ..workdir.sample_stage import bank_path


@dataclasses.dataclass(frozen=True)
class Config(PromptedOptions):
    """Settings of the trajectory experiment; every field is a flag."""

    strategies: tuple[str, ...] = option(
        ("none", "random", "high_entropy", "running_confidence"),
        "Remasking strategies of the denoiser.",
    )
    unmask_temps: tuple[float, ...] = option(
        (0.25,), "Temperatures of the scored banks; each is a trajectory along NFE of its own."
    )
    num_steps: tuple[int, ...] = option(
        (5, 10, 20, 40), "Nominal budgets of the scored banks; three or more show a trend.", least=1
    )
    trace_temp: float = option(0.25, "Temperature of the recorded samples.", least=0)
    trace_steps: int = option(40, "Nominal steps of the recorded samples.", least=2)
    num_traces: int = option(16, "Recorded samples of each strategy.", least=2)


def cells(config: Config, *, sources: Sources) -> list[Cell]:
    """Real text, the causal arm, the grid, and one recorded bank of each strategy.

    Raises:
        InputError: a model or corpus that does not load, too little text, or a sampler setting
            that is refused.
    """
    world = open_world(config, sources)
    found = [*reference_cells(world), *causal_cells(world), *grid_cells(world)]
    return found + [_traced(world, config, strategy) for strategy in config.strategies]


def scoring(config: Config, *, sources: Sources) -> ScoreSettings:
    """Features and likelihoods of the scorer."""
    return base_scoring(config, sources)


def report(workdir: pathlib.Path, *, sources: Sources) -> None:
    """Writes the page, tables and figures from what the workdir holds."""
    plan = read_plan(workdir)
    data = collect(workdir, sources)
    data = dataclasses.replace(data, lead=run_lead(data), caveats=run_caveats(data))
    traced = [cell for cell in plan.cells if cell.role == "trajectory"]
    histories = {c.strategy: load_history(bank_path(workdir, c)) for c in traced}
    churn = {strategy: churn_scores(history) for strategy, history in histories.items()}
    curves = {strategy: step_rates(history) for strategy, history in histories.items()}
    maps = dict(zip(histories, data.trajectories, strict=True))
    about = _about(traced)
    found = collapses(data)
    others = [c.metric for c in PROFILE if c.metric not in VARIETY]
    links = ("tables/churn.csv", "tables/nfe_profile.csv", "tables/collapse.csv")
    sections = (
        Section(
            "Churn", (churn_table(churn, about=about), replacement_curves(curves, about=about))
        ),
        Section("Stability", (stability(maps, about=about),)),
        Section(
            "Along compute",
            (
                collapse_table(found),
                nfe_figure(data, VARIETY, name="nfe_variety"),
                nfe_figure(data, others, name="nfe_distances"),
                nfe_table(data),
            ),
        ),
        Section("Compute", (compute_table(data),)),
        *(Section(f"Replay: {strategy}", (replay(one),)) for strategy, one in maps.items()),
        Section("Samples", (gallery(data),)),
        Section("How this was made", (Record(data.provenance, links),)),
    )
    findings = [churn_finding(churn), *collapse_findings(found)]
    write_report(workdir / "report", data, findings, sections)


def _traced(world: World, config: Config, strategy: str) -> Cell:
    """The recorded samples of a strategy."""
    return denoised_cell(
        world,
        strategy,
        config.trace_temp,
        config.trace_steps,
        seed=config.seeds[0],
        role="trajectory",
        num_samples=config.num_traces,
        record_history=True,
    )


def _about(traced: list[Cell]) -> str:
    """What was recorded, in a sentence."""
    if not traced:
        raise InputError("the plan records no samples; it comes from another version")
    one = traced[0]
    return (
        f"{one.num_samples} samples of {one.gen_length} tokens a strategy, {one.num_steps} nominal"
        f" steps, t = {one.unmask_temp:g}."
    )
