"""Labels of points in a plot, placed so that they hide neither points nor each other."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

Point = tuple[float, float]
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
_SIZE, _LETTER, _HALF = 8, 4.7, 5.0  # font size, width of a letter, half a line or a marker


def place_labels(
    canvas: Canvas,
    axes: Axes,
    labels: Sequence[tuple[str, Point, str]],
    others: Sequence[Point] = (),
) -> None:
    """Writes each label at the first of a few places around its point that is free.

    Where none is free the one with the least overlap is taken. The axes' scales, limits and
    legend must be final, since places are chosen on the drawn figure.

    Args:
        labels: (text, point in data coordinates, colour).
        others: points without labels that must stay visible.
    """
    canvas.draw_without_rendering()
    pixels = canvas.dpi / 72
    spots = [point for _, point, _ in labels] + list(others)
    if not labels:
        return
    dots = (axes.transData.transform(spots) / pixels).tolist()
    taken = [(x - _HALF, y - _HALF, x + _HALF, y + _HALF) for x, y in dots]
    left, right = axes.bbox.x0 / pixels, axes.bbox.x1 / pixels
    for (text, point, colour), (x, y) in zip(labels, dots, strict=False):
        boxes = [_label_box(x, y, text, place) for place in _PLACES]
        costs = [
            sum(_overlap(box, other) for other in taken)
            + 10 * (max(0.0, left - box[0]) + max(0.0, box[2] - right))
            for box in boxes
        ]
        best = costs.index(min(costs))
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


def _label_box(x: float, y: float, text: str, place: tuple[float, float, str]) -> Box:
    width = _LETTER * len(text)
    start = x + place[0] - {"left": 0.0, "center": width / 2, "right": width}[place[2]]
    return start, y + place[1] - _HALF, start + width, y + place[1] + _HALF


def _overlap(a: Box, b: Box) -> float:
    """Area that two boxes share."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    return max(0.0, width) * max(0.0, height)
