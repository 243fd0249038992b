"""Numbers of recorded unmaskings: the golden count, hand-made canvases, missing parts."""

import numpy as np
import pytest

from dlmeval import samplers
from dlmeval.evals.errors import InputError
from dlmeval.evals.scoring.churn import churn_scores, step_rates

MASK = 9


def history(*samples, notes=None):
    """A history from one list of rows a sample; "." is a mask, digits are tokens."""
    rows = [[[MASK if c == "." else int(c) for c in row] for row in sample] for sample in samples]
    return samplers.History(np.array(rows, np.int32).transpose(1, 0, 2), MASK, notes)


def test_one_token_a_step_is_never_taken_back_and_gives_the_golden_stable_count():
    # CaRE's Fig. 4: 1 + sum of j - 1 for j = 2..128; care.md section 7.
    length = 128
    canvas = np.where(np.tri(length, dtype=bool), 1, MASK)[:, None].repeat(2, axis=1)
    found = churn_scores(samplers.History(canvas, MASK))
    assert found["replacement_rate"].value == 0.0
    assert found["replacement_rate"].stderr == 0.0
    assert found["stable_cells"].value == 8129
    assert found["never_settled"].value == 1
    assert found["recommit_change"].value is None
    assert found["recommit_change"].reason == "no token was taken back"
    rates = step_rates(samplers.History(canvas, MASK))
    assert not rates.mean.any()
    assert rates.step.tolist() == list(range(2, length + 1))


def test_hand_made_canvases():
    # First sample: 1 position put back at step 3 of 4, decided again as another token at step 4.
    # Second: nothing is taken back.
    found = history(("1...", "12..", "1.3.", "1435"), ("1...", "12..", "123.", "1234"))
    rates = step_rates(found)
    np.testing.assert_allclose(rates.mean, [0, 1 / 8, 0])
    # Samples 1/4 and 0: standard deviation 0.25 / sqrt(2), over sqrt(2).
    np.testing.assert_allclose(rates.stderr, [0, 1 / 8, 0])
    assert rates.n == 2
    numbers = churn_scores(found)
    assert numbers["replacement_rate"].value == pytest.approx(1 / 24)
    assert numbers["replacement_rate"].stderr == pytest.approx(1 / 24)
    assert numbers["replacement_rate"].n == 2
    assert numbers["recommit_change"].value == 1.0
    assert numbers["recommit_change"].n == 1
    assert numbers["recommit_change"].stderr is None
    # By step 1 + 1 + 1 + 2 and 1 + 1 + 2 + 3.
    assert numbers["stable_cells"].value == pytest.approx((5 + 7) / 2)
    assert numbers["never_settled"].value == pytest.approx((2 + 1) / 2)
    assert numbers["replacement_rate"].signature.startswith(
        "replacement_rate|steps:4|positions:4|n:2|v:"
    )


def test_the_mean_over_steps_is_the_replacement_rate():
    canvas = np.random.default_rng(0).integers(0, MASK + 1, (7, 5, 6))
    found = samplers.History(canvas, MASK)
    rate = churn_scores(found)["replacement_rate"]
    assert rate.value == pytest.approx(step_rates(found).mean.mean())
    assert rate.n == 5


def test_tie_rates_come_from_notes_or_say_why_not():
    plain = churn_scores(history(("1.", "12")))
    assert plain["tie_rate"].reason == "the sampler takes no notes of its steps"
    zeros = np.zeros((2, 1))
    notes = samplers.StepNotes(
        **{
            name: np.array([[True], [False]]) if name == "tied" else zeros + 1
            for name in samplers.StepNotes._fields
        }
    )
    assert churn_scores(history(("1.", "12"), notes=notes))["tie_rate"].value == 0.5


def test_one_sample_has_no_standard_error():
    found = history(("1.", ".2"))
    assert churn_scores(found)["replacement_rate"].stderr is None
    assert step_rates(found).stderr.tolist() == [0.0]


def test_one_canvas_is_refused():
    for read in (churn_scores, step_rates):
        with pytest.raises(InputError, match="--num_steps of 2 or more"):
            read(history(("12",)))
