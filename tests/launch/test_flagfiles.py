"""Every flagfile of the repository: it says what it is for, and its dry run passes."""

import functools
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FLAGS = ROOT / "launch" / "flags"
FILES = sorted(FLAGS.glob("*.flags"))

# One process starts JAX and loads each model once, whatever the number of flagfiles.
LOOP = """
import contextlib, functools, io, json, sys
from absl.testing import flagsaver
from dlmeval.launch import run

run._sources = functools.cache(run._sources)
results = {}
for file in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with flagsaver.flagsaver(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            argv = ["run.py", f"--flagfile={file}", "--dry_run", f"--workdir={sys.argv[1]}"]
            code = run.main(run.parse_flags(argv))
        except SystemExit as stop:
            code = stop.code
    results[file] = [code, out.getvalue(), err.getvalue()]
print(json.dumps(results), file=sys.__stdout__)
"""


@pytest.fixture(scope="module")
def dry_runs(tmp_path_factory):
    """{file: [code, stdout, stderr]}, and the workdir that none of them may make."""
    workdir = tmp_path_factory.mktemp("flagfiles") / "new"
    done = subprocess.run(
        [sys.executable, "-c", LOOP, str(workdir)],
        input=json.dumps([str(file) for file in FILES]),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout), workdir


@functools.cache
def lines(file):
    return file.read_text(encoding="utf-8").splitlines()


def absent(file):
    """Paths that a flagfile reads and that are not here: downloaded weights, an earlier run."""
    given = [line.partition("=") for line in lines(file) if line.startswith("--")]
    values = [value for flag, _, value in given if flag != "--workdir"]
    paths = [part for value in values for part in value.split(",") if "/" in part]
    return [path for path in paths if not path.startswith("hf:") and not (ROOT / path).exists()]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_flagfile_runs_dry(dry_runs, file):
    results, workdir = dry_runs
    code, out, err = results[str(file)]
    needed = [path for path in absent(file) if path in err]
    if code == 2 and needed:
        pytest.skip(f"{needed[0]} is not part of the repository")
    assert (code, err) == (0, ""), err
    experiment = next(line for line in lines(file) if line.startswith("--experiment="))
    assert f"experiment {experiment.partition('=')[2]}" in out.splitlines()[0]
    assert "nothing was written (--dry_run)" in out
    assert not workdir.exists()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_flagfile_says_what_it_is_for(file):
    comment, *rest = lines(file)
    assert comment.startswith("# ")
    assert len(comment) > 30
    assert f"--workdir=runs/{file.stem}" in rest
    flags = [line.partition("=")[0] for line in rest if line.startswith("--")]
    assert len(flags) == len(set(flags))
    assert all(line.startswith(("--", "#")) for line in rest)


def test_the_smoke_run_asks_for_what_the_protocol_needs():
    given = dict(line[2:].split("=", 1) for line in lines(FLAGS / "care_smoke.flags")[1:])
    assert given["unmask_temps"] == "0,0.1,0.25,0.5"
    assert "none" in given["strategies"].split(",")
    assert len(given["seeds"].split(",")) == 3
