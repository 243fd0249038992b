"""Statuses of rows, which can be earned and lost, and what becomes of their gaps."""

import shutil

import board_world as world
import pytest
import written_run as made
from board_world import PAIR, row_from, settings

from dlmeval.evals import leaderboard as boards
from dlmeval.evals.leaderboard.gap import paired_gap
from dlmeval.evals.workdir.plan import read_plan
from dlmeval.evals.workdir.sample_stage import bank_path
from dlmeval.evals.workdir.score_stage import score_path


def status_of(path):
    board = boards.build_board(settings({"run": path}, ["run"], (), registered=False))
    (row,) = board.rows
    return row


def test_an_edited_text_makes_a_row_pending_and_names_its_bank(board, paths):
    row = row_from(board, paths["edited"])
    assert row.status == "pending"
    assert any("does not match its sha256" in reason for reason in row.reasons)
    assert any(reason.startswith("point 7") for reason in row.reasons)
    assert row.number("baseline", "mauve").value is not None


@pytest.mark.parametrize(
    ("damage", "reason", "lost"),
    [
        ("scores", "is missing", ("baseline",)),
        ("bank", "manifest.json is missing", ("baseline",)),
        ("other texts", "holds scores of other texts", ()),
        ("null draw", "does not match its sha256", ()),
    ],
)
def test_what_is_missing_or_exchanged_makes_a_row_pending(paths, tmp_path, damage, reason, lost):
    path = shutil.copytree(paths["best"], tmp_path / "run")
    cells = read_plan(path).cells
    cell = next(c for c in cells if (c.strategy, c.unmask_temp) == ("none", 0.25))
    if damage == "scores":
        score_path(path, cell).unlink()
    elif damage == "bank":
        shutil.rmtree(bank_path(path, cell))
    elif damage == "other texts":
        made.edit(score_path(path, cell), lambda record: record.update(bank_digest="0" * 64))
    else:
        # A bank that no arm of the row is scored against counts too.
        cell = next(c for c in cells if c.role == "reference" and c.seed == 3)
        shard = next(bank_path(path, cell).glob("samples-*"))
        shard.write_text(shard.read_text() + "\n")
    row = status_of(path)
    assert row.status == "pending"
    assert any(reason in text for text in row.reasons), row.reasons
    assert set(row.lacking) == set(lost)
    for name in lost:
        assert reason in row.number(name, "mauve").reason
        assert row.gap.value is None


def test_a_run_that_misses_a_point_of_the_protocol_is_pending(tmp_path):
    row = status_of(world.write_model(tmp_path / "warm", "models/warm", "6", arms=PAIR))
    assert row.status == "pending"
    assert [reason[:7] for reason in row.reasons] == ["point 3"]
    assert row.lacking == {"cold": "the run has no arm none t=0 N=8"}
    assert row.number("cold", "mauve").reason == "the run has no arm none t=0 N=8"
    assert row.gap.value is not None


def test_one_seed_has_a_gap_without_error(tmp_path):
    row = status_of(world.write_model(tmp_path / "one", "models/one", "6", arms=PAIR, seeds=(1,)))
    assert row.marks == ("*",)
    assert row.gap.value is not None
    assert row.gap.stderr is None
    assert row.gap_test.startswith("One seed")


@pytest.mark.parametrize(
    ("second", "text"),
    [
        ((0.5, 0.6, 0.7), "no test; 95 % bootstrap interval 0.000 to 0.000. All 3 differences are"),
        ((0.6, 0.5, 0.7), "t(2) = 0.00, p = 1; 95 % bootstrap interval −0.100 to 0.100."),
    ],
)
def test_a_gap_of_zero_is_tested_where_the_seeds_differ(second, text):
    number, sentence = paired_gap((0.5, 0.6, 0.7), second, (1, 2, 3), "none-random", "mauve")
    assert number.value == pytest.approx(0, abs=1e-12)
    assert text in sentence
