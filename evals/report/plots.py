"""Plots of a profile: the frontier of two metrics, and one metric along a swept setting."""

import itertools
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from .data import STDERR, Arm, ReportData
from .figures import INK, NARROW, PAPER, SOFT, Figure, render
from .labels import columns_that_fit, place_labels
from .points import (
    bars_of,
    draw_null,
    draw_point,
    having,
    null_key,
    plain_log_ticks,
    spot_of,
    value_of,
)
from .rounding import plain_text
from .series import dash, look

_NAIVE = {"marker": "X", "color": INK, "markersize": 8, "markeredgecolor": PAPER}


def frontier(
    data: ReportData,
    *,
    x: str = "h_uni",
    y: str = "gen_ppl",
    x_title: str = "unigram entropy (nats)",
    y_title: str = "generative perplexity",
    colour_by: str = "strategy",
    marker_by: str = "num_steps",
    marker_symbol: str = "N",
    along: str = "unmask_temp",
    name: str = "frontier",
) -> Figure:
    """`y` (log scale) against `x`; trained arms joined along a setting, naive samplers named.

    Filled markers are arms whose `along` setting is 0, open ones are above 0.
    """

    def draw(width: float) -> Canvas:
        canvas, axes = _axes(width, 4.4 if width > NARROW else 4.1)
        series = _series(data, colour_by, marker_by, along, (x, y))
        for _, colour, marker, arms in series:
            xs, ys = ([value_of(arm, metric) for arm in arms] for metric in (x, y))
            axes.plot(xs, ys, color=colour, linewidth=1, alpha=0.6)
            for arm in arms:
                face = colour if not arm.fields.get(along) else PAPER
                draw_point(axes, arm, x, y, marker=marker, color=colour, markerfacecolor=face)
        named = []
        for arm in having(data.with_role("heuristic"), x, y):
            draw_point(axes, arm, x, y, **_NAIVE)
            named.append(arm)
        for role, marker in (("autoregressive", "P"), ("reference", "*")):
            for arm in having(data.with_role(role), x, y):
                size = 12 if marker == "*" else 8
                style = {"marker": marker, "markersize": size, "markeredgecolor": PAPER}
                draw_point(axes, arm, x, y, color=SOFT, **style)
                named.append(arm)
        axes.set_yscale("log")
        plain_log_ticks(axes.yaxis)
        axes.margins(x=0.1, y=0.12)
        axes.set_xlabel(f"{x_title}: more varied →")
        axes.set_ylabel(f"{y_title}, log scale")
        cross = Line2D([], [], linestyle="none", **_NAIVE, label="naive sampler")
        _legend(canvas, series, marker_symbol, [cross], width, dashed=False)
        others = [spot_of(arm, x, y) for *_, arms in series for arm in arms]
        lines = [[spot_of(arm, x, y) for arm in arms] for *_, arms in series]
        lines += [bar for *_, arms in series for arm in arms for bar in bars_of(arm, x, y)]
        lines += [bar for arm in named for bar in bars_of(arm, x, y)]
        labels = [
            (arm.label, spot_of(arm, x, y), INK if arm.role == "heuristic" else SOFT)
            for arm in named
        ]
        place_labels(canvas, axes, labels, others, lines=lines)
        return canvas

    spots = "; ".join(
        f"{arm.label}: {plain_text(arm.score(y))} at {plain_text(arm.score(x))}"
        for arm in having(data.arms, x, y)
    )
    return render(
        name,
        f"{y_title.capitalize()} against {x_title}. A low perplexity at a low entropy is "
        "repetition, not quality: compare arms at equal entropy. Crosses are naive samplers. "
        "Filled markers are deterministic unmasking, open ones stochastic; bars are one "
        f"{STDERR}.",
        f"Scatter plot of {y_title} on a log scale against {x_title}. {spots}.",
        draw,
    )


