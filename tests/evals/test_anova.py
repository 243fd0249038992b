"""Analysis of variance: against least squares, against t, by permutation, and refusals."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dlmeval.evals import (
    InputError,
    anova,
    paired_test,
    partial_eta2_interval,
    partial_eta2_intervals,
    permutation_anova,
    sign_flip_test,
)

NAMES = ("strategy", "temperature", "steps")


@pytest.fixture(scope="module")
def grid():
    """The design of the CaRE grid: 2 x 4 x 3 cells, three seeds, effects of every order."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 4, 3, 3)) + rng.normal(size=3)  # seeds differ as wholes
    values += rng.normal(size=(2, 4, 1, 1)) + rng.normal(size=(2, 4, 3, 1)) / 2
    return values


def columns(shape, effect):
    """Sum-to-zero columns of an effect over all values of a design."""
    coded = [np.vstack([np.eye(size - 1), -np.ones(size - 1)]) for size in shape]

    def product(row):
        return functools.reduce(np.kron, [coded[axis][row[axis]] for axis in effect])

    return np.array([product(row) for row in itertools.product(*map(range, shape))])


def least_squares(values, effects):
    """Residual sum of squares of the linear model with these effects."""
    x = np.hstack([np.ones((values.size, 1)), *(columns(values.shape, e) for e in effects)])
    return np.sum((values.ravel() - x @ np.linalg.lstsq(x, values.ravel(), rcond=None)[0]) ** 2)


@pytest.mark.parametrize("block", [None, "seed"])
def test_sums_of_squares_are_those_of_least_squares(grid, block):
    """Type III by comparing models: what fit is lost when one effect is dropped."""
    effects = [e for k in (1, 2, 3) for e in itertools.combinations(range(3), k)]
    names = [":".join(NAMES[axis] for axis in effect) for effect in effects]
    if block:
        effects, names = [*effects, (3,)], [*names, block]
    rows = anova(grid, NAMES, block=block)
    full = least_squares(grid, effects)
    assert [row.factor for row in rows] == [*names, "residual"]
    for row, effect in zip(rows, effects):
        lost = least_squares(grid, [e for e in effects if e != effect]) - full
        assert row.sum_squares == pytest.approx(lost, rel=1e-9)
        df = columns(grid.shape, effect).shape[1]
        f = lost / df / (full / rows[-1].df)
        assert (row.df, row.f) == (df, pytest.approx(f, rel=1e-9))
        assert row.p == pytest.approx(stats.f.sf(f, df, rows[-1].df), rel=1e-9)
        assert row.partial_eta2 == pytest.approx(lost / (lost + full), rel=1e-9)
    assert rows[-1].sum_squares == pytest.approx(full, rel=1e-9)
    assert rows[-1][3:] == (None, None, None, None)


@pytest.mark.parametrize(("block", "residual"), [(None, 48), ("seed", 46)])
def test_parts_add_up_to_the_total(grid, block, residual):
    rows = anova(grid, NAMES, block=block)
    total = np.sum((grid - grid.mean()) ** 2)
    assert sum(row.sum_squares for row in rows) == pytest.approx(total, rel=1e-12)
    assert [row.df for row in rows[:7]] == [1, 3, 2, 3, 2, 6, 6]
    assert rows[-1].df == residual
    assert sum(row.df for row in rows) == 71


def test_generalized_eta2_is_the_same_with_and_without_the_block(grid):
    plain, blocked = anova(grid, NAMES), anova(grid, NAMES, block="seed")
    for one, other in zip(plain[:7], blocked):
        assert one.generalized_eta2 == pytest.approx(one.partial_eta2, rel=1e-12)
        assert other.generalized_eta2 == pytest.approx(one.generalized_eta2, rel=1e-12)
        assert other.partial_eta2 > one.partial_eta2


def test_effects_put_in_are_found_where_they_were_put():
    values = np.random.default_rng(1).normal(size=(2, 3, 4)) * 1e-3
    values += np.array([[1.0, 0, -1], [-1, 0, 1]])[:, :, None]  # an interaction alone
    rows = {row.factor: row for row in anova(values, ("a", "b"))}
    assert rows["a:b"].sum_squares == pytest.approx(16, rel=1e-2)
    assert rows["a:b"].partial_eta2 > 0.999
    assert max(rows["a"].sum_squares, rows["b"].sum_squares) < 1e-4


