"""Reported effect sizes: what follows from them, and what cannot be."""

import pytest
from scipy import stats

from dlmeval.evals import InputError, ReportedEffect, check_reported
from dlmeval.evals.statistics.reported_effects import eta2_of_p, f_of_eta2, p_of_eta2


def test_the_contradiction_of_the_spec_is_found():
    # care.md, C4: 0.47 and p = 0.002 cannot stand together at 48 residual degrees of freedom.
    check = check_reported(ReportedEffect("strategy:temperature", "0.47", 3, 48, p="0.002"))
    assert check.f == pytest.approx(14.19, abs=5e-3)
    assert check.p == pytest.approx(9.5e-7, rel=5e-3)
    (said,) = check.disagreements
    for part in ("strategy:temperature", "F = 5.71", "0.263", "about 23", "9.5e-07", "not 0.002"):
        assert part in said


@pytest.mark.parametrize(
    ("eta", "df", "f", "p"), [("0.91", 3, 161.8, 4e-25), ("0.80", 1, 192.0, 2e-18)]
)
def test_goldens_without_contradiction(eta, df, f, p):
    check = check_reported(ReportedEffect("x", eta, df, 48, p="<0.001"))
    assert check.f == pytest.approx(f, rel=1e-3)
    assert check.p == pytest.approx(p, rel=0.3)
    assert check.disagreements == ()


def test_forms_are_those_of_the_f_distribution():
    f = f_of_eta2(0.3, 3, 48)
    assert f == pytest.approx(0.3 / 0.7 * 16, rel=1e-12)
    assert p_of_eta2(0.3, 3, 48) == pytest.approx(stats.f.sf(f, 3, 48), rel=1e-10)
    assert eta2_of_p(p_of_eta2(0.3, 3, 48), 3, 48) == pytest.approx(0.3, rel=1e-10)


@pytest.mark.parametrize(
    ("effect", "count"),
    [
        # F = 6.857 and p = 0.0006; digits decide how far a report may be off.
        (ReportedEffect("x", "0.30", 3, 48, f="6.9", p="0.001"), 0),
        (ReportedEffect("x", "0.3", 3, 48, f="8"), 0),
        (ReportedEffect("x", "0.300", 3, 48, f="8"), 1),
        (ReportedEffect("x", "0.300", 3, 48, p="0.0006"), 0),
        (ReportedEffect("x", "0.300", 3, 48, p="<0.0001"), 1),
        (ReportedEffect("x", "0.300", 3, 48, p="0.05"), 1),
        # F contradicts eta, and p contradicts both.
        (ReportedEffect("x", "0.300", 3, 48, f="9.5", p="0.05"), 3),
        (ReportedEffect("x", 0.3, 3, 48, f=6.86, p=0.001), 0),
        (ReportedEffect("x", "0.3", 3, 48), 0),
        (ReportedEffect("x", "0.001", 1, 5, p="0.00"), 1),
    ],
)
def test_disagreements_are_those_that_rounding_cannot_explain(effect, count):
    assert len(check_reported(effect).disagreements) == count


@pytest.mark.parametrize(
    ("effect", "match"),
    [
        (ReportedEffect("x", "1.2", 3, 48), "partial_eta2=1.2"),
        (ReportedEffect("x", "0", 3, 48), "partial_eta2=0"),
        (ReportedEffect("x", "0.5", 0, 48), "df of at least 1"),
        (ReportedEffect("x", "big", 3, 48), "not a number"),
        (ReportedEffect("x", float("nan"), 3, 48), "finite"),
        (ReportedEffect("x", "0.5", 3, 48, p="1.5"), "p=1.5"),
        (ReportedEffect("x", "0.5", 3, 48, f="-1"), "f=-1"),
    ],
)
def test_what_is_no_effect_is_refused(effect, match):
    with pytest.raises(InputError, match=match):
        check_reported(effect)
