"""How scores move with the number of samples: the same banks at nested sizes.

Appendix D.1 of "Hacking Generative Perplexity". Every arm is drawn and scored once, at the largest
size; smaller sizes are its first rows against the first rows of the reference, so that columns
differ by n alone and cost no forward.
"""

import dataclasses
import pathlib
from typing import Any

from ..cell import Cell
from ..contenders import ContenderOptions, contender_cells, contender_scoring
from ..errors import InputError
from ..experiment import option
from ..report import Record, Section, introduced, write_report
from ..report.collect import collect
from ..report.line_figures import size_figure
from ..report.rebenchmark.size_tables import SIZED, order_table, size_finding, size_table
from ..scoring.score_settings import ScoreSettings
from ..scoring.scored import MIN_ROWS
from ..sources import Sources


@dataclasses.dataclass(frozen=True)
class Config(ContenderOptions):
    """Settings of the sample-size study; every field is a flag."""

    sizes: tuple[int, ...] = option(
        (32, 64, 128, 256), "Samples on either side, ascending.", least=MIN_ROWS
    )
    num_samples: int = option(
        256, "Samples of an arm at one seed; at least the largest of sizes.", least=MIN_ROWS
    )

    def __post_init__(self):
        super().__post_init__()
        if list(self.sizes) != sorted(self.sizes) or len(self.sizes) < 2:
            raise InputError(f"--sizes={self.sizes} must be two or more, in ascending order")
        if self.num_samples < self.sizes[-1]:
            raise InputError(
                f"--num_samples={self.num_samples} is less than the largest of"
                f" --sizes={self.sizes}; raise it or leave that size out"
            )


def cells(config: Config, *, sources: Sources) -> list[Cell]:
    """Every contender at the largest size; see `contender_cells`."""
    return contender_cells(config, sources)


def scoring(config: Config, *, sources: Sources) -> ScoreSettings:
    """The scorer's numbers, the distances once more at every size."""
    return dataclasses.replace(contender_scoring(config, sources), nested_sizes=config.sizes)


def report(workdir: pathlib.Path, *, sources: Sources) -> None:
    """Writes the page, tables and figures from what the workdir holds."""
    data = introduced(collect(workdir, sources))
    found: Any = data.provenance.config["sizes"]
    sizes = tuple(found)
    findings = [size_finding(data, sizes, metric) for metric, _ in SIZED]
    links = tuple(f"tables/{name}" for name in ("sample_size.csv", "numbers.csv"))
    sections = (
        Section("MAUVE", (size_figure(data, sizes), size_table(data, sizes))),
        Section("Orders", (order_table(data, sizes),)),
        *(
            Section(title, (size_table(data, sizes, metric, name=f"sample_size_{metric}"),))
            for metric, title in SIZED[1:]
        ),
        Section("How this was made", (Record(data.provenance, links),)),
    )
    write_report(workdir / "report", data, findings, sections)
