"""Submissions: self-reported rows, read strictly, refused with the place of each fault."""

import json

import board_world as world
import numpy as np
import pytest
import written_run as made
from board_world import row_from, settings

from dlmeval.evals import leaderboard as boards
from dlmeval.evals.errors import InputError
from dlmeval.evals.leaderboard.schema import problems
from dlmeval.evals.protocol import UnlikeRunsError


def test_a_submission_is_self_reported_with_numbers_computed_from_its_seeds(board, paths):
    row = row_from(board, paths["theirs"])
    assert (row.status, row.protocol, row.banks) == ("self-reported", None, ())
    score = row.number("baseline", "mauve")
    assert score.value == pytest.approx(0.9)
    assert score.stderr == pytest.approx(0.01 / np.sqrt(3))
    assert score.signature == f"mauve|self-reported|seeds:3|n:{3 * made.ROWS}"
    assert row.gap.value == pytest.approx(0.1)
    assert row.model.params_active == 8 * 10**9
    assert row.url == "https://example.org/ours"


def test_rows_of_runs_come_back_from_their_own_submission(paths, tmp_path):
    board = boards.build_board(settings(paths, ("best", "near"), ()))
    record = boards.submission_of(board.rows)
    assert len(record["rows"]) == 2
    file = tmp_path / "submission.json"
    file.write_text(json.dumps(record), encoding="utf-8")
    again = boards.build_board(
        settings({**paths, "file": file}, ("best",), ("file",), registered=False)
    )
    ours, theirs = again.rows[0], again.rows[1]
    assert again.names == ("llada-8b-base", "llada-8b-base (2)", "llada-moe-7b-a1b-base")
    assert theirs.status == "self-reported"
    assert theirs.gap.value == pytest.approx(ours.gap.value)
    assert theirs.gap.stderr == pytest.approx(ours.gap.stderr)
    for arm in ("cold", "baseline", "strategy"):
        assert dict(theirs.arms[arm].values) == dict(ours.arms[arm].values)
    assert boards.submission_of(again.rows[1:]) is None


def broken(change):
    record = world.submission()
    change(record["rows"][0])
    return record


def arm(name, **values):
    return lambda row: row["arms"][name].update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("seeds"), "rows[0] lacks seeds"),
        (lambda r: r["settings"].pop("scorer_digest"), "rows[0].settings lacks scorer_digest"),
        (lambda r: r["settings"].update(gen_length="16"), "gen_length is '16'; it must be a whole"),
        (lambda r: r["settings"].update(gen_length=0), "gen_length is 0; it must be at least 1"),
        (lambda r: r["settings"].update(gen_length=True), "gen_length is True; it must be a whole"),
        (lambda r: r["settings"].update(scorer_digest="ab"), "must be a sha256"),
        (lambda r: r.update(gap=0.3), "rows[0] has unknown fields gap; accepted: model, settings"),
        (lambda r: r.update(seeds=[1, 1, 2]), "rows[0].seeds repeats 1"),
        (lambda r: r.update(seeds=[]), "rows[0].seeds has 0 items; it must have at least 1"),
        (lambda r: r.update(seeds=[1, 2]), "mauve has 3 values for 2 seeds"),
        (lambda r: r.update(url="javascript:alert(1)"), "url is 'javascript:alert(1)'; it must be"),
        (lambda r: r["model"].update(name=""), "name is ''; it must have at least 1 characters"),
        (lambda r: r["model"].update(name="n" * 81), "name has 81 characters"),
        (lambda r: r["model"].update(params_active=10**12), "more active parameters than"),
        (arm("baseline", mauve=[0.5, 0.5, 1.5]), "baseline.mauve[2] is 1.5; it must be at most 1"),
        (arm("baseline", mauve=0.5), "rows[0].arms.baseline.mauve is 0.5; it must be a list"),
        (arm("baseline", strategy="random"), "must be none or origin"),
        (arm("strategy", strategy="none"), "arms.strategy.strategy is 'none', a baseline"),
        (arm("strategy", unmask_temp=0.5), "temperatures 0.25 and 0.5; they must be equal"),
        (arm("cold", unmask_temp=0.1), "cold must be the baseline's strategy at unmask_temp 0"),
        (arm("strategy", nfe=[None, 1, 1]), "arms.strategy.nfe[0] is null; it must be a number"),
        (arm("strategy", nfe=[10**400, 1, 1]), "it must be a number"),
        (arm("cold", perplexity=[1e308] * 3), "cold.perplexity[0] is 1e+308; it must be at most"),
        (lambda r: r["model"].update(params_total=10**400), "it must be a whole number"),
        (lambda r: r["settings"].update(scorer_digest="a" * 64 + "\n"), "must be a sha256"),
        (lambda r: r.update(url="https://a.example\n"), "it must be a link"),
        (lambda r: r["model"].update(name="=1+1"), "which spreadsheets read as formulas"),
        (lambda r: r["model"].update(family="@family"), "which spreadsheets read as formulas"),
        (lambda r: r["model"].update(name=" "), "and no space"),
        (lambda r: r["model"].update(name="gpj.exe\u202e"), "characters that are not seen or"),
        (lambda r: r["model"].update(name="two\nlines"), "rows[0].model.name is 'two\\nlines'"),
        (lambda r: r["model"].update(source="\ud800"), "rows[0].model.source is"),
    ],
)
def test_what_is_wrong_with_a_submission_is_said_with_its_place(tmp_path, change, message):
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps(broken(change)), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        boards.read_submissions(file, boards.Settings())
    assert message in str(caught.value)
    assert str(file) in str(caught.value)


