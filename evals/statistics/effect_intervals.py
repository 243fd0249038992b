"""Confidence intervals of partial eta squared, by inverting the noncentral F distribution."""

import sys
from collections.abc import Sequence
from typing import NamedTuple

from scipy import optimize, special

from ..errors import InputError
from .anova import RESIDUAL, AnovaRow
from .checks import is_number, probability

# Further on scipy's noncentral F becomes slow and wrong (1.18). Here its limit has the same bounds
# within 1e-6 for up to a million residual degrees of freedom, within 1e-5 for ten million.
_LARGE = 1e8
_MOST_DF = 1e9


class EtaInterval(NamedTuple):
    """Bounds of the population's partial eta squared, in [0, 1)."""

    low: float
    high: float


def partial_eta2_intervals(
    rows: Sequence[AnovaRow], *, level: float = 0.95
) -> dict[str, EtaInterval | None]:
    """An interval for each effect of a table; None where it has no F.

    Args:
        rows: of `anova`; the number of values is the sum of their degrees of freedom and 1.
        level: two-sided coverage.

    Raises:
        InputError: rows that do not end in "residual", or level out of (0, 1).
    """
    if not rows or rows[-1].factor != RESIDUAL:
        raise InputError(f"rows must be those of anova(), the last one {RESIDUAL!r}")
    num_values = sum(row.df for row in rows) + 1
    residual_df = rows[-1].df
    return {
        row.factor: None
        if row.f is None
        else partial_eta2_interval(row.f, row.df, residual_df, num_values=num_values, level=level)
        for row in rows[:-1]
    }


def partial_eta2_interval(
    f: float, df: int, df_residual: int, *, num_values: int | None = None, level: float = 0.95
) -> EtaInterval:
    """Steiger's interval (2004, Psychological Methods 9): noncentralities that F does not refute.

    The bounds of the noncentrality lambda put F at the upper and lower (1 - level) / 2 quantile;
    partial eta squared is lambda / (lambda + N). A bound is 0 where F is below what no effect at
    all would give at that quantile.

    Args:
        f: observed F.
        df: of the effect.
        df_residual: of the residual.
        num_values: N; df + df_residual + 1 where not given, which is right for one factor.
        level: two-sided coverage.

    Raises:
        InputError: F below 0 or not finite, or degrees of freedom below 1.
    """
    counts = df, df_residual, 1 if num_values is None else num_values
    known = all(is_number(count) and 1 <= count <= _MOST_DF for count in counts)
    if not known or not is_number(f) or not 0 <= f <= sys.float_info.max:
        raise InputError(f"F={f!r} with df ({df}, {df_residual}); accepted: F >= 0, df >= 1")
    total = df + df_residual + 1 if num_values is None else num_values
    tail = (1 - probability(level, "level")) / 2
    low, high = (_noncentrality(f, df, df_residual, share) for share in (1 - tail, tail))
    return EtaInterval(low / (low + total), high / (high + total))


def _noncentrality(f: float, df: int, df_residual: int, share: float) -> float:
    """The lambda at which F is the quantile `share` of the noncentral F distribution."""

    def gap(value: float) -> float:
        return float(special.ncfdtr(df, df_residual, value, f)) - share

    if f == 0 or special.fdtr(df, df_residual, f) <= share:
        return 0.0
    if df * f > _LARGE:
        # The numerator is then lambda / df and varies no more: F is that over chi2 / df_residual.
        return df * f * float(special.chdtri(df_residual, share)) / df_residual
    upper = max(1.0, df * f)
    while gap(upper) > 0:
        upper *= 2
    return optimize.root_scalar(gap, bracket=(0.0, upper), xtol=1e-10).root
