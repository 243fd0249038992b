"""What no leaderboard is made of: unlike rows, runs without a row, odd settings."""

import itertools
import json
import shutil

import board_world as world
import pytest
import written_run as made
from board_world import PAIR, more_steps, settings

from dlmeval.evals import leaderboard as boards
from dlmeval.evals.errors import InputError
from dlmeval.evals.protocol import UnlikeRunsError
from dlmeval.evals.workdir.plan import PLAN
from dlmeval.evals.workdir.score_stage import score_path


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"gen_length": 12}, "gen_length"),
        ({"prefix_length": 4}, "prefix_length"),
        ({"corpus_digest": "c" * 64}, "reference_digest"),
        ({"block_length": 8}, "block_length"),
        ({"pace": "floor"}, "pace"),
        ({"noise": "gumbel_fp64"}, "noise"),
        ({"scorer": True}, "scorer_digest"),
    ],
)
def test_rows_that_must_not_be_compared_are_refused_naming_the_field(
    paths, tmp_path, changes, field
):
    scorer = changes.pop("scorer", False)
    other = world.write_model(tmp_path / "other", "models/other", "8", arms=PAIR, **changes)
    if scorer:
        made.edit(other / PLAN, lambda plan: plan["scoring"].update(scorer_digest="e" * 64))
    with pytest.raises(UnlikeRunsError) as caught:
        boards.build_board(settings({**paths, "other": other}, ("best", "other"), ()), verify=False)
    assert field in [difference.field for difference in caught.value.differences]
    for path in (paths["best"], other):
        assert str(path) in str(caught.value)


def test_runs_join_at_the_largest_budget_that_all_have(paths, tmp_path):
    cells = [
        *made.cells(PAIR, model_digest="8" * 64),
        *more_steps(16, model_digest="8" * 64),
    ]
    more = made.write_run(tmp_path / "more", cells)
    given = {**paths, "more": more}
    assert boards.build_board(settings(given, ("more", "best"), ())).num_steps == 8
    assert boards.build_board(settings(given, ("more",), ())).num_steps == 16
    assert boards.build_board(settings(given, ("more",), (), num_steps=8)).num_steps == 8
    with pytest.raises(InputError, match=r"--num_steps=16 is not a budget of every run; .*\[8\]"):
        boards.build_board(settings(given, ("more", "best"), (), num_steps=16))
    alone = made.write_run(
        tmp_path / "alone", [*made.cells()[:3], *more_steps(16, model_digest="7" * 64)]
    )
    with pytest.raises(InputError, match="share no nominal budget"):
        boards.build_board(settings({**paths, "alone": alone}, ("alone", "best"), ()))


def test_runs_that_make_no_row_are_refused(paths, tmp_path):
    lone = world.write_model(tmp_path / "lone", "models/lone", "8", arms=PAIR[:1])
    both = [*made.cells(PAIR), *more_steps(8, model_digest="8" * 64)]
    two = made.write_run(tmp_path / "two", both)
    twin = [*made.cells(PAIR), *more_steps(8, remask_fraction=0.3)]
    twice = made.write_run(tmp_path / "twice", twin)
    cases = {
        "no arms of none and high_entropy": ["lone"],
        "samples several models": ["two"],
        "remask_fraction=0.3; a row needs one arm in each place": ["twice"],
        "are runs of one model, llada-8b-base": ["best", "again"],
        "is no folder": ["absent"],
    }
    given = paths | {"lone": lone, "two": two, "twice": twice, "absent": tmp_path / "absent"}
    given["again"] = shutil.copytree(paths["best"], tmp_path / "again")
    for message, runs in cases.items():
        with pytest.raises(InputError, match=message):
            boards.build_board(settings(given, runs, ()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unmask_temp": 0.0}, "must be above 0"),
        ({"rank_by": ("gen_ppl",)}, "--rank_by=gen_ppl is unknown; accepted: mauve"),
        ({"rank_by": ()}, "--rank_by is empty"),
        ({"workdirs": ("a", "a")}, "repeats a value"),
        ({"num_steps": 0}, "--num_steps=0 must be at least 1"),
        ({"registered": False}, "--workdirs and --submissions are empty"),
    ],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(InputError, match=message):
        boards.Settings(**changes)


ODD = [None, "x", -1, [], {}, float("nan"), True, [{}], 10**400, 0.25, "\ud800"]


def leaves(value, path=()):
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield (*path, name)
        yield from leaves(inner, (*path, name))


def test_no_value_of_a_run_ends_in_a_traceback_or_in_a_number_that_is_none(tmp_path):
    small = [("none", 0.25), ("high_entropy", 0.25)]
    cells = made.cells(small, seeds=(1,), prefix_length=4, model=world.LLADA)
    run = made.write_run(tmp_path / "run", cells)
    cell = next(c for c in cells if c.strategy == "none")
    asked = settings({"run": run}, ("run",), (), registered=False)
    odd = itertools.cycle(ODD)
    for path in (made.manifest_path(run, cell), score_path(run, cell), run / PLAN):
        stored = path.read_bytes()
        for names in leaves(json.loads(stored)):
            record = json.loads(stored)
            inner = record
            for name in names[:-1]:
                inner = inner[name]
            inner[names[-1]] = next(odd)
            path.write_text(json.dumps(record), encoding="utf-8")
            try:
                boards.write_site(tmp_path / "site", boards.build_board(asked))
            except InputError:
                continue
            except Exception as error:
                raise AssertionError(f"{path.name}: {names}") from error
        path.write_bytes(stored)
