"""The attack on generative perplexity: naive samplers swept over their sizes.

Appendix B.3 of "Hacking Generative Perplexity": for each sampler a grid of k or m, against real
text and the range of trained banks. It asks at which sizes a sampler that knows no language beats
real text in generative perplexity, and whether unigram entropy would have told.
"""

import dataclasses
import pathlib

from ..cell import Cell
from ..contenders import ContenderOptions, contender_cells, contender_scoring
from ..experiment import option
from ..report import Record, Section, gallery, introduced, write_report
from ..report.collect import collect
from ..report.rebenchmark.attack_tables import attack_finding, attack_table
from ..report.rebenchmark.figures import attack_figure, coding_figure
from ..sampling.drawing import NAIVE
from ..scoring.score_settings import ScoreSettings
from ..sources import Sources


@dataclasses.dataclass(frozen=True)
class Config(ContenderOptions):
    """Settings of the attack; every field is a flag."""

    strategies: tuple[str, ...] = option(("none",), "Remasking strategies of the denoiser.")
    topk_iid: tuple[int, ...] = option(
        (2, 4, 8, 16, 32, 64, 128, 512), "k of Top-k IID samplers.", least=1, empty=True
    )
    mirror: tuple[int, ...] = option(
        (2, 4, 8, 16, 32, 64, 128, 512), "k of Mirror samplers.", least=1, empty=True
    )
    periodic: tuple[int, ...] = option(
        (2, 4, 6, 8, 10, 12, 16, 20, 26, 32, 40), "k of Periodic samplers.", least=1, empty=True
    )
    phrase_bank: tuple[int, ...] = option(
        (1, 3, 10, 30, 100, 1000, 5000), "m of Phrase bank samplers.", least=1, empty=True
    )


def cells(config: Config, *, sources: Sources) -> list[Cell]:
    """Real text, trained banks and the grids of naive samplers; see `contender_cells`."""
    return contender_cells(config, sources)


def scoring(config: Config, *, sources: Sources) -> ScoreSettings:
    """The scorer's numbers, and those of the encoders, where any are named."""
    return contender_scoring(config, sources)


def report(workdir: pathlib.Path, *, sources: Sources) -> None:
    """Writes the page, table and figures from what the workdir holds."""
    data = introduced(collect(workdir, sources))
    order = ("periodic", *(name for name in NAIVE if name != "periodic"))
    findings = [attack_finding(data, strategy) for strategy in order]
    links = tuple(f"tables/{name}" for name in ("attack.csv", "numbers.csv"))
    sections = (
        Section("Sweep", (attack_figure(data), attack_table(data))),
        Section("Coding", (coding_figure(data),)),
        Section("Samples", (gallery(data, per_arm=1),)),
        Section("How this was made", (Record(data.provenance, links),)),
    )
    write_report(workdir / "report", data, findings, sections)
