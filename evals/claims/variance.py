"""Claims about CaRE's three-way analysis of variance: F and p are recomputed from eta squared."""

import numpy as np

from ..reported import Reported
from ..statistics import ReportedEffect, anova, check_reported
from ..statistics.reported_effects import f_of_eta2
from .finding import Finding, agreement, outcome


def degrees_of_freedom(claim: Reported) -> Finding:
    """Cells and residual degrees of freedom of a balanced three-way design."""
    shape = tuple(int(number.value) for number in claim.numbers("levels"))
    values = np.random.default_rng(0).normal(size=shape)
    rows = anova(values, tuple(f"factor {i}" for i in range(len(shape) - 1)))
    return agreement(claim, {"cells": values.size, "residual_df": rows[-1].df})


def effect(claim: Reported) -> Finding:
    """F and p that a partial eta squared implies, against the printed p."""
    df, residual = (int(claim.number(name).value) for name in ("df", "residual_df"))
    eta2, p = claim.number("partial_eta2").text, claim.number("p").text
    checked = check_reported(ReportedEffect("the interaction", eta2, df, residual, p=p))
    return outcome(
        not checked.disagreements,
        {"f": checked.f, "p": checked.p},
        otherwise="contradictory",
    )


def dominance(claim: Reported) -> Finding:
    """The order of two effects by sums of squares, and by mean squares (F)."""
    residual = int(claim.number("residual_df").value)
    first, second = (n.value for n in claim.numbers("partial_eta2"))
    df_first, df_second = (int(n.value) for n in claim.numbers("df"))
    squares = first / (1 - first) / (second / (1 - second))
    f = f_of_eta2(first, df_first, residual), f_of_eta2(second, df_second, residual)
    return outcome(
        squares > 1,
        {"sum of squares ratio": squares, "f": f},
        "per degree of freedom (F) the order is " + ("the same" if f[0] > f[1] else "reversed"),
    )


def shares(claim: Reported) -> Finding:
    """Whether printed eta squared can be shares of the total variance."""
    values = [number.value for number in claim.numbers("eta2")]
    parts = [value / (1 - value) for value in values]
    first = parts[0] / (sum(parts) + 1)
    return outcome(
        sum(number.low for number in claim.numbers("eta2")) <= 1,
        {"sum": sum(values), "largest share": first},
        "read as partial, the first effect has no larger share of the total than that",
        otherwise="contradictory",
    )
