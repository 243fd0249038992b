"""The unmasking of one sample as a heat map, and the data of its step-by-step replay."""

import dataclasses
import json

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from ...samplers import CELL_CLASSES
from .data import Trajectory
from .figures import EDGE, NARROW, Figure, render

# White, orange, blue and red as in published trajectory plots; their lightness differs too, so
# that the classes stay apart without colour.
CLASS_STYLES = {
    "masked": ("#fdfdfd", "still masked"),
    "unmasked": ("#f2a93b", "newly unmasked"),
    "stable": ("#3f7fb5", "stable"),
    "replaced": ("#9f1d2f", "remasked or changed"),
}


@dataclasses.dataclass(frozen=True)
class Replay:
    """A trajectory to step through on the page: `payload` is JSON of texts and classes."""

    label: str
    text: str
    num_steps: int
    payload: str
    counts: tuple[tuple[str, int], ...]
    kind: str = dataclasses.field(default="replay", init=False)


def heat_map(trajectory: Trajectory, *, name: str = "trajectory") -> Figure:
    """Rows are nominal steps from the top, columns are positions of the generated region."""
    steps, length = trajectory.classes.shape

    def draw(width: float) -> Canvas:
        height = min(max(1.3 + width * 0.86 * steps / length, 2.4), 2.2 * width)
        canvas = Canvas(figsize=(width, height), layout="constrained")
        axes = canvas.add_subplot()
        draw_classes(axes, trajectory.classes)
        axes.set_xlabel("position")
        axes.set_ylabel("nominal step")
        class_legend(canvas, width)
        return canvas

    left = int((trajectory.classes[-1] == CELL_CLASSES.index("masked")).sum())
    late = f" {left} positions masked in the last row were filled after it." if left else ""
    shares = ", ".join(f"{title} {count}" for title, count in _counts(trajectory))
    return render(
        name,
        f"Unmasking of one sample, {trajectory.label}. Each row is a nominal step, each column a "
        f"position: white is still masked, orange newly unmasked, blue stable, red remasked or "
        f"changed in place.{late}",
        f"Heat map of {steps} steps by {length} positions. Cells: {shares}.",
        draw,
    )


def draw_classes(axes: Axes, classes: np.ndarray) -> None:
    """Fills axes with Int["steps length"] codes of `CELL_CLASSES`, first step on top."""
    steps, length = classes.shape
    for code, name in enumerate(CELL_CLASSES):
        path = _boxes(classes == code)
        if path is not None:
            axes.add_patch(PathPatch(path, facecolor=CLASS_STYLES[name][0], edgecolor="none"))
    axes.set_xlim(0.5, length + 0.5)
    axes.set_ylim(steps + 0.5, 0.5)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(True)


def class_legend(canvas: Canvas, width: float) -> None:
    """The classes and their colours, below a figure of a width."""
    styles = CLASS_STYLES.values()
    canvas.legend(
        handles=[Patch(facecolor=colour, edgecolor=EDGE, label=title) for colour, title in styles],
        loc="outside lower center",
        ncols=4 if width > NARROW else 2,
        handlelength=1.2,
    )


def replay(trajectory: Trajectory) -> Replay:
    """The same trajectory as text, to be stepped through with a slider."""
    vocabulary: dict[str, int] = {}
    canvas = [
        [-1 if piece is None else vocabulary.setdefault(piece, len(vocabulary)) for piece in row]
        for row in trajectory.pieces
    ]
    content = {
        "vocabulary": list(vocabulary),
        "canvas": canvas,
        "classes": trajectory.classes.tolist(),
        "names": CELL_CLASSES,
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    # Inside <script> only these characters could end the element or open a comment.
    payload = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Replay(
        trajectory.label,
        trajectory.text,
        len(trajectory.pieces),
        payload,
        _counts(trajectory),
    )


def _counts(trajectory: Trajectory) -> tuple[tuple[str, int], ...]:
    return tuple(
        (CLASS_STYLES[name][1], int((trajectory.classes == code).sum()))
        for code, name in enumerate(CELL_CLASSES)
    )


def _boxes(mask: np.ndarray) -> Path | None:
    """One path of rectangles over the True cells, runs along a row joined; None if there are none.

    Cell [i, j] spans (j + 0.5, j + 1.5) by (i + 0.5, i + 1.5), so that ticks count from one.
    """
    padded = np.pad(mask.astype(np.int8), ((0, 0), (1, 1)))
    edges = np.diff(padded, axis=1)
    rows, starts = np.nonzero(edges == 1)
    _, stops = np.nonzero(edges == -1)
    if rows.size == 0:
        return None
    left, right, top = starts + 0.5, stops + 0.5, rows + 0.5
    corners = np.stack(
        [
            np.stack([left, top], -1),
            np.stack([right, top], -1),
            np.stack([right, top + 1], -1),
            np.stack([left, top + 1], -1),
            np.stack([left, top], -1),
        ],
        axis=1,
    )
    codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], rows.size)
    return Path(corners.reshape(-1, 2), codes)
