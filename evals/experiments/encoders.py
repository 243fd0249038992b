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
from ..report import introduced, write_report
from ..report.collect import collect
from ..report.rebenchmark.encoder_sections import encoder_page
from ..report.rebenchmark.encoder_tables import SCORER
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
    data = introduced(collect(workdir, sources))
    settings = read_plan(workdir).scoring
    # Where --features makes an encoder's distances the unnamed ones, the scorer has none.
    scorer = (SCORER,) if settings.features is None else ()
    names = (*scorer, *map(encoder_name, settings.encoders))
    findings, sections = encoder_page(data, names)
    write_report(workdir / "report", data, findings, sections)
