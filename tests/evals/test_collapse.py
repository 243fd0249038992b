"""Trends along compute and the flags of collapse."""

import math

import pytest

from dlmeval.evals.errors import InputError
from dlmeval.evals.report.care.collapse import collapse_flags, nfe_trend
from dlmeval.evals.report.care.trajectory_tables import collapse_findings, collapse_table
from dlmeval.evals.scoring.scores import Score


def scores(*values, stderr=0.01):
    return [
        Score(v, stderr, 64, "1", None, "m|n:64", None if v is not None else "too few rows")
        for v in values
    ]


def flags(self_bleu, gen_ppl, h_uni, repetition=(0.1, 0.1, 0.1, 0.1), nfe=(10, 20, 40, 80)):
    return collapse_flags(
        nfe,
        gen_ppl=scores(*gen_ppl),
        self_bleu=scores(*self_bleu),
        h_uni=scores(*h_uni),
        repetition=scores(*repetition),
    )


def test_a_trend_reads_its_ends_and_ranks_in_order_of_nfe():
    trend = nfe_trend((40, 10, 80, 20), scores(0.3, 0.1, 0.4, 0.2, stderr=0.03))
    assert trend.rho == pytest.approx(1.0)
    assert trend.change == pytest.approx(0.3)
    assert trend.stderr == pytest.approx(0.03 * math.sqrt(2))
    assert trend.num_budgets == 4
    assert trend.clear
    # 1 - 6 * (0 + 1 + 1 + 0) / (4 * 15)
    assert nfe_trend((1, 2, 3, 4), scores(1, 3, 2, 4)).rho == pytest.approx(0.8)


def test_a_change_within_two_combined_errors_is_not_clear():
    assert nfe_trend((1, 2), scores(0.0, 0.29, stderr=0.1)).clear
    assert not nfe_trend((1, 2), scores(0.0, 0.28, stderr=0.1)).clear
    assert not nfe_trend((1, 2), scores(0.0, 9.0, stderr=None)).clear


def test_budgets_that_end_at_one_nfe_are_one_run():
    # Without remasking 40 tokens take 40 forwards at 40, 80 and 160 nominal steps.
    trend = nfe_trend((10, 20, 40, 40, 40), scores(5, 4, 3, 3, 3))
    assert trend.num_budgets == 3
    assert trend.rho == pytest.approx(-1.0)
    assert nfe_trend((40, 40, 40), scores(3, 3, 3)).rho is None


def test_no_trend_without_three_budgets_values_or_movement():
    assert nfe_trend((1, 2), scores(1, 2)).rho is None
    assert nfe_trend((1, 2, 3), scores(1, None, 2)).rho is None
    assert nfe_trend((1, 2, 3), scores(1, None, 2)).change == 1
    assert nfe_trend((1, 2, 3), scores(2, 2, 2)).rho is None
    lost = nfe_trend((1, 2, 3), scores(None, 1, 2))
    assert (lost.change, lost.stderr, lost.clear) == (None, None, False)


UP, DOWN = (0.2, 0.3, 0.4, 0.5), (40, 30, 20, 10)


@pytest.mark.parametrize(
    ("self_bleu", "gen_ppl", "h_uni", "alike", "narrows"),
    [
        (UP, DOWN, (3.0, 2.9, 2.8, 2.7), True, True),
        (UP, DOWN[::-1], (2.7, 2.8, 2.9, 3.0), False, False),
        (UP[::-1], DOWN, (3.0, 2.9, 2.8, 2.7), False, True),
        (UP, DOWN, (2.7, 2.8, 2.9, 3.0), True, False),
    ],
)
def test_flags_follow_the_signs(self_bleu, gen_ppl, h_uni, alike, narrows):
    found = flags(self_bleu, gen_ppl, h_uni)
    assert (found.alike, found.narrows) == (alike, narrows)
    assert found.gen_ppl.rho == pytest.approx(-1.0 if gen_ppl[0] > gen_ppl[-1] else 1.0)
    assert found.loops is None  # repetition does not move


@pytest.mark.parametrize(
    ("repetition", "gen_ppl", "loops"),
    [(UP, DOWN, True), (UP, DOWN[::-1], False), (UP[::-1], DOWN, False)],
)
def test_loops_are_seen_where_words_and_samples_still_differ(repetition, gen_ppl, loops):
    found = flags(UP[::-1], gen_ppl, UP, repetition)
    assert (found.alike, found.narrows, found.loops) == (False, False, loops)


def test_undecided_flags_are_none_not_false():
    found = flags((0.2, 0.3), (40, 30), (3.0, 2.9), (0.1, 0.2), nfe=(10, 20))
    assert (found.alike, found.narrows, found.loops) == (None, None, None)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="2 NFE for 1 scores"):
        nfe_trend((1, 2), scores(1))
    with pytest.raises(InputError, match="0 NFE for 0 scores"):
        nfe_trend((), [])
    with pytest.raises(InputError, match="every budget needs its counted forwards"):
        nfe_trend((1, math.nan), scores(1, 2))


def test_sentences_say_what_is_raised_and_whether_it_is_noise():
    found = {
        "none": flags(UP[::-1], DOWN, UP, UP),
        "random": flags(UP[::-1], DOWN, UP, UP[::-1]),
        "short": flags((0.2, 0.3), (40, 30), (3.0, 2.9), (0.1, 0.2), nfe=(10, 20)),
    }
    noisy = found["none"]._replace(gen_ppl=nfe_trend((10, 20, 40), scores(4, 3, 2, stderr=9)))
    assert collapse_findings(found | {"noisy": noisy}) == [
        "none: with more forwards repetition inside a sample rises while gen-PPL falls (clear).",
        "random: none of the three flags of collapse is raised along NFE.",
        "short: fewer than three budgets of different NFE, so no trend is read off them.",
        "noisy: with more forwards repetition inside a sample rises while gen-PPL falls"
        " (within noise).",
    ]
    (row, *_) = collapse_table(found).rows
    assert [entry.text for entry in row.entries[1:4]] == ["no", "no", "yes, clear"]
