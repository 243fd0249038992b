"""The encoder study: ranks under every encoder, agreement within and across encoders."""

import csv

import pytest

from dlmeval.evals import run_experiment
from dlmeval.evals.errors import InputError
from dlmeval.evals.report.data import Arm, Provenance, ReportData
from dlmeval.evals.report.rebenchmark.encoder_tables import (
    across_encoders,
    encoder_finding,
    encoder_ranks,
    within_encoders,
)
from dlmeval.evals.scoring.scores import Score
from dlmeval.evals.workdir.plan import make_plan

ENCODERS = {"encoders": ("a/first", "a/second"), "whiten": 4, "num_samples": 12}


def test_a_study_of_two_encoders_and_the_scorer(toy, tmp_path):
    seeds = {"a/first": 2, "a/second": 3}
    sources = toy.toy_sources(load_encoder=lambda source: toy.toy_encoder(seeds[source]))
    config = toy.CONTENDERS | ENCODERS
    run_experiment("encoders", config, tmp_path / "run", sources=sources)
    tables = tmp_path / "run" / "report" / "tables"
    with open(tables / "encoder_ranks.csv", newline="") as file:
        rows = {row["arm"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["copied", "topk_iid 8", "periodic 4"]
    for encoder in ("scorer", "first", "second"):
        ranks = [float(row[f"rank_{encoder}"]) for row in rows.values()]
        assert sum(ranks) == pytest.approx(1 + 2 + 3)
        assert ranks[0] == min(ranks)  # text of the same words
    with open(tables / "within_encoders.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 3 * 6
    with open(tables / "across_encoders.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 4 * 3
    with open(tables / "encoders.csv", newline="") as file:
        columns = next(csv.reader(file))
    assert {"mauve", "mauve@first", "frechet_distance@second"} <= set(columns)
    for name in ("encoder_ranks", "within_encoders", "across_encoders"):
        assert (tmp_path / "run" / "report" / "figures" / f"{name}.svg").exists()


def test_encoders_that_are_not_there_are_named(toy):
    with pytest.raises(InputError, match="--encoders is empty"):
        make_plan("encoders", toy.CONTENDERS | {"encoders": ()}, toy.toy_sources())

    def missing(source):
        raise ValueError(f"model {source!r} is no folder")

    sources = toy.toy_sources(load_encoder=missing)
    with pytest.raises(InputError, match="--encoders=a/first: model 'a/first' is no folder"):
        make_plan("encoders", toy.CONTENDERS | ENCODERS, sources)


def made(**values):
    """Arms by (MAUVE, energy) under the scorer and under "other"."""
    names = ("mauve", "energy_distance", "mauve@other", "energy_distance@other")

    def scores(row):
        ways = {"m": "up", "e": "down"}
        return {n: Score(v, 0.0, 8, "", ways[n[0]], n) for n, v in zip(names, row, strict=True)}

    arms = tuple(Arm(name, "generated", scores(row)) for name, row in values.items())
    return ReportData("made", arms, Provenance("x"))


def test_ranks_and_agreement_are_turned_by_direction():
    data = made(
        a=(0.9, 0.1, 0.5, 0.3),
        b=(0.5, 0.2, 0.9, 0.1),
        c=(0.4, 0.3, 0.4, 0.4),
        d=(0.1, 0.4, 0.1, 0.9),
    )
    ranks = encoder_ranks(data, ("scorer", "other"))
    assert ranks["scorer"] == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert ranks["other"] == {"a": 2, "b": 1, "c": 3, "d": 4}
    within = within_encoders(data, ("scorer", "other"))
    assert within["scorer"].pairs() == [("MAUVE", "energy", pytest.approx(1.0), 4)]
    across = across_encoders(data, ("scorer", "other"))
    assert across["MAUVE"].pairs() == [("scorer", "other", pytest.approx(0.8), 4)]
    assert encoder_finding(data, ("scorer", "other")) == (
        "Over the arms, the four distances agree within an encoder at 1 on average (1 to 1) and"
        " encoders agree on one distance at 0.8 on average (0.8 to 0.8) (Spearman)."
    )
