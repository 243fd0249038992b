"""Null bands, power and what a summary makes of records, on cases known by hand."""

import json
import math

import numpy as np
import pytest

from dlmeval.evals.calibration.figure import detection_figure
from dlmeval.evals.calibration.power import detectable, null_band, power
from dlmeval.evals.calibration.summary import (
    bias_table,
    metrics_table,
    refused_numbers,
    summarise,
    summary_record,
    truth_table,
)


def test_the_band_of_39_draws_is_their_range():
    values = np.random.default_rng(0).permutation(39).astype(float)
    assert null_band(values) == (0.0, 38.0)
    assert null_band(np.arange(79.0)) == (1.0, 77.0)  # the second from either end
    assert null_band(np.arange(59.0)) == pytest.approx((0.5, 57.5))


@pytest.mark.parametrize("num", [39, 79])
def test_a_further_clean_draw_leaves_the_band_five_times_in_a_hundred(num):
    draws = np.random.default_rng(1).gamma(0.5, size=(20_000, num + 1))
    outside = [power(row[-1:], null_band(row[:-1])) for row in draws]
    assert np.mean(outside) == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / 20_000))


def test_power_is_the_share_strictly_outside():
    assert power(np.array([0.0, 1.0, 2.0, 3.0]), (1.0, 2.0)) == 0.5
    assert power(np.array([1.0, 1.0]), (1.0, 1.0)) == 0


def test_the_least_level_is_interpolated_in_logarithms():
    assert detectable([0.01, 0.1, 1.0], [0.0, 0.6, 1.0]) == pytest.approx(10**-0.5)
    assert detectable([0.1, 1.0], [0.0, 0.8]) == pytest.approx(1.0)
    # From no damage at power 0.05 to full power at the first level, in the level itself.
    assert detectable([0.2, 0.5], [1.0, 1.0]) == pytest.approx(0.2 * 0.75 / 0.95)
    assert detectable([0.2, 0.5], [0.8, 1.0]) == pytest.approx(0.2)


