"""Paired tests: the spec's goldens, closed forms, every sign pattern by hand, refusals."""

import itertools
import math

import numpy as np
import pytest

from dlmeval.evals import InputError, paired_test, paired_values, sign_flip_test

# Arms of golden G4.
NONE = (0.9851, 0.9124, 0.9465)
ENTROPY = (0.6061, 0.6578, 0.6921)


def test_golden_g1_prints_as_published():
    found = paired_test((0.22334, 0.29600, 0.36866), (0, 0, 0))
    assert found.mean == pytest.approx(0.296, abs=5e-6)
    assert found.stderr == pytest.approx(0.04195, abs=5e-6)
    assert found.t == pytest.approx(7.056, abs=5e-4)
    assert found.p == pytest.approx(0.01950, abs=5e-6)
    assert found.df == 2
    assert found.reason is None


@pytest.mark.parametrize(
    ("differences", "mean", "stderr", "t", "p"),
    [
        ((0.2429, 0.2663, 0.3788), 0.2960, 0.04195, 7.056, 0.0195),
        ((0.243, 0.289, 0.356), 0.296, 0.03281, 9.022, 0.01206),
        ((0.2338, 0.2794, 0.3763), 0.2965, 0.0420, 7.056, 0.0195),
    ],
    ids=["G2", "G3", "G5"],
)
def test_goldens_of_differences(differences, mean, stderr, t, p):
    found = paired_test(differences, np.zeros(3))
    assert found.mean == pytest.approx(mean, abs=5e-5)
    assert found.stderr == pytest.approx(stderr, abs=5e-5)
    assert found.t == pytest.approx(t, abs=2e-3)
    assert found.p == pytest.approx(p, abs=5e-5)


def test_golden_g4_from_its_arms():
    found = paired_test(NONE, ENTROPY)
    assert (round(found.mean, 3), round(found.stderr, 4)) == (0.296, 0.0415)
    # An arm against nothing has its own standard error.
    own = [paired_test(arm, (0, 0, 0)) for arm in (NONE, ENTROPY)]
    assert [(round(x.mean, 3), round(x.stderr, 3)) for x in own] == [(0.948, 0.021), (0.652, 0.025)]


def test_two_degrees_of_freedom_have_a_closed_form():
    found = paired_test((1.0, 2.5, 2.0), (0.5, 0.1, 1.0))
    assert found.p == pytest.approx(1 - found.t / math.sqrt(2 + found.t**2), rel=1e-12)


def test_swapping_arms_turns_the_sign_and_nothing_else():
    there, back = paired_test(NONE, ENTROPY), paired_test(ENTROPY, NONE)
    assert (back.mean, back.t) == (-there.mean, -there.t)
    assert (back.stderr, back.p) == (there.stderr, there.p)


def test_a_shared_seed_effect_cancels():
    shift = np.array([100.0, -3.0, 7.0])
    moved = paired_test(np.add(NONE, shift), np.add(ENTROPY, shift))
    np.testing.assert_allclose(moved, paired_test(NONE, ENTROPY), rtol=1e-10)


@pytest.mark.parametrize("a", [(0.3, 0.2, 0.1), (0.2, 0.1, 0.0)])
def test_equal_differences_have_no_p(a):
    # 0.3 - 0.2 and 0.2 - 0.1 differ in the last bit: that is not a spread.
    found = paired_test(a, (0.2, 0.1, 0.0))
    assert (found.stderr, found.t, found.p) == (0.0, None, None)
    assert found.mean == pytest.approx(a[0] - 0.2)
    assert "all 3 differences are equal" in found.reason


def brute_force(differences):
    means = [
        abs(np.dot(s, differences)) for s in itertools.product((-1, 1), repeat=len(differences))
    ]
    return np.mean(np.array(means) >= abs(sum(differences)) - 1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10])
def test_every_sign_pattern_is_counted(n):
    rng = np.random.default_rng(n)
    for differences in (rng.normal(size=n) + 0.5, rng.integers(-2, 4, n).astype(float)):
        found = sign_flip_test(differences)
        assert found.p == pytest.approx(brute_force(differences), rel=1e-12)
        assert (found.num_flips, found.exact) == (2**n, True)


