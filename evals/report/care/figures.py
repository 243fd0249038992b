"""Figures of a grid of strategy, temperature and budget: interaction, cost, strategies."""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ..data import Arm, ReportData
from ..figures import EDGE, NARROW, PAPER, SERIES_COLOURS, SHADE, SOFT, Figure, render
from ..rounding import plain_text
from .gaps import Gap
from .tables import TITLES, shown_value

_MARKERS = ("o", "s", "^", "D", "v", "P")
_DASHES = ("-", "--", "-.", ":")


def interaction_figure(data: ReportData, metric: str = "mauve") -> Figure:
    """A metric against temperature, one line a strategy, one panel a budget."""
    title = TITLES[metric][0]
    arms = _measured(data, metric)
    strategies = _values(arms, "strategy")

    def panel(axes: Axes, steps: Hashable) -> None:
        axes.set_title(f"N={shown_value(steps)}")
        temps = _values(arms, "unmask_temp")
        for place, strategy in enumerate(strategies):
            line = _along(arms, "unmask_temp", num_steps=steps, strategy=strategy)
            # Temperatures are settings, not distances: evenly spaced, and lines set side by side.
            nudge = (place - (len(strategies) - 1) / 2) * 0.08
            _errors(
                axes,
                [temps.index(a.fields["unmask_temp"]) + nudge for a in line],
                line,
                metric,
                place,
            )
        _real_text(axes, data, metric)
        axes.set_xlim(-0.35, len(temps) - 0.65)
        axes.set_xticks(range(len(temps)), [shown_value(temp) for temp in temps])

    def draw(width: float) -> Canvas:
        steps = _values(arms, "num_steps")
        titles = ("temperature t", title)
        return _panels(width, steps, panel, titles, _legend(strategies, data, metric))

    return render(
        f"interaction_{metric}",
        f"{title} against temperature, one panel a budget. Lines that are not parallel are an "
        "interaction: what a strategy is worth depends on the temperature. Bars are one standard "
        "error over seeds; the grey band is what real text scores against real text.",
        f"Line plot of {title} against unmasking temperature. {_spots(arms, metric)}.",
        draw,
    )


def cost_figure(data: ReportData, metric: str = "mauve") -> Figure:
    """A metric against counted forwards, one line a strategy along N, one panel a temperature."""
    title = TITLES[metric][0]
    arms = [arm for arm in _measured(data, metric) if arm.score("nfe_mean").value is not None]
    strategies = _values(arms, "strategy")

    def panel(axes: Axes, temp: Hashable) -> None:
        axes.set_title(f"t={shown_value(temp)}")
        for place, strategy in enumerate(strategies):
            line = _along(arms, "num_steps", unmask_temp=temp, strategy=strategy)
            _errors(axes, [_number(arm, "nfe_mean") for arm in line], line, metric, place)
        _real_text(axes, data, metric)
        axes.margins(x=0.12)

    def draw(width: float) -> Canvas:
        temps = _values(arms, "unmask_temp")
        titles = ("NFE", title)
        return _panels(width, temps, panel, titles, _legend(strategies, data, metric), share=True)

    return render(
        f"cost_{metric}",
        f"{title} against the forwards that a sample really took, one panel a temperature; points "
        "of a line are nominal budgets. At equal N strategies do not cost the same: compare at "
        "equal position on the axis.",
        f"Line plot of {title} against counted forwards. "
        + "; ".join(
            f"{arm.label}: {plain_text(arm.score(metric))} at "
            f"{plain_text(arm.score('nfe_mean'))} forwards"
            for arm in arms
        )
        + ".",
        draw,
    )


def strategies_figure(data: ReportData, gaps: Sequence[Gap], metric: str = "mauve") -> Figure:
    """A metric by strategy at t > 0 with the standard error of the pairs, one panel a budget."""
    title = TITLES[metric][0]
    arms = [arm for arm in _measured(data, metric) if arm.fields["unmask_temp"]]
    strategies, temps = _values(arms, "strategy"), _values(arms, "unmask_temp")
    paired = {one.second: one.test.stderr for one in gaps if one.test is not None}

    def panel(axes: Axes, steps: Hashable) -> None:
        axes.set_title(f"N={shown_value(steps)}")
        for place, temp in enumerate(temps):
            nudge = (place - (len(temps) - 1) / 2) * 0.16
            line = [
                a
                for s in strategies
                for a in _along(arms, "unmask_temp", num_steps=steps, strategy=s)
                if a.fields["unmask_temp"] == temp
            ]
            xs = [strategies.index(a.fields["strategy"]) + nudge for a in line]
            bars = [paired.get(a.label) for a in line]
            _errors(axes, xs, line, metric, place, bars=bars, linestyle="none")
        _real_text(axes, data, metric)
        axes.set_xticks(range(len(strategies)), [str(s).replace("_", "\n") for s in strategies])
        axes.set_xlim(-0.6, len(strategies) - 0.4)

    def draw(width: float) -> Canvas:
        names = [f"t={shown_value(temp)}" for temp in temps]
        handles = _legend(names, data, metric, linestyle="none")
        return _panels(width, _values(arms, "num_steps"), panel, ("", title), handles)

    return render(
        f"strategies_{metric}",
        f"{title} by strategy at stochastic temperatures, one panel a budget. A bar is the "
        "standard error of the seed-by-seed difference from no remasking at the same temperature "
        "and budget; the baseline, which others are measured from, has none.",
        f"Dot plot of {title} by strategy. {_spots(arms, metric)}.",
        draw,
    )