def test_tables_do_not_depend_on_origin_unit_or_order(grid):
    rows = anova(grid, NAMES)
    moved = anova(1e3 + 5 * grid[:, ::-1], NAMES)
    turned = {row.factor: row for row in anova(grid.transpose(2, 0, 1, 3), ("n", "s", "t"))}
    for row, other in zip(rows[:-1], moved):
        np.testing.assert_allclose(other[3:], row[3:], rtol=1e-8)
    np.testing.assert_allclose(turned["s:t"][1:], rows[3][1:], rtol=1e-9)


def test_two_arms_in_blocks_are_the_paired_t_test():
    a, b = np.random.default_rng(2).normal(size=(2, 6)) + np.array([[0.5], [0]])
    row = anova(np.stack([a, b]), ("arm",), block="seed")[0]
    paired = paired_test(a, b)
    assert row.f == pytest.approx(paired.t**2, rel=1e-12)
    assert row.p == pytest.approx(paired.p, rel=1e-12)


def test_no_residual_leaves_no_f():
    values = np.repeat([[0.1], [0.3]], 3, axis=1)
    first, residual = anova(values, ("arm",))
    assert (first.f, first.p, first.partial_eta2) == (None, None, 1.0)
    assert residual.sum_squares == 0.0
    first, _ = anova(np.full((2, 3), 0.1), ("arm",))
    assert (first.sum_squares, first.partial_eta2) == (0.0, None)
    # Seeds that shift all cells alike leave none in blocks either.
    rows = anova(values + np.array([0.1, 0.2, 0.7]), ("arm",), block="seed")
    assert [row.f for row in rows] == [None, None, None]


@pytest.mark.parametrize("f", [6.5, 80.0])
def test_interval_bounds_put_f_at_its_quantiles(f):
    """The noncentral law as a Poisson mixture of beta laws, summed term by term."""
    df, residual, total, terms = 3, 48, 72, np.arange(2_000)
    low, high = partial_eta2_interval(f, df, residual, num_values=total)
    for bound, share in ((low, 0.975), (high, 0.025)):
        weights = stats.poisson.pmf(terms, total * bound / (1 - bound) / 2)
        parts = stats.beta.cdf(df * f / (df * f + residual), df / 2 + terms, residual / 2)
        assert weights @ parts == pytest.approx(share, abs=1e-9)
    assert low < f * df / (f * df + residual) < high


def test_an_f_below_chance_has_bounds_of_zero():
    assert partial_eta2_interval(0.0, 3, 48) == (0.0, 0.0)
    assert partial_eta2_interval(0.01, 3, 48) == (0.0, 0.0)
    low, high = partial_eta2_interval(1.0, 3, 48)
    assert low == 0.0 < high


def test_a_huge_f_still_has_an_interval():
    low, high = partial_eta2_interval(1e6, 1, 48)
    assert 0.9999 < low < high < 1


def test_intervals_cover_the_population_as_often_as_they_say():
    """Monte Carlo with a known noncentrality: 19 of 20 intervals hold the truth."""
    rng, df, residual, noncentrality = np.random.default_rng(3), 3, 20, 9.0
    top = rng.noncentral_chisquare(df, noncentrality, 400) / df
    f_values = top / (rng.chisquare(residual, 400) / residual)
    truth = noncentrality / (noncentrality + df + residual + 1)
    covered = 0
    for f in f_values:
        low, high = partial_eta2_interval(float(f), df, residual)
        covered += low <= truth <= high
    assert covered / 400 == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 400))


def test_intervals_of_a_table(grid):
    rows = anova(grid, NAMES, block="seed")
    found = partial_eta2_intervals(rows, level=0.9)
    assert list(found) == [row.factor for row in rows[:-1]]
    expected = partial_eta2_interval(rows[0].f, 1, 46, num_values=72, level=0.9)
    assert found["strategy"] == expected
    nothing = anova(np.repeat([[0.1], [0.3]], 3, axis=1), ("arm",))
    assert partial_eta2_intervals(nothing) == {"arm": None}


def test_swaps_of_two_arms_are_sign_flips():
    differences = np.array([0.4, 0.1, 0.35, -0.05, 0.2])
    rows = permutation_anova(np.stack([differences, 0 * differences]), ("arm",))
    exact = sign_flip_test(differences).p
    assert rows[0].p == pytest.approx(exact, abs=4 * math.sqrt(exact / 9_999))
    assert rows[0].exact_under == "arm changes nothing"


def test_permutation_agrees_with_f_on_normal_errors(grid):
    by_f = {row.factor: row.p for row in anova(grid, NAMES, block="seed")}
    for row in permutation_anova(grid, NAMES, num_permutations=2_000):
        assert row.p == pytest.approx(by_f[row.factor], abs=0.04)
    again = permutation_anova(grid, NAMES, num_permutations=500, seed=4)
    assert again == permutation_anova(grid, NAMES, num_permutations=500, seed=4)


