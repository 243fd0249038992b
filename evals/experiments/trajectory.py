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
    base_scoring,
    causal_cells,
    grid_cells,
    open_world,
    recorded_cell,
    reference_cells,
)
from ..cell import Cell
from ..experiment import option
from ..options import PromptedOptions
from ..report import introduced, write_report
from ..report.care.recorded import recorded_cells, recorded_histories
from ..report.care.trajectory_sections import trajectory_page
from ..report.collect import collect
from ..scoring.score_settings import ScoreSettings
from ..sources import Sources


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
    temp, steps, few = config.trace_temp, config.trace_steps, config.num_traces
    for strategy in config.strategies:
        found.append(recorded_cell(world, strategy, temp, steps, num_samples=few))
    return found


def scoring(config: Config, *, sources: Sources) -> ScoreSettings:
    """Features and likelihoods of the scorer."""
    return base_scoring(config, sources)


def report(workdir: pathlib.Path, *, sources: Sources) -> None:
    """Writes the page, tables and figures from what the workdir holds."""
    data = introduced(collect(workdir, sources))
    recorded, histories = recorded_cells(workdir), recorded_histories(workdir)
    findings, sections = trajectory_page(data, recorded, histories)
    write_report(workdir / "report", data, findings, sections)
