"""Figures of unmasking: replacement along the steps, stability maps, metrics along NFE."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    LogLocator,
    MaxNLocator,
    NullFormatter,
    PercentFormatter,
    ScalarFormatter,
)

from ....samplers import CELL_CLASSES
from ...scoring.churn import StepRates
from ..data import STDERR, Arm, ReportData, Trajectory
from ..figures import EDGE, NARROW, Figure, render
from ..heatmap import class_legend, draw_classes
from ..labels import columns_that_fit
from ..points import draw_null, null_key
from ..profile import PROFILE, Column
from ..rounding import plain_text
from ..series import colour, dash, look

# Columns of the first NFE figure: what the collapse flags read, and what they are set against.
VARIETY = ("gen_ppl", "self_bleu", "h_uni", "h_pos", "distinct_3", "mauve")
_MEASURES = ("nats/token", "bits/byte", "tokens")  # other columns are shares or distances
_ARROWS = {"up": " ↑", "down": " ↓", None: ""}


def replacement_curves(
    curves: Mapping[str, StepRates], *, name: str = "replacement", about: str = ""
) -> Figure:
    """Share of positions put back or changed at each step, one line a strategy.

    CaRE (arXiv 2607.24763) Fig. 7.

    Args:
        curves: {strategy: its rates}.
        name: of the files.
        about: what was recorded, for the caption.
    """

    def draw(width: float) -> Canvas:
        canvas = Canvas(figsize=(width, 3.4), layout="constrained")
        axes = canvas.add_subplot()
        for place, (label, rates) in enumerate(curves.items()):
            low, high = rates.mean - rates.stderr, rates.mean + rates.stderr
            axes.fill_between(rates.step, low, high, color=colour(place), alpha=0.18, linewidth=0)
            line = dash(place)
            axes.plot(rates.step, rates.mean, color=colour(place), linestyle=line, label=label)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.margins(x=0.02)
        axes.set_xlabel("nominal step")
        axes.set_ylabel("positions replaced in the step")
        canvas.legend(
            loc="outside lower center", ncols=columns_that_fit(curves, width, 4), handlelength=2.6
        )
        return canvas

    spots = "; ".join(
        f"{label}: {rates.mean.mean():.2%} on average, {rates.mean.max():.2%} at most"
        for label, rates in curves.items()
    )
    return render(
        name,
        "Share of positions that a step puts back or changes. Bands are one standard error over "
        f"samples. {about}".strip(),
        f"Line plot of the replacement rate against the nominal step. {spots}.",
        draw,
    )


def stability(
    trajectories: Mapping[str, Trajectory], *, name: str = "stability", about: str = ""
) -> Figure:
    """The stability map of one sample of each strategy, side by side.

    CaRE (arXiv 2607.24763) Fig. 4.

    Args:
        trajectories: {title of its panel: trajectory}.
        name: of the files.
        about: what was recorded, for the caption.
    """

    def draw(width: float) -> Canvas:
        columns = min(len(trajectories), 4 if width > NARROW else 2)
        rows = math.ceil(len(trajectories) / columns)
        shape = max(t.classes.shape[0] / t.classes.shape[1] for t in trajectories.values())
        height = min(max(shape, 0.6), 1.6) * width / columns
        canvas = Canvas(figsize=(width, 0.7 + rows * (height + 0.1)), layout="constrained")
        panels = canvas.subplots(rows, columns, squeeze=False)
        for panel, (title, trajectory) in zip(panels.flat, trajectories.items()):
            draw_classes(panel, trajectory.classes)
            panel.set_title(title, fontsize=8.5 if width > NARROW else 7.5)
            panel.xaxis.set_major_locator(MaxNLocator(4, integer=True, min_n_ticks=2))
            panel.yaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=2))
        for panel in panels.flat[len(trajectories) :]:
            panel.set_axis_off()
        _name_axes(panels, len(trajectories), "position", "nominal step")
        class_legend(canvas, width)
        return canvas

    stable = {title: _stable(t) for title, t in trajectories.items()}
    shares = "; ".join(f"{title}: {text}" for title, text in stable.items())
    return render(
        name,
        "Unmasking of one sample of each strategy: the first row is the first nominal step, each "
        "column a position. White is still masked, orange newly unmasked, blue stable, red "
        f"remasked or changed in place. Stable cells: {shares}. {about}".strip(),
        f"Heat maps of steps by positions, one a strategy. Stable cells: {shares}.",
        draw,
    )


def nfe_figure(data: ReportData, metrics: Sequence[str], *, name: str) -> Figure:
    """One panel a metric: its value against counted forwards, one line a strategy.

    Args:
        data: arms with `nfe_mean` among their scores.
        metrics: columns of the profile; those that no arm has are left out.
        name: of the files.
    """
    columns = [c for c in PROFILE if c.metric in metrics and _drawn(data, c.metric)]
    series = nfe_series(data)

    def draw(width: float) -> Canvas:
        across = 3 if width > NARROW else 2
        rows = math.ceil(len(columns) / across)
        canvas = Canvas(figsize=(width, 0.9 + 0.82 * rows * width / across), layout="constrained")
        panels = canvas.subplots(rows, across, squeeze=False)
        for panel, column in zip(panels.flat, columns):
            _draw_metric(panel, data, column, series)
        for panel in panels.flat[len(columns) :]:
            panel.set_axis_off()
        _name_axes(panels, len(columns), "forwards (NFE)")
        lines = [
            Line2D([], [], **look(place, size=5.5), label=label)
            for place, label in enumerate(series)
        ]
        real = Line2D([], [], color=EDGE, linestyle="--", linewidth=1.2, label="real text")
        handles = [*lines, real, null_key()]
        texts = [str(handle.get_label()) for handle in handles]
        canvas.legend(
            handles=handles,
            loc="outside lower center",
            ncols=columns_that_fit(texts, width, 4),
            handlelength=2.6,
        )
        return canvas

    spots = "; ".join(
        f"{column.title} of {label} from {_ends(arms, column.metric)}"
        for column in columns
        for label, arms in series.items()
    )
    return render(
        name,
        "Metrics along compute: each point is a budget, at the forwards a sample really took (log "
        "scale). Bars are "
        f"one {STDERR}; the dashed line is real text, the grey band what real "
        f"text scores against real text.{_units(data, columns)}",
        f"{len(columns)} line plots against the number of forwards. {spots}.",
        draw,
    )


def nfe_series(data: ReportData) -> dict[str, list[Arm]]:
    """Generated arms by strategy, and by temperature where there are several, sorted by NFE."""
    arms = [a for a in data.with_role("generated") if a.score("nfe_mean").value is not None]
    temps = {arm.fields["unmask_temp"] for arm in arms}
    found: dict[str, list[Arm]] = {}
    for arm in arms:
        suffix = f" t={arm.fields['unmask_temp']:g}" if len(temps) > 1 else ""
        found.setdefault(f"{arm.fields['strategy']}{suffix}", []).append(arm)
    return {label: sorted(members, key=nfe_of) for label, members in found.items()}


def nfe_of(arm: Arm) -> float:
    """Counted forwards a sample of an arm, averaged over samples and seeds."""
    value = arm.score("nfe_mean").value
    return math.nan if value is None else value


def _draw_metric(
    panel: Axes, data: ReportData, column: Column, series: Mapping[str, Sequence[Arm]]
) -> None:
    draw_null(panel, data, column.metric)
    for real in data.with_role("reference"):
        value = real.score(column.metric).value
        if value is not None:
            panel.axhline(value, color=EDGE, linestyle="--", linewidth=1.2, zorder=1)
    for place, arms in enumerate(series.values()):
        points = [(nfe_of(a), a.score(column.metric)) for a in arms]
        kept = [(x, n.value, n.stderr or 0.0) for x, n in points if n.value is not None]
        if kept:
            x, y, errors = zip(*kept)
            panel.errorbar(x, y, yerr=errors, **look(place, size=5.5), elinewidth=1)
    panel.set_title(column.title + _ARROWS[_direction(data, column)], fontsize=9)
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_locator(LogLocator(base=2, numticks=7))
    panel.xaxis.set_major_formatter(ScalarFormatter())
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.yaxis.set_major_locator(MaxNLocator(4))
    panel.margins(x=0.08, y=0.12)


def _name_axes(panels: np.ndarray, count: int, x: str, y: str = "") -> None:
    """Names the x axis of the lowest used panel of each column, the y axis of the first ones."""
    across = panels.shape[1]
    for place, panel in enumerate(panels.flat[:count]):
        if place + across >= count:
            panel.set_xlabel(x)
        if place % across == 0:
            panel.set_ylabel(y)


def _direction(data: ReportData, column: Column) -> str | None:
    found = [arm.score(column.metric).direction for arm in data.with_role("generated")]
    return next((d for d in found if d), None) if column.marked else None


def _units(data: ReportData, columns: Sequence[Column]) -> str:
    """A sentence on the columns that are measured in something."""
    titles: dict[str, list[str]] = {}
    for column in columns:
        found = (arm.score(column.metric).unit for arm in data.with_role("generated"))
        unit = next((unit for unit in found if unit in _MEASURES), None)
        if unit:
            titles.setdefault(unit, []).append(column.title)
    parts = [f"{', '.join(names)} in {unit}" for unit, names in titles.items()]
    return f" Units: {'; '.join(parts)}." if parts else ""


def _drawn(data: ReportData, metric: str) -> bool:
    return any(arm.score(metric).value is not None for arm in data.with_role("generated"))


def _ends(arms: Sequence[Arm], metric: str) -> str:
    first, last = (plain_text(arm.score(metric)) for arm in (arms[0], arms[-1]))
    return f"{first} at {nfe_of(arms[0]):.0f} to {last} at {nfe_of(arms[-1]):.0f}"


def _stable(trajectory: Trajectory) -> str:
    count = int(np.sum(trajectory.classes == CELL_CLASSES.index("stable")))
    return f"{count:,} of {trajectory.classes.size:,}"
