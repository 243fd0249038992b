"""Checks reported effect sizes: partial eta squared and degrees of freedom fix F and p."""

import numbers
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from scipy import optimize, special

from ..errors import InputError

_MOST_DF = 1e6


class ReportedEffect(NamedTuple):
    """A line of somebody's table, as printed.

    Attributes:
        factor: its name.
        partial_eta2: such as "0.80"; text keeps the decimals that a number drops.
        df: of the effect.
        df_residual: of the residual.
        f: F, or None where not reported.
        p: such as "0.002" or "<0.001", or None where not reported.
    """

    factor: str
    partial_eta2: str | float
    df: int
    df_residual: int
    f: str | float | None = None
    p: str | float | None = None


class EffectCheck(NamedTuple):
    """What follows from partial eta squared and the degrees of freedom.

    Attributes:
        factor: as reported.
        f: F that partial eta squared means.
        p: p of that F.
        disagreements: what of the report no rounding of the printed digits explains.
    """

    factor: str
    f: float
    p: float
    disagreements: tuple[str, ...]


class _Printed(NamedTuple):
    """A printed number and what it may have been before rounding."""

    text: str
    value: float
    low: float
    high: float


def check_reported(effect: ReportedEffect) -> EffectCheck:
    """Recomputes F and p (spec care.md 6.3, contradiction C4).

    F = eta / (1 - eta) * df_residual / df, and p is the upper tail of F(df, df_residual). A
    reported F or p disagrees where the range that its digits allow misses the range that the
    digits of partial eta squared allow.

    Raises:
        InputError: partial eta squared outside (0, 1), degrees of freedom below 1, F below 0, p
            outside [0, 1], or text that is not a number.
    """
    eta = _printed(effect.partial_eta2, effect.factor, "partial_eta2")
    dfs = effect.df, effect.df_residual
    whole = all(isinstance(df, numbers.Integral) for df in dfs)
    if not 0 < eta.value < 1 or not whole or not 1 <= min(dfs) <= max(dfs) <= _MOST_DF:
        raise InputError(
            f"{effect.factor}: partial_eta2={eta.text} with df ({effect.df}, "
            f"{effect.df_residual}); accepted: partial_eta2 in (0, 1), df of at least 1, whole and"
            f" up to {_MOST_DF:g}"
        )
    given = f"{effect.factor}: partial eta2 {eta.text} with df ({dfs[0]}, {dfs[1]})"
    f, p = f_of_eta2(eta.value, *dfs), p_of_eta2(eta.value, *dfs)
    bounds = max(eta.low, 0.0), min(eta.high, 1 - 1e-12)
    f_range = [f_of_eta2(bound, *dfs) for bound in bounds]
    p_range = [p_of_eta2(bound, *dfs) for bound in bounds[::-1]]
    found = []
    if effect.f is not None:
        printed = _printed(effect.f, effect.factor, "f")
        if printed.value < 0:
            raise InputError(f"{effect.factor}: f={printed.text}; accepted: at least 0")
        if not _overlap(printed, f_range):
            found.append(f"{given} means F = {f:.4g}, not {printed.text}")
        tails = [p_of_f(max(bound, 0.0), *dfs) for bound in (printed.high, printed.low)]
        if effect.p is not None and not _overlap(_probability(effect), tails):
            found.append(
                f"{effect.factor}: F = {printed.text} with df ({dfs[0]}, {dfs[1]}) means "
                f"p = {p_of_f(printed.value, *dfs):.2g}, not {_probability(effect).text}"
            )
    if effect.p is not None:
        printed = _probability(effect)
        if not _overlap(printed, p_range):
            found.append(f"{given} means p = {p:.2g}, not {printed.text}{_other(effect, printed)}")
    return EffectCheck(effect.factor, f, p, tuple(found))


def f_of_eta2(partial_eta2: float, df: int, df_residual: int) -> float:
    """The F that a partial eta squared is another form of."""
    return partial_eta2 / (1 - partial_eta2) * df_residual / df


def p_of_eta2(partial_eta2: float, df: float, df_residual: float) -> float:
    """Upper tail of F: the regularised incomplete beta function at 1 - partial eta squared."""
    return float(special.betainc(df_residual / 2, df / 2, 1 - partial_eta2))


def p_of_f(f: float, df: int, df_residual: int) -> float:
    """Upper tail of the central F distribution."""
    return float(special.fdtrc(df, df_residual, f))


def eta2_of_p(p: float, df: int, df_residual: int) -> float:
    """The partial eta squared whose F has that upper tail."""
    return 1 - float(special.betaincinv(df_residual / 2, df / 2, p))


def _other(effect: ReportedEffect, printed: _Printed) -> str:
    """What else the reported p could go with."""
    if not 0 < printed.value < 1 or printed.text.startswith("<"):
        return ""
    eta, df = float(effect.partial_eta2), effect.df
    implied = eta2_of_p(printed.value, df, effect.df_residual)
    text = f"; that p means F = {f_of_eta2(implied, df, effect.df_residual):.3g} and partial eta2 "
    text += f"{implied:.3f}"

    def gap(residual: float) -> float:
        return p_of_eta2(eta, df, residual) - printed.value

    if gap(1) > 0 > gap(_MOST_DF):
        residual = optimize.root_scalar(gap, bracket=(1, _MOST_DF)).root
        text += f"; both hold for a residual df of about {residual:.0f}"
    return text


def _probability(effect: ReportedEffect) -> _Printed:
    assert effect.p is not None
    printed = _printed(effect.p, effect.factor, "p")
    if not 0 <= printed.value <= 1:
        raise InputError(f"{effect.factor}: p={printed.text}; accepted: in [0, 1], or '<0.001'")
    return printed


def _printed(number: str | float, factor: str, name: str) -> _Printed:
    text = str(number).replace(" ", "")
    try:
        exact = Decimal(text.lstrip("<"))
    except InvalidOperation as error:
        raise InputError(f"{factor}: {name}={number!r} is not a number") from error
    if not exact.is_finite():
        raise InputError(f"{factor}: {name}={number!r} must be finite")
    if text.startswith("<"):
        return _Printed(text, float(exact), 0.0, float(exact))
    half = Decimal(5).scaleb(int(exact.as_tuple().exponent) - 1)
    return _Printed(text, float(exact), float(exact - half), float(exact + half))


def _overlap(printed: _Printed, bounds: list[float]) -> bool:
    return printed.low <= bounds[1] and bounds[0] <= printed.high
