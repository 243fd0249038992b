"""The rebenchmark on the toy world: arms, ranks, the test of columns, the same report twice."""

import csv
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from dlmeval.evals import run_experiment
from dlmeval.evals.contenders import external_texts
from dlmeval.evals.errors import InputError
from dlmeval.evals.experiment import load_experiment
from dlmeval.evals.report.collect import command_line
from dlmeval.evals.report.data import Arm, Provenance, ReportData
from dlmeval.evals.report.rebenchmark.tables import (
    TABLE_ONE,
    heuristics_finding,
    heuristics_table,
    offences,
    rank_table,
    second_reference,
    seed_intervals,
)
from dlmeval.evals.scoring.scores import Score
from dlmeval.evals.workdir.plan import make_plan, read_plan
from dlmeval.evals.workdir.score_stage import load_scores

OWN = {
    "denoiser": "toy:denoiser",
    "num_samples": 16,
    "seeds": (0, 1),
    "num_null_banks": 1,
    "strategies": ("none",),
    "unmask_temps": (1.0,),
    "num_steps": (8,),
    "topk_iid": (),
    "mirror": (8,),
    "num_mauve_seeds": 2,
    "gradient_batches": None,
    "batch_size": 16,
}


@pytest.fixture(scope="module")
def config(toy):
    return toy.CONTENDERS | OWN


@pytest.fixture(scope="module")
def finished(toy, config, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("runs") / "rebenchmark"
    run_experiment("rebenchmark", config, workdir, sources=toy.toy_sources())
    return workdir


def table_of(workdir, name):
    with open(workdir / "report" / "tables" / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_every_contender_is_scored_and_listed(finished):
    rows = table_of(finished, "profile")
    assert [row["arm"] for row in rows] == [
        "null band, low",
        "null band, high",
        "reference",
        "real text, another draw",
        "none t=1 N=8",
        "copied",
        "mirror 8",
        "periodic 4",
    ]
    second = rows[3]
    assert float(rows[0]["jcd"]) <= float(second["jcd"]) <= float(rows[1]["jcd"])
    assert second["gen_ppl"] != rows[2]["gen_ppl"]
    assert {"gen_ppl_sample", "gen_ppl_macro", "gen_ppl_adjusted", "distinct_3"} <= set(second)


def test_ranks_are_those_of_the_columns(finished):
    rows = {row["arm"]: row for row in table_of(finished, "ranks")}
    profile = {row["arm"]: row for row in table_of(finished, "profile")}
    columns = [c.metric for c in TABLE_ONE if c.ranked and f"rank_{c.metric}" in rows["copied"]]
    assert columns == ["mauve", "jcd", "energy_distance", "frechet_distance", "mmd"]
    assert set(rows) == set(profile) - {
        "null band, low",
        "null band, high",
        "reference",
        "real text, another draw",
    }
    for row in rows.values():
        ranks = [float(row[f"rank_{name}"]) for name in columns]
        assert float(row["mean_rank"]) == pytest.approx(np.mean(ranks))
        assert float(row["mean_rank_low"]) <= float(row["mean_rank"])
        assert float(row["mean_rank"]) <= float(row["mean_rank_high"])
    best = min(rows, key=lambda arm: float(rows[arm]["rank_jcd"]))
    assert best == min(rows, key=lambda arm: float(profile[arm]["jcd"]))
    # Text of the same words is better than any network that was never trained.
    assert min(rows, key=lambda arm: float(rows[arm]["mean_rank"])) == "copied"


def test_a_second_report_reads_no_model_and_gives_the_same_bytes(toy, config, finished, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "copy")
    shutil.rmtree(copy / "report")

    run_experiment("rebenchmark", config, copy, "report", sources=toy.silent_sources())
    for name in ("tables/ranks.csv", "tables/heuristics_last.md", "figures/coding.svg"):
        assert (copy / "report" / name).read_bytes() == (finished / "report" / name).read_bytes()


def test_banks_drawn_elsewhere_need_no_denoiser(toy, config):
    config = config | {"denoiser": None, "seeds": (0,)}
    plan = make_plan("rebenchmark", config, toy.toy_sources(load_denoiser=None))
    assert {cell.role for cell in plan.cells} == {"reference", "external", "heuristic"}
    assert {cell.vocabulary for cell in plan.cells} == {"scorer"}
    assert " --denoiser=none " in command_line(plan)
    assert "--features" not in command_line(plan)  # none is its default


def test_features_of_an_encoder_take_the_place_of_the_scorers(toy, config):
    config = config | {"encoders": ("a/letters",), "whiten": 4, "features": "letters"}
    plan = make_plan("rebenchmark", config, toy.toy_sources())
    assert (plan.scoring.features, plan.scoring.whiten) == ("letters", 4)
    assert len(plan.scoring.encoder_digests) == 1
    with pytest.raises(InputError, match="words"):
        make_plan("rebenchmark", config | {"features": "words"}, toy.toy_sources())


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (("mdlm",), "NAME=SOURCE"),
        (("=a.jsonl",), "NAME=SOURCE"),
        (("periodic=a.jsonl",), "name of another arm"),
        (("mdlm=a.jsonl", "mdlm=b.jsonl"), "given twice"),
        (("mdlm=a.jsonl&join=",), "cut windows across texts"),
    ],
)
def test_external_texts_that_cannot_be_told_apart_are_refused(items, message):
    with pytest.raises(InputError, match=message):
        external_texts(items)


