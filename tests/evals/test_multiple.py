"""Holm's correction by hand and by simulation."""

import itertools

import numpy as np
import pytest

from dlmeval.evals import InputError, holm


def test_holm_by_hand():
    # Sorted .01 .02 .03 .5 times 4 3 2 1, each at least the one before.
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.4, 0.3]) == pytest.approx([0.6, 0.6])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]


def test_the_order_of_the_family_does_not_matter():
    values = [0.2, 0.001, 0.04, 0.04]
    adjusted = dict(zip(values, holm(values)))
    for order in itertools.permutations(values):
        assert holm(order) == pytest.approx([adjusted[p] for p in order])


def test_a_test_without_p_counts_but_gets_none():
    assert holm([0.01, None, 0.02]) == [pytest.approx(0.03), None, pytest.approx(0.04)]
    assert holm([None]) == [None]


def test_false_claims_stay_below_alpha():
    """Ten true nulls that share half of their noise: any claim at all in at most 5 % of runs."""
    rng = np.random.default_rng(0)
    ranks = rng.random((4_000, 10))
    ranks[:, 5:] = ranks[:, :5]
    claims = [min(holm(row)) <= 0.05 for row in ranks.tolist()]
    assert np.mean(claims) <= 0.05


@pytest.mark.parametrize(
    ("values", "match"),
    [([], "empty"), ([0.1, 1.2], r"p_values\[1\]"), ([-0.1], "-0.1"), ([float("nan")], "nan")],
)
def test_bad_families_are_refused(values, match):
    with pytest.raises(InputError, match=match):
        holm(values)


@pytest.mark.parametrize("values", [None, ["0.01"], [True], [1j], [[0.1]]])
def test_p_values_that_are_no_numbers_are_refused(values):
    with pytest.raises(InputError):
        holm(values)
