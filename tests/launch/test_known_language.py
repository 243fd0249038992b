"""The launcher of the sampler-error tables: files, agreement of both tables, refusals."""

import csv
import json
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "launch" / "known_language.py"
BAD = {
    "--strategies=nonesuch": "nonesuch",
    "--num_steps=two": "--num_steps=two",
    "--seeds=0": "at least two",
    "--gen_length=40": "40",
    "--order=3": "order=3",
}
# Runs the script on one bad flag after another, apart: launchers share names of flags.
LOOP = """
import contextlib, io, json, sys
from absl import flags
from absl.testing import flagsaver
from dlmeval.launch import known_language

results = {}
for word in json.loads(sys.argv[2]):
    err = io.StringIO()
    with flagsaver.flagsaver(), contextlib.redirect_stderr(err):
        flags.FLAGS(["x", "--strategies=none", "--gen_length=2", f"--out={sys.argv[1]}", word])
        results[word] = [known_language.main(["x"]), err.getvalue()]
print(json.dumps(results))
"""


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def read(path):
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_tables_agree(tmp_path):
    settings = ["--strategies=none", "--num_steps=2,4", "--gen_length=4", "--num_samples=4096"]
    folder = tmp_path / "tables"
    command = [str(SCRIPT), *settings, "--seeds=0,1", f"--out={folder}"]
    done = run(*command)
    assert done.returncode == 0, done.stderr[-2000:]
    exact, measured = read(folder / "exact.csv"), read(folder / "measured.csv")
    assert len(exact) == 7
    assert float(exact[-1]["tv"]) < 1e-6  # blocks of one token
    for predicted, row in zip(exact[:2], measured, strict=True):
        assert predicted["num_steps"] == row["num_steps"] == row["nfe"].removesuffix(".0")
        assert float(row["tv"]) == pytest.approx(float(predicted["tv"]), abs=0.02)
        error = float(row["surprisal_stderr"])
        assert float(row["surprisal"]) == pytest.approx(
            float(predicted["surprisal"]), abs=5 * error
        )
    page = (folder / "tables.md").read_text(encoding="utf-8")
    assert page.count("| `none` |") == 1
    assert f"{float(measured[1]['tv']):.3f} ± " in page

    again = run(*command)
    assert again.returncode == 2
    assert "already holds tables" in again.stderr.strip().splitlines()[-1]


def test_bad_flags_end_in_one_line_and_write_nothing(tmp_path):
    done = run("-c", LOOP, str(tmp_path / "out"), json.dumps(list(BAD)))
    assert done.returncode == 0, done.stderr[-2000:]
    for word, (code, error) in json.loads(done.stdout).items():
        assert code == 2, word
        assert BAD[word] in error
        assert "\n" not in error.strip()
    assert not list(tmp_path.iterdir())
