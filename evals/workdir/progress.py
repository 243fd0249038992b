"""Progress with an estimate of the time left: a live bar on a terminal, plain lines elsewhere."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from rich import console, progress

# Without a terminal, a line a few times a minute is enough.
_PLAIN_SECONDS = 15.0

Advance = Callable[[float, str], None]


@contextlib.contextmanager
def reporting(title: str, total: float) -> Iterator[Advance]:
    """Shows work advancing towards `total` units.

    Yields:
        advance(units, label): call it after each finished piece.
    """
    if sys.stdout.isatty():
        with _bar() as bar:
            task = bar.add_task(title, total=total, label="")

            def advance(units: float, label: str) -> None:
                bar.update(task, advance=units, label=label)

            yield advance
    else:
        yield _PlainLines(title, total).advance


class _PlainLines:
    """Prints "sample 3/26 (12%), 34 s left, high_entropy t=0.25 N=64" now and then."""

    def __init__(self, title: str, total: float):
        self.title, self.total, self.done = title, total, 0.0
        self.start = self.last = time.monotonic()

    def advance(self, units: float, label: str) -> None:
        self.done += units
        now = time.monotonic()
        finished = self.done >= self.total
        if now - self.last < _PLAIN_SECONDS and not finished:
            return
        self.last = now
        spent = now - self.start
        share = self.done / self.total if self.total else 1.0
        tail = f"{spent:.0f} s spent" if finished else f"{spent * (1 / share - 1):.0f} s left"
        print(f"{self.title}: {share:.0%}, {tail}, {label}", flush=True)


def _bar() -> progress.Progress:
    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[label]}"),
        console=console.Console(),
    )
