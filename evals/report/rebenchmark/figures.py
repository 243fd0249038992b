"""Maps of banks: two metrics against each other, trained models beside naive samplers and text."""

import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import StrMethodFormatter

from ..data import Arm, ReportData
from ..figures import (
    BLUE,
    EDGE,
    GREEN,
    INK,
    NARROW,
    ORANGE,
    PAPER,
    PURPLE,
    SHADE,
    SKY,
    SOFT,
    VERMILLION,
    Figure,
    render,
)
from ..labels import columns_that_fit, place_labels
from ..points import bars_of, draw_point, having, plain_log_ticks, spot_of
from ..rounding import plain_text
from .tables import TRAINED

NAIVE_NAMES = {
    "topk_iid": "Top-k IID",
    "mirror": "Mirror",
    "periodic": "Periodic",
    "phrase_bank": "Phrase bank",
}
_NAIVE_LOOKS = {
    "topk_iid": (ORANGE, "v"),
    "mirror": (SKY, "^"),
    "periodic": (VERMILLION, "X"),
    "phrase_bank": (INK, "P"),
}
_TRAINED_LOOKS = {
    "generated": (BLUE, "o", "diffusion"),
    "external": (GREEN, "s", "external"),
    "autoregressive": (PURPLE, "D", "AR model"),
}
_BOX = {"facecolor": SHADE, "edgecolor": EDGE, "linewidth": 0.8}
_MOST_NAMED = 6  # diffusion arms that get a label each


def attack_figure(data: ReportData, *, name: str = "attack") -> Figure:
    """Generative perplexity against unigram entropy over the sizes of naive samplers (B.3)."""
    return bank_map(
        data,
        "h_uni",
        "gen_ppl",
        x_title="unigram entropy (nats)",
        y_title="generative perplexity",
        scales=("linear", "log"),
        box=True,
        caption="Naive samplers over their sizes k or m. Below the line, generative perplexity"
        " prefers a sampler to real text; inside the box, unigram entropy does not tell it from"
        " the trained arms either.",
        name=name,
    )


def coding_figure(data: ReportData, *, name: str = "coding") -> Figure:
    """The two directions of the coding divergence: what is missed, and what is wrong (Fig. 8)."""
    return bank_map(
        data,
        "jcd_coverage",
        "jcd_fidelity",
        x_title="coverage: extra bits a byte to code real text by samples",
        y_title="fidelity: extra bits a byte to code samples by real text",
        scales=("symlog", "symlog"),
        box=False,
        caption="Directions of the Jeffreys coding divergence; 0 is real text. To the right,"
        " samples miss parts of the language; at the top, they hold what it does not. Axes are"
        " linear up to 0.1, logarithmic beyond.",
        name=name,
    )


