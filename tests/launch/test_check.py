"""The check on the command line: seven lines, a table, exit codes, and clear lines for bad input.

Cases share one process, which starts JAX once; each of them parses its own command line.
"""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location(
    "written_run", ROOT / "tests" / "evals" / "written_run.py"
)
made = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(made)

# Runs command lines one after another as check.py would, and reports what each did.
LOOP = """
import contextlib, io, json, sys
from absl.testing import flagsaver
from dlmeval.launch import check

results = []
for arguments in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with flagsaver.flagsaver(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = check.main(check.parse_flags(["check.py", *arguments]))
        except SystemExit as stop:
            code = stop.code
    results.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders: "good" meets all points, "warm" has one temperature, "short" shorter texts."""
    folder = tmp_path_factory.mktemp("runs")
    warm = [("none", 0.25), ("high_entropy", 0.25)]
    made.write_run(folder / "good")
    made.write_run(folder / "warm", made.cells(warm))
    made.write_run(folder / "short", made.cells(warm, gen_length=12))
    return folder


@pytest.fixture(scope="module")
def outcomes(runs):
    """[code, stdout, stderr] by the name of a command line."""
    lines = {
        "good": [f"--validate={runs / 'good'}", f"--badge={runs / 'badges' / 'good.svg'}"],
        "warm": [f"--validate={runs / 'warm'}"],
        "empty": [f"--validate={runs}"],
        "absent": [f"--validate={runs / 'absent'}"],
        "compare": [f"--compare={runs / 'warm'},{runs / 'warm'}"],
        "unlike": [f"--compare={runs / 'warm'},{runs / 'short'}"],
        "one run": [f"--compare={runs / 'warm'}"],
        "nothing": [],
        "both": [f"--compare={runs},{runs}", f"--validate={runs}"],
        "badge of two": [f"--compare={runs},{runs}", "--badge=x.svg"],
        "surplus": [f"--validate={runs}", "surplus"],
        "unknown": ["--valdate=x"],
    }
    done = subprocess.run(
        [sys.executable, "-c", LOOP],
        input=json.dumps(list(lines.values())),
        capture_output=True,
        text=True,
        check=False,
        cwd=runs,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(lines, json.loads(done.stdout), strict=True))


def test_a_good_run_ends_with_zero_and_a_badge(runs, outcomes):
    code, out, err = outcomes["good"]
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line[0] for line in lines[:7]] == list("1234567")
    assert all(re.match(r"\d [\w -]+  met  ", line) for line in lines[:7])
    assert lines[7:] == ["care: 7/7 [1..7]"]
    assert ElementTree.parse(runs / "badges" / "good.svg").getroot().tag.endswith("svg")


def test_a_point_that_is_not_met_ends_with_one(outcomes):
    code, out, err = outcomes["warm"]
    assert (code, err) == (1, "")
    assert "3 temperature sweep      NOT MET  single_temp, no ranking claims" in out
    assert out.endswith("care: 6/7 [1..2,4..7]\n")
    code, out, _ = outcomes["empty"]
    assert code == 1
    assert out.count("plan.json is missing") == 7


def test_like_runs_become_a_table(outcomes):
    code, out, err = outcomes["compare"]
    assert (code, err) == (0, "")
    assert out.startswith("| Arm | Metric | A | B | A − B | p | How |\n")
    assert "| high\\_entropy t=0.25 N=8 | mauve |" in out


def test_unlike_runs_end_with_two_and_their_differences(outcomes):
    code, out, err = outcomes["unlike"]
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "check.py: these runs must not be compared; they differ in",
        "  block_length: 16 and 12",
        "  gen_length: 16 and 12",
    ]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("absent", "is no folder; name the --workdir of a run"),
        ("one run", "must name two workdirs"),
        ("nothing", "give --validate=WORKDIR or --compare=WORKDIR,WORKDIR"),
        ("both", "give --validate=WORKDIR or --compare=WORKDIR,WORKDIR"),
        ("badge of two", "--badge is that of one run"),
        ("surplus", "unknown argument 'surplus'"),
        ("unknown", "valdate"),
    ],
)
def test_bad_input_is_one_line(outcomes, name, found):
    code, out, err = outcomes[name]
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("check.py: ")
    assert found in err