def test_a_source_may_hold_equals_signs():
    assert external_texts(["mdlm=a.json#texts&split=<|end|>"]) == {
        "mdlm": "a.json#texts&split=<|end|>"
    }


def score(value, direction="up"):
    return Score(value, 0.1, 16, "", direction, "x|n:16")


def made(**arms):
    """Report data of arms given as role and mauve, with gen_ppl turned the other way."""
    return ReportData(
        "made",
        tuple(
            Arm(name, role, {"mauve": score(value), "gen_ppl": score(value, "down")})
            for name, (role, value) in arms.items()
        ),
        Provenance("x"),
    )


def test_imports_count_as_trained_arms_in_the_test_of_columns():
    data = made(model=("generated", 0.8), mine=("external", 0.3), mirror=("heuristic", 0.5))
    assert offences(data) == [("mauve", "mirror", "mine"), ("gen_ppl", "mirror", "model")]
    rows = {row.entries[0].text: row for row in heuristics_table(data).rows}
    assert [row.entries[2].text for row in rows.values()] == ["no", "no"]
    assert [row.entries[3].number.value for row in rows.values()] == [1, 1]
    assert "mirror is not worse than mine" in rows["MAUVE"].entries[4].text
    good = made(model=("generated", 0.8), mirror=("heuristic", 0.5))
    assert heuristics_finding(good) == (
        "1 of 1 ranked columns (MAUVE) and 0 of 1 other columns place every naive sampler below"
        " every trained arm."
    )


def cell_scores(label, seed, value):
    cell = SimpleNamespace(
        role="heuristic", seed=seed, fingerprint=f"{label}{seed}", arm=label, group=label
    )
    return SimpleNamespace(cell=cell, metrics={"mauve": score(value)})


def test_intervals_of_ranks_need_seeds_and_separate_only_what_is_apart(monkeypatch):
    from dlmeval.evals.report.rebenchmark import tables as rebenchmark_tables

    monkeypatch.setattr(
        rebenchmark_tables, "arm_labels", lambda cells: {c.fingerprint: c.arm for c in cells}
    )
    values = {"a": (0.9, 0.8), "b": (0.5, 0.6), "c": (0.6, 0.5)}
    scores = [cell_scores(name, s, v[s]) for name, v in values.items() for s in (0, 1)]
    found, _ = seed_intervals(scores, {"mauve": "up"})
    assert found.ranks["a"] == (1.0, 1.0, 1.0)
    assert found.not_separated == (("b", "c"),)
    assert (found.ranks["b"].low, found.ranks["b"].high) == (2.0, 3.0)
    assert seed_intervals(scores[::2], {"mauve": "up"}) == (None, "one seed gives no interval")


def test_one_seed_gives_ranks_without_intervals(finished, tmp_path):
    plan = read_plan(finished)
    scores = [one for one in load_scores(plan, finished) if one.cell.seed == 0]
    data = made(model=("generated", 0.8), mirror=("heuristic", 0.5))
    table = rank_table(data, scores)
    assert [row.entries[2].number.value for row in table.rows] == [1.0, 2.0]
    assert all(row.entries[3].number.value is None for row in table.rows)
    assert second_reference([one for one in scores if not one.cell.part]) is None


def test_the_plan_records_every_setting(finished):
    record = json.loads((finished / "plan.json").read_text())
    fields = load_experiment("rebenchmark").Config.__dataclass_fields__
    assert set(record["config"]) == set(fields)