def bank_map(
    data: ReportData,
    x: str,
    y: str,
    *,
    x_title: str,
    y_title: str,
    scales: tuple[str, str],
    box: bool,
    caption: str,
    name: str,
) -> Figure:
    """One metric against another; naive samplers are joined along their sizes.

    Args:
        scales: of either axis: "linear", "log" or "symlog" (linear within 0.1 of 0).
        box: whether the range of the trained arms is shaded, and real text drawn as a line; else
            what real text scores against real text is shaded.
    """

    def draw(width: float) -> Canvas:
        canvas = Canvas(figsize=(width, 4.9 if width > NARROW else 4.6), layout="constrained")
        axes = canvas.add_subplot()
        handles: list[Line2D | Patch] = []
        labels, spare, others = [], [], []
        trained = having(data.with_role(*TRAINED), x, y)
        if box and len(trained) > 1:
            handles.append(_range_box(axes, trained, x, y))
        if not box and x in data.null_band and y in data.null_band:
            handles += _null_box(axes, data, x, y)
            others.append(_null_spot(data, x, y))
        lines = [bar for arm in trained for bar in bars_of(arm, x, y)]
        for role, (colour, marker, title) in _TRAINED_LOOKS.items():
            arms = [arm for arm in trained if arm.role == role]
            for arm in arms:
                _draw_arm(axes, arm, x, y, colour, marker)
            named = role != "generated" or len(arms) <= _MOST_NAMED
            labels += [(arm.label, spot_of(arm, x, y), SOFT) for arm in arms if named]
            others += [spot_of(arm, x, y) for arm in arms if not named]
            if arms:
                handles.append(_handle(colour, marker, title))
        naive = having(data.with_role("heuristic"), x, y)
        for strategy, (colour, marker) in _NAIVE_LOOKS.items():
            arms = sorted(
                (arm for arm in naive if arm.fields.get("strategy") == strategy), key=_size
            )
            if not arms:
                continue
            spots = [spot_of(arm, x, y) for arm in arms]
            axes.plot(*zip(*spots, strict=True), color=colour, linewidth=1, alpha=0.6)
            for arm in arms:
                _draw_arm(axes, arm, x, y, colour, marker)
            lines += [spots, *(bar for arm in arms for bar in bars_of(arm, x, y))]
            sizes = [(f"{_size(a):g}", s, INK) for a, s in zip(arms, spots, strict=True)]
            labels += sizes[:1] + sizes[1:][-1:]
            spare += sizes[1:-1]
            others += spots[1:-1]
            handles.append(_handle(colour, marker, f"{NAIVE_NAMES[strategy]}, by size"))
        for arm in having(data.with_role("reference"), x, y):
            _draw_arm(axes, arm, x, y, SOFT, "*", size=12)
            labels.append((arm.label, spot_of(arm, x, y), SOFT))
            if box:
                line = {"color": EDGE, "linewidth": 0.9, "linestyle": (0, (5, 3))}
                axes.axhline(spot_of(arm, x, y)[1], **line, zorder=1)
        for which, scale in zip("xy", scales, strict=True):
            _scale(axes, which, scale)
        axes.margins(x=0.08, y=0.1)
        # Longer titles would leave the narrow figure at both ends.
        letters = 80 if width > NARROW else 34
        axes.set_xlabel(textwrap.fill(x_title, letters))
        y_scaled = y_title + (", log scale" if scales[1] == "log" else "")
        axes.set_ylabel(textwrap.fill(y_scaled, letters))
        texts = [str(handle.get_label()) for handle in handles]
        columns = columns_that_fit(texts, width, 4)
        canvas.legend(handles=handles, loc="outside lower center", ncols=columns)
        place_labels(canvas, axes, labels, others, lines=lines, spare=spare)
        return canvas

    spots = "; ".join(
        f"{arm.label}: {plain_text(arm.score(x))}, {plain_text(arm.score(y))}"
        for arm in having(data.arms, x, y)
    )
    alt = f"Scatter plot of {y_title} against {x_title}. As x, y: {spots}."
    key = "Numbers are sizes, at both ends of a line and where there is room between them."
    return render(name, f"{caption} {key}", alt, draw)


def _range_box(axes: Axes, arms: Sequence[Arm], x: str, y: str) -> Patch:
    """Shades the range of the trained arms; returns its entry of the legend."""
    xs, ys = zip(*(spot_of(arm, x, y) for arm in arms), strict=True)
    corner = min(xs), min(ys)
    axes.add_patch(Rectangle(corner, max(xs) - corner[0], max(ys) - corner[1], zorder=0, **_BOX))
    return Patch(**_BOX, label="range of trained arms")


def _null_box(axes: Axes, data: ReportData, x: str, y: str) -> list[Line2D | Patch]:
    """Marks what real text scores against real text; returns its entries of the legend."""
    (left, right), (low, high) = ((data.null_band[m].low, data.null_band[m].high) for m in (x, y))
    star = {"color": SOFT, "marker": "*", "markersize": 9, "linestyle": "none"}
    axes.plot(*_null_spot(data, x, y), zorder=3, **star)
    found: list[Line2D | Patch] = [Line2D([], [], **star, label="real vs real")]
    if left < right and low < high:  # one null bank has no range
        axes.add_patch(Rectangle((left, low), right - left, high - low, zorder=0, **_BOX))
        found.append(Patch(**_BOX, label="its null band"))
    return found


def _null_spot(data: ReportData, x: str, y: str) -> tuple[float, float]:
    return data.null_band[x].mean, data.null_band[y].mean


def _draw_arm(
    axes: Axes, arm: Arm, x: str, y: str, colour: str, marker: str, size: float = 7
) -> None:
    style = {"color": colour, "marker": marker, "markersize": size, "markeredgecolor": PAPER}
    draw_point(axes, arm, x, y, **style)


def _handle(colour: str, marker: str, label: str) -> Line2D:
    return Line2D(
        [], [], color=colour, marker=marker, markeredgecolor=PAPER, linestyle="none", label=label
    )


def _scale(axes: Axes, which: str, scale: str) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    if scale == "symlog":
        getattr(axes, f"set_{which}scale")("symlog", linthresh=0.1)
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    elif scale == "log":
        getattr(axes, f"set_{which}scale")("log")
        plain_log_ticks(axis)


def _size(arm: Arm) -> float:
    return float(str(arm.fields["size"]))
