"""Matrices of correlations as figures."""

import math
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure as Canvas

from ...statistics.correlations import Correlations
from ..figures import BLUE, PAPER, SHADE, SOFT, VERMILLION, Figure, render

# Blue agrees, vermillion contradicts, and both are told apart by most colour-blind readers.
_COLOURS = LinearSegmentedColormap.from_list("agreement", [VERMILLION, "#ffffff", BLUE])
# Inches: of a square that holds a number, and beside the squares for names.
_SQUARE, _MARGIN = 0.26, 0.95
_STRONG = 0.85  # beyond this white is easier to read on the square than ink


def correlation_figure(matrices: Mapping[str, Correlations], *, name: str, caption: str) -> Figure:
    """Spearman correlations, one panel a matrix, the number in every square.

    Args:
        matrices: {title of the panel: correlations}.
    """

    def draw(width: float) -> Canvas:
        largest = max(len(matrix.columns) for matrix in matrices.values())
        across = max(1, min(len(matrices), int(width // (_SQUARE * largest + _MARGIN))))
        down = math.ceil(len(matrices) / across)
        side = width / across
        canvas = Canvas(figsize=(width, down * (side * 0.98 + 0.3)), layout="constrained")
        panels = np.atleast_1d(canvas.subplots(down, across, squeeze=False)).ravel()
        for axes, (title, matrix) in zip(panels, matrices.items(), strict=False):
            _panel(
                axes, title, matrix, digits=(side - _MARGIN) / len(matrix.columns) > _SQUARE - 0.01
            )
        for axes in panels[len(matrices) :]:
            axes.set_axis_off()
        return canvas

    spots = ". ".join(
        f"{title}: "
        + "; ".join(
            f"{one} and {other} {'undefined' if math.isnan(rho) else f'{rho:.2f}'}"
            for one, other, rho, _ in matrix.pairs()
        )
        for title, matrix in matrices.items()
    )
    return render(name, caption, f"Matrices of Spearman correlations. {spots}.", draw)


def _panel(axes: Axes, title: str, matrix: Correlations, *, digits: bool) -> None:
    count = len(matrix.columns)
    shades = np.ma.masked_invalid(matrix.rho)
    # Squares are drawn as paths, so that they stay sharp and follow the page's colours.
    axes.pcolormesh(shades, cmap=_COLOURS, norm=Normalize(-1, 1), edgecolors=PAPER, linewidth=0.8)
    axes.set_facecolor(SHADE)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.grid(False)
    places = np.arange(count) + 0.5
    axes.set_xticks(places, matrix.columns, rotation=90)
    axes.set_yticks(places, matrix.columns)
    axes.tick_params(length=0)
    axes.set_title(title)
    if not digits:
        return
    for i in range(count):
        for j in range(count):
            rho = float(matrix.rho[i, j])
            strong = not math.isnan(rho) and abs(rho) > _STRONG
            text = _digits(rho)
            colour = "#fefefe" if strong else SOFT if math.isnan(rho) else "#20252a"
            axes.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=6.5, color=colour)


def _digits(rho: float) -> str:
    """Two decimals without the zero before the point; a bare 1, a dash where undefined."""
    if math.isnan(rho):
        return "–"
    text = f"{rho:.2f}"
    return {"1.00": "1", "-1.00": "−1"}.get(text, text.replace("0.", ".").replace("-", "−"))