def test_permutation_p_of_no_effect_is_uniform():
    """Log-normal errors, seeds as blocks, one factor's cells without any spread at all."""
    rng, found = np.random.default_rng(5), []
    for _ in range(300):
        values = rng.lognormal(size=(2, 3, 4)) * np.array([0.0, 1, 5])[:, None] + rng.normal(size=4)
        rows = permutation_anova(values, ("a", "b"), num_permutations=99, seed=int(rng.integers(9)))
        found.append(rows[0].p)
    assert np.mean(np.array(found) <= 0.1) == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / 300))
    assert np.mean(found) == pytest.approx(0.505, abs=4 * 0.29 / math.sqrt(300))


def test_permutation_without_any_effect_or_spread_is_one():
    rows = permutation_anova(np.full((2, 2, 3), 0.1), ("a", "b"), num_permutations=50)
    assert [row.p for row in rows] == [1.0, 1.0, 1.0]
    assert [row.exact_under is None for row in rows] == [False, False, True]


HOLE = np.zeros((2, 3, 2))
HOLE[1, 2, 0] = math.nan
LEVELS = (("none", "high_entropy"), (0.0, 0.25, 0.5), (1, 2))


@pytest.mark.parametrize(
    ("values", "names", "options", "match"),
    [
        (HOLE, ("a", "b"), {}, r"a\[1\], b\[2\], replicate\[0\]"),
        (HOLE, ("s", "t"), {"levels": LEVELS, "block": "seed"}, "s='high_entropy', t=0.5, seed=1"),
        (HOLE, ("s", "t"), {"levels": LEVELS[:2]}, r"t=0.5, replicate\[0\]"),
        (HOLE, ("s", "t"), {}, "unbalanced data are refused"),
        ([[1, 2], [1]], ("a",), {}, "full grid"),
        ([[1, 2], [1, math.inf]], ("a",), {}, "inf"),
        (np.zeros((2, 3)), ("a", "b"), {}, "2 factors need 3 axes"),
        (np.zeros((2, 1)), ("a",), {}, "two seeds"),
        (np.zeros((1, 3)), ("a",), {}, "'a' has 1 level"),
        (np.zeros((2, 2, 2)), ("a", "a"), {}, "names that differ"),
        (np.zeros((2, 2)), ("residual",), {}, "not 'residual'"),
        (np.zeros((2, 2)), ("a:b",), {}, "no ':'"),
        (np.zeros((2, 2)), ("a",), {"block": "a"}, "names that differ"),
        (np.zeros(2), (), {}, "names"),
    ],
)
def test_bad_designs_are_refused(values, names, options, match):
    with pytest.raises(InputError, match=match):
        anova(values, names, **options)


def test_bad_arguments_are_refused():
    with pytest.raises(InputError, match="unbalanced"):
        permutation_anova(HOLE, ("a", "b"))
    with pytest.raises(InputError, match="num_permutations"):
        permutation_anova(np.zeros((2, 2)), ("a",), num_permutations=0)
    for f, df in ((-1, 3), (math.nan, 3), (math.inf, 3), (1, 0)):
        with pytest.raises(InputError, match="F >= 0"):
            partial_eta2_interval(f, df, 48)
    with pytest.raises(InputError, match="residual"):
        partial_eta2_intervals([])


@pytest.mark.parametrize("f", [1e9, 1e12, 1e30, 1e300])
def test_the_interval_of_an_enormous_f_is_its_limit(f):
    """F is then lambda / df over chi2 / df_residual: bounds put that chi2 at its quantiles."""
    low, high = partial_eta2_interval(f, 6, 46)
    assert 0.999999 < low <= high <= 1
    if f == 1e9:
        for bound, share in ((low, 0.975), (high, 0.025)):
            noncentrality = 53 * bound / (1 - bound)
            chi2 = noncentrality / (6 * f) * 46
            assert stats.chi2.sf(chi2, 46) == pytest.approx(share, abs=1e-4)


def test_the_limit_joins_the_exact_interval():
    below, above = (partial_eta2_interval(f, 1, 48) for f in (0.99e8, 1.01e8))
    for one, other in zip(below, above, strict=True):
        assert (1 - one) * 0.99 == pytest.approx((1 - other) * 1.01, rel=1e-4)


@pytest.mark.parametrize("names", [None, [None], [["a"]], [1], []])
def test_names_that_are_no_texts_are_refused(names):
    with pytest.raises(InputError):
        anova(np.arange(6.0).reshape(2, 3) ** 2, names)
