"""Correlations of columns, and the joining of workdirs: exact, or refused with the reason."""

import csv
import dataclasses
import json
import math
import shutil

import numpy as np
import pytest
import scipy.stats

from dlmeval.evals import correlation_matrix, dry_run, join_workdirs, run_experiment
from dlmeval.evals.errors import InputError
from dlmeval.evals.report.rebenchmark.agreement_tables import (
    agreement,
    agreement_finding,
    column_directions,
)
from dlmeval.evals.scoring.scores import Score, write_scores
from dlmeval.evals.storage import write_json
from dlmeval.evals.workdir.joined import JoinedArm
from dlmeval.evals.workdir.plan import make_plan, read_plan
from dlmeval.evals.workdir.score_stage import load_scores, score_path


@pytest.fixture(scope="module")
def finished(toy, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("runs") / "first"
    run_experiment("attack", toy.CONTENDERS, workdir, "sample,score", sources=toy.toy_sources())
    return workdir


def remade(toy, source, target, *, config=None, change=None):
    """A scored workdir of another configuration, its scores taken from a finished one.

    `change` maps CellScores to CellScores.
    """
    plan = make_plan("attack", toy.CONTENDERS | (config or {}), toy.toy_sources())
    known = {one.cell.arm: one for one in load_scores(read_plan(source), source)}
    (target / "scores").mkdir(parents=True)
    write_json(target / "plan.json", plan.record())
    for cell in plan.cells:
        like = known.get(cell.arm, known["periodic 4"])._replace(cell=cell)
        write_scores(score_path(target, cell), change(like) if change else like)
    return target


def changed_score(name, **fields):
    def change(scores):
        found = dict(scores.metrics)
        if name in found:  # real text has no distance to itself
            found[name] = dataclasses.replace(found[name], **fields)
        return scores._replace(metrics=found)

    return change


def test_correlations_are_scipys_turned_by_direction_and_pairwise_complete():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(9, 3))
    table = {
        f"bank {i}": {"up": row[0], "down": row[1], "gappy": row[2]}
        for i, row in enumerate(values.tolist())
    }
    table["bank 3"]["gappy"] = math.nan
    del table["bank 7"]["gappy"]
    found = correlation_matrix(table, {"up": "up", "down": "down", "gappy": "down"})
    kept = [i for i in range(9) if i not in (3, 7)]
    expected = scipy.stats.spearmanr(values[:, 0], -values[:, 1])[0]
    assert found.rho[0, 1] == pytest.approx(expected)
    expected = scipy.stats.spearmanr(values[kept, 1], values[kept, 2])[0]
    assert found.rho[1, 2] == found.rho[2, 1] == pytest.approx(expected)
    assert found.num_banks.tolist() == [[9, 9, 7], [9, 9, 7], [7, 7, 7]]
    assert np.diag(found.rho) == pytest.approx([1, 1, 1])
    assert [pair[:2] for pair in found.pairs()] == [
        ("up", "down"),
        ("up", "gappy"),
        ("down", "gappy"),
    ]


def test_correlations_that_are_not_defined_are_nan():
    table = {name: {"a": 1.0, "b": float(i)} for i, name in enumerate("xyz")}
    assert np.isnan(correlation_matrix(table, {"a": "up", "b": "up"}).rho[0, 1])
    with pytest.raises(InputError, match="at least two columns"):
        correlation_matrix(table, {"a": "up"})
    with pytest.raises(InputError, match="'left'"):
        correlation_matrix(table, {"a": "up", "b": "left"})


def arms_of(**rows):
    """Joined arms by (role, gen_ppl, mauve, h_uni)."""
    ways = {"gen_ppl": "down", "mauve": "up", "h_uni": None}
    return tuple(
        JoinedArm(
            name,
            role,
            "toy",
            {0: "d" * 64},
            {m: Score(v, None, 8, "", w, m) for (m, w), v in zip(ways.items(), row, strict=True)},
            ("first",),
        )
        for name, (role, *row) in rows.items()
    )


def test_naive_samplers_can_turn_an_agreement_around():
    arms = arms_of(
        a=("generated", 10, 0.9, 5.0),
        b=("generated", 20, 0.8, 5.1),
        c=("external", 30, 0.7, 5.2),
        periodic=("heuristic", 5, 0.01, 4.0),
        mirror=("heuristic", 6, 0.02, 4.1),
    )
    ways = column_directions(arms, ("gen_ppl", "mauve", "h_uni", "jcd"))
    assert ways == {"gen_ppl": "down", "mauve": "up", "h_uni": "up"}
    every = agreement(arms, ways, naive=True)
    trained = agreement(arms, ways, naive=False)
    assert trained.rho[0, 1] == pytest.approx(1.0)
    assert trained.num_banks[0, 1] == 3
    assert every.rho[0, 1] < 0
    finding = agreement_finding(every, trained)
    assert "MAUVE −0.6 → 1" in finding
    with pytest.raises(InputError, match="hold mauve of them"):
        column_directions(arms, ("mauve", "jcd"))


