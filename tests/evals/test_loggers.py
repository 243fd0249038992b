"""Loggers: each scored cell once, each arm at the report, and packages only where asked for."""

import json
import math
import sys
from types import ModuleType, SimpleNamespace

import pytest

from dlmeval.evals import InputError, run_experiment
from dlmeval.evals.experiments import quickstart
from dlmeval.evals.loggers import (
    JsonlLogger,
    RunLog,
    TensorBoardLogger,
    TrackerLogger,
    flat_numbers,
    logger_names,
    open_loggers,
    parse_loggers,
)
from dlmeval.evals.scoring.scores import Score, aggregate
from dlmeval.evals.workdir.events import EventLog
from dlmeval.evals.workdir.plan import read_plan
from dlmeval.evals.workdir.score_stage import load_scores, scored_cells

SCORES = {
    "gen_ppl": Score(12.5, 0.25, 8, "perplexity", "down", "gen_ppl|n:8"),
    "mauve": Score(0.9, None, 8, "", "up", "mauve|n:8"),
    "jcd": Score(None, None, 8, "bits/byte", "down", "jcd|n:8", reason="one document"),
}
CONFIG = {"experiment": "toy", "config": {"seeds": [0]}}


class Listed:
    """A logger that keeps what it is told."""

    def __init__(self):
        self.calls = []

    def log_config(self, config):
        self.calls.append(("config", dict(config)))

    def log_scores(self, step, label, scores):
        self.calls.append((step, label, dict(scores)))

    def finish(self):
        self.calls.append(("finish",))


@pytest.fixture(scope="module")
def logged(toy, tmp_path_factory):
    """A workdir that was run with a JSONL log, report included but not drawn."""
    workdir = tmp_path_factory.mktemp("runs") / "logged"
    config = toy.SMALL_CONFIG | {"num_samples": 8, "num_mauve_seeds": 1}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quickstart, "report", lambda workdir, *, sources: None)
        for stages in ("sample,score", "score,report"):  # the second call scores nothing
            run_experiment(
                "quickstart", config, workdir, stages, sources=toy.toy_sources(), loggers="jsonl"
            )
    return workdir


@pytest.fixture
def stub(monkeypatch):
    """Installs a stand-in for a package; returns the list of calls that it gets."""

    def install(name):
        calls = []
        run = SimpleNamespace(
            log=lambda numbers, step: calls.append(("log", numbers, step)),
            finish=lambda: calls.append(("finish",)),
        )

        def init(**options):
            calls.append(("init", options))
            return run

        class SummaryWriter:
            def __init__(self, logdir):
                calls.append(("writer", logdir))
                self.flush = lambda: None
                self.close = lambda: calls.append(("close",))

            def add_text(self, tag, text, step):
                calls.append(("text", tag, text, step))

            def add_scalar(self, tag, number, step):
                calls.append(("scalar", tag, number, step))

        module = ModuleType(name)
        vars(module).update(init=init, SummaryWriter=SummaryWriter)
        monkeypatch.setitem(sys.modules, name, module)
        return calls

    return install


