"""Which settings of a grid no other dominates in perplexity and MAUVE (CaRE, Fig. 2)."""

from collections.abc import Sequence

from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ..data import STDERR, Arm, ReportData
from ..figures import EDGE, NARROW, PAPER, SOFT, Figure, render
from ..labels import columns_that_fit, place_labels
from ..points import bars_of, draw_null, draw_point, having, null_key, plain_log_ticks, spot_of
from ..rounding import plain_text
from ..series import colour, marker
from .frontier_table import non_dominated_arms
from .tables import TITLES, perplexity_metric, shown_value

_SIZES = (4.5, 6.5, 8.5)  # of the markers, from the smallest budget on


def pareto_figure(data: ReportData, *, name: str = "pareto") -> Figure:
    """MAUVE against perplexity, one point a setting; those that no other dominates are ringed.

    Args:
        data: generated arms of a grid of strategy, temperature and budget.
        name: of the files.
    """
    x, y = perplexity_metric(data), "mauve"
    arms = having(data.with_role("generated"), x, y)
    edge = non_dominated_arms(arms, x, y)
    strategies = list(dict.fromkeys(str(arm.fields["strategy"]) for arm in arms))
    budgets = sorted({int(str(arm.fields["num_steps"])) for arm in arms})
    sizes = {n: _SIZES[min(place, len(_SIZES) - 1)] for place, n in enumerate(budgets)}

    def draw(width: float) -> Canvas:
        canvas = Canvas(figsize=(width, 4.2 if width > NARROW else 4.6), layout="constrained")
        axes = canvas.add_subplot()
        band = draw_null(axes, data, y)
        stair = sorted(spot_of(arm, x, y) for arm in edge)
        if stair:
            axes.plot(*zip(*stair), color=EDGE, drawstyle="steps-post", linewidth=1, zorder=1)
            axes.plot(
                *zip(*stair), "o", color=EDGE, markerfacecolor="none", markersize=13, zorder=4
            )
        for arm in arms:
            place = strategies.index(str(arm.fields["strategy"]))
            draw_point(
                axes,
                arm,
                x,
                y,
                color=colour(place),
                marker=marker(place),
                markersize=sizes[int(str(arm.fields["num_steps"]))],
                markerfacecolor=PAPER if arm.fields["unmask_temp"] else colour(place),
            )
        axes.set_xscale("log")
        plain_log_ticks(axes.xaxis)
        axes.margins(x=0.1, y=0.12)
        axes.set_xlabel(f"{TITLES[x][0]}, log scale")
        axes.set_ylabel(TITLES[y][0])
        handles: list[Line2D | Patch] = [
            Line2D([], [], color=colour(place), marker=marker(place), label=label)
            for place, label in enumerate(strategies)
        ]
        for n in budgets:
            dot = Line2D([], [], color=EDGE, marker="o", linestyle="none", markersize=sizes[n])
            dot.set_label(f"N={shown_value(n)}")
            handles.append(dot)
        if band:
            handles.append(null_key())
        texts = [str(handle.get_label()) for handle in handles]
        columns = columns_that_fit(texts, width, len(handles))
        canvas.legend(handles=handles, loc="outside lower center", ncols=columns)
        labels = [(text, spot, SOFT) for spot, text in _settings(edge, x, y).items()]
        others = [spot_of(arm, x, y) for arm in arms if arm not in edge]
        bars = [bar for arm in arms for bar in bars_of(arm, x, y)]
        place_labels(canvas, axes, labels, others, lines=bars)
        return canvas

    spots = "; ".join(
        f"{arm.label}: {plain_text(arm.score(y))} at perplexity {plain_text(arm.score(x))}"
        for arm in arms
    )
    return render(
        name,
        f"MAUVE against perplexity over all temperatures and budgets; larger markers are larger "
        "budgets, filled ones deterministic unmasking (t = 0), open ones stochastic. Ringed "
        "settings are dominated by no other, and the stair is what they reach together. Bars are "
        f"one {STDERR}. A perplexity below that of real text is no merit.",
        f"Scatter plot of MAUVE against perplexity. {spots}. "
        f"Not dominated: {', '.join(arm.label for arm in edge) or 'none'}.",
        draw,
    )


def _settings(arms: Sequence[Arm], x: str, y: str) -> dict[tuple[float, float], str]:
    """{point: its setting}; budgets that end in the same point share a text."""
    found: dict[tuple[float, float], dict[str, list[str]]] = {}
    for arm in arms:
        temps = found.setdefault(spot_of(arm, x, y), {})
        budgets = temps.setdefault(f"t={shown_value(arm.fields['unmask_temp'])}", [])
        budgets.append(shown_value(arm.fields["num_steps"]))
    return {
        spot: "; ".join(f"{temp} N={'/'.join(budgets)}" for temp, budgets in temps.items())
        for spot, temps in found.items()
    }
