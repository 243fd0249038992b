"""The main job in small: trained arms, a causal model, naive samplers and real text, one profile.

Every arm draws the same number of texts of the same length. Each seed has its own reference bank
and its own null draws, all of them disjoint windows of held-out text; a bank is scored against
the reference of its seed, and the report averages the seeds. Scores are taken per seed rather
than on pooled seeds, so that the spread between seeds is there to be seen.

The naive samplers attack generative perplexity, so their sizes are small: a larger k or m raises
their perplexity and brings their statistics closer to those of real text.

The defaults finish in minutes on two cores with the embedded models. Larger numbers, other models
and other text make it a real run:

    python launch/run.py --experiment=quickstart --workdir=runs/owt --denoiser=DIRECTORY \\
        --scorer=DIRECTORY --reference=heldout.jsonl --training=train.jsonl \\
        --gen_length=1024 --num_samples=1024 --seeds=0,1,2 --num_steps=256,512,1024
"""

import dataclasses
import pathlib

from ..arms import (
    base_scoring,
    causal_cells,
    grid_cells,
    naive_cells,
    open_world,
    recorded_cell,
    reference_cells,
)
from ..cell import Cell
from ..experiment import option
from ..options import GridOptions
from ..report import introduced, with_mean_ranks, write_report
from ..report.collect import collect
from ..report.quickstart_sections import quickstart_page
from ..sampling.drawing import NAIVE
from ..scoring.score_settings import ScoreSettings
from ..sources import Sources


@dataclasses.dataclass(frozen=True)
class Config(GridOptions):
    """Settings of the quickstart; every field is a flag."""

    seeds: tuple[int, ...] = option((0, 1), "Seeds; each has its own reference bank.", least=0)
    unmask_temps: tuple[float, ...] = option(
        (0.0, 0.25, 1.0), "Temperatures of the token draws; 0 takes the most likely token."
    )
    num_steps: tuple[int, ...] = option((20, 40), "Nominal step budgets.", least=1)
    num_null_banks: int = option(
        4, "Further draws of real text at a seed, whose scores make the null band.", least=0
    )
    gradient_batches: int | None = option(
        8, "Mini-batches a bank is cut into for the gradient moment; none leaves it out.", least=2
    )
    topk_iid: int = option(16, "k of the Top-k IID sampler.")
    mirror: int = option(16, "k of the Mirror sampler.")
    periodic: int = option(4, "k of the Periodic sampler.")
    phrase_bank: int = option(5, "m of the Phrase bank sampler.")
    num_trajectories: int = option(4, "Samples whose unmasking is recorded.", least=0)


def cells(config: Config, *, sources: Sources) -> list[Cell]:
    """Reference and null banks, the causal arm, the denoiser's grid, naive samplers, a trajectory.

    Raises:
        InputError: a model or corpus that does not load, a sampler setting that is refused, or
            too little text for the disjoint windows.
    """
    world = open_world(config, sources)
    found = [*reference_cells(world), *causal_cells(world), *grid_cells(world)]
    found += naive_cells(world, [(name, getattr(config, name)) for name in NAIVE])
    if config.num_trajectories:
        strategy, steps = config.strategies[-1], max(config.num_steps)
        temp = min(config.unmask_temps, key=lambda t: (abs(t - 0.25), t))
        few = config.num_trajectories
        found.append(recorded_cell(world, strategy, temp, steps, num_samples=few))
    return found


def scoring(config: Config, *, sources: Sources) -> ScoreSettings:
    """Features and likelihoods of the scorer; as many scorer tokens as a sample has tokens."""
    return base_scoring(config, sources)


def report(workdir: pathlib.Path, *, sources: Sources) -> None:
    """Writes the page, tables and figures from what the workdir holds."""
    data = introduced(with_mean_ranks(collect(workdir, sources)))
    findings, sections = quickstart_page(data)
    write_report(workdir / "report", data, findings, sections)
