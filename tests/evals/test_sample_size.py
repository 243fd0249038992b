"""Nested sizes: smaller ones are first rows of both banks, and never made up."""

import csv
import dataclasses

import numpy as np
import pytest

from dlmeval import metrics
from dlmeval.evals import read_bank, run_experiment
from dlmeval.evals.errors import InputError
from dlmeval.evals.experiments.sample_size import Config
from dlmeval.evals.report.data import Arm, Provenance, ReportData
from dlmeval.evals.report.rebenchmark.size_tables import order_table, size_finding
from dlmeval.evals.scoring.features import FeatureKey, cached_features
from dlmeval.evals.scoring.scored import usable_rows
from dlmeval.evals.scoring.scores import Score
from dlmeval.evals.workdir.plan import read_plan
from dlmeval.evals.workdir.sample_stage import bank_path
from dlmeval.evals.workdir.score_stage import load_scores

NESTED = {
    "sizes": (10, 20),
    "num_samples": 24,
    "num_null_banks": 1,
    "num_mauve_seeds": 2,
    "batch_size": 24,
}


@pytest.fixture(scope="module")
def finished(toy, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("runs") / "sizes"
    run_experiment("sample_size", toy.CONTENDERS | NESTED, workdir, sources=toy.toy_sources())
    return workdir


def test_a_size_is_the_distance_between_first_rows(toy, finished):
    plan = read_plan(finished)
    scores = {one.cell.arm: one for one in load_scores(plan, finished)}
    one = scores["topk_iid 8"]
    pooled = []
    for cell in (scores["reference"].cell, one.cell):
        bank = read_bank(bank_path(finished, cell))
        key = FeatureKey(bank.digest, plan.scoring.scorer_digest, plan.scoring.max_tokens)
        found = cached_features(finished / "features", bank, toy.toy_scorer(), key, batch_size=24)
        pooled.append(usable_rows(bank, found).pooled)
    real, ours = pooled
    for size in (10, 20):
        expected = metrics.energy_distance(real[:size], ours[:size])
        score = one.metrics[f"energy_distance#{size}"]
        assert score.value == pytest.approx(float(expected), rel=1e-5)
        assert score.n == size
        assert f"|n:{size}|" in score.signature
        clusters = max(2, round(size / 10))
        expected = metrics.mauve(real[:size], ours[:size], num_clusters=clusters, seeds=(0, 1))
        assert one.metrics[f"mauve#{size}"].value == pytest.approx(float(expected.value), abs=1e-6)
    assert one.metrics["energy_distance"].n == 24
    assert "mauve#10" in scores["null"].metrics
    assert "mauve#10" not in scores["reference"].metrics


def test_a_size_that_the_filter_leaves_unfilled_is_missing_with_the_reason(toy, finished):
    from dlmeval.evals.scoring.bank_scores import score_bank

    plan = read_plan(finished)
    scores = {one.cell.arm: one for one in load_scores(plan, finished)}
    sides = []
    for name in ("topk_iid 8", "reference"):
        bank = read_bank(bank_path(finished, scores[name].cell))
        key = FeatureKey(bank.digest, plan.scoring.scorer_digest, plan.scoring.max_tokens)
        features = cached_features(
            finished / "features", bank, toy.toy_scorer(), key, batch_size=24
        )
        sides.append((bank, features))
    (bank, features), reference = sides
    accepted = np.arange(24) < 15
    settings = dataclasses.replace(plan.scoring, training=None)
    found = score_bank(bank._replace(accepted=accepted), features, reference, settings)
    assert found["mauve#10"].value is not None
    assert found["mauve#20"].value is None
    assert found["mauve#20"].reason == "15 usable texts; 20 are needed"


def test_tables_hold_every_size_and_the_null_band(finished):
    with open(finished / "report/tables/sample_size.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["arm"] for row in rows] == ["null band, mean", "copied", "topk_iid 8", "periodic 4"]
    assert all(row["mauve#10_n"] == "10" for row in rows[1:])
    with open(finished / "report/tables/size_orders.csv", newline="") as file:
        orders = list(csv.DictReader(file))
    assert len(orders) == 4 * 2 * 2
    last = [row for row in orders if row["size"] == "20" and row["arms"] == "all arms"]
    assert [float(row["spearman"]) for row in last] == [1.0] * 4  # itself
    # One trained arm has no order.
    assert all(row["spearman"] == "" for row in orders if row["arms"] == "trained arms")


def made(**values):
    """Arms with MAUVE at 10 and 20."""

    def score(value):
        return Score(value, 0.0, 10, "", "up", "mauve|n:10")

    return ReportData(
        "made",
        tuple(
            Arm(name, "generated", {"mauve#10": score(a), "mauve#20": score(b)})
            for name, (a, b) in values.items()
        ),
        Provenance("x"),
    )


def test_spread_and_order_are_those_of_the_values():
    data = made(a=(0.9, 0.8), b=(0.8, 0.6), c=(0.85, 0.3), d=(0.5, 0.1))
    rows = [row for row in order_table(data, (10, 20)).rows if row.entries[0].text == "MAUVE"]
    spreads = [row.entries[3].number.value for row in rows if row.entries[1].text == "all arms"]
    assert spreads == pytest.approx([0.4, 0.7])
    rhos = [row.entries[4].number.value for row in rows if row.entries[1].text == "all arms"]
    assert rhos == pytest.approx([0.8, 1.0])  # one exchange of neighbours among four
    assert size_finding(data, (10, 20)) == (
        "MAUVE is higher at n = 10 than at n = 20 for 4 of 4 arms; the spread between arms goes"
        " from 0.4 to 0.7, and the two orders correlate at 0.8 (Spearman)."
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sizes": (64, 32)}, "ascending"),
        ({"sizes": (32,)}, "two or more"),
        ({"sizes": (4, 32)}, "at least 8"),
        ({"sizes": (32, 512)}, "num_samples=256 is less"),
    ],
)
def test_sizes_that_are_not_nested_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        Config(**changes)
