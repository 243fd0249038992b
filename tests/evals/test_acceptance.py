"""Acceptance rates of the same arms on several corpora: side by side, or refused."""

import csv
import math
import shutil

import pytest

from dlmeval.evals import dry_run, run_experiment
from dlmeval.evals.errors import InputError
from dlmeval.evals.report.care.acceptance import acceptance_finding, difference
from dlmeval.evals.scoring.scores import Score, write_scores
from dlmeval.evals.storage import write_json
from dlmeval.evals.workdir.across import arms_by_corpus
from dlmeval.evals.workdir.plan import make_plan, read_plan
from dlmeval.evals.workdir.score_stage import load_scores, score_path


@pytest.fixture(scope="module")
def finished(toy, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("runs") / "first"
    run_experiment("attack", toy.CONTENDERS, workdir, "sample,score", sources=toy.toy_sources())
    return workdir


def elsewhere(toy, source, target, rate=0.75, **config):
    """A scored workdir of another configuration: the scores of `source`, other rates."""
    given = toy.CONTENDERS | {"reference": "toy:a_magazine"} | config
    plan = make_plan("attack", given, toy.toy_sources())
    known = {one.cell.arm: one for one in load_scores(read_plan(source), source)}
    (target / "scores").mkdir(parents=True)
    write_json(target / "plan.json", plan.record())
    for cell in plan.cells:
        like = known.get(cell.arm, known["periodic 4"])
        metrics = like.metrics | {"acceptance": Score(rate, 0.1, 8, "share", "up", "acceptance")}
        write_scores(score_path(target, cell), like._replace(cell=cell, metrics=metrics))
    return target


def test_rates_stand_side_by_side_with_their_difference(toy, finished, tmp_path):
    first = shutil.copytree(finished, tmp_path / "first")
    second = elsewhere(toy, finished, tmp_path / "second")
    config = {"workdirs": (str(first), str(second))}
    out = tmp_path / "acceptance"
    text = dry_run("acceptance", config, out, sources=toy.toy_sources())
    assert "arms: 4" in text
    assert "corpora: toy:heldout, toy:a_magazine" in text
    assert not out.exists()
    for unread in ("banks", "features"):
        shutil.rmtree(first / unread)
    run_experiment("acceptance", config, out, sources=toy.toy_sources())
    with open(out / "report/tables/acceptance.csv", newline="") as file:
        rows = {row["arm"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["reference", "copied", "topk_iid 8", "periodic 4"]
    for row in rows.values():
        assert float(row["acceptance_1"]) == 1.0
        assert float(row["acceptance_2"]) == 0.75
        assert float(row["difference"]) == 0.25
        assert float(row["difference_stderr"]) == pytest.approx(0.1)
        assert row["difference_n"] == "16"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"reference": "toy:heldout"}, "first and .*second have the same real text"),
        ({"periodic": (4, 8)}, "do not both have the arm 'periodic 8'"),
        ({"seeds": (0, 1)}, r"reference has the seeds \[0\] in .* and \[0, 1\] in"),
        ({"gen_length": 8}, "reference has gen_length 16 in .* and 8 in .*only the corpus may"),
        ({"ascii_min": 0.5}, "reference has ascii_min 0.85 in .* and 0.5 in"),
    ],
)
def test_runs_unlike_in_more_than_the_corpus_are_refused(toy, finished, tmp_path, config, message):
    second = elsewhere(toy, finished, tmp_path / "second", **config)
    with pytest.raises(InputError, match=message):
        arms_by_corpus([finished, second])


def test_one_workdir_is_not_enough(finished):
    with pytest.raises(InputError, match="name two or more scored workdirs"):
        arms_by_corpus([finished])


def test_a_difference_is_of_independent_banks_and_missing_with_either():
    a, b = Score(0.9, 0.03, 8, "share", "up", "a"), Score(0.5, 0.04, 4, "share", "up", "a")
    found = difference(a, b)
    assert found.value == pytest.approx(0.4)
    assert found.stderr == pytest.approx(math.hypot(0.03, 0.04))
    assert (found.n, found.direction) == (12, None)
    gone = Score(None, None, 0, "share", "up", "a", "no sample")
    assert difference(a, gone).reason == "no sample"


def test_the_finding_names_the_extremes(toy, finished, tmp_path):
    _, second = arms_by_corpus([finished, elsewhere(toy, finished, tmp_path / "second")])
    text = acceptance_finding(second)
    assert text.startswith("toy:a_magazine: from 0.75 ± 0.1")
    assert "over 3 arms" in text
