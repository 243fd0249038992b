"""Does the order of generators depend on the encoder? Four distances under several encoders.

Appendix D.3 of "Hacking Generative Perplexity": MAUVE, energy distance, MMD and Fréchet distance of
the same banks under each encoder, the ranks that follow (Fig. 11), and how far distances agree
within an encoder (Fig. 12) and encoders on a distance. The scorer's own hidden states are one more
encoder. `--whiten=128` whitens the others as the paper does; it needs more reference rows.

    python launch/run.py --experiment=encoders --workdir=runs/encoders --whiten=16 \\
        --encoders=DIRECTORY,hf:OWNER/REPO@REVISION
"""

import dataclasses
import pathlib

from ..cell import Cell
from ..contenders import ContenderOptions, contender_cells, contender_scoring
from ..errors import InputError, naming
from ..experiment import option
from ..report import Record, Section, run_caveats, run_lead, write_report
from ..report.collect import collect
from ..report.line_figures import rank_figure
from ..report.rebenchmark.correlation_figures import correlation_figure
from ..report.rebenchmark.encoder_tables import (
    SCORER,
    across_encoders,
    correlations_table,
    distance_table,
    encoder_finding,
    encoder_rank_table,
    encoder_ranks,
    within_encoders,
)
from ..scoring.score_settings import ScoreSettings, encoder_name
from ..sources import Sources
from ..workdir.plan import read_plan


@dataclasses.dataclass(frozen=True)
class Config(ContenderOptions):
    """Settings of the encoder study; every field is a flag."""

    encoders: tuple[str, ...] = option(
        (),
        "Encoders beside the scorer: local folders or hf:OWNER/REPO@REVISION; at least one.",
        empty=True,
    )
    seeds: tuple[int, ...] = option((0,), "Seeds; each has its own reference bank.", least=0)
    unmask_temps: tuple[float, ...] = option((0.25, 1.0), "Temperatures of the token draws.")
    num_steps: tuple[int, ...] = option((20, 40), "Nominal step budgets.", least=1)


def cells(config: Config, *, sources: Sources) -> list[Cell]:
    """Every contender; see `contender_cells`.

    Raises:
        InputError: no encoder, and as `contender_cells`.
    """
    if not config.encoders:
        raise InputError(
            "--encoders is empty; name folders with config.json and weights, such as"
            " --encoders=weights/minilm-l6-v2,weights/all-mpnet-base-v2"
        )
    for source in config.encoders:
        with naming(f"--encoders={source}"):
            sources.encoder(source)
    return contender_cells(config, sources)


def scoring(config: Config, *, sources: Sources) -> ScoreSettings:
    """The scorer's numbers and the four distances of every encoder."""
    return contender_scoring(config, sources)


def report(workdir: pathlib.Path, *, sources: Sources) -> None:
    """Writes the page, tables and figures from what the workdir holds."""
    plan = read_plan(workdir)
    data = collect(workdir, sources)
    data = dataclasses.replace(data, lead=run_lead(data), caveats=run_caveats(data))
    # Where --features makes an encoder's distances the unnamed ones, the scorer has none.
    scorer = (SCORER,) if plan.scoring.features is None else ()
    names = (*scorer, *map(encoder_name, plan.scoring.encoders))
    within, across = within_encoders(data, names), across_encoders(data, names)
    caption = "Spearman correlations over the arms, turned so that higher is better."
    blocks = []
    if within:
        blocks.append(correlation_figure(within, name="within_encoders", caption=caption))
        blocks.append(
            correlations_table(
                within,
                name="within_encoders",
                caption="Agreement of the four distances within an encoder.",
                group_title="encoder",
            )
        )
    if across:
        blocks.append(correlation_figure(across, name="across_encoders", caption=caption))
        blocks.append(
            correlations_table(
                across,
                name="across_encoders",
                caption="Agreement of the encoders on a distance.",
                group_title="distance",
            )
        )
    ranks = rank_figure(data, encoder_ranks(data, names)), encoder_rank_table(data, names)
    links = tuple(f"tables/{name}" for name in ("encoders.csv", "numbers.csv"))
    sections = (
        Section("Ranks", ranks),
        Section("Distances", (distance_table(data, names),)),
        Section("Agreement", tuple(blocks)),
        Section("How this was made", (Record(data.provenance, links),)),
    )
    write_report(workdir / "report", data, [encoder_finding(data, names)], sections)
