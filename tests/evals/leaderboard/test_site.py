"""The experiment that writes the site, and the files beside its page."""

import csv
import io
import json
import shutil

import board_world as world
import pytest
import written_run as made
from board_world import settings

from dlmeval.evals import leaderboard as boards
from dlmeval.evals.errors import InputError
from dlmeval.evals.pipeline import dry_run, run_experiment
from dlmeval.evals.workdir.plan import read_plan
from dlmeval.evals.workdir.score_stage import score_path


def test_the_experiment_writes_the_site_and_keeps_to_its_runs(paths, tmp_path):
    mine = {**paths, "best": shutil.copytree(paths["best"], tmp_path / "best")}
    config = settings(mine, ("best", "near"))
    workdir = tmp_path / "board"
    text = dry_run("leaderboard", config, workdir)
    assert "leaderboard of" in text
    assert "forwards: none" in text
    assert not workdir.exists()
    done = run_experiment("leaderboard", config, workdir)
    assert done == {"sample": 0, "score": 0, "report": 1}
    files = {path.name: path.read_bytes() for path in (workdir / "report").iterdir()}
    tables = {f"leaderboard.{suffix}" for suffix in ("csv", "json", "md", "tex")}
    assert set(files) == {"index.html", "submission.json", "submission.schema.json", *tables}
    run_experiment("leaderboard", config, workdir, "report")
    assert files == {path.name: path.read_bytes() for path in (workdir / "report").iterdir()}
    # A text changes the status, a score changes the inputs.
    world.edit_text(mine["best"])
    run_experiment("leaderboard", config, workdir, "report")
    record = json.loads((workdir / "report" / "leaderboard.json").read_bytes())
    assert {row["name"]: row["status"] for row in record["rows"]}["llada-8b-base"] == "pending"
    cell = next(c for c in read_plan(mine["best"]).cells if c.role == "generated")
    made.edit(score_path(mine["best"], cell), lambda leaf: leaf["mauve"].update(value=0.99))
    with pytest.raises(InputError, match="belongs to another plan"):
        run_experiment("leaderboard", config, workdir, "report")


def test_files_say_what_the_board_says(board, tmp_path):
    boards.write_site(tmp_path, board)
    record = json.loads((tmp_path / "leaderboard.json").read_bytes())
    assert [row["name"] for row in record["rows"]] == list(board.names)
    first = record["rows"][0]
    assert first["gap"] == board.rows[0].gap.leaf()
    assert first["rank"] == {"mean_rank": 1, "low": 1, "high": 2}
    assert first["not_separated"] == ["llada-moe-7b-a1b-base"]
    assert first["protocol"]["badge"] == "care: 7/7 [1..7]"
    assert len(first["banks"]) == 27
    assert record["shared"]["gen_length"] == 16
    rows = list(csv.DictReader(io.StringIO((tmp_path / "leaderboard.csv").read_text())))
    assert float(rows[0]["gap"]) == board.rows[0].gap.value
    assert float(rows[0]["none_mauve_stderr"]) == board.rows[0].number("baseline", "mauve").stderr
    assert rows[4]["model"] == "dream-7b-base † * ‡"
    assert rows[5]["rank"] == ""
    tex = (tmp_path / "leaderboard.tex").read_text()
    assert r"high\_entropy" in tex
    assert world.HOSTILE not in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize("name", ["模型 8B", "Modèle-8b", "🤖", "a\u200db", "<b>a</b>"])
def test_names_of_any_script_are_accepted(tmp_path, name):
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps(world.submission(name)), encoding="utf-8")
    board = boards.build_board(boards.Settings(submissions=(str(file),), registered=False))
    boards.write_site(tmp_path / "site", board)
    assert board.names == (name,)
    assert name in (tmp_path / "site" / "leaderboard.csv").read_text(encoding="utf-8")
