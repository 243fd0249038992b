"""The figure of a study: metrics by ladders, coloured by the least damage that is seen."""

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import matplotlib.style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch, Rectangle

from ..report.figures import EDGE, INK, PAPER, SOFT, STYLE, VERMILLION
from .summary import Records, Summary, ladder_names

_UNSEEN = "#e9ecef"
_COLOURS = "Blues_r"


def detection_figure(summaries: Sequence[Summary], records: Records) -> bytes:
    """PNG: a panel a size of bank, a column a ladder, a row a number.

    A cell gives the least level that at least 80% of the draws show, darker for less damage
    (by the logarithm of the level, within the levels that were tested of the ladder). Grey: not
    seen at the highest level. A red frame: a level that is seen scores better than clean text.
    """
    sizes = list(summaries[0].detection)
    names = ladder_names(records)
    tested = {n: [r["level"] for r in records if r["ladder"] == n] for n in names}
    with matplotlib.style.context(["default", str(STYLE)]):
        width = 1.9 + 0.44 * len(names) * len(sizes)
        canvas = Canvas(figsize=(width, 1.9 + 0.22 * len(summaries)), layout="constrained")
        panels = canvas.subplots(1, len(sizes), squeeze=False)[0]
        for panel, size in zip(panels, sizes):
            _draw_panel(panel, summaries, size, names, tested)
            if panel is not panels[0]:
                panel.set_yticklabels([])
        colours = matplotlib.colormaps[_COLOURS]
        handles = [
            Patch(facecolor=colours(0.08), edgecolor=EDGE, label="least level tested, or below"),
            Patch(facecolor=colours(0.85), edgecolor=EDGE, label="highest level only"),
            Patch(facecolor=_UNSEEN, edgecolor=EDGE, label="not seen"),
            Patch(facecolor=PAPER, edgecolor=VERMILLION, linewidth=1.4, label="scored as better"),
        ]
        canvas.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
        stream = io.BytesIO()
        FigureCanvasAgg(canvas).print_png(stream, metadata={"Software": None})
    return stream.getvalue()


def _draw_panel(
    panel: Any,
    summaries: Sequence[Summary],
    size: str,
    names: Sequence[str],
    tested: Mapping[str, Sequence[float]],
) -> None:
    colours = matplotlib.colormaps[_COLOURS]
    for i, row in enumerate(summaries):
        for j, name in enumerate(names):
            found = row.detection[size][name]
            place = None if found.level is None else _place(found.level, tested[name])
            colour = _UNSEEN if place is None else colours(0.08 + 0.77 * place)
            panel.add_patch(Rectangle((j, i), 1, 1, facecolor=colour, edgecolor=PAPER, lw=0.8))
            if found.level is not None:
                ink = PAPER if place is not None and place < 0.55 else INK
                panel.text(
                    j + 0.5, i + 0.52, _short(found.level), ha="center", va="center",
                    fontsize=6.3, color=ink,
                )  # fmt: skip
    for i, row in enumerate(summaries):  # frames above all cells
        for j, name in enumerate(names):
            if row.detection[size][name].rewarded:
                panel.add_patch(
                    Rectangle(
                        (j + 0.05, i + 0.05), 0.9, 0.9, fill=False, edgecolor=VERMILLION, lw=1.4
                    )
                )
    panel.set_xlim(0, len(names))
    panel.set_ylim(len(summaries), 0)
    panel.set_xticks([j + 0.5 for j in range(len(names))], names, rotation=60, ha="right")
    panel.set_yticks([i + 0.5 for i in range(len(summaries))], [row.name for row in summaries])
    panel.tick_params(length=0)
    panel.grid(visible=False)
    for spine in panel.spines.values():
        spine.set_visible(False)
    panel.set_title(f"banks of {size} rows", color=SOFT)


def _place(level: float, tested: Sequence[float]) -> float:
    """0 at the least level tested and below, 1 at the highest."""
    low, high = min(tested), max(tested)
    if low == high:
        return 0.0
    return min(1.0, max(0.0, math.log(level / low) / math.log(high / low)))


def _short(level: float) -> str:
    """Two digits, without the zero before the point."""
    text = f"{level:.2g}" if level >= 0.01 else f"{level:.1g}"
    return text.removeprefix("0") if text.startswith("0.") else text
