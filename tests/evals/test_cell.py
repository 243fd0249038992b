"""Cells: a fingerprint for everything that decides a bank, a label for what seeds share."""

import dataclasses
import hashlib
import json

import pytest

from dlmeval.evals import Cell
from dlmeval.evals.canonical import canonical_json, content_digest
from dlmeval.evals.cell import arm_labels, cell_from_dict
from dlmeval.samplers import SamplerConfig

CELL = Cell(
    role="generated",
    strategy="high_entropy",
    gen_length=64,
    num_samples=128,
    seed=3,
    model="embedded:x",
    model_digest="ab",
    num_steps=32,
    unmask_temp=0.25,
    remask_fraction=0.15,
    noise="inverse_cdf",
)


def test_fingerprint_is_sha256_of_canonical_json():
    later = ("vocabulary", "prefix_length", "target_nfe", "match_mode")
    fields = {k: v for k, v in dataclasses.asdict(CELL).items() if k not in later}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    assert CELL.fingerprint == hashlib.sha256(text.encode()).hexdigest()


def test_fingerprint_is_the_same_in_every_process():
    # Changes of this value orphan everyone's banks: raise the version when it must change.
    assert CELL.fingerprint.startswith("12a911a8227a991a")


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Cell)])
def test_every_field_counts(field):
    values = {"role": "trajectory", "strategy": "none", "gen_length": 65, "num_samples": 129}
    texts = {"model", "model_digest", "corpus", "corpus_digest", "noise", "pace", "pool"}
    texts |= {"loop", "confidence", "schedule"}
    values |= {"vocabulary": "scorer", "match_mode": "idle"}
    cell = dataclasses.replace(CELL, match_mode="cap") if field == "target_nfe" else CELL
    old = getattr(cell, field)
    new = values.get(field, "other" if field in texts else 7)
    assert new != old
    assert dataclasses.replace(cell, **{field: new}).fingerprint != cell.fingerprint


def test_a_plan_from_before_a_field_is_still_read():
    fields = dataclasses.asdict(CELL)
    for name in ("vocabulary", "prefix_length", "target_nfe", "match_mode"):
        del fields[name]
    assert cell_from_dict(fields) == CELL
    del fields["seed"]
    with pytest.raises(ValueError, match=r"lacks.*seed"):
        cell_from_dict(fields)


def test_labels_tell_apart_what_the_arm_does_not():
    more = dataclasses.replace(CELL, remask_fraction=0.3)
    labels = arm_labels([CELL, dataclasses.replace(CELL, seed=4), more])
    assert labels == {
        CELL.fingerprint: "high_entropy t=0.25 N=32 remask_fraction=0.15",
        dataclasses.replace(CELL, seed=4).fingerprint: (
            "high_entropy t=0.25 N=32 remask_fraction=0.15"
        ),
        more.fingerprint: "high_entropy t=0.25 N=32 remask_fraction=0.3",
    }
    assert arm_labels([CELL]) == {CELL.fingerprint: CELL.arm}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocabulary": "encoder"}, "accepted: denoiser, scorer"),
        ({"prefix_length": 0}, "prefix_length is 0"),
        ({"target_nfe": 64}, "match_mode is None; accepted: cap, idle"),
    ],
)
def test_a_cell_that_means_nothing_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CELL, **changes)


def test_a_cell_can_hold_every_setting_of_the_sampler():
    settings = {field.name for field in dataclasses.fields(SamplerConfig)}
    assert settings <= {field.name for field in dataclasses.fields(Cell)}


def test_seeds_share_arm_and_group():
    other = dataclasses.replace(CELL, seed=4)
    assert other.arm == CELL.arm == "high_entropy t=0.25 N=32"
    assert other.group == CELL.group


def test_weights_split_a_group():
    assert dataclasses.replace(CELL, model_digest="cd").group != CELL.group


def test_null_draws_are_no_reference():
    fields = {"gen_length": 8, "num_samples": 8, "seed": 0, "offset": 0}
    reference = Cell(role="reference", strategy="reference", part=0, **fields)
    draws = [dataclasses.replace(reference, part=part, offset=8 * part) for part in (1, 2)]
    assert reference.arm == "reference"
    assert draws[0].arm == draws[1].arm == "null"
    assert draws[0].group == draws[1].group != reference.group


def test_naive_arms_name_their_size():
    cell = Cell(role="heuristic", strategy="mirror", size=500, gen_length=8, num_samples=8, seed=0)
    assert cell.arm == "mirror 500"


def test_a_cell_survives_json():
    stored = json.loads(json.dumps(dataclasses.asdict(CELL)))
    assert cell_from_dict(stored) == CELL


@pytest.mark.parametrize("change", [{"new_field": 1}, {"seed": None}])
def test_cells_of_another_version_are_refused(change):
    fields = {**dataclasses.asdict(CELL), **change}
    if change == {"seed": None}:
        del fields["seed"]
    with pytest.raises(ValueError, match="version"):
        cell_from_dict(fields)


@pytest.mark.parametrize("change", [{"role": "judge"}, {"gen_length": 0}, {"num_samples": 0}])
def test_bad_fields_are_named(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        dataclasses.replace(CELL, **change)


def test_canonical_json_ignores_order_and_refuses_nan():
    assert canonical_json({"b": 1, "a": "é"}) == '{"a":"é","b":1}'
    assert content_digest({"b": 1, "a": 2}) == content_digest({"a": 2, "b": 1})
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": float("nan")})
