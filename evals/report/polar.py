"""Polar area charts: four metrics of each arm, scaled over the arms shown.

CaRE (arXiv 2607.24763) Fig. 9, spec care.md section 7.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch

from ..errors import InputError
from .care.tables import perplexity_metric
from .data import Arm, ReportData
from .figures import (
    BLUE,
    EDGE,
    GREEN,
    INK,
    NARROW,
    ORANGE,
    PAPER,
    PURPLE,
    SKY,
    VERMILLION,
    Figure,
    render,
)
from .points import having, value_of
from .rounding import plain_text, round_number

_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, VERMILLION, SKY)
_PANELS = {True: 4, False: 2}  # charts a row of the wide and of the narrow drawing
_GAP = 0.05  # share of a sector's angle left free beside its wedge


class Sector(NamedTuple):
    """One metric of a chart."""

    metric: str
    title: str


FOUR_METRICS = (
    Sector("mauve", "MAUVE"),
    Sector("gen_ppl", "PPL"),
    Sector("self_bleu", "Self-BLEU"),
    Sector("distinct_3", "Distinct-3"),
)


class Limits(NamedTuple):
    """Values of a metric at the centre and at the rim: the worst and the best arm shown."""

    worst: float
    best: float

    def share(self, value: float) -> float:
        """0 at the worst value, 1 at the best; 1 where all arms are equal."""
        width = self.best - self.worst
        return (value - self.worst) / width if width else 1.0


def four_sectors(data: ReportData) -> tuple[Sector, ...]:
    """The four metrics of a run: of the perplexity given the prefix, where there are prefixes."""
    ppl = Sector(perplexity_metric(data), "PPL")
    return tuple(ppl if sector.metric == "gen_ppl" else sector for sector in FOUR_METRICS)


def complete_arms(arms: Sequence[Arm], sectors: Sequence[Sector] = FOUR_METRICS) -> list[Arm]:
    """The arms that have every metric of a chart."""
    return having(arms, *(sector.metric for sector in sectors))


def polar_limits(
    arms: Sequence[Arm], sectors: Sequence[Sector] = FOUR_METRICS
) -> dict[str, Limits]:
    """The range of each metric over the arms, turned so that the rim is the better end.

    Raises:
        InputError: fewer than two arms, another number of metrics than 3 to 6, an arm without one
            of them, or a metric of which neither direction is better.
    """
    if len(arms) < 2:
        raise InputError(f"a polar chart scales over the arms shown; {len(arms)} given, 2 needed")
    if not 3 <= len(sectors) <= len(_COLOURS):
        raise InputError(f"a polar chart has 3 to {len(_COLOURS)} metrics; {len(sectors)} given")
    limits = {}
    for sector in sectors:
        numbers = [arm.score(sector.metric) for arm in arms]
        lacking = [arm.label for arm, n in zip(arms, numbers) if n.value is None]
        if lacking:
            raise InputError(
                f"{sector.metric} is missing for {', '.join(lacking)}; leave those arms out"
            )
        values = [n.value for n in numbers if n.value is not None]
        directions = {n.direction for n in numbers}
        if directions == {"up"}:
            limits[sector.metric] = Limits(min(values), max(values))
        elif directions == {"down"}:
            limits[sector.metric] = Limits(max(values), min(values))
        else:
            raise InputError(
                f"{sector.metric} has no better direction ({directions}); a wedge needs one"
            )
    return limits


def polar_shares(
    arms: Sequence[Arm], sectors: Sequence[Sector] = FOUR_METRICS
) -> Float[np.ndarray, "arms sectors"]:
    """Radius of every wedge: 0 for the worst of the arms shown, 1 for the best.

    Perplexity and Self-BLEU, of which less is better, are inverted.

    Raises:
        InputError: as in `polar_limits`.
    """
    limits = polar_limits(arms, sectors)
    return np.array(
        [[limits[s.metric].share(value_of(arm, s.metric)) for s in sectors] for arm in arms]
    )


def polar(
    arms: Sequence[Arm],
    *,
    titles: Mapping[str, str] | None = None,
    sectors: Sequence[Sector] = FOUR_METRICS,
    name: str = "polar",
    note: str = "",
) -> Figure:
    """One chart an arm, one wedge a metric, whose radius is its min-max share over these arms.

    Args:
        arms: at least two, each with all metrics (see `complete_arms`).
        titles: {label: title of its chart}; the labels by default.
        sectors: the metrics, counter-clockwise from the upper right.
        name: of the files.
        note: a sentence for the end of the caption.

    Raises:
        InputError: as in `polar_limits`.
    """
    limits, shares = polar_limits(arms, sectors), polar_shares(arms, sectors)
    named = {arm.label: (titles or {}).get(arm.label, arm.label) for arm in arms}

    def draw(width: float) -> Canvas:
        rows = math.ceil(len(arms) / _PANELS[width > NARROW])
        columns = math.ceil(len(arms) / rows)
        canvas = Canvas(
            figsize=(width, 0.8 + rows * (0.5 + 0.5 * width / columns)), layout="constrained"
        )
        panels = canvas.subplots(rows, columns, squeeze=False, subplot_kw={"projection": "polar"})
        for panel, arm, row in zip(panels.flat, arms, shares):
            _draw_chart(panel, arm, sectors, limits, row)
            panel.set_title(named[arm.label], fontsize=8.5, loc="center")
        for panel in panels.flat[len(arms) :]:
            panel.set_axis_off()
        canvas.legend(
            handles=[
                Patch(facecolor=colour, label=f"{s.title}: {_limits_text(limits[s.metric])}")
                for s, colour in zip(sectors, _COLOURS)
            ],
            loc="outside lower center",
            ncols=2 if width > NARROW else 1,
            handlelength=1.2,
        )
        return canvas

    ranges = "; ".join(f"{s.title} {_limits_text(limits[s.metric])}" for s in sectors)
    spots = "; ".join(
        f"{named[arm.label]}: "
        + ", ".join(f"{s.title} {plain_text(arm.score(s.metric))}" for s in sectors)
        for arm in arms
    )
    return render(
        name,
        "Each wedge is one metric, scaled over the arms shown: the worst of them reaches the "
        f"centre, the best the rim ({ranges}). An empty wedge is the worst of this set, not a bad "
        "value, and small differences are stretched as much as large ones. Bars are one standard "
        f"error. {note}".strip(),
        f"Polar area charts of {len(arms)} arms. {spots}.",
        draw,
    )


def _draw_chart(
    panel: Axes,
    arm: Arm,
    sectors: Sequence[Sector],
    limits: Mapping[str, Limits],
    shares: Float[np.ndarray, "sectors"],
) -> None:
    turn = 2 * math.pi / len(sectors)
    angles = [(i + 0.5) * turn for i in range(len(sectors))]
    for angle, sector, share, colour in zip(angles, sectors, shares, _COLOURS):
        panel.bar(angle, share, width=(1 - _GAP) * turn, color=colour, edgecolor=PAPER, zorder=2)
        stderr = arm.score(sector.metric).stderr
        span = abs(limits[sector.metric].best - limits[sector.metric].worst)
        if stderr and span:
            reach = [max(0.0, share - stderr / span), min(1.0, share + stderr / span)]
            panel.plot([angle, angle], reach, color=INK, linewidth=1.0, zorder=3)
    panel.set_ylim(0, 1)
    panel.set_yticks([0.5, 1.0], ["", ""])
    panel.set_xticks([])
    for angle, sector in zip(angles, sectors):
        side = math.cos(angle)
        anchor = "center" if abs(side) < 0.1 else "left" if side > 0 else "right"
        height = "bottom" if math.sin(angle) > 0 else "top"
        panel.text(angle, 1.06, sector.title, ha=anchor, va=height, fontsize=7.5)
    panel.spines["polar"].set_color(EDGE)


def _limits_text(limits: Limits) -> str:
    """Both ends with as many digits as tell them apart."""
    if limits.worst == limits.best:
        return f"{round_number(limits.best).value} for all"
    spread = abs(limits.best - limits.worst)
    worst, best = (round_number(value, spread / 5).value for value in limits)
    return f"{worst} to {best}"
