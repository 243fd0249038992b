"""Prints strategies at matched compute: nominal steps found on a pilot, NFE measured on a real run.

    python launch/match.py --targets=128,256,512 --strategies=none,high_entropy --out=runs/match

Exit codes: 0 done, 2 for input that has to be changed (one line on stderr says what).
"""

import csv
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
from absl import app, flags

from dlmeval import samplers
from dlmeval.evals.errors import InputError, one_line
from dlmeval.evals.sampling import matching
from dlmeval.evals.sampling.idle_remasking import why_idle
from dlmeval.models import load_denoiser

_MODEL = flags.DEFINE_string("model", "embedded:kjv-denoiser", "Denoiser to sample from.")
_STRATEGIES = flags.DEFINE_list(
    "strategies", ["none", "random", "low_confidence", "high_entropy"], "Strategies to compare."
)
_TARGETS = flags.DEFINE_list("targets", ["128", "256", "512"], "Forwards a sample.")
_MODES = flags.DEFINE_list(
    "modes", ["cap"], f"What an arm that saturates does: {', '.join(matching.MODES)}."
)
_TEMP = flags.DEFINE_float("unmask_temp", 0.25, "Stochasticity of unmasking.")
_GEN_LENGTH = flags.DEFINE_integer("gen_length", 128, "Tokens a sample.")
_FRACTION = flags.DEFINE_float("remask_fraction", 0.15, "Share of the canvas remasked a step.")
_PILOT = flags.DEFINE_integer("num_pilot", 16, "Samples of the pilot.")
_SAMPLES = flags.DEFINE_integer("num_samples", 64, "Samples of the real run.")
_SEED = flags.DEFINE_integer("seed", 0, "Root of all keys; the pilot's differ from the run's.")
_OUT = flags.DEFINE_string("out", None, "Folder for table.md and table.csv; none prints only.")


class Row(NamedTuple):
    """One arm at one target, as measured on the real run."""

    strategy: str
    mode: str
    target: int
    num_steps: int
    nfe: float
    stderr: float
    least: int
    most: int
    launches: int
    saturated: bool
    agrees: bool


def rows() -> Iterator[Row]:
    denoiser = load_denoiser(_MODEL.value)
    count = _SAMPLES.value
    empty = np.zeros((count, 0), np.int32)
    keys = jax.random.split(jax.random.key(_SEED.value), count)
    pilot_seed = _SEED.value + 2**31
    for strategy in _STRATEGIES.value:
        config = samplers.SamplerConfig(
            _GEN_LENGTH.value, 1, strategy, _TEMP.value, remask_fraction=_FRACTION.value
        )
        if idle := why_idle(config, steps_are_searched=True):
            raise InputError(f"--gen_length={_GEN_LENGTH.value}: {idle}")
        for target in map(int, _TARGETS.value):
            cap = matching.match_nfe(
                denoiser, config, target, num_pilot=_PILOT.value, seed=pilot_seed
            )
            for mode in _MODES.value if cap.saturated else ["cap"]:
                match = cap
                if mode != "cap":
                    match = matching.match_nfe(
                        denoiser, config, target, mode=mode, num_pilot=_PILOT.value, seed=pilot_seed
                    )
                run = matching.run_matched(denoiser, match, empty, empty.astype(bool), keys)
                nfe = np.asarray(run.nfe, np.float64)
                yield Row(
                    strategy,
                    mode,
                    target,
                    match.config.num_steps,
                    float(nfe.mean()),
                    float(nfe.std(ddof=1) / np.sqrt(count)),
                    int(nfe.min()),
                    int(nfe.max()),
                    int(run.launches),
                    match.saturated,
                    match.agrees(float(nfe.mean())),
                )


def main(argv: Sequence[str]) -> int:
    if len(argv) > 1:
        print(f"unexpected argument {argv[1]!r}; write settings as --name=value", file=sys.stderr)
        return 2
    unknown = set(_MODES.value) - set(matching.MODES)
    if unknown:
        accepted = ", ".join(matching.MODES)
        print(f"mode={unknown.pop()!r} is not one of {accepted}", file=sys.stderr)
        return 2
    if _SAMPLES.value < 2:
        print(f"--num_samples={_SAMPLES.value} must be at least 2", file=sys.stderr)
        return 2
    out = None
    if _OUT.value is not None:
        out = pathlib.Path(_OUT.value)
        if (out / "table.csv").exists():
            print(f"--out={out} already holds a table; choose another folder", file=sys.stderr)
            return 2
        out.mkdir(parents=True, exist_ok=True)
    header = ["strategy", "mode", "target", "steps", "NFE", "min", "max", "launches", ""]
    lines = ["| " + " | ".join(header) + " |", "|" + " :--- |" * 2 + " ---: |" * 6 + " :--- |"]
    print("\n".join(lines), flush=True)
    found = []
    try:
        for row in rows():
            note = "saturated" if row.saturated else "" if row.agrees else "off target"
            cells = [row.strategy, row.mode, row.target, row.num_steps]
            cells += [f"{row.nfe:.1f} ± {row.stderr:.1f}", row.least, row.most, row.launches, note]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
            print(lines[-1], flush=True)
            found.append(row)
    except ValueError as error:
        print(one_line(error), file=sys.stderr)
        return 2
    if out is not None:
        (out / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        with (out / "table.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(Row._fields)
            writer.writerows(found)
    return 0


if __name__ == "__main__":
    app.run(main)
