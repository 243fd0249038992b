"""Ratings: the goldens of the specification, closed forms, an independent fit, refusals."""

import itertools
import math

import numpy as np
import pytest

from dlmeval.evals import InputError, Match, bradley_terry, elo_ratings, elo_spread

GOLDEN = (Match("a", "b", 1), Match("b", "c", 0.5), Match("a", "c", 1), Match("c", "a", 1))


def test_the_golden_ladder():
    found = elo_ratings(GOLDEN)
    assert found.ratings == {
        "a": pytest.approx(1513.069674, abs=1e-6),
        "b": pytest.approx(1484.736307, abs=1e-6),
        "c": pytest.approx(1502.194020, abs=1e-6),
    }
    assert found.trace[0].after == (1516.0, 1484.0)
    assert found.trace[0].before == (1500.0, 1500.0)
    assert [step.index for step in found.trace] == [0, 1, 2, 3]
    assert found.num_matches == {"a": 3, "b": 2, "c": 3}


def test_ties_between_equals_change_nothing_and_skips_are_not_counted():
    ties = [Match(a, b, 0.5) for a, b in itertools.combinations("abcd", 2)]
    assert set(elo_ratings(ties).ratings.values()) == {1500.0}
    skips = [Match("a", "b", None), GOLDEN[0], Match("c", "a", None), *GOLDEN[1:]]
    found = elo_ratings(skips)
    assert found.ratings == elo_ratings(GOLDEN).ratings
    assert found.num_matches == elo_ratings(GOLDEN).num_matches
    assert [step.index for step in found.trace] == [1, 3, 4, 5]
    # Who was only ever skipped has no rating.
    assert "z" not in elo_ratings([*GOLDEN, Match("a", "z", None)]).ratings


def random_matches(rng, names="abcde", count=60):
    pairs = [rng.choice(list(names), 2, replace=False) for _ in range(count)]
    return [Match(str(a), str(b), float(rng.choice([0, 0.5, 1]))) for a, b in pairs]


def test_what_one_gains_the_other_loses():
    rng = np.random.default_rng(0)
    for _ in range(20):
        found = elo_ratings(random_matches(rng), k=24.0, initial=1000.0)
        assert np.mean(list(found.ratings.values())) == pytest.approx(1000.0, abs=1e-9)
        for step in found.trace:
            assert sum(step.after) == pytest.approx(sum(step.before), abs=1e-9)


def test_order_matters_to_elo_and_the_spread_says_how_much():
    turned = elo_ratings(GOLDEN[::-1]).ratings
    assert turned["a"] != elo_ratings(GOLDEN).ratings["a"]
    spread = elo_spread(GOLDEN, num_orders=50)
    assert spread == elo_spread(GOLDEN, num_orders=50)
    every = [elo_ratings(order).ratings["a"] for order in itertools.permutations(GOLDEN)]
    assert min(every) <= spread["a"].mean <= max(every)
    assert 0 < spread["a"].deviation < max(every) - min(every)
    assert sum(s.mean for s in spread.values()) == pytest.approx(4500.0)
    alone = elo_spread([GOLDEN[0]])
    assert alone["a"] == (1516.0, 0.0, 200)


def test_two_sources_have_the_odds_of_their_wins():
    matches = [Match("a", "b", 1)] * 9 + [Match("b", "a", 1)] * 2 + [Match("a", "b", 0.5)] * 2
    found = bradley_terry(matches).ratings
    assert found["a"] - found["b"] == pytest.approx(400.0 * math.log10(10 / 3), abs=1e-6)
    assert found["a"] + found["b"] == pytest.approx(3000.0, abs=1e-9)


def test_the_fit_is_that_of_the_minorisation_algorithm_in_any_order():
    rng = np.random.default_rng(1)
    matches = random_matches(rng, count=120)
    names = sorted({name for m in matches for name in m[:2]})
    wins = np.zeros((5, 5))
    for a, b, score in matches:
        wins[names.index(a), names.index(b)] += score
        wins[names.index(b), names.index(a)] += 1 - score
    strength = np.ones(5)
    for _ in range(20_000):  # Hunter (2004), equation 3
        pairs = (wins + wins.T) / (strength[:, None] + strength[None, :])
        strength = wins.sum(axis=1) / pairs.sum(axis=1)
        strength /= np.exp(np.log(strength).mean())
    expected = 1500.0 + 400.0 * np.log10(strength)
    for order in (matches, matches[::-1]):
        found = bradley_terry(order)
        assert [found.ratings[n] for n in names] == pytest.approx(expected, abs=1e-4)
        assert found.trace == ()


def test_the_fit_depends_on_shares_of_wins_alone():
    matches = random_matches(np.random.default_rng(2))
    once, often = bradley_terry(matches), bradley_terry(matches * 1000)
    assert often.ratings == pytest.approx(once.ratings, abs=1e-6)
    assert often.num_matches == {name: 1000 * n for name, n in once.num_matches.items()}
    rare = bradley_terry([Match("a", "b", 1)] * 99_999 + [Match("b", "a", 1)]).ratings
    assert rare["a"] - rare["b"] == pytest.approx(400.0 * math.log10(99_999), abs=1e-3)


def test_a_cycle_of_wins_is_even():
    cycle = [Match("a", "b", 1), Match("b", "c", 1), Match("c", "a", 1)]
    assert list(bradley_terry(cycle).ratings.values()) == pytest.approx([1500.0] * 3)


def test_who_never_loses_has_no_finite_strength():
    with pytest.raises(InputError, match=r"^a are not joined with the other sources"):
        bradley_terry([Match("a", "b", 1), Match("b", "c", 0.5)])
    chain = [Match(f"s{i}", f"s{i + 1}", 0.5) for i in range(20)]
    ends = [Match("s0", f"t{i}", 1) for i in range(10)] + [
        Match("t0", f"t{i}", 0.5) for i in (1, 2)
    ]
    ends += [Match(f"t{i}", f"t{i + 1}", 0.5) for i in range(9)]
    with pytest.raises(InputError, match=r"^t0, t1, t2, t3, t4, t5, t6, t7 and 2 more are not"):
        bradley_terry([*chain, *ends])
    with pytest.raises(InputError, match="a, b are not joined"):
        bradley_terry([Match("a", "b", 0.5), Match("c", "d", 0.5)])


@pytest.mark.parametrize("rate", [elo_ratings, bradley_terry, elo_spread])
@pytest.mark.parametrize(
    ("matches", "message"),
    [
        ([], "none of 0 matches counts"),
        ([Match("a", "b", None)], "none of 1 matches counts"),
        ([Match("a", "b", 0.7)], r"matches\[0\] has score 0.7; accepted: 1, 0.5, 0 or None"),
        ([GOLDEN[0], Match("a", "b", math.nan)], r"matches\[1\] has score nan"),
        ([Match("a", "a", 1)], "'a' with itself"),
        ([Match("a", 3, 1)], "give names"),
    ],
)
def test_bad_matches_are_named(rate, matches, message):
    with pytest.raises(InputError, match=message):
        rate(matches)


def test_bad_settings_are_refused():
    for settings in ({"k": 0}, {"k": math.nan}, {"initial": None}):
        with pytest.raises(InputError, match="accepted: numbers, k above 0"):
            elo_ratings(GOLDEN, **settings)
    with pytest.raises(InputError, match="num_orders"):
        elo_spread(GOLDEN, num_orders=0)
