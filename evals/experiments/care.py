"""The CaRE grid: strategy by temperature by budget, paired over seeds, judged by its protocol.

Every arm continues the same prefixes of real text at a seed, and is scored against what follows
them. The report has the paper's Tables 3, 5-8, 13, 16, 17 and 19 and their figures, made from
this run's scores. The defaults are the paper's grid at a third of its length, for the embedded
models:

    python launch/run.py --experiment=care --workdir=runs/care --denoiser=DIRECTORY \\
        --scorer=DIRECTORY --reference=heldout.jsonl --training=none --prefix_length=64 \\
        --gen_length=128 --num_steps=64,128,256 --num_samples=500 --causal_arm=false
"""

import dataclasses
import pathlib

from ..arms import (
    base_scoring,
    causal_cells,
    denoised_cell,
    grid_cells,
    open_world,
    reference_cells,
)
from ..cell import Cell
from ..errors import InputError
from ..experiment import option
from ..options import PromptedOptions
from ..protocol import validate_run, write_badge
from ..report import introduced, write_report
from ..report.care.sections import BUDGET_CAVEAT, SEEDS_CAVEAT, care_page
from ..report.collect import collect
from ..scoring.score_settings import ScoreSettings
from ..sources import Sources
from ..workdir.seed_scores import read_seeded_arms


@dataclasses.dataclass(frozen=True)
class Config(PromptedOptions):
    """Settings of the grid; every field is a flag."""

    more_strategies: tuple[str, ...] = option(
        (),
        "Further strategies, run at temperature 0 and --more_steps alone; they cannot be ranked.",
        empty=True,
    )
    more_steps: int = option(40, "Nominal steps of --more_strategies.", least=1)
    causal_arm: bool = option(
        True, "Whether the scorer is an arm too; with a prefix it needs the denoiser's tokenizer."
    )
    causal_temp: float = option(1.0, "Temperature of that arm's token draws.", least=0)


def cells(config: Config, *, sources: Sources) -> list[Cell]:
    """Reference and null banks, the causal arm, the grid, and what is run beside it.

    Raises:
        InputError: a model or corpus that does not load, a setting that is refused, too little
            text for the disjoint windows, or tokenizers that do not agree on the prefixes.
    """
    world = open_world(config, sources)
    found = [*reference_cells(world)]
    if config.causal_arm:
        try:
            found += causal_cells(world, config.causal_temp)
        except InputError as error:
            raise InputError(f"{error} (--causal_arm=false does)") from error
    found += grid_cells(world)
    planned = {cell.fingerprint for cell in found}
    for strategy in config.more_strategies:
        for seed in config.seeds:
            cell = denoised_cell(world, strategy, 0.0, config.more_steps, seed=seed)
            if cell.fingerprint not in planned:
                found.append(cell)
    return found


def scoring(config: Config, *, sources: Sources) -> ScoreSettings:
    """Features and likelihoods of the scorer; as many scorer tokens as a sample has tokens."""
    return base_scoring(config, sources)


def report(workdir: pathlib.Path, *, sources: Sources) -> None:
    """Writes the page, tables and figures from what the workdir holds."""
    data = introduced(collect(workdir, sources), SEEDS_CAVEAT, BUDGET_CAVEAT)
    protocol = validate_run(workdir)
    findings, sections = care_page(data, read_seeded_arms(workdir), protocol)
    write_report(workdir / "report", data, findings, sections)
    write_badge(workdir / "report" / "badge.svg", protocol)
