"""Labels of points in a plot, placed so that they hide neither points nor each other."""

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.textpath import TextPath

Point = tuple[float, float]
Label = tuple[str, Point, str]  # text, point in data coordinates, colour
Box = tuple[float, float, float, float]  # left, bottom, right, top

# Where a label may stand, as (x, y, horizontal anchor) in points from its point, best first.
_PLACES = (
    (0, 11, "center"),
    (0, -11, "center"),
    (9, 9, "left"),
    (-9, 9, "right"),
    (9, -9, "left"),
    (-9, -9, "right"),
    (14, 0, "left"),
    (-14, 0, "right"),
    (0, 23, "center"),
    (0, -23, "center"),
)
_SIZE, _HALF = 8, 5.0  # font size, half a line or a marker
_SPACING, _THIN = 4.0, 1.0  # points between the places where a line is looked at, half its width
_DOUBT = 30.0  # cost, as an area, of a label that stands nearer to another point
_NEAR = 8  # places at which a label is taken for that of its point alone
_HANDLE, _BETWEEN = 27.0, 16.0  # points of a legend: left of a text, and between two columns


def place_labels(
    canvas: Canvas,
    axes: Axes,
    labels: Sequence[Label],
    others: Sequence[Point] = (),
    *,
    lines: Sequence[Sequence[Point]] = (),
    spare: Sequence[Label] = (),
) -> None:
    """Writes each label at the first of a few places around its point that is free.

    Where none is free the one with the least overlap is taken. The axes' scales, limits and
    legend must be final, since places are chosen on the drawn figure.

    Args:
        labels: what must be written.
        others: points without labels that must stay visible.
        lines: chains of points joined by straight lines, which labels should not cross.
        spare: what is written after the others, and left out where no near place is free.
    """
    wanted = [*labels, *spare]
    if not wanted:
        return
    canvas.draw_without_rendering()
    pixels = canvas.dpi / 72
    spots = [point for _, point, _ in wanted] + list(others)
    dots = (axes.transData.transform(spots) / pixels).tolist()
    edges = [edge / pixels for edge in axes.bbox.extents]
    taken = [_square(x, y, _HALF) for x, y in dots]
    for line in lines:
        chain = axes.transData.transform(list(line)) / pixels
        taken += [_square(x, y, _THIN) for x, y in _along(chain) if _inside(x, y, edges)]
    for place, ((text, point, colour), (x, y)) in enumerate(zip(wanted, dots, strict=False)):
        needed = place < len(labels)
        boxes = [_label_box(x, y, text, p) for p in _PLACES[: None if needed else _NEAR]]
        costs = [
            sum(_overlap(box, other) for other in taken)
            + 10 * _outside(box, edges)
            + _DOUBT * _nearer(box, (x, y), dots)
            for box in boxes
        ]
        best = costs.index(min(costs))
        if not needed and costs[best] > 0:
            continue
        taken.append(boxes[best])
        shift_x, shift_y, anchor = _PLACES[best]
        axes.annotate(
            text,
            point,
            (shift_x, shift_y),
            textcoords="offset points",
            ha=anchor,
            va="center",
            fontsize=_SIZE,
            color=colour,
        )


def columns_that_fit(labels: Iterable[str], width: float, most: int) -> int:
    """Columns of a legend with these texts below a figure of so many inches, at most `most`."""
    sides = [_HANDLE + _width(text) for text in labels]
    for columns in range(min(most, len(sides)), 1, -1):
        # As matplotlib fills them: one column after the other, the first ones one longer.
        widths = [float(part.max()) for part in np.array_split(sides, columns)]
        if sum(widths) + _BETWEEN * (columns - 1) <= 72 * width:
            return columns
    return 1


def _width(text: str) -> float:
    return float(TextPath((0, 0), text, size=_SIZE).get_extents().width)


def _square(x: float, y: float, half: float) -> Box:
    return x - half, y - half, x + half, y + half


def _along(chain: np.ndarray) -> list[Point]:
    """Points of a chain of straight lines, not far from each other."""
    found: list[Point] = []
    for start, stop in itertools.pairwise(chain):
        count = min(int(math.hypot(*(stop - start)) / _SPACING) + 2, 400)
        found += [(float(x), float(y)) for x, y in np.linspace(start, stop, count)]
    return found


def _inside(x: float, y: float, edges: Sequence[float]) -> bool:
    return edges[0] <= x <= edges[2] and edges[1] <= y <= edges[3]


def _outside(box: Box, edges: Sequence[float]) -> float:
    """By how much a box leaves the axes, all sides together."""
    left, bottom, right, top = edges
    over = (left - box[0], bottom - box[1], box[2] - right, box[3] - top)
    return sum(max(0.0, side) for side in over)


def _nearer(box: Box, point: Point, others: Iterable[Sequence[float]]) -> bool:
    """Whether another point is nearer to the box than its own."""
    own = _distance(box, *point)
    return any((x, y) != point and _distance(box, x, y) < own - 0.5 for x, y in others)


def _distance(box: Box, x: float, y: float) -> float:
    return math.hypot(max(box[0] - x, 0.0, x - box[2]), max(box[1] - y, 0.0, y - box[3]))


def _label_box(x: float, y: float, text: str, place: tuple[float, float, str]) -> Box:
    width = _width(text) + 2.0
    start = x + place[0] - {"left": 0.0, "center": width / 2, "right": width}[place[2]]
    return start, y + place[1] - _HALF, start + width, y + place[1] + _HALF


def _overlap(a: Box, b: Box) -> float:
    """Area that two boxes share."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    return max(0.0, width) * max(0.0, height)
