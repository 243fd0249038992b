"""Polar area charts: shares in closed form, directions, limits, refusals, what is drawn."""

import dataclasses
import re

import numpy as np
import pytest

from dlmeval.evals.errors import InputError
from dlmeval.evals.report.data import Arm
from dlmeval.evals.report.polar import (
    FOUR_METRICS,
    Sector,
    complete_arms,
    polar,
    polar_limits,
    polar_shares,
)
from dlmeval.evals.scoring.scores import Score

DIRECTIONS = {"mauve": "up", "gen_ppl": "down", "self_bleu": "down", "distinct_3": "up"}


def arm(label, mauve, gen_ppl, self_bleu, distinct_3, stderr=0.01):
    values = dict(zip(DIRECTIONS, (mauve, gen_ppl, self_bleu, distinct_3), strict=True))
    scores = {
        name: Score(v, stderr, 64, "1", DIRECTIONS[name], name, None if v is not None else "none")
        for name, v in values.items()
    }
    return Arm(label, "generated", scores, {"strategy": label, "unmask_temp": 0.25})


ARMS = (
    arm("none", 0.9, 20.0, 0.3, 0.8),
    arm("random", 0.5, 10.0, 0.5, 0.6),
    arm("high_entropy", 0.6, 15.0, 0.4, 0.6),
)


def test_shares_run_from_the_worst_arm_to_the_best():
    np.testing.assert_allclose(
        polar_shares(ARMS), [[1, 0, 1, 1], [0, 1, 0, 0], [0.25, 0.5, 0.5, 0]], atol=1e-12
    )


def test_limits_turn_perplexity_and_self_bleu_round():
    limits = polar_limits(ARMS)
    assert limits["mauve"] == (0.5, 0.9)
    assert limits["gen_ppl"] == (20.0, 10.0)
    assert limits["self_bleu"] == (0.5, 0.3)
    assert limits["distinct_3"] == (0.6, 0.8)


def test_units_and_the_order_of_arms_change_no_share():
    shares = polar_shares(ARMS)
    np.testing.assert_allclose(polar_shares(ARMS[::-1]), shares[::-1])
    scaled = [
        dataclasses.replace(
            one,
            scores={
                name: dataclasses.replace(s, value=1000 * s.value + 7)
                for name, s in one.scores.items()
            },
        )
        for one in ARMS
    ]
    np.testing.assert_allclose(polar_shares(scaled), shares, atol=1e-12)


def test_equal_arms_all_reach_the_rim():
    same = (arm("a", 0.5, 9.0, 0.2, 0.7), arm("b", 0.5, 8.0, 0.2, 0.7))
    np.testing.assert_allclose(polar_shares(same), [[1, 0, 1, 1], [1, 1, 1, 1]])
    text = "".join(re.findall(r">([^<]+)</text>", polar(same).svg))
    assert "MAUVE: 0.5 for all" in text


def test_the_figure_prints_limits_and_names_every_arm():
    figure = polar(ARMS, titles={"none": "none, cold"}, name="four", note="At one budget.")
    text = " ".join(re.findall(r">([^<]+)</text>", figure.svg))
    for part in (
        "none, cold",
        "random",
        "high_entropy",
        "PPL: 20.0 to 10.0",
        "MAUVE: 0.500 to 0.900",
    ):
        assert part in text, part
        assert part in " ".join(re.findall(r">([^<]+)</text>", figure.narrow)), part
    assert "PPL 20.0 to 10.0" in figure.caption
    assert figure.caption.endswith("At one budget.")
    assert "high_entropy: MAUVE 0.600 ± 0.010, PPL 15.000 ± 0.010" in figure.alt
    assert figure.name == "four"
    assert figure.png.startswith(b"\x89PNG")
    assert "var(--blue)" in figure.wide
    assert polar(ARMS, titles={"none": "none, cold"}, name="four").svg == figure.svg


def test_charts_of_a_made_up_run(report_data):
    found = complete_arms(report_data.with_role("generated"))
    assert len(found) == 12
    assert ((polar_shares(found) >= 0) & (polar_shares(found) <= 1)).all()


def test_what_cannot_be_scaled_is_refused():
    with pytest.raises(InputError, match="1 given, 2 needed"):
        polar(ARMS[:1])
    short = arm("short", None, 10.0, 0.5, 0.6)
    assert complete_arms([*ARMS, short]) == list(ARMS)
    with pytest.raises(InputError, match="mauve is missing for short; leave"):
        polar([*ARMS, short])
    aimless = [
        dataclasses.replace(
            one, scores=one.scores | {"h_uni": Score(3.0, None, 64, "nats", None, "h_uni")}
        )
        for one in ARMS
    ]
    with pytest.raises(InputError, match="h_uni has no better direction"):
        polar(aimless, sectors=(*FOUR_METRICS[:3], Sector("h_uni", "H uni")))
    with pytest.raises(InputError, match="3 to 6 metrics; 2 given"):
        polar(ARMS, sectors=FOUR_METRICS[:2])
