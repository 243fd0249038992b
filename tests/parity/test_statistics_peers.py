"""Tests, intervals and corrections beside scipy and statsmodels."""

# pyright: reportMissingImports=false

import itertools

import numpy as np
import pytest
from scipy import stats

from dlmeval.evals import (
    anova,
    bootstrap_interval,
    holm,
    paired_test,
    partial_eta2_interval,
    partial_eta2_intervals,
    rank_intervals,
    sign_flip_test,
)

# statsmodels divides by a bound of 0 on its way to the right answer.
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore:divide by zero")]

NAMES = ("strategy", "temperature", "steps")


@pytest.mark.parametrize("n", [2, 3, 20, 500])
def test_paired_t(n):
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=n) + 0.3, rng.normal(size=n)
    theirs = stats.ttest_rel(a, b)
    ours = paired_test(a, b)
    assert (ours.t, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-10)
    assert ours.df == theirs.df


@pytest.mark.parametrize("n", [3, 6, 12])
def test_sign_flips(n):
    differences = np.random.default_rng(n).normal(size=n) + 0.4
    theirs = stats.permutation_test(
        (differences,),
        lambda x, axis: np.abs(np.mean(x, axis=axis)),
        permutation_type="samples",
        alternative="greater",
        n_resamples=2**n,
        vectorized=True,
    )
    assert sign_flip_test(differences).p == pytest.approx(theirs.pvalue, rel=1e-12)


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("n", [4, 5, 15, 60])
def test_bootstrap_intervals(method, n):
    """Both draw at random beyond five values: ends within Monte Carlo error of each other."""
    values = np.random.default_rng(n).gamma(0.7, size=n)
    draws = 100_000
    theirs = stats.bootstrap(
        (values,), np.mean, method=method, n_resamples=draws, rng=np.random.default_rng(0)
    ).confidence_interval
    ours = bootstrap_interval(
        values, method=method, num_resamples=draws, quantile="linear" if n > 5 else None
    )
    # A quantile of 2.5 % has this error; few values make the law lumpy, so one lump more.
    error = 4 * np.sqrt(0.025 * 0.975 / draws) / 0.0584 * values.std() / np.sqrt(n)
    lump = np.ptp(values) / n * 0.05 if n <= 5 else 0.0
    assert ours[:2] == pytest.approx((theirs.low, theirs.high), abs=2 * error + lump)


def grid():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 4, 3, 3)) + rng.normal(size=3)
    return values + rng.normal(size=(2, 4, 1, 1)) + rng.normal(size=(2, 1, 1, 1))


@pytest.mark.parametrize("block", [None, "seed"])
@pytest.mark.parametrize("kind", [1, 2, 3])
def test_anova_of_every_type(block, kind):
    pytest.importorskip("statsmodels")
    import pandas
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    values = grid()
    index = list(itertools.product(*map(range, values.shape)))
    frame = pandas.DataFrame(index, columns=[*NAMES, "seed"]).assign(y=values.ravel())
    terms = [f"C({name}, Sum)" for name in NAMES]
    formula = f"y ~ {' * '.join(terms)}" + (" + C(seed, Sum)" if block else "")
    theirs = anova_lm(ols(formula, frame).fit(), typ=kind)
    for row in anova(values, NAMES, block=block):
        label = ":".join(f"C({name}, Sum)" for name in row.factor.split(":"))
        other = theirs.loc["Residual" if row.factor == "residual" else label]
        assert row.sum_squares == pytest.approx(other["sum_sq"], rel=1e-9)
        assert row.df == other["df"]
        if row.f is not None:
            assert (row.f, row.p) == pytest.approx((other["F"], other["PR(>F)"]), rel=1e-8)


def test_one_factor_is_scipys_one_way():
    values = np.random.default_rng(1).normal(size=(4, 7)) + np.arange(4)[:, None] / 2
    theirs = stats.f_oneway(*values)
    row = anova(values, ("arm",))[0]
    assert (row.f, row.p) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-10)


@pytest.mark.parametrize("f", [0.3, 1.5, 6.0, 80.0])
def test_intervals_of_partial_eta2(f):
    pytest.importorskip("statsmodels")
    from statsmodels.stats.oneway import confint_effectsize_oneway

    theirs = confint_effectsize_oneway(f, (3, 48), alpha=0.05, nobs=72)
    ours = partial_eta2_interval(f, 3, 48, num_values=72)
    # Its inversion stops early: the tail it leaves at F = 80 is 0.9752 instead of 0.975.
    assert ours == pytest.approx(theirs.eta2.tolist(), abs=5e-4)


def test_intervals_of_a_one_way_table():
    pytest.importorskip("statsmodels")
    from statsmodels.stats.oneway import confint_effectsize_oneway

    rows = anova(np.random.default_rng(2).normal(size=(3, 9)) + np.eye(3)[:, :1], ("arm",))
    theirs = confint_effectsize_oneway(rows[0].f, (2, 24), alpha=0.1, nobs=27)
    ours = partial_eta2_intervals(rows, level=0.9)["arm"]
    assert ours == pytest.approx(theirs.eta2.tolist(), abs=5e-4)


def test_holm():
    pytest.importorskip("statsmodels")
    from statsmodels.stats.multitest import multipletests

    rng = np.random.default_rng(0)
    for size in (1, 4, 30):
        p = rng.random(size) ** 2
        p[: size // 3] = p[-1]
        assert holm(p.tolist()) == pytest.approx(multipletests(p, method="holm")[1].tolist())


def test_mean_ranks_of_resamples():
    """Ranks of every resample of three seeds by scipy's rankdata."""
    values = np.random.default_rng(3).normal(size=(3, 5, 2))  # seeds, banks, columns
    table = {str(b): {c: values[:, b, i] for i, c in enumerate("xy")} for b in range(5)}
    picks = itertools.product(range(3), repeat=3)
    drawn = np.array([values[list(pick)].mean(axis=0) for pick in picks])
    ranks = stats.rankdata(drawn, axis=1).mean(axis=2)
    found = rank_intervals(table, {"x": "down", "y": "down"})
    lows = [interval.low for interval in found.ranks.values()]
    assert lows == pytest.approx(np.quantile(ranks, 0.025, axis=0, method="inverted_cdf").tolist())
