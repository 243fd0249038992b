"""How much remasking helps or harms: a strategy over remasking fractions (CaRE, Table 9).

At a fixed budget and temperature every fraction is an arm, and a few of its samples are recorded,
so that churn is measured rather than assumed. Random remasking of the same nominal volume says
whether it matters which tokens go back.

    python launch/run.py --flagfile=launch/flags/dose.flags --workdir=runs/dose
"""

import dataclasses
import pathlib

from ..arms import base_scoring, denoised_cell, open_world, recorded_cell, reference_cells
from ..cell import Cell
from ..doses import check_doses
from ..errors import InputError
from ..experiment import option
from ..options import PromptedOptions
from ..report import introduced, write_report
from ..report.care.dose_sections import dose_page
from ..report.care.recorded import recorded_churn
from ..report.care.sections import SEEDS_CAVEAT
from ..report.collect import collect
from ..scoring.score_settings import ScoreSettings
from ..sources import Sources

_RANDOM = "random"


@dataclasses.dataclass(frozen=True)
class Config(PromptedOptions):
    """Settings of the sweep; every field is a flag."""

    strategies: tuple[str, ...] = option(("high_entropy",), "Remasking strategies to dose.")
    unmask_temps: tuple[float, ...] = option((0.25,), "The one temperature of the token draws.")
    num_steps: tuple[int, ...] = option((80,), "The one nominal budget.", least=2)
    fractions: tuple[float, ...] = option(
        (0.0, 0.05, 0.1, 0.15, 0.2, 0.3),
        "Shares of the canvas that a step may put back; --remask_fraction is not read.",
        least=0,
        most=1,
    )
    random: bool = option(True, "Whether random remasking of the same fractions is run too.")
    num_recorded: int = option(16, "Samples of each arm whose unmasking is recorded.", least=2)

    def __post_init__(self):
        super().__post_init__()
        for name in ("unmask_temps", "num_steps"):
            if len(getattr(self, name)) != 1:
                raise InputError(f"--{name}={getattr(self, name)}: doses differ in fraction alone")
        if "none" in self.strategies:
            raise InputError("--strategies=none puts nothing back; fraction 0 is that arm here")
        if self.num_recorded > self.num_samples:
            raise InputError(
                f"--num_recorded={self.num_recorded} exceeds --num_samples={self.num_samples}"
            )


def cells(config: Config, *, sources: Sources) -> list[Cell]:
    """Reference and null banks, and each strategy at each fraction: scored banks, a recorded one.

    Raises:
        InputError: a model or corpus that does not load, a setting that is refused, a strategy
            whose dose is not the fraction, or two fractions that put back as many tokens.
    """
    world = open_world(config, sources)
    check_doses(config, config.fractions)
    more = (_RANDOM,) if config.random and _RANDOM not in config.strategies else ()
    arms = [(name, f) for name in (*config.strategies, *more) for f in config.fractions]
    temp, steps = config.unmask_temps[0], config.num_steps[0]
    found = [*reference_cells(world)]
    for name, fraction in arms:
        for seed in config.seeds:
            found.append(
                denoised_cell(world, name, temp, steps, seed=seed, remask_fraction=fraction)
            )
        few = config.num_recorded
        found.append(
            recorded_cell(world, name, temp, steps, num_samples=few, remask_fraction=fraction)
        )
    return found


def scoring(config: Config, *, sources: Sources) -> ScoreSettings:
    """Features and likelihoods of the scorer; as many scorer tokens as a sample has tokens."""
    return base_scoring(config, sources)


def report(workdir: pathlib.Path, *, sources: Sources) -> None:
    """Writes the page, tables and figures from what the workdir holds."""
    data = introduced(collect(workdir, sources), SEEDS_CAVEAT)
    findings, sections = dose_page(data, recorded_churn(workdir))
    write_report(workdir / "report", data, findings, sections)
