"""Scores of arms as points of a plot, with the marks that all plots of a run share."""

from collections.abc import Iterable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from .data import Arm, ReportData
from .figures import EDGE, SHADE


def having(arms: Iterable[Arm], *metrics: str) -> list[Arm]:
    """The arms that have every one of the metrics."""
    return [a for a in arms if all(a.score(metric).value is not None for metric in metrics)]


def value_of(arm: Arm, metric: str) -> float:
    """The number of a metric.

    Raises:
        ValueError: it is missing; see `having`.
    """
    value = arm.score(metric).value
    if value is None:
        raise ValueError(f"{metric} of {arm.label} is missing and cannot be drawn")
    return value


def spot_of(arm: Arm, x: str, y: str) -> tuple[float, float]:
    """Where an arm stands in a map of two metrics."""
    return value_of(arm, x), value_of(arm, y)


def draw_point(axes: Axes, arm: Arm, x: str, y: str, **style: Any) -> None:
    """A marker with an error bar along each axis that has a standard error."""
    errors = {"xerr": arm.score(x).stderr or None, "yerr": arm.score(y).stderr or None}
    axes.errorbar(*spot_of(arm, x, y), **errors, linestyle="none", elinewidth=1, **style)


def bars_of(arm: Arm, x: str, y: str) -> list[list[tuple[float, float]]]:
    """The ends of the error bars of an arm, as lines that labels should not cross."""
    at, up = spot_of(arm, x, y)
    across, along = arm.score(x).stderr or 0.0, arm.score(y).stderr or 0.0
    bars = [[(at - across, up), (at + across, up)], [(at, up - along), (at, up + along)]]
    return [bar for bar in bars if bar[0] != bar[1]]


def draw_null(axes: Axes, data: ReportData, metric: str, *, upright: bool = False) -> bool:
    """The range of real text against real text and its mean; whether there are any.

    Args:
        upright: the metric is on the x axis.
    """
    band = data.null_band.get(metric)
    if band is None:
        return False
    span, line = (axes.axvspan, axes.axvline) if upright else (axes.axhspan, axes.axhline)
    span(band.low, band.high, color=SHADE, zorder=0)
    line(band.mean, color=EDGE, linewidth=0.8, zorder=1)
    return True


def null_key() -> Patch:
    """The legend's entry of `draw_null`; its rim stands for the line, all there is of one bank."""
    return Patch(facecolor=SHADE, edgecolor=EDGE, label="null band: real vs real")


def plain_log_ticks(axis: Axis) -> None:
    """Ticks at 1, 2 and 5 of each power of ten, in plain digits, for an axis of a log scale."""
    axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())
