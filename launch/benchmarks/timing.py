"""Two sides timed in turn in one process, and the table of what came out."""

import statistics
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Row(NamedTuple):
    """One line of the table.

    Attributes:
        name: what was measured, with its sizes.
        unit: of `ours` and `peer`, e.g. "ms/NFE".
        ours, peer: medians; None where that side was not measured.
        ratio: the figure that has a target.
        target: e.g. "<= 1.05"; empty for figures that are only reported.
        note: how `ratio` is made, or why something was skipped.
    """

    name: str
    unit: str
    ours: float | None
    peer: float | None
    ratio: float | None
    target: str
    note: str

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without a target or a figure."""
        if not self.target or self.ratio is None:
            return None
        relation, bound = self.target.split()
        reached = {"<=": self.ratio <= float(bound), ">=": self.ratio >= float(bound)}
        return reached[relation]


class Seconds(NamedTuple):
    """Seconds of each timed run of one side: elapsed, and of all cores of this process."""

    wall: list[float]
    cpu: list[float]


def interleave(sides: dict[str, Callable[[], object]], repeats: int) -> dict[str, Seconds]:
    """Times each side `repeats` times, in turn, after one run of each that is not counted.

    Sides alternate, so that a slow spell of the machine hits both. They must block until done.
    """
    seconds = {name: Seconds([], []) for name in sides}
    for side in sides.values():
        side()
    for _ in range(repeats):
        for name, side in sides.items():
            wall, cpu = time.perf_counter(), time.process_time()
            side()
            seconds[name].wall.append(time.perf_counter() - wall)
            seconds[name].cpu.append(time.process_time() - cpu)
    return seconds


def median_ratio(numerator: list[float], denominator: list[float]) -> float:
    """Median of the ratios of runs that were neighbours in time."""
    return statistics.median(a / b for a, b in zip(numerator, denominator, strict=True))


def cpu_note(numerator: Seconds, denominator: Seconds) -> str:
    """The same ratio by CPU time, which a machine shared with others disturbs less."""
    return f"by CPU time {median_ratio(numerator.cpu, denominator.cpu):.3g}"


def markdown(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| benchmark | unit | ours | peer | ratio | target | reached | note |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        reached = {True: "yes", False: "NO", None: ""}[row.met]
        figures = [_figure(row.ours), _figure(row.peer), _figure(row.ratio)]
        cells = [row.name, row.unit, *figures, row.target, reached, row.note]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
