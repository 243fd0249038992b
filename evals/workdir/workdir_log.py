"""What the event log of a workdir adds up to."""

import contextlib
import json
import pathlib
from typing import NamedTuple


class RunFacts(NamedTuple):
    """Totals over all runs in a workdir.

    Attributes:
        seconds: {stage: (compile seconds, run seconds)}, summed over cells.
        peak_memory_bytes: largest resident memory of any of its processes.
    """

    seconds: dict[str, tuple[float, float]]
    peak_memory_bytes: int


def run_facts(workdir: pathlib.Path) -> RunFacts:
    """Adds up `events.jsonl`; a line cut short by a crash is passed over."""
    seconds: dict[str, tuple[float, float]] = {}
    peak = 0
    path = workdir / "events.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        record: dict = {}
        with contextlib.suppress(json.JSONDecodeError):
            record = json.loads(line)
        peak = max(peak, record.get("peak_memory_bytes", 0))
        if record.get("event") in ("sample", "score"):
            compiled, ran = seconds.get(record["event"], (0.0, 0.0))
            seconds[record["event"]] = (compiled + record["compile_s"], ran + record["run_s"])
    return RunFacts(seconds, peak)
