"""The claims' command line: the table, its exit codes, one clear line for bad input.

Flags clash between launchers, so all command lines run in one process of their own.
"""

import json
import re
import subprocess
import sys

import pytest

DRIVER = """
import contextlib, io, json, sys
from absl import flags
from absl.testing import flagsaver
from dlmeval.evals import claims as checks, reported
from dlmeval.evals.claims import compute
from dlmeval.launch import claims

for name, check in checks.CHECKS.items():  # samplers take long to compile; others test them
    if getattr(check, "func", check).__module__ == compute.__name__:
        checks.CHECKS[name] = lambda claim: checks.Finding("holds", {"nfe": (128.0,)}, "a note")
def run(*arguments):
    out, err = io.StringIO(), io.StringIO()
    saved = flagsaver.save_flag_values(flags.FLAGS)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = claims.main(claims.parse_flags(["claims.py", *arguments]))
        except SystemExit as stop:
            code = stop.code
    flagsaver.restore_flag_values(saved, flags.FLAGS)
    return code, out.getvalue(), err.getvalue()

results = {
    "all": run(),
    "exact": run("--tag=exact"),
    "checkpoints": run("--tag=checkpoints"),
    "bad tag": run("--tag=maths"),
    "surplus": run("more"),
}
del checks.registry.CHECKS["genppl.human.pairs"]
results["no check"] = run("--tag=exact")
reported.REPORTED = reported.REPORTED.with_name("absent.json")
results["no file"] = run()
json.dump(results, sys.stdout)
"""


@pytest.fixture(scope="module")
def outcomes():
    """(exit code, stdout, stderr) of each command line by its name."""
    done = subprocess.run([sys.executable, "-c", DRIVER], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows(text):
    """Cells of a Markdown table's rows, heading and rule included."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_the_table_lists_every_claim_once(outcomes):
    code, text, err = outcomes["all"]
    assert (code, err) == (0, "")
    heading, rule, *table = rows(text)
    assert heading == ["claim", "reported", "ours", "holds", "tag"]
    assert set(rule) == {"---"}
    assert {len(row) for row in table} == {5}
    assert len({row[0] for row in table}) == len(table) > 100
    for claim, printed, ours, verdict, tag in table:
        assert claim
        assert printed
        assert (ours == "–") == (tag != "exact") == (verdict == "not decided here")


def test_the_columns_hold_theirs_and_ours(outcomes):
    table = {row[0]: row[1:] for row in rows(outcomes["all"][1])}
    printed, ours, verdict, _ = table["genppl.human.pairs"]
    assert (printed, ours, verdict) == ("sources 13; pairs 78", "pairs 78", "holds")
    assert table["care.nfe.none"][1] == "nfe 128 (a note)"
    assert table["care.nfe.most"][2] == "contradictory"
    assert table["genppl.theory.cross-entropy"][0].endswith("per token.")  # a claim without numbers


def test_the_summary_counts_and_explains(outcomes):
    text = outcomes["exact"][1]
    count = len(rows(text)) - 2
    told = re.search(r"^(\d+) exact claims decided: (.+)\.$", text, re.M)
    assert told
    assert int(told[1]) == count == sum(int(n) for n in re.findall(r"\d+", told[2]))
    explained = re.findall(r"^\* (\S+) \(.+?\): (contradictory|does not hold)\. ", text, re.M)
    assert explained == [
        (row[0], row[3]) for row in rows(text)[2:] if row[3] in ("contradictory", "does not hold")
    ]


def test_one_tag_alone(outcomes):
    code, text, _ = outcomes["checkpoints"]
    assert code == 0
    assert {row[4] for row in rows(text)[2:]} == {"checkpoints"}
    assert "need trained diffusion models" in text
    assert "decided" not in text.splitlines()[-1]


def test_an_undecided_claim_is_exit_code_one(outcomes):
    code, text, err = outcomes["no check"]
    assert code == 1
    assert err == "claims.py: no check decides genppl.human.pairs\n"
    assert "genppl.human.pairs | sources 13; pairs 78 | – | not decided here" in text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bad tag", "value should be one of <exact|gpt2-large+owt|checkpoints|ratings>"),
        ("surplus", "unknown argument 'more'"),
        ("no file", "absent.json is missing"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(outcomes, name, message):
    code, out, err = outcomes[name]
    assert (code, out) == (2, "")
    assert err.startswith("claims.py: ")
    assert message in err
    assert err.count("\n") == 1
