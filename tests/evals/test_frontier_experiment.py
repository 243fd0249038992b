"""The frontier experiment on the toy world, its table of dominated points, and refusals."""

import csv

import pytest

from dlmeval.evals import run_experiment
from dlmeval.evals.errors import InputError
from dlmeval.evals.experiment import make_config
from dlmeval.evals.experiments import frontier
from dlmeval.evals.report.care.frontier_figures import frontier_overlay
from dlmeval.evals.report.care.frontier_table import dominance, frontier_finding, frontier_table
from dlmeval.evals.report.collect import collect
from dlmeval.evals.report.data import Arm, Provenance, ReportData
from dlmeval.evals.scoring.scores import Score
from dlmeval.evals.workdir.plan import make_plan
from dlmeval.evals.workdir.seed_scores import read_seeded_arms


def config(toy, **changes):
    own = {"num_steps": (4,), "unmask_temps": (0.0, 1.0), "gap_temp": 1.0, "prefix_length": 4}
    return toy.config_of(frontier, **(own | changes))


@pytest.fixture(scope="module")
def workdir(toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("frontier") / "run"
    done = run_experiment("frontier", config(toy), folder, sources=toy.toy_sources())
    assert done == {"sample": 14, "score": 14, "report": 1}
    return folder


def rows(workdir, name):
    with open(workdir / "report" / "tables" / f"{name}.csv", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_the_table_lists_every_point_and_who_dominates_it(toy, workdir):
    data = collect(workdir, toy.toy_sources())
    found = {row["arm"]: row for row in rows(workdir, "frontier")}
    assert list(found) == [
        "reference",
        "autoregressive t=1",
        *(f"{s} t={t} N=4" for s in ("none", "high_entropy") for t in (0, 1)),
    ]
    arms = data.with_role("generated")
    for column, metric in (("dominated_mauve", "mauve"), ("dominated_entropy", "h_uni")):
        verdicts = dominance(arms, "gen_ppl_given_prefix", metric)
        assert "none" in verdicts.values()
        for label, verdict in verdicts.items():
            assert found[label][column] == verdict
    assert found["reference"]["dominated_mauve"] == "–"
    assert found["none t=1 N=4"]["unmask_temp"] == "1"
    arm = data.with_role("generated")[1]
    stored = arm.score("gen_ppl_given_prefix").value
    assert float(found[arm.label]["gen_ppl_given_prefix"]) == stored


def test_the_page_shows_the_gap_paired_over_seeds(workdir):
    arms = {arm.label: arm for arm in read_seeded_arms(workdir)}
    none, other = (arms[f"{s} t=1 N=4"].values("mauve") for s in ("none", "high_entropy"))
    (row,) = rows(workdir, "gaps")
    assert float(row["gap"]) == pytest.approx(sum(none[s] - other[s] for s in (0, 1)) / 2)
    page = (workdir / "report" / "index.html").read_text(encoding="utf-8")
    assert "no remasking minus each strategy" in page
    assert row["baseline"] == "none t=1 N=4"


def test_figures_are_drawn_and_keep_their_text(workdir):
    folder = workdir / "report" / "figures"
    assert {path.name.split(".")[0] for path in folder.iterdir()} == {
        "frontier_overlay",
        "frontier_entropy",
        "polar",
    }
    overlay = (folder / "frontier_overlay.svg").read_text(encoding="utf-8")
    for text in ("AR model", "real text", "MAUVE", "gap ", "not dominated"):
        assert text in overlay, text
    charts = (folder / "polar.svg").read_text(encoding="utf-8")
    for text in ("t = 0", "t = 1", "Self-BLEU", "Distinct-3"):
        assert text in charts, text


def arm(label, gen_ppl, mauve, h_uni=3.0, stderr=0.001, temp=0.25):
    values = (("gen_ppl", gen_ppl, "down"), ("mauve", mauve, "up"), ("h_uni", h_uni, None))
    scores = {
        name: Score(v, stderr, 64, "1", way, name, None if v is not None else "too few")
        for name, v, way in values
    }
    return Arm(label, "generated", scores, {"strategy": label, "unmask_temp": temp})


def test_verdicts_name_the_best_of_those_above():
    arms = [arm("a", 10, 0.5), arm("b", 20, 0.9), arm("c", 25, 0.8), arm("d", 30, 0.7)]
    assert dominance(arms, "gen_ppl", "mauve") == {
        "a": "none",
        "b": "none",
        "c": "b, clearly",
        "d": "b, clearly",
    }
    noisy = [arm("a", 10, 0.5), arm("b", 20, 0.9, stderr=9), arm("c", 25, 0.8)]
    assert dominance(noisy, "gen_ppl", "mauve")["c"] == "b"
    # At equal entropy less perplexity dominates, though never clearly in both metrics.
    assert dominance(arms, "gen_ppl", "h_uni") == {"a": "none", "b": "a", "c": "a", "d": "a"}


def test_arms_that_lack_a_metric_take_no_part():
    arms = (arm("a", 10, 0.5, temp=0.0), arm("b", 20, None), arm("c", 11, 0.6))
    assert dominance(arms, "gen_ppl", "mauve") == {"a": "none", "c": "none"}
    data = ReportData("t", arms, Provenance("cmd"))
    entries = {row.entries[0].text: row.entries for row in frontier_table(data).rows}
    assert entries["b"][-2].text == "–"
    assert entries["b"][-1].text == "a"
    assert frontier_finding(data) == (
        "2 of 2 arms are dominated by no other in perplexity and MAUVE (a, c);"
        " 1 of them at t > 0. Dominated by more than noise: 0."
    )
    assert dominance([arm("b", 20, None)], "gen_ppl", "mauve") == {}
    assert frontier_finding(ReportData("t", (), Provenance("cmd"))) == ""


def test_a_run_without_null_band_or_gaps_is_still_drawn():
    arms = tuple(arm(f"s{i}", 10 + i, 0.5 + 0.01 * i) for i in range(2))
    figure = frontier_overlay(ReportData("t", arms, Provenance("cmd")), (), temp=0.25)
    assert "null band" not in figure.svg
    assert "s1" in figure.svg
    assert "s1: 0.5100 ± 0.0010 at perplexity 11.0000 ± 0.0010" in figure.alt


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_steps": (4, 8)}, "names 2 budgets; a frontier is drawn at one"),
        ({"gap_temp": 0.5}, r"--gap_temp=0.5 must be above 0 and one of --unmask_temps=\(0.0, 1"),
        ({"gap_temp": 0.0}, "--gap_temp=0 must be above 0"),
        ({"unmask_temps": (-1.0, 1.0)}, r"--unmask_temps=.* must be at least 0"),
        ({"unmask_temps": ()}, "--unmask_temps is empty"),
    ],
)
def test_settings_that_make_no_frontier_are_refused(toy, changes, message):
    with pytest.raises(InputError, match=message):
        make_config(frontier, config(toy, **changes))


def test_one_seed_and_one_temperature_still_plan(toy):
    plan = make_plan("frontier", config(toy, seeds=(0,), unmask_temps=(1.0,)), toy.toy_sources())
    assert len(plan.cells) == 5
