"""Figures of a grid of strategy, temperature and budget: interaction, cost, strategies."""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ..data import STDERR, Arm, ReportData
from ..figures import EDGE, NARROW, SHADE, SOFT, Figure, render
from ..points import draw_null, having, value_of
from ..rounding import plain_text
from ..series import look
from .gaps import Gap
from .tables import TITLES, shown_value

_AR_LINE = {"color": SOFT, "linestyle": (0, (6, 3)), "linewidth": 1.2}


def interaction_figure(data: ReportData, metric: str = "mauve") -> Figure:
    """A metric against temperature, one line a strategy, one panel a budget."""
    title = TITLES[metric][0]
    arms = having(data.with_role("generated"), metric)
    strategies = _values(arms, "strategy")

    def panel(axes: Axes, steps: Hashable) -> None:
        axes.set_title(f"N={shown_value(steps)}")
        temps = _values(arms, "unmask_temp")
        for place, strategy in enumerate(strategies):
            line = _along(arms, "unmask_temp", num_steps=steps, strategy=strategy)
            # Temperatures are settings, not distances: evenly spaced, and lines set side by side.
            nudge = (place - (len(strategies) - 1) / 2) * min(0.08, 0.6 / len(strategies))
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
        "interaction: what a strategy is worth depends on the temperature. Bars are one "
        f"{STDERR}; the grey band is what real text scores against real text.",
        f"Line plot of {title} against unmasking temperature. {_spots(arms, metric)}.",
        draw,
    )


def cost_figure(data: ReportData, metric: str = "mauve", *, name: str = "cost") -> Figure:
    """A metric against counted forwards, one line a strategy along N, one panel a temperature."""
    title = TITLES[metric][0]
    arms = having(data.with_role("generated"), metric, "nfe_mean")
    strategies = _values(arms, "strategy")

    def panel(axes: Axes, temp: Hashable) -> None:
        axes.set_title(f"t={shown_value(temp)}")
        for place, strategy in enumerate(strategies):
            line = _along(arms, "num_steps", unmask_temp=temp, strategy=strategy)
            _errors(axes, [value_of(arm, "nfe_mean") for arm in line], line, metric, place)
        _real_text(axes, data, metric)
        axes.margins(x=0.12)

    def draw(width: float) -> Canvas:
        temps = _values(arms, "unmask_temp")
        titles = ("NFE", title)
        return _panels(width, temps, panel, titles, _legend(strategies, data, metric), share=True)

    return render(
        f"{name}_{metric}",
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
    arms = [arm for arm in having(data.with_role("generated"), metric) if arm.fields["unmask_temp"]]
    strategies, temps = _values(arms, "strategy"), _values(arms, "unmask_temp")
    paired = {one.second: one.test.stderr for one in gaps if one.test is not None}
    upright = len(strategies) > 4  # names that would run into each other

    def panel(axes: Axes, steps: Hashable) -> None:
        axes.set_title(f"N={shown_value(steps)}")
        for place, temp in enumerate(temps):
            nudge = (place - (len(temps) - 1) / 2) * min(0.16, 0.6 / len(temps))
            line = [
                a
                for s in strategies
                for a in _along(arms, "unmask_temp", num_steps=steps, strategy=s)
                if a.fields["unmask_temp"] == temp
            ]
            xs = [strategies.index(a.fields["strategy"]) + nudge for a in line]
            bars = [paired.get(a.label) for a in line]
            _errors(axes, xs, line, metric, place, bars=bars, joined=False)
        _real_text(axes, data, metric)
        names = [str(s).replace("_", " " if upright else "\n") for s in strategies]
        axes.set_xticks(range(len(strategies)), names, rotation=90 if upright else 0)
        axes.set_xlim(-0.6, len(strategies) - 0.4)

    def draw(width: float) -> Canvas:
        names = [f"t={shown_value(temp)}" for temp in temps]
        handles = _legend(names, data, metric, joined=False)
        steps, taller = _values(arms, "num_steps"), 0.7 if upright else 0.0
        return _panels(width, steps, panel, ("", title), handles, taller=taller)

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
    taller: float = 0.0,
) -> Canvas:
    """One panel a value, side by side, or below each other where the figure is narrow.

    `taller` is height in inches that names below the panels take up.
    """
    wide = width > NARROW
    columns = min(len(values), 4 if len(values) == 4 else 3) if wide else 1
    lines = -(-len(values) // columns)
    # As few rows as fit, and those filled evenly.
    short = max(len(str(handle.get_label())) for handle in handles) <= 12
    rows = -(-len(handles) // ((6 if short else 4) if wide else 2))
    height = 0.3 + 0.2 * rows + lines * (taller + (2.7 if wide else 2.2))
    canvas = Canvas(figsize=(width, height), layout="constrained")
    grid = canvas.subplots(lines, columns, sharex=share, sharey=True, squeeze=False)
    for place, value in enumerate(values):
        axes = grid[place // columns][place % columns]
        panel(axes, value)
        axes.set_xlabel(titles[0])
        axes.tick_params(labelbottom=True)  # shared axes keep them for the lowest panels
        if place % columns == 0:
            axes.set_ylabel(titles[1])
    for axes in grid.flat[len(values) :]:
        axes.set_axis_off()
    canvas.legend(
        handles=list(handles),
        loc="outside lower center",
        ncols=-(-len(handles) // rows),
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
    joined: bool = True,
) -> None:
    if bars is None:
        bars = [arm.score(metric).stderr for arm in arms]
    axes.errorbar(
        xs,
        [value_of(arm, metric) for arm in arms],
        # No bar, not even caps, where there is no error.
        yerr=[math.nan if bar is None else bar for bar in bars],
        elinewidth=1,
        **_look(place, joined),
    )


def _real_text(axes: Axes, data: ReportData, metric: str) -> None:
    """The null band, and the AR arm as a line."""
    draw_null(axes, data, metric)
    for arm in having(data.with_role("autoregressive"), metric):
        axes.axhline(value_of(arm, metric), **_AR_LINE)


def _legend(
    names: Sequence[Hashable], data: ReportData, metric: str, *, joined: bool = True
) -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = []
    handles += [
        Line2D([], [], **_look(place, joined), label=str(name)) for place, name in enumerate(names)
    ]
    if metric in data.null_band:
        handles.append(Patch(facecolor=SHADE, edgecolor=EDGE, label="real vs real"))
    if having(data.with_role("autoregressive"), metric):
        handles.append(Line2D([], [], **_AR_LINE, label="AR model"))
    return handles


def _look(place: int, joined: bool) -> dict[str, Any]:
    return look(place) | ({} if joined else {"linestyle": "none"})


def _values(arms: Sequence[Arm], field: str) -> list:
    """Distinct settings of the arms: numbers in ascending order, names as they come."""
    found = list(dict.fromkeys(arm.fields[field] for arm in arms))
    return found if field == "strategy" else sorted(found)  # type: ignore[type-var]


def _along(arms: Sequence[Arm], field: str, **fixed: Hashable) -> list[Arm]:
    """The arms with the fixed settings, in the order of another."""
    line = [arm for arm in arms if all(arm.fields[k] == v for k, v in fixed.items())]
    return sorted(line, key=lambda arm: arm.fields[field])  # type: ignore[arg-type, return-value]


def _spots(arms: Sequence[Arm], metric: str) -> str:
    return "; ".join(f"{arm.label}: {plain_text(arm.score(metric))}" for arm in arms)
