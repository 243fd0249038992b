"""Scores: leaves, averages over seeds, null bands; signatures cannot omit a setting."""

import dataclasses
import json
import math

import pytest

from dlmeval.evals import Cell, InputError, Score, aggregate, null_band, read_scores
from dlmeval.evals.scoring.scores import CellScores, values_of, write_scores
from dlmeval.evals.signature import merged, signature


def cell(seed, **fields):
    fixed = {"role": "generated", "strategy": "none", "gen_length": 8, "num_samples": 4}
    return Cell(seed=seed, **(fixed | fields))


def score(value, stderr=None, ref="aa", **fields):
    known = {"n": 4, "unit": "bits/byte", "direction": "down"}
    text = f"jcd|depth:20|n:4|ref:{ref}|v:1"
    return Score(value, stderr, signature=text, **(known | fields))


def scores_of(seed, value, stderr=None, ref="aa", **fields):
    return CellScores(cell(seed, **fields), "d", ref, {"jcd": score(value, stderr, ref)})


def test_a_score_file_is_leaves_under_metric_names(tmp_path):
    scores = scores_of(0, 1.5, 0.25)
    path = tmp_path / f"{scores.cell.fingerprint}.json"
    write_scores(path, scores)
    record = json.loads(path.read_text())
    assert record["jcd"] == {
        "value": 1.5,
        "stderr": 0.25,
        "n": 4,
        "unit": "bits/byte",
        "direction": "down",
        "signature": "jcd|depth:20|n:4|ref:aa|v:1",
    }
    assert record["fingerprint"] == scores.cell.fingerprint
    assert record["cell"]["strategy"] == "none"
    assert read_scores(path) == scores


def test_a_score_file_of_another_cell_is_refused(tmp_path):
    path = tmp_path / "other.json"
    write_scores(path, scores_of(0, 1.0))
    with pytest.raises(ValueError, match="another cell"):
        read_scores(path)


@pytest.mark.parametrize("text", ["{}", '{"cell": {}}', "[]"])
def test_a_damaged_score_file_is_refused(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"x\.json|version"):
        read_scores(path)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_are_finite(value):
    with pytest.raises(ValueError, match="finite"):
        score(value)
    with pytest.raises(ValueError, match="finite"):
        score(1.0, value)


def test_a_missing_value_needs_a_reason():
    with pytest.raises(ValueError, match="reason"):
        score(None)
    assert score(None, reason="3 texts").leaf()["reason"] == "3 texts"


def test_an_average_takes_the_larger_of_both_errors():
    spread = aggregate([scores_of(0, 1.0, 0.1), scores_of(1, 3.0, 0.1)])["none"]["jcd"]
    assert (spread.value, spread.stderr, spread.n) == (2.0, pytest.approx(1.0), 8)
    within = aggregate([scores_of(0, 2.0, 0.6), scores_of(1, 2.0, 0.8)])["none"]["jcd"]
    assert within.stderr == pytest.approx(0.5)


def test_one_seed_keeps_its_own_error():
    assert aggregate([scores_of(0, 1.0, 0.1)])["none"]["jcd"] == score(1.0, 0.1)


def test_an_average_signs_for_all_its_seeds():
    mean = aggregate([scores_of(0, 1.0, ref="aa"), scores_of(1, 1.0, ref="bb")])["none"]["jcd"]
    assert mean.signature == "jcd|depth:20|n:4|ref:aa+bb|v:1"


def test_one_missing_seed_makes_the_average_missing():
    other = CellScores(cell(1), "d", "aa", {"jcd": score(None, reason="too short")})
    mean = aggregate([scores_of(0, 1.0), other])["none"]["jcd"]
    assert (mean.value, mean.reason, mean.n) == (None, "too short", 8)
    assert math.isnan(values_of({"none": {"jcd": mean}})["none"]["jcd"])


def test_arms_that_differ_beyond_their_seed_are_not_averaged():
    table = aggregate([scores_of(0, 1.0), scores_of(1, 3.0, model_digest="b")])
    assert [metrics["jcd"].value for metrics in table.values()] == [1.0, 3.0]
    assert list(table) == ["none model_digest=none", "none model_digest=b"]


def test_the_null_band_spans_the_null_draws_of_all_seeds():
    real = {"role": "reference", "strategy": "reference"}
    cells = [scores_of(s, float(s + p), part=p, **real) for s in (0, 1) for p in (1, 2)]
    band = null_band([*cells, scores_of(0, 99.0), scores_of(0, 50.0, part=0, **real)])["jcd"]
    assert (band.mean, band.low, band.high, band.num_banks) == (2.0, 1.0, 3.0, 4)
    assert band.deviation == pytest.approx(math.sqrt(2 / 3))
    assert list(aggregate(cells)) == []


@dataclasses.dataclass(frozen=True)
class Toy:
    clusters: int = dataclasses.field(metadata={"key": "K"})
    seeds: tuple = (0, 1, 2)
    extra: str | None = None


def test_a_signature_names_every_field():
    assert signature("toy", Toy(13)) == "toy|K:13|seeds:0-2|extra:none"
    assert signature("toy", Toy(2, (0, 2), "x"), Toy(3)).count("|") == 6
    for field in dataclasses.fields(Toy):
        changed = dataclasses.replace(Toy(1), **{field.name: (9,) if field.name == "seeds" else 9})
        assert signature("toy", changed) != signature("toy", Toy(1))


def test_signatures_of_other_settings_do_not_merge():
    assert merged(["a|n:1", "a|n:1"]) == "a|n:1"
    for other in ("b|n:1", "a|n:1|k:2", "a|k:1"):
        with pytest.raises(ValueError, match="different settings"):
            merged(["a|n:1", other])


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["jcd"].update(value=1.0),
        lambda record: record["jcd"].update(signature="another"),
        lambda record: record.pop("jcd"),
        lambda record: record.update(more=record["jcd"]),
        lambda record: record.update(bank_digest="0" * 64),
        lambda record: record["jcd"].update(value=float("nan")),
        lambda record: record.update(sha256=None),
    ],
)
def test_an_edited_score_file_is_refused(tmp_path, change):
    scores = scores_of(0, 12.5)
    path = tmp_path / f"{scores.cell.fingerprint}.json"
    write_scores(path, scores)
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"score again"):
        read_scores(path)


def test_a_seed_that_lacks_a_metric_leaves_the_mean_without_value():
    whole, lacking = scores_of(0, 2.0), scores_of(1, 4.0)
    lacking.metrics.clear()
    (row,) = aggregate([whole, lacking]).values()
    assert row["jcd"].value is None
    assert row["jcd"].reason == "not measured at seed 1"
