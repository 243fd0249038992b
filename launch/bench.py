"""Benchmarks: both sides in one run, median ratios, against the targets that the project set.

    python launch/bench.py --suite=metrics --repeats=5 --out=bench.json

Needs nothing beyond the package for our own figures; rows against a peer library say so and are
skipped where it is not installed (`pip install dlmeval[bench]`). Figures depend on the machine and
on what else runs on it; compare ratios. Peak memory is what a call adds to the resident set of the
process (ours / peer); the process's own peak holds every library that a suite loads.
"""

import datetime
import importlib
import importlib.metadata
import json
import os
import pathlib
import platform
from collections.abc import Sequence

import jax
from absl import app, flags, logging

from dlmeval.launch.benchmarks import timing

SUITES = ("metrics", "models", "sampler")
# Everything a suite may time, its peers included.
PACKAGES = (
    "dlmeval",
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "torch",
    "transformers",
    "mauve-text",
    "faiss-cpu",
    "scikit-learn",
    "fast-bleu",
)

_SUITE = flags.DEFINE_multi_enum("suite", list(SUITES), SUITES, "Suites to run.")
_REPEATS = flags.DEFINE_integer("repeats", 5, "Timed runs of each side.", lower_bound=1)
_SMALL = flags.DEFINE_bool("small", False, "Sizes that take seconds; targets do not apply.")
_OUT = flags.DEFINE_string("out", None, "File to write the figures to as JSON.")


def main(argv: Sequence[str]) -> int:
    """Runs the suites and prints their tables; returns 1 if a target was missed."""
    if len(argv) > 1:
        raise app.UsageError(f"unexpected argument {argv[1]!r}")
    logging.set_verbosity(logging.WARNING)
    results = {}
    for suite in _SUITE.value:
        module = importlib.import_module(f"dlmeval.launch.benchmarks.{suite}")
        rows = []
        for row in module.run(repeats=_REPEATS.value, small=_SMALL.value):
            # Sizes are part of what a target means.
            rows.append(row._replace(target="") if _SMALL.value else row)
            logging.warning("%s: %s", suite, rows[-1].name)
        results[suite] = rows
        print(f"\n### {suite}\n\n{timing.markdown(rows)}\n", flush=True)
    print("versions:", ", ".join(f"{name} {version}" for name, version in versions().items()))
    print(f"peak memory of the process: {timing.process_peak_mib():.0f} MiB", flush=True)
    if _OUT.value is not None:
        path = pathlib.Path(_OUT.value)
        path.write_text(json.dumps(report(results), indent=1) + "\n", encoding="utf-8")
    missed = [row.name for rows in results.values() for row in rows if row.met is False]
    return 1 if missed else 0


def report(results: dict[str, list[timing.Row]]) -> dict:
    """Everything that was measured, and what it was measured with, ready for JSON."""
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "repeats": _REPEATS.value,
        "small": _SMALL.value,
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "device": jax.devices()[0].device_kind,
            "load": os.getloadavg()[0],
        },
        "versions": versions(),
        "peak_mib": timing.process_peak_mib(),
        "rows": {
            suite: [{**row._asdict(), "met": row.met} for row in rows]
            for suite, rows in results.items()
        },
    }


def versions() -> dict[str, str]:
    """Versions of those of `PACKAGES` that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    app.run(main)
