"""The attack: sweeps on the toy world, and the range in which a sampler beats real text."""

import csv

import pytest

from dlmeval.evals import run_experiment
from dlmeval.evals.report.data import Arm, Provenance, ReportData
from dlmeval.evals.report.rebenchmark.attack_tables import (
    attack_finding,
    attack_table,
    below_real_text,
    inside_range,
)
from dlmeval.evals.report.rebenchmark.figures import attack_figure, coding_figure
from dlmeval.evals.scoring.scores import Band, Score

SWEEPS = {"topk_iid": (), "periodic": (2, 4, 16), "phrase_bank": (3,)}


def number(value, stderr=0.0, direction="down"):
    return Score(value, stderr, 64, "", direction, "x|n:64")


def arm(label, role, ppl, entropy, stderr=0.0, **fields):
    scores = {
        "gen_ppl": number(ppl, stderr),
        "h_uni": number(entropy, direction=None),
        "jcd_coverage": number(ppl / 10),
        "jcd_fidelity": number(-0.05),
    }
    return Arm(label, role, scores, fields)


def periodic(size, ppl, entropy, stderr=0.0):
    fields = {"strategy": "periodic", "size": size}
    return arm(f"periodic {size}", "heuristic", ppl, entropy, stderr, **fields)


@pytest.fixture
def data():
    return ReportData(
        "attack",
        (
            arm("reference", "reference", 17.0, 5.4, stderr=0.5),
            arm("warm", "generated", 30.0, 5.3),
            arm("cold", "generated", 12.0, 4.9),
            periodic(64, 4.0, 4.16),
            periodic(256, 7.0, 5.0),
            periodic(300, 16.2, 5.2),
            periodic(400, 20.0, 5.97),
        ),
        Provenance("x"),
    )


def test_below_real_text_needs_two_standard_errors(data):
    assert [a.fields["size"] for a in below_real_text(data)] == [64, 256]


def test_the_range_of_entropies_is_that_of_trained_arms_and_text(data):
    assert [a.fields["size"] for a in inside_range(data)] == [256, 300]


def test_the_finding_names_sizes_perplexities_and_entropies(data):
    assert attack_finding(data) == (
        "Periodic has a lower gen-PPL than real text (17.00 ± 0.50 at 5.4 ± 0 nats) at 2 of 4"
        " sizes, k = 64 to 256: gen-PPL 4–7 at a unigram entropy of 4.16–5 nats. At k = 256 its"
        " unigram entropy lies within the range of trained arms and real text too: there gen-PPL"
        " and H uni together do not give it away (gen-PPL 7)."
    )
    assert attack_finding(data, "mirror") == ""


def test_an_attack_that_fails_is_said_to_fail(data):
    kept = tuple(a for a in data.arms if a.fields.get("size") in (None, 300, 400))
    failed = ReportData("attack", kept, data.provenance)
    assert attack_finding(failed).startswith("Periodic has at none of its 2 sizes a lower gen-PPL")


def test_a_gap_in_the_sizes_is_not_papered_over(data):
    wild = (*data.arms, periodic(1000, 3.0, 6.0))
    text = attack_finding(ReportData("attack", wild, data.provenance))
    assert "at 3 of 5 sizes, k = 64, 256, 1000:" in text


def test_the_table_has_real_text_on_top_and_naive_arms_by_size(data):
    rows = attack_table(data).rows
    assert [row.entries[0].text for row in rows[:3]] == ["reference", "warm", "cold"]
    assert rows[0].fixed
    assert [row.entries[1].text for row in rows[3:]] == ["64", "256", "300", "400"]
    assert [row.entries[-2].text for row in rows[3:]] == ["yes", "yes", "no", "no"]
    assert [row.entries[-1].text for row in rows[3:]] == ["no", "yes", "yes", "no"]


def test_figures_show_every_arm_the_box_and_the_null_band(data):
    attack = attack_figure(data)
    assert "range of trained arms" in attack.svg
    assert "periodic 300: 5.2 ± 0, 16.2 ± 0" in attack.alt
    band = Band(0.0, -0.01, 0.01, 0.01, 3, "bits/byte", "jcd|n:64")
    bands = {"jcd_coverage": band, "jcd_fidelity": band}
    coding = coding_figure(ReportData("x", data.arms, data.provenance, null_band=bands))
    assert "null band" in coding.svg
    assert "null band" not in coding_figure(data).svg


def test_a_sweep_of_the_toy_world_follows_the_closed_forms(toy, tmp_path):
    config = toy.CONTENDERS | SWEEPS
    run_experiment("attack", config, tmp_path / "run", sources=toy.toy_sources())
    with open(tmp_path / "run/report/tables/attack.csv", newline="") as file:
        rows = {(row["bank"], row["size"]): row for row in csv.DictReader(file)}
    for size, entropy in (("2", 0.693147), ("4", 1.386294), ("16", 2.772589)):
        row = rows["Periodic", size]
        assert float(row["h_uni"]) == pytest.approx(entropy, abs=1e-5)  # log k where k divides L
        assert float(row["h_pos"]) == pytest.approx(0.0, abs=1e-6)
        real = float(rows["reference", "–"]["gen_ppl"])
        if row["below_real"] == "yes":
            assert float(row["gen_ppl"]) < real
    assert (tmp_path / "run/report/figures/attack.png").stat().st_size > 5000
