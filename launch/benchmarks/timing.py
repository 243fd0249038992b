"""Two sides timed in turn in one process, their memory, and the table of what came out."""

import pathlib
import resource
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping
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
        ours_peak, peer_peak: MiB by which a call raised the resident set of the process; None
            where it was not measured.
    """

    name: str
    unit: str
    ours: float | None
    peer: float | None
    ratio: float | None
    target: str
    note: str
    ours_peak: float | None = None
    peer_peak: float | None = None

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


def interleave(
    sides: Mapping[str, Callable[[], object]], repeats: int, *, ready: Collection[str] = ()
) -> dict[str, Seconds]:
    """Times each side `repeats` times, in turn, after one run of each that is not counted.

    Sides alternate, so that a slow spell of the machine hits both. They must block until done.
    Sides named in `ready` have run before or gain nothing from it: their first run counts.
    """
    seconds = {name: Seconds([], []) for name in sides}
    for name, side in sides.items():
        if name not in ready:
            side()
    for _ in range(repeats):
        for name, side in sides.items():
            wall, cpu = time.perf_counter(), time.process_time()
            side()
            seconds[name].wall.append(time.perf_counter() - wall)
            seconds[name].cpu.append(time.process_time() - cpu)
    return seconds


class PeakMemory:
    """A call that notes after every run by how much it raised the resident set, in MiB.

    Linux alone can reset the high-water mark of a process; elsewhere, and where the system
    forbids it, `mib` stays None. What a run takes from memory the process held before is not in it.
    """

    def __init__(self, call: Callable[[], object]):
        self.call = call
        self.mib: float | None = None

    def __call__(self) -> object:
        before = _reset_high_water_mark()
        result = self.call()
        if before is not None:
            rise = _status_mib("VmHWM") - before
            self.mib = rise if self.mib is None else max(rise, self.mib)
        return result


def process_peak_mib() -> float:
    """Highest resident set of this process so far, where Linux's unit (KiB) applies."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _reset_high_water_mark() -> float | None:
    try:
        pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        return _status_mib("VmRSS")
    except OSError:
        return None


def _status_mib(field: str) -> float:
    lines = pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def median_ratio(numerator: list[float], denominator: list[float]) -> float:
    """Median of the ratios of runs that were neighbours in time."""
    return statistics.median(a / b for a, b in zip(numerator, denominator, strict=True))


def cpu_note(numerator: Seconds, denominator: Seconds) -> str:
    """The same ratio by CPU time, which a machine shared with others disturbs less."""
    return f"by CPU time {median_ratio(numerator.cpu, denominator.cpu):.3g}"


def markdown(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| benchmark | unit | ours | peer | ratio | target | reached | peak MiB | note |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        reached = {True: "yes", False: "NO", None: ""}[row.met]
        figures = [_figure(row.ours), _figure(row.peer), _figure(row.ratio)]
        peaks = (row.ours_peak, row.peer_peak)
        peak = " / ".join(f"{mib:.0f}" for mib in peaks if mib is not None)
        cells = [row.name, row.unit, *figures, row.target, reached, peak, row.note]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
