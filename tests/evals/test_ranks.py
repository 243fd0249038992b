"""Mean ranks by hand, Spearman against scipy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dlmeval.evals import InputError, mean_rank, spearman

TABLE = {
    "a": {"mauve": 0.9, "jcd": 0.1},
    "b": {"mauve": 0.9, "jcd": 0.3},
    "c": {"mauve": 0.1, "jcd": 0.2},
}
DIRECTIONS = {"mauve": "up", "jcd": "down"}


def test_ties_share_their_average_rank():
    assert mean_rank(TABLE, DIRECTIONS) == {"a": 1.25, "b": 2.25, "c": 2.5}


def test_a_bank_without_a_column_has_no_mean():
    table = {**TABLE, "b": {"mauve": 0.9}}
    ranks = mean_rank(table, DIRECTIONS)
    assert math.isnan(ranks["b"])
    assert (ranks["a"], ranks["c"]) == (1.25, 2.5)


def test_last_of_sixteen_in_every_column_has_mean_rank_sixteen():
    columns = {f"m{i}": "down" for i in range(6)}
    table = {str(b): {column: float(b) for column in columns} for b in range(16)}
    ranks = mean_rank(table, columns)
    assert ranks["15"] == 16.0
    assert ranks["11"] == 12.0


def test_ranks_do_not_depend_on_monotone_scales():
    bent = {b: {c: math.exp(3 * v) for c, v in row.items()} for b, row in TABLE.items()}
    assert mean_rank(bent, DIRECTIONS) == mean_rank(TABLE, DIRECTIONS)


@pytest.mark.parametrize(
    ("table", "directions", "match"),
    [
        ({}, DIRECTIONS, "table"),
        (TABLE, {}, "directions"),
        (TABLE, {"mauve": "higher"}, "higher"),
        ({"a": {"mauve": math.inf}}, {"mauve": "up"}, "infinite"),
    ],
)
def test_bad_tables_are_refused(table, directions, match):
    with pytest.raises(ValueError, match=match):
        mean_rank(table, directions)


def test_golden_spearman():
    assert spearman([1, 2, 2, 4], [1, 3, 2, 4]) == pytest.approx(0.9486832980505139, rel=1e-12)


def test_spearman_without_ties_is_a_sum_of_squared_differences():
    x, y = np.arange(12), np.array([1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10])
    assert spearman(x, y) == pytest.approx(1 - ((x - y) ** 2).sum() / 286, rel=1e-12)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=20))
def test_spearman_agrees_with_scipy(pairs):
    x, y = np.array(pairs).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert math.isnan(spearman(x, y))
    else:
        assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


def test_too_few_values_have_no_correlation():
    assert math.isnan(spearman([1, 2], [2, 1]))


@pytest.mark.parametrize(("x", "y"), [([1, 2, 3], [1, 2]), ([[1]], [[1]])])
def test_shapes_that_differ_are_refused(x, y):
    with pytest.raises(ValueError, match="shapes"):
        spearman(x, y)


def test_nan_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        spearman([1, 2, math.nan], [1, 2, 3])


def test_infinite_values_have_a_rank_and_equal_ones_no_correlation():
    assert spearman([math.inf, 1.0, 2.0], [3.0, 1.0, 2.0]) == 1
    assert math.isnan(spearman([math.inf] * 3, [1.0, 2.0, 3.0]))


@pytest.mark.parametrize("value", [None, "0.5", -math.inf, 10**400, True])
def test_values_that_are_no_numbers_are_refused_by_place(value):
    with pytest.raises(InputError, match=r"table\['a'\]\['mauve'\]"):
        mean_rank({"a": {"mauve": value}, "b": {"mauve": 1.0}}, {"mauve": "up"})
