"""The matched-compute table: measured figures, files, and one clear line for bad input."""

import csv
import pathlib
import subprocess
import sys

import pytest

MATCH = pathlib.Path(__file__).parents[2] / "launch" / "match.py"


def run(*arguments):
    """(exit code, stdout, stderr) of the command line."""
    done = subprocess.run(
        [sys.executable, str(MATCH), *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A table of one saturating and one remasking strategy at 12 forwards for 8 tokens."""
    out = tmp_path_factory.mktemp("match") / "out"
    code, printed, err = run(
        "--gen_length=8",
        "--targets=12",
        "--strategies=none,running_confidence",
        "--modes=cap,idle",
        "--num_samples=4",
        "--num_pilot=4",
        f"--out={out}",
    )
    assert code == 0, err[-2000:]
    return out, printed


def test_rows_are_measured_and_flagged(small):
    out, printed = small
    with (out / "table.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = [(row["strategy"], row["mode"], float(row["nfe"]), row["saturated"]) for row in rows]
    assert found == [
        ("none", "cap", 8.0, "True"),
        ("none", "idle", 12.0, "False"),
        ("running_confidence", "cap", 13.0, "False"),  # 2 N + 1 with N = 6, within max(1, 1 %)
    ]
    assert all(row["agrees"] == "True" for row in rows)
    assert (out / "table.md").read_text(encoding="utf-8") == printed
    assert "| none | cap | 12 | 8 | 8.0 ± 0.0 | 8 | 8 | 8 | saturated |" in printed


def test_a_table_is_not_overwritten_and_bad_input_is_one_line(small):
    out, _ = small
    for arguments, message in (
        ([f"--out={out}"], "already holds a table"),
        (["--strategies=best"], "strategy='best' is not one of none"),
        (["--modes=bon", "--gen_length=4"], "mode='bon' is not one of"),
        (["--targets=1.5"], "1.5"),
        (["--gen_length=6", "--strategies=high_entropy"], "would put nothing back"),
        (["--num_samples=1"], "--num_samples=1"),
        (["surplus"], "'surplus'"),
    ):
        code, _, err = run(*arguments)
        assert code == 2, (arguments, err[-500:])
        assert message in err.strip().splitlines()[-1]
        assert "Traceback" not in err
