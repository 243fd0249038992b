"""How much remasking helps or harms: a strategy over remasking fractions (CaRE, Table 9).

At a fixed budget and temperature every fraction is an arm, and a few of its samples are recorded,
so that churn is measured rather than assumed. Random remasking of the same nominal volume says
whether it matters which tokens go back.

    python launch/run.py --flagfile=launch/flags/dose.flags --workdir=runs/dose
"""

import dataclasses
import pathlib

from ..arms import base_scoring, denoised_cell, open_world, reference_cells
from ..banks.trajectory import load_history
from ..cell import Cell, arm_labels
from ..errors import InputError
from ..experiment import option
from ..options import PromptedOptions
from ..report import (
    Record,
    Section,
    compute_table,
    gallery,
    heat_map,
    profile_table,
    run_caveats,
    run_lead,
    write_report,
)
from ..report.care.dose_tables import CHURN, dose_figure, dose_table, response, response_finding
from ..report.care.sections import SEEDS_CAVEAT
from ..report.collect import collect
from ..scoring.churn import churn_scores
from ..scoring.score_settings import ScoreSettings
from ..scoring.scores import Score
from ..sources import Sources
from ..workdir.plan import read_plan
from ..workdir.sample_stage import bank_path

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
        InputError: a model or corpus that does not load, or a setting that is refused.
    """
    world = open_world(config, sources)
    more = (_RANDOM,) if config.random and _RANDOM not in config.strategies else ()
    arms = [(name, f) for name in (*config.strategies, *more) for f in config.fractions]
    temp, steps = config.unmask_temps[0], config.num_steps[0]
    found = [*reference_cells(world)]
    for name, fraction in arms:
        for seed in config.seeds:
            changes = {"seed": seed, "remask_fraction": fraction}
            found.append(denoised_cell(world, name, temp, steps, **changes))
        recorded = {"role": "trajectory", "record_history": True}
        recorded |= {"num_samples": config.num_recorded, "remask_fraction": fraction}
        found.append(denoised_cell(world, name, temp, steps, seed=config.seeds[0], **recorded))
    return found


def scoring(config: Config, *, sources: Sources) -> ScoreSettings:
    """Features and likelihoods of the scorer; as many scorer tokens as a sample has tokens."""
    return base_scoring(config, sources)


def report(workdir: pathlib.Path, *, sources: Sources) -> None:
    """Writes the page, tables and figures from what the workdir holds."""
    data, churn = collect(workdir, sources), _churn(workdir)
    caveats = (*run_caveats(data), SEEDS_CAVEAT)
    data = dataclasses.replace(data, lead=run_lead(data), caveats=caveats)
    sections = (
        Section("Dose and response", (dose_table(data, churn), dose_figure(data, churn))),
        Section("Compute", (compute_table(data),)),
        Section("Profile", (profile_table(data),)),
        Section("Unmasking", tuple(heat_map(one) for one in data.trajectories[-1:])),
        Section("Samples", (gallery(data),)),
        Section("How this was made", (Record(data.provenance, ("tables/numbers.csv",)),)),
    )
    findings = (response_finding(response(data, churn)),)
    write_report(workdir / "report", data, findings, sections)


def _churn(workdir: pathlib.Path) -> dict[str, Score]:
    """{label of an arm: replacement rate of its recorded samples}."""
    planned = read_plan(workdir).cells
    labels = arm_labels(cell for cell in planned if cell.role == "generated")
    arms = {
        (c.strategy, c.remask_fraction): labels[c.fingerprint]
        for c in planned
        if c.role == "generated"
    }
    return {
        arms[cell.strategy, cell.remask_fraction]: churn_scores(
            load_history(bank_path(workdir, cell))
        )[CHURN]
        for cell in planned
        if cell.role == "trajectory"
    }