def _panels(
    width: float,
    values: Sequence[Hashable],
    panel: Callable[[Axes, Hashable], None],
    titles: tuple[str, str],
    handles: Sequence[Line2D | Patch],
    *,
    share: bool = False,
) -> Canvas:
    """One panel a value, side by side, or below each other where the figure is narrow."""
    wide = width > NARROW
    columns = min(len(values), 4 if len(values) == 4 else 3) if wide else 1
    lines = -(-len(values) // columns)
    legend = 0.3 + 0.2 * -(-len(handles) // (4 if wide else 2))
    canvas = Canvas(figsize=(width, legend + lines * (2.7 if wide else 2.2)), layout="constrained")
    grid = canvas.subplots(lines, columns, sharex=share, sharey=True, squeeze=False)
    for place, value in enumerate(values):
        axes = grid[place // columns][place % columns]
        panel(axes, value)
        axes.set_xlabel(titles[0])
        if place % columns == 0:
            axes.set_ylabel(titles[1])
    for axes in grid.flat[len(values) :]:
        axes.set_axis_off()
    canvas.legend(
        handles=list(handles),
        loc="outside lower center",
        ncols=4 if wide else 2,
        handlelength=2.4,
        columnspacing=1.4,
    )
    return canvas


def _errors(
    axes: Axes,
    xs: Sequence[float],
    arms: Sequence[Arm],
    metric: str,
    place: int,
    *,
    bars: Sequence[float | None] | None = None,
    linestyle: Any = None,
) -> None:
    if bars is None:
        bars = [arm.score(metric).stderr for arm in arms]
    axes.errorbar(
        xs,
        [_number(arm, metric) for arm in arms],
        # No bar, not even caps, where there is no error.
        yerr=[math.nan if bar is None else bar for bar in bars],
        linestyle=_DASHES[place % len(_DASHES)] if linestyle is None else linestyle,
        color=SERIES_COLOURS[place % len(SERIES_COLOURS)],
        marker=_MARKERS[place % len(_MARKERS)],
        markeredgecolor=PAPER,
        elinewidth=1,
    )


def _real_text(axes: Axes, data: ReportData, metric: str) -> None:
    """The null band, and the AR arm as a line."""
    band = data.null_band.get(metric)
    if band is not None:
        axes.axhspan(band.low, band.high, color=SHADE, zorder=0)
        axes.axhline(band.mean, color=EDGE, linewidth=0.8, zorder=1)
    for arm in data.with_role("autoregressive"):
        if arm.score(metric).value is not None:
            axes.axhline(_number(arm, metric), color=SOFT, linestyle=(0, (6, 3)), linewidth=1.2)


def _legend(
    names: Sequence[Hashable], data: ReportData, metric: str, *, linestyle: Any = None
) -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = []
    handles += [
        Line2D(
            [],
            [],
            color=SERIES_COLOURS[place % len(SERIES_COLOURS)],
            marker=_MARKERS[place % len(_MARKERS)],
            markeredgecolor=PAPER,
            linestyle=_DASHES[place % len(_DASHES)] if linestyle is None else linestyle,
            label=str(name),
        )
        for place, name in enumerate(names)
    ]
    if metric in data.null_band:
        handles.append(Patch(facecolor=SHADE, edgecolor=EDGE, label="real vs real"))
    for arm in data.with_role("autoregressive"):
        if arm.score(metric).value is not None:
            style = {"color": SOFT, "linestyle": (0, (6, 3)), "linewidth": 1.2}
            handles.append(Line2D([], [], **style, label="AR model"))
    return handles


def _measured(data: ReportData, metric: str) -> list[Arm]:
    arms = data.with_role("generated")
    return [arm for arm in arms if arm.score(metric).value is not None]


def _values(arms: Sequence[Arm], field: str) -> list:
    """Distinct settings of the arms: numbers in ascending order, names as they come."""
    found = list(dict.fromkeys(arm.fields[field] for arm in arms))
    return found if field == "strategy" else sorted(found)  # type: ignore[type-var]


def _along(arms: Sequence[Arm], field: str, **fixed: Hashable) -> list[Arm]:
    """The arms with the fixed settings, in the order of another."""
    line = [arm for arm in arms if all(arm.fields[k] == v for k, v in fixed.items())]
    return sorted(line, key=lambda arm: arm.fields[field])  # type: ignore[arg-type, return-value]


def _number(arm: Arm, metric: str) -> float:
    value = arm.score(metric).value
    assert value is not None
    return value


def _spots(arms: Sequence[Arm], metric: str) -> str:
    return "; ".join(f"{arm.label}: {plain_text(arm.score(metric))}" for arm in arms)