def lines(workdir):
    text = (workdir / "logs" / "scores.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_a_run_logs_each_cell_once_and_each_arm_at_the_report(logged):
    plan, records = read_plan(logged), lines(logged)
    assert [r["event"] for r in records if r["event"] != "scores"] == ["config", "finish"] * 2
    assert records[0]["config"] == plan.record() | {"cells": len(plan.cells)}
    scores = [r for r in records if r["event"] == "scores"]
    cells = [r for r in scores if r["label"].startswith("cells/")]
    assert [plan.cells[r["step"]] for r in cells] == scored_cells(plan)
    for record, stored in zip(cells, load_scores(plan, logged), strict=True):
        assert record["scores"] == {name: s.leaf() for name, s in stored.metrics.items()}
        assert stored.cell.arm in record["label"]
        assert record["label"].endswith(
            f"part {stored.cell.part}" if stored.cell.part else f"seed {stored.cell.seed}"
        )
    assert len({r["label"] for r in cells}) == len(cells)
    arms = [r for r in scores if r["label"].startswith("report/")]
    table = aggregate(load_scores(plan, logged))
    assert [r["label"] for r in arms] == [f"report/{arm}" for arm in table]
    assert [r["scores"] for r in arms] == [
        {name: score.leaf() for name, score in row.items()} for row in table.values()
    ]
    steps = [r["step"] for r in scores]
    assert steps == sorted(set(steps))  # trackers drop steps that go back


def test_a_log_changes_no_result(logged, toy, tmp_path):
    config = read_plan(logged).config
    run_experiment("quickstart", config, tmp_path, "sample,score", sources=toy.toy_sources())
    for path in [p for f in ("banks", "scores") for p in (logged / f).rglob("*") if p.is_file()]:
        assert (tmp_path / path.relative_to(logged)).read_bytes() == path.read_bytes()
    assert not (tmp_path / "logs").exists()


def test_events_reach_every_logger(logged, tmp_path):
    plan, loggers = read_plan(logged), [Listed(), Listed()]
    log = EventLog(tmp_path / "events.jsonl", RunLog(plan, logged, loggers).on_event)
    cell = scored_cells(plan)[-1]
    with log.span("sample", fingerprint=cell.fingerprint):
        pass
    with log.span("stage", stage="sample"):
        pass
    with log.span("score", fingerprint=cell.fingerprint):
        assert len(loggers[0].calls) == 1  # not before the scores are there
    with pytest.raises(KeyboardInterrupt), log.span("score", fingerprint=cell.fingerprint):
        raise KeyboardInterrupt
    assert loggers[0].calls == loggers[1].calls
    config, (step, label, scores) = loggers[0].calls
    assert config[0] == "config"
    assert config[1]["cells"] == len(plan.cells)
    assert plan.cells[step] == cell
    assert cell.arm in label
    assert scores == load_scores(plan, logged)[-1].metrics


def test_flat_numbers_leave_out_what_is_missing():
    assert flat_numbers("report/none", SCORES) == {
        "report/none/gen_ppl": 12.5,
        "report/none/gen_ppl_stderr": 0.25,
        "report/none/mauve": 0.9,
    }


def test_jsonl_keeps_whole_leaves_and_appends(tmp_path):
    for _ in range(2):
        logger = JsonlLogger(tmp_path)
        logger.log_config(CONFIG)
        logger.log_scores(3, "cells/a", SCORES)
        logger.finish()
    records = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert records[:3] == records[3:]
    assert records[0] == {"event": "config", "config": CONFIG}
    assert records[1]["scores"]["jcd"]["reason"] == "one document"
    assert set(records[1]["scores"]["mauve"]) == {
        *("value", "stderr", "n", "unit", "direction", "signature")
    }
    with pytest.raises(ValueError, match="JSON"):
        JsonlLogger(tmp_path).log_config({"rate": math.nan})


def test_tensorboard_gets_scalars_by_label(stub, tmp_path):
    calls = stub("tensorboardX")
    with open_loggers(parse_loggers("tensorboard"), tmp_path) as (logger,):
        assert isinstance(logger.inner, TensorBoardLogger)
        logger.log_config(CONFIG)
        logger.log_scores(4, "cells/a", SCORES)
    assert calls[0] == ("writer", str(tmp_path / "logs" / "tensorboard"))
    tag, text, step = calls[1][1:]
    assert (tag, step) == ("config", 0)
    assert json.loads(text) == CONFIG
    assert calls[2:] == [
        ("scalar", "cells/a/gen_ppl", 12.5, 4),
        ("scalar", "cells/a/gen_ppl_stderr", 0.25, 4),
        ("scalar", "cells/a/mauve", 0.9, 4),
        ("close",),
    ]


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_trackers_get_one_run_named_after_the_workdir(name, stub, tmp_path):
    calls = stub(name)
    workdir = tmp_path / "first try"
    workdir.mkdir()
    with open_loggers(parse_loggers([name]), workdir) as (logger,):
        assert isinstance(logger.inner, TrackerLogger)
        assert calls == []  # nothing starts before there is a configuration
        logger.log_config(CONFIG)
        logger.log_scores(4, "report/a", SCORES)
    (_, options), log, finish = calls
    assert (options["project"], options["name"]) == ("dlmeval", "first try")
    assert options["config"] == CONFIG
    own = {"wandb": {"dir": str(workdir / "logs")}, "trackio": {"embed": False}}[name]
    assert {k: options[k] for k in options.keys() - {"project", "name", "config"}} == own
    assert log == ("log", flat_numbers("report/a", SCORES), 4)
    assert finish == ("finish",)


def test_a_failed_run_finishes_its_loggers(stub, tmp_path):
    calls = stub("wandb")

    def fail():
        with open_loggers(["jsonl", "wandb"], tmp_path) as loggers:
            loggers[1].log_config(CONFIG)
            raise InputError("no more samples")

    with pytest.raises(InputError, match="no more samples"):
        fail()
    assert calls[-1] == ("finish",)
    assert lines(tmp_path) == [{"event": "finish"}]


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_logger_that_cannot_begin_is_refused_with_its_reason(name, stub, tmp_path, monkeypatch):
    package = {"tensorboard": "tensorboardX", "wandb": "wandb"}[name]
    stub(package)

    def fail(**_):
        raise RuntimeError("api_key is not\nconfigured")

    part = {"tensorboard": "SummaryWriter", "wandb": "init"}[name]
    monkeypatch.setattr(sys.modules[package], part, fail)
    refused = pytest.raises(InputError, match=rf"--loggers={name} cannot begin .*is not configured")
    with refused, open_loggers([name], tmp_path) as (logger,):
        logger.log_config(CONFIG)


def test_a_logger_that_fails_later_is_left_out_and_the_others_go_on(
    stub, tmp_path, monkeypatch, capsys
):
    calls = stub("wandb")

    def lost(numbers, step):
        calls.append(("lost", step))
        raise ConnectionError("server is gone")

    with open_loggers(["wandb", "jsonl"], tmp_path) as loggers:
        for logger in loggers:
            logger.log_config(CONFIG)
        monkeypatch.setattr(loggers[0].inner._run, "log", lost)
        for step in (0, 1):
            for logger in loggers:
                logger.log_scores(step, f"cells/{step}", SCORES)
    assert [call[0] for call in calls] == ["init", "lost", "finish"]  # asked once, then no more
    assert [r.get("step") for r in lines(tmp_path)] == [None, 0, 1, None]
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("--loggers=wandb failed at cells/0 (ConnectionError: server is gone)")


def test_a_package_that_does_not_load_is_named(monkeypatch):
    def broken(name):
        raise TypeError("descriptors cannot be created directly")

    monkeypatch.setattr("importlib.import_module", broken)
    with pytest.raises(InputError, match=r"tensorboardX does not load .*descriptors cannot"):
        parse_loggers("tensorboard")


def test_names_are_checked_and_packages_imported_only_when_asked(monkeypatch):
    assert logger_names() == ("jsonl", "tensorboard", "wandb", "trackio")
    for package in ("tensorboardX", "wandb", "trackio"):
        monkeypatch.setitem(sys.modules, package, None)  # importing it is an ImportError now
    assert parse_loggers("") == parse_loggers(()) == ()
    assert parse_loggers(" jsonl , jsonl") == ("jsonl",)
    with pytest.raises(InputError, match=r"'wnadb' is unknown; accepted: jsonl, tensorboard"):
        parse_loggers("jsonl,wnadb")
    for name, package in (("tensorboard", "tensorboardX"), ("wandb", "wandb")):
        with pytest.raises(InputError, match=rf"{package} .*pip install 'dlmeval\[{name}\]'"):
            parse_loggers(["jsonl", name])


def test_a_run_refuses_before_it_writes(toy, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "trackio", None)
    refused = {"trackio": "quickstart", "jsonl": "calibration"}  # a study has no cells
    for logger, experiment in refused.items():
        with pytest.raises(InputError, match="--loggers"):
            run_experiment(
                experiment, {}, tmp_path / "w", sources=toy.toy_sources(), loggers=logger
            )
    assert not (tmp_path / "w").exists()


def test_without_loggers_nothing_is_made(tmp_path):
    with open_loggers((), tmp_path) as loggers:
        assert loggers == ()
    assert not list(tmp_path.iterdir())


def test_the_real_tensorboard_writer_takes_it(tmp_path):
    pytest.importorskip("tensorboardX")
    with open_loggers(parse_loggers("tensorboard"), tmp_path) as (logger,):
        logger.log_config(CONFIG)
        logger.log_scores(0, "cells/none t=0.5, seed 1", SCORES)
    written = b"".join(p.read_bytes() for p in (tmp_path / "logs" / "tensorboard").iterdir())
    assert b"gen_ppl" in written
