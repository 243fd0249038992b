"""Frontiers over temperature: perplexity against MAUVE and entropy, and what they overlook.

CaRE (arXiv 2607.24763) Figs. 2, 5 and 10; spec care.md section 7.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ...scoring.scores import Score
from ..data import STDERR, Arm, ReportData
from ..figures import EDGE, INK, NARROW, PAPER, SOFT, Figure, render
from ..labels import columns_that_fit, place_labels
from ..points import (
    bars_of,
    draw_null,
    having,
    null_key,
    plain_log_ticks,
    spot_of,
    value_of,
)
from ..rounding import plain_text
from ..series import colour, marker
from .frontier_table import non_dominated_arms
from .gaps import Gap
from .tables import perplexity_metric

_AR_LINE = {"color": INK, "linestyle": (0, (1, 2)), "linewidth": 1.2}
_KEY = (
    "Filled markers are deterministic unmasking (t = 0), open ones stochastic; small numbers are "
    "temperatures, at the ends of a curve and at ringed arms. Ringed arms are dominated by no "
    "other, and the stair is what they reach together. Bars are one "
    f"{STDERR}."
)


def frontier_overlay(
    data: ReportData, gaps: Sequence[Gap], *, temp: float, name: str = "frontier_overlay"
) -> Figure:
    """MAUVE against perplexity, a curve a strategy; beside it MAUVE by strategy at one `temp`.

    Args:
        data: arms of one budget.
        gaps: of the strategies at `temp`, written below their names.
        temp: temperature of the second panel.
        name: of the files.
    """
    series = temperature_series(data)

    def draw(width: float) -> Canvas:
        rows = 0.34 * len(series)
        if width > NARROW:
            canvas = Canvas(figsize=(width, max(3.9, 1.6 + 1.3 * rows)), layout="constrained")
            left, right = canvas.subplots(1, 2, width_ratios=(1.6, 1))
        else:
            canvas = Canvas(figsize=(width, 4.9 + 1.3 * rows), layout="constrained")
            left, right = canvas.subplots(2, 1, height_ratios=(3.1, 0.7 + 1.3 * rows))
        _draw_strategies(right, data, series, gaps, temp)
        left.set_ylabel("MAUVE")
        left.set_title("a  over temperature", fontsize=9)
        right.set_title(f"b  at t = {temp:g}", fontsize=9)
        _legend(canvas, series, width, band="mauve" in data.null_band)
        _draw_frontier(canvas, left, data, series, "mauve")
        return canvas

    return render(
        name,
        "MAUVE against generative perplexity over temperatures, at one budget (a), and by "
        f"strategy at t = {temp:g} with the gap to no remasking, paired over seeds (b). {_KEY} "
        "The dotted line is the AR model, the grey band what real text scores against real text.",
        f"Scatter plot of MAUVE against perplexity, and MAUVE by strategy. "
        f"{_spots(data, series, 'mauve')}.",
        draw,
    )


def frontier_entropy(data: ReportData, *, name: str = "frontier_entropy") -> Figure:
    """Entropy inside a sample against perplexity, a curve a strategy, with AR model and real text.

    Args:
        data: arms of one budget.
        name: of the files.
    """
    series = temperature_series(data)

    def draw(width: float) -> Canvas:
        canvas = Canvas(figsize=(width, 4.2 if width > NARROW else 4.4), layout="constrained")
        axes = canvas.add_subplot()
        axes.set_ylabel("unigram entropy (nats)")
        _legend(canvas, series, width, band=False)
        _draw_frontier(canvas, axes, data, series, "h_uni")
        return canvas

    return render(
        name,
        f"Entropy inside a sample against generative perplexity, at one budget. {_KEY} Compare "
        "arms with real text (star): a low perplexity at a low entropy is repetition.",
        f"Scatter plot of unigram entropy against perplexity. {_spots(data, series, 'h_uni')}.",
        draw,
    )


def temperature_series(data: ReportData) -> dict[str, list[Arm]]:
    """Generated arms by strategy, sorted by temperature."""
    found: dict[str, list[Arm]] = {}
    for arm in data.with_role("generated"):
        found.setdefault(str(arm.fields["strategy"]), []).append(arm)
    return {label: sorted(arms, key=temp_of) for label, arms in found.items()}


def temp_of(arm: Arm) -> float:
    """The unmasking temperature of a generated arm."""
    return float(str(arm.fields["unmask_temp"]))


def _draw_frontier(
    canvas: Canvas, axes: Axes, data: ReportData, series: Mapping[str, list[Arm]], y: str
) -> None:
    x = perplexity_metric(data)
    arms = having([arm for found in series.values() for arm in found], x, y)
    edge = non_dominated_arms(arms, x, y)
    if edge:
        stair = sorted(spot_of(arm, x, y) for arm in edge)
        axes.plot(*zip(*stair), color=EDGE, drawstyle="steps-post", linewidth=1.0, zorder=1)
        axes.plot(*zip(*stair), "o", color=EDGE, markerfacecolor="none", markersize=12, zorder=1)
    labels, others, lines = [], [], []
    for place, found in enumerate(series.values()):
        kept = having(found, x, y)
        spots = [spot_of(arm, x, y) for arm in kept]
        axes.plot(
            *(zip(*spots) if spots else ((), ())), color=colour(place), linewidth=1, alpha=0.6
        )
        for arm, spot in zip(kept, spots):
            _point(axes, arm.score(x), arm.score(y), place, filled=temp_of(arm) == 0)
            if arm in edge or arm in (kept[0], kept[-1]):
                labels.append((f"{temp_of(arm):g}", spot, colour(place)))
            else:
                others.append(spot)
            lines += bars_of(arm, x, y)
        lines.append(spots)
    for arm in having(data.with_role("autoregressive"), x, y):
        style = {"marker": "P", "color": INK, "markersize": 8, "markeredgecolor": PAPER}
        _mark(axes, arm.score(x), arm.score(y), style)
        lines += bars_of(arm, x, y)
        labels.insert(0, ("AR model", spot_of(arm, x, y), INK))
    for arm in data.with_role("reference"):
        spot = _draw_real(axes, data, arm, x, y)
        labels[:0] = [("real text", spot, SOFT)] if spot else []
    axes.set_xscale("log")
    plain_log_ticks(axes.xaxis)
    axes.margins(x=0.1, y=0.16)
    title = "perplexity" if x == "gen_ppl" else "PPL given the prefix"
    axes.set_xlabel(f"{title}, log scale")
    place_labels(canvas, axes, labels, others, lines=lines)


def _draw_real(
    axes: Axes, data: ReportData, real: Arm, x: str, y: str
) -> tuple[float, float] | None:
    """Real text as a star, for a distance at the mean of its null band."""
    perplexity, value, band = real.score(x).value, real.score(y).value, data.null_band.get(y)
    if value is None and band is not None:
        draw_null(axes, data, y)
        value = band.mean
    if perplexity is None or value is None:
        return None
    axes.plot(perplexity, value, "*", color=SOFT, markersize=12, markeredgecolor=PAPER, zorder=3)
    return perplexity, value


def _draw_strategies(
    axes: Axes,
    data: ReportData,
    series: Mapping[str, list[Arm]],
    gaps: Sequence[Gap],
    temp: float,
) -> None:
    """MAUVE of every strategy at one temperature, its gap to no remasking below its name."""
    draw_null(axes, data, "mauve", upright=True)
    for arm in having(data.with_role("autoregressive"), "mauve"):
        axes.axvline(value_of(arm, "mauve"), **_AR_LINE)
    below = {one.cell_of.cell.strategy: _gap_text(one) for one in gaps if one.test is not None}
    names = []
    for place, (label, arms) in enumerate(series.items()):
        names.append(f"{label}\n{below[label]}" if label in below else label)
        row = Score(place, None, 1, "", None, "row")
        for arm in having(arms, "mauve"):
            if temp_of(arm) == temp:
                _point(axes, arm.score("mauve"), row, place, filled=temp == 0)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.12)
    axes.set_xlabel("MAUVE")


def _legend(canvas: Canvas, series: Mapping[str, list[Arm]], width: float, *, band: bool) -> None:
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=colour(place), marker=marker(place), label=label)
        for place, label in enumerate(series)
    ]
    ring = {"marker": "o", "markerfacecolor": "none", "markersize": 9, "linewidth": 1}
    handles.append(Line2D([], [], color=EDGE, label="not dominated", **ring))
    if band:
        handles.append(null_key())
    texts = [str(handle.get_label()) for handle in handles]
    columns = columns_that_fit(texts, width, len(handles))
    canvas.legend(handles=handles, loc="outside lower center", ncols=columns)


def _point(axes: Axes, x: Score, y: Score, place: int, *, filled: bool) -> None:
    face = colour(place) if filled else PAPER
    style = {"marker": marker(place), "color": colour(place), "markerfacecolor": face}
    _mark(axes, x, y, style)


def _mark(axes: Axes, x: Score, y: Score, style: Mapping) -> None:
    """A marker over its error bars, which caps would cross where an error is small."""
    spot = np.array([x.value, y.value], np.float64)
    axes.errorbar(
        spot[:1],
        spot[1:],
        xerr=x.stderr or None,
        yerr=y.stderr or None,
        fmt="none",
        ecolor=style["color"],
        elinewidth=1,
        zorder=2,
    )
    axes.plot(spot[:1], spot[1:], linestyle="none", zorder=3, **style)


def _gap_text(one: Gap) -> str:
    if one.test is None:
        return ""
    number = Score(one.test.mean, one.test.stderr, one.test.df + 1, "", None, "gap|paired:seeds")
    return f"gap {plain_text(number)}"


def _spots(data: ReportData, series: Mapping[str, list[Arm]], y: str) -> str:
    x = perplexity_metric(data)
    return "; ".join(
        f"{arm.label}: {plain_text(arm.score(y))} at perplexity {plain_text(arm.score(x))}"
        for arms in series.values()
        for arm in having(arms, x, y)
    )
