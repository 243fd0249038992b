"""The launcher of the calibration: its files, going on after a stop, refusals."""

import json
import subprocess
import sys

SMALL = ("--small", "--measures=gen_ppl_oracle,distinct_3")
# One process for many command lines, apart from the tests: launchers share names of flags.
LOOP = """
import contextlib, io, json, sys
from absl import flags
from absl.testing import flagsaver
from dlmeval.launch import calibration

results = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with flagsaver.flagsaver(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        rest = flags.FLAGS(["x", *words])
        results.append([calibration.main(rest), out.getvalue(), err.getvalue()])
print(json.dumps(results))
"""


def run(*command_lines):
    done = subprocess.run(
        [sys.executable, "-c", LOOP, json.dumps(command_lines)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def contents(folder):
    names = ("calibration.json", "tables.md", "calibration.png")
    return {name: (folder / name).read_bytes() for name in names}


def test_a_small_run_writes_tables_figure_and_numbers(tmp_path):
    folder = tmp_path / "run"
    place = f"--workdir={folder}"
    ((code, printed, _),) = run((*SMALL, place))
    assert code == 0
    assert "45/45 phrase_bank 1" in printed
    written = contents(folder)
    found = json.loads(written["calibration.json"])
    assert list(found["metrics"]) == ["distinct_3", "gen_ppl_oracle"]
    cold = [law for law in found["laws"] if law["ladder"] == "cold"]
    assert [law["truth"]["missed"]["how"] for law in cold] == ["exact"] * 4
    assert "| `gen_ppl_oracle` | ↓ |" in written["tables.md"].decode()

    again, seed, stray, missing, nonsense = run(
        (*SMALL, place),
        (*SMALL, place, "--seed=1"),
        (place, "stray"),
        (),
        (f"--workdir={tmp_path / 'other'}", "--measures=nonsense"),
    )
    assert again[0] == 0
    assert "45/45" not in again[1]
    assert written == contents(folder)
    for (code, _, error), message in (
        (seed, "differs in seed"),
        (stray, "'stray'"),
        (missing, "--workdir is missing"),
        (nonsense, "nonsense"),
    ):
        assert code == 2
        assert message in error
        assert len(error.strip().splitlines()) == 1
