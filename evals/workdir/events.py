"""The event log of a workdir: what ran, how long, and how much of it was compilation."""

import contextlib
import datetime
import json
import pathlib
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.monitoring

# Lowering and XLA compilation; trace durations nest inside each other and would count twice.
_COMPILE_EVENTS = (
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


class EventLog:
    """Appends one JSON object a line to `events.jsonl`.

    Times of day live here and nowhere else, so that banks and scores depend on their cells alone.
    `on_event` is called with each record after it is written.
    """

    def __init__(
        self, path: pathlib.Path, on_event: Callable[[Mapping[str, Any]], None] | None = None
    ):
        self.path, self.on_event = path, on_event

    def write(self, event: str, **facts: Any) -> None:
        """Appends an event with the time of day (UTC) and the process's peak memory in bytes."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        record = {"time": now, "event": event, **facts, "peak_memory_bytes": peak_memory()}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        if self.on_event is not None:
            self.on_event(record)

    @contextlib.contextmanager
    def span(self, event: str, **facts: Any) -> Iterator[dict[str, Any]]:
        """Times its body and writes one event with `compile_s` apart from `run_s`.

        Yields:
            A dict; what the body puts in it is logged too.
        """
        found: dict[str, Any] = {}
        start = time.perf_counter()
        with compile_seconds() as compiled:
            yield found
        compile_s = sum(compiled)
        run_s = time.perf_counter() - start - compile_s
        self.write(
            event,
            **facts,
            **found,
            compile_s=round(compile_s, 4),
            run_s=round(max(0.0, run_s), 4),
        )


@contextlib.contextmanager
def compile_seconds() -> Iterator[list[float]]:
    """Collects the seconds that JAX spends lowering and compiling while the body runs."""
    seconds: list[float] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event in _COMPILE_EVENTS:
            seconds.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seconds
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def peak_memory() -> int:
    """Largest resident memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