def sweep(
    data: ReportData,
    metric: str = "mauve",
    *,
    title: str = "MAUVE",
    along: str = "unmask_temp",
    along_title: str = "unmasking temperature",
    colour_by: str = "strategy",
    marker_by: str = "num_steps",
    marker_symbol: str = "N",
    name: str = "sweep",
) -> Figure:
    """One metric along a setting, one line a series, with the null band and the best naive arm."""

    def draw(width: float) -> Canvas:
        canvas, axes = _axes(width, 3.9)
        series = _series(data, colour_by, marker_by, along, (metric,))
        settings = sorted({_setting(a, along) for *_, arms in series for a in arms})
        gap = min((b - a for a, b in itertools.pairwise(settings)), default=1.0)
        for place, (_, colour, marker, arms) in enumerate(series):
            # Series are set side by side, so that their error bars can be told apart.
            nudge = (place - (len(series) - 1) / 2) * 0.06 * gap
            axes.errorbar(
                [_setting(a, along) + nudge for a in arms],
                [value_of(a, metric) for a in arms],
                yerr=[a.score(metric).stderr or 0.0 for a in arms],
                color=colour,
                marker=marker,
                markeredgecolor=PAPER,
                linestyle=dash(place),
            )
        extra: list[Line2D | Patch] = []
        if draw_null(axes, data, metric):
            extra.append(null_key())
        naive = having(data.with_role("heuristic"), metric)
        if naive:
            sign = -1.0 if naive[0].score(metric).direction == "down" else 1.0
            best = max(naive, key=lambda arm: sign * value_of(arm, metric))
            line = {"color": INK, "linestyle": (0, (1, 2)), "linewidth": 1.4}
            axes.axhline(value_of(best, metric), **line)
            extra.append(Line2D([], [], **line, label=f"best naive sampler ({best.label})"))
        for arm in having(data.with_role("autoregressive"), metric):
            line = {"color": SOFT, "linestyle": (0, (6, 3)), "linewidth": 1.2}
            axes.axhline(value_of(arm, metric), **line)
            extra.append(Line2D([], [], **line, label=f"AR model ({arm.label})"))
        axes.set_xticks(settings, [f"{value:g}" for value in settings])
        axes.margins(y=0.1)
        axes.set_xlabel(along_title)
        axes.set_ylabel(title)
        _legend(canvas, series, marker_symbol, extra, width, dashed=True)
        return canvas

    spots = "; ".join(
        f"{arm.label}: {plain_text(arm.score(metric))}"
        for arm in having(data.arms, metric)
        if arm.role != "reference"
    )
    return render(
        name,
        f"{title} by strategy and {along_title}. Bars are one {STDERR}; "
        "the grey band is what real text scores against real text.",
        f"Line plot of {title} against {along_title}. {spots}.",
        draw,
    )


_Series = tuple[tuple[str, str], str, str, list[Arm]]


def _series(
    data: ReportData, colour_by: str, marker_by: str, along: str, metrics: Sequence[str]
) -> list[_Series]:
    """Trained arms grouped by two settings and sorted along a third, with colour and marker."""
    arms = having(data.with_role("generated"), *metrics)
    arms = [arm for arm in arms if arm.fields.get(along) is not None]
    colours = list(dict.fromkeys(str(arm.fields.get(colour_by)) for arm in arms))
    markers = list(dict.fromkeys(str(arm.fields.get(marker_by)) for arm in arms))
    groups: dict[tuple[str, str], list[Arm]] = {}
    for arm in arms:
        key = (str(arm.fields.get(colour_by)), str(arm.fields.get(marker_by)))
        groups.setdefault(key, []).append(arm)
    return [
        (
            key,
            look(colours.index(key[0]))["color"],
            look(markers.index(key[1]))["marker"],
            sorted(group, key=lambda arm: _setting(arm, along)),
        )
        for key, group in groups.items()
    ]


def _setting(arm: Arm, along: str) -> float:
    return float(str(arm.fields[along]))


def _axes(width: float, height: float) -> tuple[Canvas, Axes]:
    canvas = Canvas(figsize=(width, height), layout="constrained")
    return canvas, canvas.add_subplot()


def _legend(
    canvas: Canvas,
    series: Sequence[_Series],
    symbol: str,
    extra: Sequence[Line2D | Patch],
    width: float,
    *,
    dashed: bool,
) -> None:
    """Names of the series, dashed as they were drawn, and of `extra`, below the axes."""
    handles: list[Line2D | Patch] = []
    for place, ((name, value), colour, marker, _) in enumerate(series):
        line = Line2D(
            [],
            [],
            color=colour,
            marker=marker,
            markeredgecolor=PAPER,
            linestyle=dash(place) if dashed else "-",
            label=f"{name} · {symbol}={value}",
        )
        handles.append(line)
    handles += extra
    texts = [str(handle.get_label()) for handle in handles]
    canvas.legend(
        handles=handles,
        loc="outside lower center",
        ncols=columns_that_fit(texts, width, 3),
        handlelength=2.6,
        columnspacing=1.4,
    )
