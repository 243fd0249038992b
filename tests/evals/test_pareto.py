"""Dominated points: hand examples, a brute-force oracle, invariances, noise, bad input."""

import itertools

import numpy as np
import pytest

from dlmeval.evals.errors import InputError
from dlmeval.evals.statistics.pareto import clear_dominators, dominators, non_dominated

WAYS = ("down", "up")  # perplexity and MAUVE


def slow_dominators(points, directions):
    """The definition, pair by pair."""
    found = np.zeros((len(points), len(points)), bool)
    for i, j in itertools.product(range(len(points)), repeat=2):
        gains = [
            (q - p) if way == "up" else (p - q)
            for p, q, way in zip(points[i], points[j], directions, strict=True)
        ]
        found[i, j] = min(gains) >= 0 and max(gains) > 0
    return found


def test_a_hand_example():
    # (PPL, MAUVE): the second beats the third in both, the fourth only ties with the first.
    points = [(10, 0.5), (20, 0.9), (25, 0.8), (10, 0.4), (30, 0.95)]
    above = dominators(points, WAYS)
    assert np.argwhere(above).tolist() == [[2, 1], [3, 0]]
    assert non_dominated(points, WAYS).tolist() == [True, True, False, False, True]


def test_equal_points_do_not_dominate_each_other():
    points = [(1, 1), (1, 1), (2, 0)]
    assert non_dominated(points, WAYS).tolist() == [True, True, False]
    assert not dominators(points, WAYS)[:2, :2].any()


@pytest.mark.parametrize("directions", [("up", "up"), WAYS, ("down", "down", "up")])
def test_the_definition_on_points_with_ties(directions):
    rng = np.random.default_rng(0)
    points = rng.integers(0, 4, (30, len(directions)))
    np.testing.assert_array_equal(
        dominators(points, directions), slow_dominators(points, directions)
    )


def test_the_relation_is_a_strict_order_and_every_dominated_point_has_one_on_the_frontier():
    points = np.random.default_rng(1).integers(0, 5, (40, 2))
    above, edge = dominators(points, WAYS), non_dominated(points, WAYS)
    assert not (above & above.T).any()
    assert not (above @ above & ~above).any()  # transitive
    assert edge.any()
    assert (above[~edge][:, edge]).any(axis=1).all()


def test_monotone_scales_and_the_order_of_points_change_nothing():
    points = np.random.default_rng(2).uniform(1, 9, (25, 2))
    edge = non_dominated(points, WAYS)
    np.testing.assert_array_equal(edge, non_dominated(np.log(points), WAYS))
    order = np.random.default_rng(3).permutation(25)
    np.testing.assert_array_equal(edge[order], non_dominated(points[order], WAYS))
    turned = points * np.array([-1.0, -1.0])
    np.testing.assert_array_equal(edge, non_dominated(turned, ("up", "down")))


def test_one_metric_leaves_its_best_and_no_points_leave_none():
    assert non_dominated([[3], [1], [1], [2]], ("down",)).tolist() == [False, True, True, False]
    assert non_dominated(np.empty((0, 2)), WAYS).shape == (0,)


def test_clear_means_two_combined_errors_in_every_metric():
    points = [(10.0, 0.5), (8.0, 0.6)]
    # Ahead by 2 in perplexity and 0.1 in MAUVE: sqrt(2) * 0.7 = 0.99 and sqrt(2) * 0.035 = 0.0495.
    assert clear_dominators(points, [(0.7, 0.035)] * 2, WAYS)[0, 1]
    assert not clear_dominators(points, [(0.75, 0.035)] * 2, WAYS).any()
    assert not clear_dominators(points, [(0.7, 0.036)] * 2, WAYS).any()
    assert clear_dominators(points, [(0.75, 0.036)] * 2, WAYS, margin=1.0)[0, 1]
    # Without noise clear dominance is to be better everywhere, so a tie is never clear.
    zeros = np.zeros((3, 2))
    assert clear_dominators([(1, 1), (2, 1), (2, 0)], zeros, WAYS).sum() == 1


def test_clear_dominance_implies_dominance():
    rng = np.random.default_rng(4)
    points, errors = rng.normal(size=(30, 2)), rng.uniform(0, 0.3, (30, 2))
    clear = clear_dominators(points, errors, WAYS)
    assert clear.any()
    assert not (clear & ~dominators(points, WAYS)).any()


@pytest.mark.parametrize(
    ("points", "directions", "message"),
    [
        ([1.0, 2.0], WAYS, r"points has shape \[2\]"),
        ([[1.0, 2.0, 3.0]], WAYS, r"shape \[1, 3\] for 2 directions"),
        ([[1.0, np.nan]], WAYS, "NaN or infinity; leave out"),
        ([[1.0, np.inf]], WAYS, "NaN or infinity"),
        ([[1.0, 2.0]], ("up", "better"), "'better'; accepted: up, down"),
        (np.empty((2, 0)), (), "0 directions"),
    ],
)
def test_bad_points_are_refused(points, directions, message):
    with pytest.raises(InputError, match=message):
        non_dominated(points, directions)


@pytest.mark.parametrize("stderr", [[[0.1]], [[0.1, -0.1]], [[0.1, np.nan]]])
def test_bad_errors_are_refused(stderr):
    with pytest.raises(InputError, match="stderr has shape"):
        clear_dominators([[1.0, 2.0]], stderr, WAYS)
