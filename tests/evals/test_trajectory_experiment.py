"""The trajectory experiment on the toy world: its plan, its numbers, its report, refusals."""

import csv

import pytest

from dlmeval.evals import run_experiment
from dlmeval.evals.banks.trajectory import load_history
from dlmeval.evals.errors import InputError
from dlmeval.evals.experiments import trajectory
from dlmeval.evals.report.care.trajectory_tables import collapses
from dlmeval.evals.report.collect import collect
from dlmeval.evals.scoring.churn import churn_scores
from dlmeval.evals.workdir.plan import make_plan, read_plan
from dlmeval.evals.workdir.sample_stage import bank_path

STRATEGIES = ("none", "high_entropy")


def config(toy, **changes):
    own = {
        "seeds": (0,),
        "strategies": STRATEGIES,
        "unmask_temps": (1.0,),
        "num_steps": (8, 2, 4),
        "trace_temp": 1.0,
        "trace_steps": 8,
        "num_traces": 8,
    }
    return toy.config_of(trajectory, **(own | changes))


@pytest.fixture(scope="module")
def workdir(toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trajectory") / "run"
    done = run_experiment("trajectory", config(toy), folder, sources=toy.toy_sources())
    assert done == {"sample": 11, "score": 9, "report": 1}
    return folder


@pytest.fixture(scope="module")
def data(toy, workdir):
    return collect(workdir, toy.toy_sources())


def rows(workdir, name):
    with open(workdir / "report" / "tables" / f"{name}.csv", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_one_recorded_bank_a_strategy(workdir):
    traced = [cell for cell in read_plan(workdir).cells if cell.role == "trajectory"]
    assert [cell.strategy for cell in traced] == list(STRATEGIES)
    for cell in traced:
        assert (cell.num_samples, cell.num_steps, cell.unmask_temp) == (8, 8, 1.0)
        assert load_history(bank_path(workdir, cell)).canvas.shape == (8, 8, 16)


def test_churn_is_exactly_zero_without_remasking_and_read_off_the_history_with_it(workdir):
    none, entropy = rows(workdir, "churn")
    assert (none["strategy"], entropy["strategy"]) == STRATEGIES
    assert float(none["replacement_rate"]) == 0.0
    assert float(none["replacement_rate_stderr"]) == 0.0
    assert none["recommit_change"] == ""
    assert float(entropy["replacement_rate"]) > 0
    cell = [cell for cell in read_plan(workdir).cells if cell.role == "trajectory"][1]
    for name, number in churn_scores(load_history(bank_path(workdir, cell))).items():
        assert float(entropy[name]) == number.value, name
        assert int(entropy[f"{name}_n"]) == number.n, name


def test_the_profile_is_in_order_of_counted_forwards(workdir):
    arms = [row for row in rows(workdir, "nfe_profile") if row["kind"] == "diffusion"]
    assert len(arms) == 6
    for strategy in STRATEGIES:
        counts = [float(row["nfe_mean"]) for row in arms if row["arm"].startswith(strategy)]
        assert counts == sorted(counts)
        assert counts[0] >= 2
    assert [float(row["nfe_mean"]) for row in arms[:3]] == [2, 4, 8]


def test_flags_say_what_the_stored_scores_say(workdir, data):
    found = collapses(data)
    assert list(found) == list(STRATEGIES)
    for row, collapse in zip(rows(workdir, "collapse"), found.values(), strict=True):
        assert float(row["rho_self_bleu"]) == collapse.self_bleu.rho
        assert float(row["change_h_uni"]) == collapse.h_uni.change
        for flag in ("alike", "narrows", "loops"):
            raised = getattr(collapse, flag)
            wanted = "not decided" if raised is None else "yes" if raised else "no"
            assert row[flag].startswith(wanted), flag


def test_the_report_holds_every_figure_and_a_replay_a_strategy(workdir):
    folder = workdir / "report" / "figures"
    names = {"replacement", "stability", "nfe_variety", "nfe_distances"}
    assert {path.name.split(".")[0] for path in folder.iterdir()} == names
    page = (workdir / "report" / "index.html").read_text(encoding="utf-8")
    assert page.count('class="replay"') == len(STRATEGIES)
    assert "Share of positions that a step takes back" in page
    curves = (folder / "replacement.svg").read_text(encoding="utf-8")
    assert "high_entropy" in curves
    variety = (folder / "nfe_variety.svg").read_text(encoding="utf-8")
    for title in ("gen-PPL ↓", "Self-BLEU ↓", "H uni", "MAUVE ↑", "real text"):
        assert title in variety, title


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_traces": 1}, "--num_traces=1 must be at least 2"),
        ({"trace_steps": 1}, "--trace_steps=1 must be at least 2"),
        ({"trace_temp": -0.5}, "--trace_temp=-0.5 must be at least 0"),
        ({"strategies": ("none", "hope")}, "hope"),
        ({"denoiser": None}, "--denoiser=none"),
    ],
)
def test_settings_that_cannot_be_run_are_refused(toy, changes, message):
    with pytest.raises(InputError, match=message):
        make_plan("trajectory", config(toy, **changes), toy.toy_sources())
