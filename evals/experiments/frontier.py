"""Frontiers over temperature: what perplexity and MAUVE, or perplexity and entropy, tell and miss.

Each strategy at one budget draws a curve over temperatures (CaRE, arXiv 2607.24763, Figs. 2, 5, 9
and 10). Beside the curves stand the gaps between strategies at one temperature, paired over seeds,
which curves that overlap hide; and the four metrics of cold and warm unmasking together.

    python launch/run.py --flagfile=launch/flags/frontier.flags --workdir=runs/frontier
"""

import dataclasses
import pathlib

from ..arms import base_scoring, causal_cells, grid_cells, open_world, reference_cells
from ..cell import Cell
from ..errors import InputError
from ..experiment import option
from ..options import PromptedOptions
from ..report import introduced, write_report
from ..report.care.frontier_sections import frontier_page
from ..report.collect import collect
from ..scoring.score_settings import ScoreSettings
from ..sources import Sources
from ..workdir.seed_scores import read_seeded_arms


@dataclasses.dataclass(frozen=True)
class Config(PromptedOptions):
    """Settings of the frontier experiment; every field is a flag."""

    strategies: tuple[str, ...] = option(
        ("none", "random", "high_entropy"),
        "Remasking strategies of the denoiser; gaps are to none.",
    )
    unmask_temps: tuple[float, ...] = option(
        (0.0, 0.1, 0.25, 0.5, 1.0),
        "Temperatures of the token draws, along the curves; 0 takes the most likely token.",
        least=0,
    )
    num_steps: tuple[int, ...] = option((40,), "The nominal budget, one number.", least=1)
    gap_temp: float = option(
        0.25, "One of unmask_temps, above 0, at which strategies are compared with no remasking."
    )

    def __post_init__(self):
        super().__post_init__()
        if len(self.num_steps) != 1:
            raise InputError(
                f"--num_steps={self.num_steps} names {len(self.num_steps)} budgets; a frontier is"
                " drawn at one, so give one here and run the others in folders of their own"
            )
        if self.gap_temp not in self.unmask_temps or not self.gap_temp > 0:
            raise InputError(
                f"--gap_temp={self.gap_temp:g} must be above 0 and one of"
                f" --unmask_temps={self.unmask_temps}"
            )


def cells(config: Config, *, sources: Sources) -> list[Cell]:
    """Real text and its null draws, the causal arm, strategies by temperatures.

    Raises:
        InputError: a model or corpus that does not load, too little text, or a sampler setting
            that is refused.
    """
    world = open_world(config, sources)
    return [*reference_cells(world), *causal_cells(world), *grid_cells(world)]


def scoring(config: Config, *, sources: Sources) -> ScoreSettings:
    """Features and likelihoods of the scorer."""
    return base_scoring(config, sources)


def report(workdir: pathlib.Path, *, sources: Sources) -> None:
    """Writes the page, tables and figures from what the workdir holds."""
    data = introduced(collect(workdir, sources))
    findings, sections = frontier_page(data, read_seeded_arms(workdir))
    write_report(workdir / "report", data, findings, sections)