def test_all_problems_of_a_submission_are_said_at_once(tmp_path):
    record = broken(lambda row: row["arms"]["cold"].update(dict.fromkeys(["mauve", "nfe"], 1)))
    record["format"] = "other"
    record["rows"].append("row")
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        boards.read_submissions(file, boards.Settings())
    for text in ("format is 'other'", "cold.mauve is 1", "cold.nfe is 1", "rows[1] is 'row'"):
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "docs/leaderboard.md has an example"),
        ("[]", "the file is a list of 0; it must be an object"),
        ('{"format": NaN, "rows": []}', "NaN is no number of JSON"),
        ('{"format": 1, "format": 2}', "'format' is given twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_files_that_hold_no_submission_are_refused(tmp_path, text, message):
    file = tmp_path / "theirs.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        boards.read_submissions(file, boards.Settings())
    with pytest.raises(InputError, match=r"absent\.json"):
        boards.read_submissions(tmp_path / "absent.json", boards.Settings())


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"gen_length": 128}, "gen_length: 16 and 128"),
        ({"prefix_length": 64}, "prefix_length: null and 64"),
        ({"num_steps": 256}, "num_steps: 8 and 256"),
        ({"reference_digest": "d" * 64}, "reference_digest"),
        ({"scorer_digest": "d" * 64}, "scorer_digest"),
        ({"dlmeval": "9.9"}, "dlmeval"),
    ],
)
def test_submissions_made_otherwise_are_refused(paths, tmp_path, changes, field):
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps(world.submission(**changes)), encoding="utf-8")
    with pytest.raises(UnlikeRunsError) as caught:
        boards.build_board(settings({**paths, "file": file}, ("best",), ("file",)), verify=False)
    assert field in str(caught.value)


def test_the_schema_is_read_in_full():
    schema = boards.submission_schema()
    assert list(problems(world.submission(), schema, "it")) == []
    with pytest.raises(ValueError, match="uses 'maxItems'"):
        list(problems([], {"type": "array", "maxItems": 1}, "it"))


def test_a_submission_given_twice_is_refused(tmp_path):
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file in files:
        file.write_text(json.dumps(world.submission()), encoding="utf-8")
    both = boards.Settings(submissions=tuple(map(str, files)), registered=False)
    with pytest.raises(InputError, match=r"another-8b is given twice .*one\.json and .*two\.json"):
        boards.build_board(both)
    files[1].write_text(json.dumps(world.submission(mauve=0.8)), encoding="utf-8")
    assert boards.build_board(both).names == ("another-8b", "another-8b (2)")


@pytest.mark.parametrize(
    ("name", "source", "registered"),
    [
        ("llada-8b-base", "hf:someone/else", False),
        ("LLaDA-8B-Base", "runs/llada-8b-base", False),
        ("our run of LLaDA", world.LLADA, True),
    ],
)
def test_the_printed_gap_goes_with_the_source_and_not_with_a_name(
    tmp_path, name, source, registered
):
    record = world.submission(name)
    record["rows"][0]["model"]["source"] = source
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps(record), encoding="utf-8")
    board = boards.build_board(boards.Settings(submissions=(str(file),), registered=False))
    entry = boards.board_table(board).rows[0].entries[-1]
    assert bool(entry.text) == registered