def test_two_workdirs_give_the_union_of_generators_and_of_metrics(toy, finished, tmp_path):
    def renamed(scores):
        found = {k: v for k, v in scores.metrics.items() if k != "mmd"}
        return scores._replace(metrics=found | {"elo": Score(1500.0, 9.0, 8, "", "up", "elo")})

    config = {"external": ("copied=toy:elsewhere", "more=toy:other")}
    second = remade(toy, finished, tmp_path / "second", config=config, change=renamed)
    arms = {arm.label: arm for arm in join_workdirs([finished, second])}
    assert list(arms) == ["copied", "topk_iid 8", "periodic 4", "more"]
    assert arms["copied"].workdirs == ("first", "second")
    assert {"mmd", "elo"} <= set(arms["copied"].metrics)
    assert "mmd" not in arms["more"].metrics
    assert arms["more"].role == "external"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"gen_length": 8}, "tokens a sample: 16 and 8"),
        ({"num_samples": 9}, "samples a bank: 8 and 9"),
        ({"reference": "toy:another"}, "corpus: toy:heldout and toy:another"),
        ({"seeds": (1,)}, "reference banks"),
    ],
)
def test_unlike_runs_are_refused_with_what_differs(toy, finished, tmp_path, config, message):
    second = remade(toy, finished, tmp_path / "second", config=config)
    with pytest.raises(InputError, match=f"first and second differ in .*{message}"):
        join_workdirs([finished, second])


def test_another_bank_of_the_same_name_is_refused(toy, finished, tmp_path):
    second = remade(
        toy, finished, tmp_path / "second", change=lambda s: s._replace(bank_digest="e" * 64)
    )
    with pytest.raises(InputError, match=r"copied at seed 0 is another bank in first .*eeeeee"):
        join_workdirs([finished, second])


def test_numbers_of_unlike_settings_or_values_are_refused(toy, finished, tmp_path):
    other = changed_score("gen_ppl", signature="gen_ppl|ids:another|n:8")
    second = remade(toy, finished, tmp_path / "second", change=other)
    with pytest.raises(InputError, match=r"gen_ppl is measured as .* and as gen_ppl\|ids:another"):
        join_workdirs([finished, second])
    third = remade(toy, finished, tmp_path / "third", change=changed_score("mmd", value=7.0))
    with pytest.raises(InputError, match=r"mmd of copied at seed 0 is .* and 7\.0 in third"):
        join_workdirs([finished, third])


def test_a_generator_that_lacks_a_seed_is_refused(toy, finished, tmp_path):
    workdir = remade(toy, finished, tmp_path / "second", config={"seeds": (0, 1)})
    plan = json.loads((workdir / "plan.json").read_text())
    plan["cells"] = [
        entry
        for entry in plan["cells"]
        if (entry["cell"]["strategy"], entry["cell"]["seed"]) != ("periodic", 1)
    ]
    (workdir / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(InputError, match="periodic 4 has the seeds 0 and the real text 0, 1"):
        join_workdirs([workdir])


def test_the_study_reads_scores_only_and_keeps_to_them(toy, finished, tmp_path):
    first = shutil.copytree(finished, tmp_path / "first")
    config = {"workdirs": (str(first),)}
    out = tmp_path / "agreement"
    text = dry_run("agreement", config, out, sources=toy.toy_sources())
    assert "generators: 3, of which 2 naive samplers" in text
    assert not out.exists()
    shutil.rmtree(first / "features")
    run_experiment("agreement", config, out, sources=toy.toy_sources())
    with open(out / "report/tables/agreement.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    pair = next(r for r in rows if (r["column"], r["other"]) == ("MAUVE", "JCD"))
    assert pair["with_naive_n"] == "3"
    assert pair["without_naive"] == ""  # one generator has no order
    plan = read_plan(first)
    one = load_scores(plan, first)[1]
    write_scores(score_path(first, one.cell), changed_score("mmd", value=9.0)(one))
    with pytest.raises(InputError, match="differs in"):
        run_experiment("agreement", config, out, sources=toy.toy_sources())


def test_workdirs_that_are_no_workdirs_are_named(toy, tmp_path):
    wanted = r"nowhere holds no plan\.json, .*run its experiment first"
    for workdirs, message in (((), "--workdirs is empty"), (("nowhere",), wanted)):
        with pytest.raises(InputError, match=message):
            dry_run("agreement", {"workdirs": workdirs}, tmp_path / "a", sources=toy.toy_sources())