def test_three_seeds_never_reach_five_percent():
    assert sign_flip_test((0.3, 0.3, 0.3)).p == 0.25
    assert sign_flip_test((0.0, 0.0)).p == 1.0


def test_many_differences_flip_at_random_and_agree_with_the_normal_law():
    differences = np.random.default_rng(5).normal(size=400) + 0.08
    found = sign_flip_test(differences, num_flips=20_000, seed=1)
    assert not found.exact
    assert found.p == sign_flip_test(differences, num_flips=20_000, seed=1).p
    assert found.p == pytest.approx(paired_test(differences, np.zeros(400)).p, abs=0.015)


def test_arms_are_paired_by_key_and_not_by_order():
    a, b = paired_values({1: 0.1, 2: 0.2, 3: 0.3}, {3: 30.0, 1: 10.0, 2: 20.0})
    assert (a.tolist(), b.tolist()) == ([0.1, 0.2, 0.3], [10.0, 20.0, 30.0])


@pytest.mark.parametrize(
    ("a", "b", "match"),
    [
        (None, {1: 0.1}, "none@256 has no values"),
        ({1: 0.1}, {}, "entropy@256 has no values"),
        ({1: 0.1, 2: 0.2}, {1: 0.1}, "only none@256 has 2"),
        ({1: 0.1}, {1: 0.1, 7: 0.1}, "only entropy@256 has 7"),
        ({(1, "p0"): 0.1}, {(1, "p1"): 0.1}, "same seeds and prefixes"),
        ({1: 0.1}, {1: None}, "entropy@256 has no value at 1"),
        ({1: math.nan}, {1: 0.1}, r"none@256\[0\] is nan"),
    ],
)
def test_unpaired_arms_are_refused(a, b, match):
    with pytest.raises(InputError, match=match):
        paired_values(a, b, names=("none@256", "entropy@256"))


@pytest.mark.parametrize(
    ("a", "b", "match"),
    [
        (None, (1, 2), "a is missing"),
        ((1, 2, 3), (1, 2), "a has 3 values, b has 2"),
        ((1,), (2,), "at least 2"),
        ((), (), "at least 2"),
        ((1, math.nan), (1, 2), r"a\[1\] is nan"),
        ((1, 2), (math.inf, 2), r"b\[0\] is inf"),
        ([[1, 2]], [[1, 2]], "shape"),
        (("x", "y"), (1, 2), "numbers"),
        ((1, None), (1, 2), r"a\[1\] is nan"),
    ],
)
def test_bad_arms_are_refused(a, b, match):
    with pytest.raises(ValueError, match=match):
        paired_test(a, b)


def test_bad_differences_are_refused():
    with pytest.raises(InputError, match="at least 1"):
        sign_flip_test(())
    with pytest.raises(InputError, match="num_flips"):
        sign_flip_test(np.arange(50.0), num_flips=0)


def test_a_masked_value_is_missing_and_not_what_lies_under_the_mask():
    arm = np.ma.masked_array([0.5, 0.6, 0.7], [False, True, False])
    with pytest.raises(InputError, match=r"a\[1\] is nan"):
        paired_test(arm, [0.1, 0.2, 0.3])


@pytest.mark.parametrize("odd", [[0.1, 0.2, 10**400], [1e308, -1e308, 1e308], ["a", 1, 2], 5.0])
def test_numbers_that_overflow_or_are_none_are_refused(odd):
    for arms in ((odd, [0.1, 0.2, 0.3]), ([0.1, 0.2, 0.3], odd)):
        with pytest.raises(InputError):
            paired_test(*arms)


def test_arms_without_keys_are_not_paired():
    with pytest.raises(InputError, match="b is a list; it must be a mapping"):
        paired_values({1: 0.5}, [0.5])


@pytest.mark.parametrize("seed", [None, -1, 1.5, "1"])
def test_a_seed_must_be_named(seed):
    with pytest.raises(InputError, match="seed="):
        sign_flip_test(np.arange(50.0), num_flips=10, seed=seed)