def test_what_is_seen_and_then_missed_counts_from_the_last_miss():
    assert detectable([0.1, 1.0, 10.0], [1.0, 0.0, 1.0]) == pytest.approx(10**0.8)
    assert detectable([0.1, 1.0, 10.0], [1.0, 1.0, 0.7]) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: null_band(np.zeros(38)), "39 clean draws"),
        (lambda: detectable([0.1], [0.1, 0.2]), "levels has 1"),
        (lambda: detectable([], []), "levels has 0"),
        (lambda: detectable([0.0, 0.1], [0, 0]), "rise from above 0"),
        (lambda: detectable([0.2, 0.1], [0, 0]), "rise from above 0"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def record(ladder, level, value, *, draws=5, gen_ppl=None, mauve=None):
    """A law whose energy distance is `value` on every draw; perplexities and MAUVE to taste."""
    noise = np.linspace(-0.01, 0.01, 39 if ladder == "clean" else draws)
    values = {
        "energy_distance": list(value + noise),
        "gen_ppl": list((10 - value if gen_ppl is None else gen_ppl) + noise),
        "mauve": [mauve] * len(noise) if mauve is None else list(mauve + noise),
    }
    known = {"value": level, "stderr": 0.0, "how": "exact"}
    infinite = {"value": None, "stderr": 0.0, "how": "infinite"}
    return {
        "ladder": ladder,
        "level": level,
        "truth": {
            "missed": infinite if level == 1 else known,
            "invented": known | {"stderr": level / 10, "how": "sampled"},
            "variation": known,
            "entropy": known,
        },
        "values": {"128": values},
        "seconds": {"128": {"energy_distance": 0.5, "gen_ppl": 0.25, "mauve": 1.0}},
    }


def records():
    clean = record("clean", 0.0, 0.0, gen_ppl=10.0, mauve=1.0)
    mild = [record("cold", s, 3 * s, mauve=1 - s) for s in (0.001, 0.1, 1.0)]
    hard = [record("noise", s, 2 * s, gen_ppl=10 + s, mauve=1 - s / 2) for s in (0.2, 0.5)]
    odd = [record("copying", s, v, mauve=1.0) for s, v in ((0.3, 2.0), (0.4, 0.0))]
    return [clean, *mild, *hard, *odd]


def test_a_summary_knows_what_each_metric_sees():
    rows = {row.name: row for row in summarise(records())}
    assert list(rows) == ["gen_ppl", "mauve", "energy_distance"]  # in the order of MEASURES
    energy = rows["energy_distance"]
    assert energy.monotone == {"cold": True, "noise": True, "copying": False}
    cold = energy.detection["128"]["cold"]
    assert cold.power == (0.2, 1.0, 1.0)
    assert cold.level == pytest.approx(0.001**0.25 * 0.1**0.75)
    assert energy.detection["128"]["copying"].level is None
    assert energy.clean["128"][0] == pytest.approx(0, abs=1e-12)
    assert energy.seconds == {"128": 0.5}


def test_a_damage_that_scores_better_is_a_reward():
    rows = {row.name: row for row in summarise(records())}
    found = {n: d.rewarded for n, d in rows["gen_ppl"].detection["128"].items()}
    assert found == {"cold": True, "noise": False, "copying": True}
    assert not any(d.rewarded for d in rows["energy_distance"].detection["128"].values())
    assert not any(d.rewarded for d in rows["mauve"].detection["128"].values())


def test_correlations_are_with_finite_truths_and_turned_so_that_more_is_worse():
    rows = {row.name: row for row in summarise(records())}
    laws = [r for r in records() if r["ladder"] != "copying"]
    kept = [laws[0], *laws[1:]]
    rows = {row.name: row for row in summarise(kept)}
    for name in ("energy_distance", "mauve"):  # one falls and one rises with damage
        assert rows[name].spearman["variation"] > 0.9
    assert rows["energy_distance"].spearman["missed"] == pytest.approx(
        _rank_correlation([0.0, 0.003, 0.3, 0.4, 1.0], [0.0, 0.001, 0.1, 0.2, 0.5])
    )
    assert rows["gen_ppl"].spearman["variation"] < rows["gen_ppl"].gap_spearman["variation"]


def _rank_correlation(x, y):
    return np.corrcoef(np.argsort(np.argsort(x)), np.argsort(np.argsort(y)))[0, 1]


def test_a_bank_that_a_metric_refuses_is_seen():
    rows = {
        row.name: row for row in summarise([*records(), record("mirror", 0.5, 1.0, mauve=None)])
    }
    found = rows["mauve"].detection["128"]["mirror"]
    assert found.power == (1.0,)
    assert not found.rewarded


def test_a_number_refused_on_a_clean_bank_is_left_out():
    found = records()
    found[0]["values"]["128"]["mauve"][3] = None
    assert refused_numbers(found) == ("mauve",)
    assert [row.name for row in summarise(found)] == ["gen_ppl", "energy_distance"]
    assert refused_numbers(records()) == ()


def test_tables_and_figure_hold_every_metric_and_law():
    summaries = summarise(records())
    table = metrics_table(summaries)
    lines = table.splitlines()
    assert len(lines) == 2 + len(summaries)
    assert len({line.count("|") for line in lines}) == 1
    assert "| cold, copying |" in next(line for line in lines if "gen_ppl" in line)
    biases = bias_table(summaries).splitlines()
    assert biases[0] == "| metric | n=128 |"
    assert "| `mauve` | 1 ± 0.006 |" in biases
    truths = truth_table(records()).splitlines()
    assert len(truths) == 2 + len(records())
    assert "∞" in next(line for line in truths if line.startswith("| cold | 1 |"))
    assert "0.2 ± 0.02" in next(line for line in truths if line.startswith("| noise | 0.2 |"))
    json.dumps(summary_record(summaries), allow_nan=False)
    png = detection_figure(summaries, records())
    assert png == detection_figure(summaries, records())
    assert png.startswith(b"\x89PNG")
    assert len(png) > 5000


def test_a_summary_needs_the_clean_law():
    with pytest.raises(ValueError, match="0 clean laws"):
        summarise(records()[1:])


def test_rounding_of_a_score_is_neither_damage_nor_a_rank():
    """A number that never moves, as two versions of the code round it."""
    rng = np.random.default_rng(0)

    def record(ladder, level, draws):
        known = {"value": level, "stderr": 0.0, "how": "exact"}
        values = 0.1083 + rng.choice([0.0, 1e-8], draws)
        return {
            "ladder": ladder,
            "level": level,
            "truth": dict.fromkeys(("missed", "invented", "variation", "entropy"), known),
            "values": {"128": {"h_joint": values.tolist()}},
            "seconds": {"128": {"entropies": 0.1}},
        }

    damaged = [record("noise", level, 5) for level in (0.1, 0.2, 0.4)]
    (found,) = summarise([record("clean", 0.0, 39), *damaged])
    assert found.detection["128"]["noise"].level is None
    assert found.detection["128"]["noise"].power == (0.0, 0.0, 0.0)
    assert found.monotone["noise"]
    assert all(np.isnan(value) for value in found.spearman.values())
    assert found.clean["128"] == (pytest.approx(0.1083), 0.0)
