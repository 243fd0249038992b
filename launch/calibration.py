"""Measures every metric against known damage of a known language.

    python launch/calibration.py --workdir=runs/calibration
    python launch/calibration.py --workdir=runs/small --small --measures=energy_distance,jcd

Which metric sees which damage, how little of it, in how small a bank, at what cost: the damage is
done to a language whose law is known, so the true divergences stand beside the scores. The same
command goes on after a crash. Writes `laws/*.json` (all draws), `calibration.json`, `tables.md` and
`calibration.png` to the workdir. Exit codes: 0 done, 2 for flags that have to be changed (one line
on stderr says what), 130 after Ctrl-C.
"""

import dataclasses
import pathlib
import sys
from collections.abc import Sequence

from absl import app, flags, logging

from dlmeval.evals import storage
from dlmeval.evals.calibration.figure import detection_figure
from dlmeval.evals.calibration.study import SMALL, Settings, run_study
from dlmeval.evals.calibration.summary import (
    bias_table,
    metrics_table,
    summarise,
    summary_record,
    truth_table,
)

FLAGS = flags.FLAGS
flags.DEFINE_string("workdir", None, "Folder of all results; made if missing.")
flags.DEFINE_bool("small", False, "A few tiny banks: shows that everything runs, measures little.")
flags.DEFINE_list("measures", None, "Metrics to calibrate; default: all that are not dear.")
flags.DEFINE_string("scorer", Settings.scorer, "Causal model of the features and of gen-PPL.")
flags.DEFINE_integer("seed", 0, "Seed of all draws.")


def main(argv: Sequence[str]) -> int:
    """Runs the study and writes its tables and figure; returns the exit code."""
    logging.set_verbosity(logging.WARNING)
    if len(argv) > 1 or FLAGS.workdir is None:
        wrong = f"unexpected argument {argv[1]!r}" if len(argv) > 1 else "--workdir is missing"
        print(f"calibration.py: {wrong}", file=sys.stderr)
        return 2
    workdir = pathlib.Path(FLAGS.workdir)
    try:
        settings = dataclasses.replace(
            SMALL if FLAGS.small else Settings(),
            measures=tuple(FLAGS.measures) if FLAGS.measures else None,
            scorer=FLAGS.scorer,
            seed=FLAGS.seed,
        )
        records = run_study(workdir, settings, progress=lambda line: print(line, flush=True))
    except ValueError as error:
        print(f"calibration.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it stopped", file=sys.stderr)
        return 130
    summaries = summarise(records)
    tables = "\n".join([metrics_table(summaries), bias_table(summaries), truth_table(records)])
    truths = [{key: record[key] for key in ("ladder", "level", "truth")} for record in records]
    storage.write_json(
        workdir / "calibration.json", {"metrics": summary_record(summaries), "laws": truths}
    )
    storage.write_bytes(workdir / "tables.md", tables.encode("utf-8"))
    storage.write_bytes(workdir / "calibration.png", detection_figure(summaries, records))
    print(tables)
    return 0


if __name__ == "__main__":
    app.run(main)
