"""Rank intervals: all resamples by hand, separation, joint resampling, refusals."""

import itertools
import math

import numpy as np
import pytest

from dlmeval.evals import InputError, mean_rank, rank_intervals

WAYS = {"mauve": "up", "jcd": "down"}
TABLE = {
    "a": {"mauve": [0.90, 0.80, 0.95], "jcd": [0.1, 0.2, 0.1]},
    "b": {"mauve": [0.85, 0.90, 0.80], "jcd": [0.3, 0.1, 0.2]},
    "c": {"mauve": [0.10, 0.20, 0.15], "jcd": [0.9, 0.8, 0.7]},
}


def every_resample(table, ways):
    """Mean ranks of each of the n^n resamples of the seeds."""
    n = len(next(iter(next(iter(table.values())).values())))
    found = []
    for pick in itertools.product(range(n), repeat=n):
        means = {
            bank: {column: math.fsum(values[i] for i in pick) / n for column, values in row.items()}
            for bank, row in table.items()
        }
        found.append(mean_rank(means, ways))
    return found


def test_three_seeds_are_enumerated():
    found = rank_intervals(TABLE, WAYS)
    drawn = every_resample(TABLE, WAYS)
    for bank, interval in found.ranks.items():
        ranks = sorted(ranks[bank] for ranks in drawn)
        # 27 resamples: a quantile of 2.5 % is the first, of 97.5 % the last.
        assert interval[1:] == pytest.approx((ranks[0], ranks[-1]))
        assert interval.low <= interval.mean_rank <= interval.high
    centre = {b: {c: float(np.mean(v)) for c, v in row.items()} for b, row in TABLE.items()}
    assert {b: x.mean_rank for b, x in found.ranks.items()} == mean_rank(centre, WAYS)


def test_only_what_seeds_disagree_on_is_not_separated():
    assert rank_intervals(TABLE, WAYS).not_separated == (("a", "b"),)
    assert rank_intervals(TABLE, WAYS).ranks["c"] == (3.0, 3.0, 3.0)


def test_the_pair_mark_is_the_interval_of_the_difference():
    rng = np.random.default_rng(0)
    for _ in range(10):
        table = {
            bank: {c: (rng.normal(size=4) + i).tolist() for c in WAYS}
            for i, bank in enumerate("abcd")
        }
        marked = {frozenset(pair) for pair in rank_intervals(table, WAYS).not_separated}
        drawn = every_resample(table, WAYS)
        for a, b in itertools.combinations("abcd", 2):
            gaps = np.quantile(
                [ranks[a] - ranks[b] for ranks in drawn], [0.025, 0.975], method="inverted_cdf"
            )
            assert (frozenset((a, b)) in marked) == (gaps[0] <= 0 <= gaps[1])


def test_seeds_are_resampled_jointly():
    """A seed that is bad for all leaves the order alone."""
    luck = np.array([5.0, -4.0, 30.0, 0.0])
    table = {bank: {"jcd": (luck + i / 10).tolist()} for i, bank in enumerate("abc")}
    found = rank_intervals(table, {"jcd": "down"})
    assert found.not_separated == ()
    assert [x[1:] for x in found.ranks.values()] == [(1, 1), (2, 2), (3, 3)]


def test_equal_banks_share_their_rank_and_are_not_separated():
    table = {**TABLE, "d": TABLE["c"]}
    found = rank_intervals(table, WAYS)
    assert found.ranks["c"] == found.ranks["d"] == (3.5, 3.5, 3.5)
    assert ("c", "d") in found.not_separated


def test_many_rows_are_drawn_at_random():
    rng = np.random.default_rng(1)
    table = {
        b: {"m": rng.normal(size=60) + shift} for b, shift in (("a", 0), ("b", 0.02), ("c", 2))
    }
    found = rank_intervals(table, {"m": "up"}, num_resamples=500, seed=2)
    assert found == rank_intervals(table, {"m": "up"}, num_resamples=500, seed=2)
    assert found.ranks["c"] == (1.0, 1.0, 1.0)
    assert [set(pair) for pair in found.not_separated] == [{"a", "b"}]


def test_columns_without_a_direction_are_ignored():
    table = {b: {**row, "extra": [math.nan]} for b, row in TABLE.items()}
    assert rank_intervals(table, WAYS) == rank_intervals(TABLE, WAYS)


@pytest.mark.parametrize(
    ("change", "ways", "match"),
    [
        ({"b": {"mauve": [0.1, 0.2, 0.3]}}, WAYS, r"table\['b'\]\['jcd'\] is missing"),
        ({"b": {"mauve": [0.1] * 3, "jcd": [0.1] * 2}}, WAYS, "has 2 seeds"),
        ({"b": {"mauve": [0.1] * 3, "jcd": [0.1, math.nan, 1]}}, WAYS, "nan"),
        ({b: {"mauve": [0.1], "jcd": [0.1]} for b in TABLE}, WAYS, "at least 2"),
        ({}, {"mauve": "higher", "jcd": "down"}, "higher"),
        ({}, {}, "one column"),
    ],
)
def test_bad_tables_are_refused(change, ways, match):
    with pytest.raises(ValueError, match=match):
        rank_intervals({**TABLE, **change}, ways)


def test_one_bank_has_no_rank():
    with pytest.raises(InputError, match="two banks"):
        rank_intervals({"a": TABLE["a"]}, WAYS)
    with pytest.raises(InputError, match="level"):
        rank_intervals(TABLE, WAYS, level=1.0)


def test_a_tie_up_to_rounding_is_a_tie_in_the_rank_and_its_interval():
    found = rank_intervals(
        {"a": {"mauve": [0.3, 0.6]}, "b": {"mauve": [0.1 + 0.2, 0.6]}}, {"mauve": "up"}
    )
    assert [tuple(interval) for interval in found.ranks.values()] == [(1.5, 1.5, 1.5)] * 2
    assert found.not_separated == (("a", "b"),)
