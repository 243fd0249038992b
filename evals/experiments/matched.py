"""Strategies at equal counted compute (CaRE, arXiv 2607.24763, Table 4).

Every arm gets a target of forwards a sample and the nominal steps that cost it, searched on a
pilot. No remasking saturates at one forward a token: what it does with the rest of a target is
its mode, and each mode is an arm of its own.

    python launch/run.py --flagfile=launch/flags/matched.flags --workdir=runs/matched
"""

import dataclasses
import pathlib

from ...samplers.registry import get_entry
from ..arms import base_scoring, denoised_cell, open_world, reference_cells
from ..cell import MATCH_MODES, Cell
from ..errors import InputError, naming
from ..experiment import option
from ..options import PromptedOptions
from ..protocol import validate_run, write_badge
from ..report import introduced, write_report
from ..report.care.matched_sections import matched_page
from ..report.care.sections import SEEDS_CAVEAT
from ..report.collect import collect
from ..scoring.score_settings import ScoreSettings
from ..sources import Sources
from ..workdir.seed_scores import read_seeded_arms


@dataclasses.dataclass(frozen=True)
class Config(PromptedOptions):
    """Settings of the comparison; every field is a flag."""

    unmask_temps: tuple[float, ...] = option(
        (0.25,), "Temperatures of the token draws; the protocol asks for 0,0.1,0.25,0.5."
    )
    num_steps: tuple[int, ...] = option(
        (), "Not used here: nominal steps are searched for --targets.", empty=True
    )
    targets: tuple[int, ...] = option((20, 40, 80), "Forwards a sample.", least=1)
    match_modes: tuple[str, ...] = option(
        MATCH_MODES, f"What an arm does that saturates below a target: {', '.join(MATCH_MODES)}."
    )

    def __post_init__(self):
        super().__post_init__()
        if self.num_steps:
            raise InputError(f"--num_steps={self.num_steps} is searched here; give --targets")
        unknown = [mode for mode in self.match_modes if mode not in MATCH_MODES]
        if unknown:
            accepted = ", ".join(MATCH_MODES)
            raise InputError(f"--match_modes={','.join(unknown)} is unknown; accepted: {accepted}")


def cells(config: Config, *, sources: Sources) -> list[Cell]:
    """Reference and null banks, then every strategy at every temperature and target.

    Modes are arms of their own only where an arm can saturate: one that never puts a token back
    takes at most gen_length forwards. All others take the first mode, which then changes nothing.

    Raises:
        InputError: a model or corpus that does not load, or a setting that is refused.
    """
    world = open_world(config, sources)
    found = [*reference_cells(world)]
    for strategy in config.strategies:
        for temp in config.unmask_temps:
            for target in config.targets:
                for mode in _modes(config, strategy, target):
                    changes = {"target_nfe": target, "match_mode": mode}
                    for seed in config.seeds:
                        found.append(
                            denoised_cell(world, strategy, temp, None, seed=seed, **changes)
                        )
    return found


def scoring(config: Config, *, sources: Sources) -> ScoreSettings:
    """Features and likelihoods of the scorer; gen_length tokens of longer texts too."""
    return base_scoring(config, sources)


def report(workdir: pathlib.Path, *, sources: Sources) -> None:
    """Writes the page, tables and figures from what the workdir holds."""
    data = introduced(collect(workdir, sources), SEEDS_CAVEAT)
    protocol = validate_run(workdir)
    findings, sections = matched_page(data, read_seeded_arms(workdir), protocol)
    write_report(workdir / "report", data, findings, sections)
    write_badge(workdir / "report" / "badge.svg", protocol)


def _modes(config: Config, strategy: str, target: int) -> tuple[str, ...]:
    with naming(f"--strategies={strategy}"):
        kind = get_entry(strategy).kind
    saturates = kind in ("none", "order") and target > config.gen_length
    return config.match_modes if saturates else config.match_modes[:1]
