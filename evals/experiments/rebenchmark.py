"""The rebenchmark: models, imports and naive samplers in one profile, and what each column buys.

Table 1 of "Hacking Generative Perplexity" from whatever banks are given: every column of the
profile, six of them ranked, real text and a second draw of it, and the test that every naive
sampler comes last. Banks that were drawn elsewhere need no model of ours:

    python launch/run.py --experiment=rebenchmark --workdir=runs/owt --denoiser=none \\
        --external=mdlm=mdlm.jsonl,sedd=sedd.jsonl --scorer=DIRECTORY --reference=heldout.jsonl \\
        --training=train.jsonl --gen_length=1024 --num_samples=1024 --seeds=0
"""

import dataclasses
import pathlib

from ..cell import Cell
from ..contenders import ContenderOptions, contender_cells, contender_scoring
from ..experiment import option
from ..report import (
    Record,
    Section,
    compute_table,
    gallery,
    introduced,
    profile_table,
    with_mean_ranks,
    write_report,
)
from ..report.collect import collect
from ..report.rebenchmark.attack_tables import attack_finding
from ..report.rebenchmark.figures import attack_figure, coding_figure
from ..report.rebenchmark.tables import (
    TABLE_ONE,
    heuristics_finding,
    heuristics_table,
    rank_table,
    with_second_reference,
)
from ..report.reported_table import reported_table
from ..scoring.score_settings import ScoreSettings
from ..sources import Sources
from ..workdir.plan import read_plan
from ..workdir.score_stage import load_scores


@dataclasses.dataclass(frozen=True)
class Config(ContenderOptions):
    """Settings of the rebenchmark; every field is a flag."""

    seeds: tuple[int, ...] = option(
        (0, 1), "Seeds; two or more give rank intervals, each has its own reference bank.", least=0
    )
    gradient_batches: int | None = option(
        8, "Mini-batches a bank is cut into for the gradient moment; none leaves it out."
    )


def cells(config: Config, *, sources: Sources) -> list[Cell]:
    """Every contender, and the null draws of real text; see `contender_cells`."""
    return contender_cells(config, sources)


def scoring(config: Config, *, sources: Sources) -> ScoreSettings:
    """The scorer's numbers, and those of the encoders, where any are named."""
    return contender_scoring(config, sources)


def report(workdir: pathlib.Path, *, sources: Sources) -> None:
    """Writes the page, tables and figures from what the workdir holds."""
    plan = read_plan(workdir)
    scores = load_scores(plan, workdir)
    data = introduced(with_mean_ranks(collect(workdir, sources), TABLE_ONE))
    findings = (attack_finding(data), heuristics_finding(data))
    profile = profile_table(with_second_reference(data, scores), TABLE_ONE)
    links = tuple(f"tables/{name}" for name in ("profile.csv", "ranks.csv", "numbers.csv"))
    sections = (
        Section("Profile", (profile,)),
        Section("Ranks", (rank_table(data, scores),)),
        Section("Naive samplers last", (heuristics_table(data),)),
        Section("Figures", (attack_figure(data, name="frontier"), coding_figure(data))),
        Section("Compute", (compute_table(data),)),
        Section("Samples", (gallery(data),)),
        Section("Reported", (reported_table("genppl", [column.metric for column in TABLE_ONE]),)),
        Section("How this was made", (Record(data.provenance, links),)),
    )
    write_report(workdir / "report", data, findings, sections)
