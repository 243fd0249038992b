"""Lines of arms over sample sizes and over encoders."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from .data import Arm, ReportData
from .figures import EDGE, INK, NARROW, SHADE, Figure, render
from .labels import columns_that_fit
from .points import null_key
from .rebenchmark.size_tables import SIZED, sized
from .rebenchmark.tables import GENERATED, TRAINED
from .rounding import plain_text
from .series import look

_COLUMNS = 3  # of a legend, at most


def size_figure(
    data: ReportData, sizes: Sequence[int], metric: str = "mauve", *, name: str = "sample_size"
) -> Figure:
    """A metric over nested sample sizes, one line an arm, real text's own band behind them."""
    title = dict(SIZED)[metric]

    def draw(width: float) -> Canvas:
        canvas, axes = _axes(width, data.with_role(*GENERATED))
        bands = [(n, band) for n in sizes if (band := data.null_band.get(sized(metric, n)))]
        handles: list[Line2D | Patch] = []
        if bands:
            xs = [n for n, _ in bands]
            axes.fill_between(
                xs, [b.low for _, b in bands], [b.high for _, b in bands], color=SHADE, zorder=0
            )
            axes.plot(xs, [b.mean for _, b in bands], color=EDGE, linewidth=0.9, zorder=1)
            handles.append(null_key())
        for place, arm in enumerate(data.with_role(*GENERATED)):
            scores = [(n, arm.score(sized(metric, n))) for n in sizes]
            found = [(n, s) for n, s in scores if s.value is not None]
            style = _look(place, arm)
            axes.errorbar(
                [n for n, _ in found],
                [s.value or 0.0 for _, s in found],
                yerr=[s.stderr or 0.0 for _, s in found],
                **style,
            )
            handles.append(Line2D([], [], **style, label=arm.label))
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(n) for n in sizes])
        axes.minorticks_off()
        axes.set_xlabel("samples on either side, log scale")
        axes.set_ylabel(title)
        _legend(canvas, handles, width)
        return canvas

    spots = "; ".join(
        f"{arm.label}: " + ", ".join(plain_text(arm.score(sized(metric, n))) for n in sizes)
        for arm in data.with_role(*GENERATED)
    )
    return render(
        name,
        f"{title} of the same banks at nested sizes. What moves with n is the estimate, not the"
        " generator: compare arms at one n, beside the null band at that n. Dotted lines are"
        " naive samplers.",
        f"Line plot of {title} over sample sizes {', '.join(map(str, sizes))}. {spots}.",
        draw,
    )


def rank_figure(
    data: ReportData, ranks: Mapping[str, Mapping[str, float]], *, name: str = "encoder_ranks"
) -> Figure:
    """Ranks of the arms under every encoder, joined by lines: crossings are disagreements."""
    encoders = list(ranks)

    def draw(width: float) -> Canvas:
        arms = data.with_role(*GENERATED)
        canvas, axes = _axes(width, arms)
        handles: list[Line2D | Patch] = []
        for place, arm in enumerate(arms):
            values = [ranks[encoder][arm.label] for encoder in encoders]
            style = _look(place, arm)
            axes.plot(range(len(encoders)), values, **style)
            handles.append(Line2D([], [], **style, label=arm.label))
        axes.set_xticks(range(len(encoders)), encoders, rotation=0 if width > NARROW else 30)
        axes.margins(x=0.08)
        axes.invert_yaxis()
        axes.set_ylabel("mean rank over four distances, best on top")
        _legend(canvas, handles, width)
        return canvas

    spots = "; ".join(
        f"{arm.label}: "
        + ", ".join(
            "missing" if math.isnan(rank := ranks[e][arm.label]) else f"{rank:g}" for e in encoders
        )
        for arm in data.with_role(*GENERATED)
    )
    return render(
        name,
        "Mean rank of every arm over the four distances of an encoder. Lines that cross are arms"
        " that encoders order differently. Dotted lines are naive samplers.",
        f"Line plot of mean ranks under {', '.join(encoders)}. {spots}.",
        draw,
    )


def _look(place: int, arm: Arm) -> dict:
    """That of its place; naive samplers are dark and dotted, which others never are."""
    naive = {"color": INK, "linestyle": ":"}
    return look(place) | (naive if arm.role not in TRAINED else {"linestyle": "-"})


def _axes(width: float, arms: Sequence[Arm]) -> tuple[Canvas, Axes]:
    columns = columns_that_fit((arm.label for arm in arms), width, _COLUMNS)
    legend = 0.17 * math.ceil(len(arms) / columns)
    canvas = Canvas(figsize=(width, 3.6 + legend), layout="constrained")
    return canvas, canvas.add_subplot()


def _legend(canvas: Canvas, handles: Sequence[Line2D | Patch], width: float) -> None:
    texts = [str(handle.get_label()) for handle in handles]
    columns = columns_that_fit(texts, width, _COLUMNS)
    canvas.legend(handles=handles, loc="outside lower center", ncols=columns)
