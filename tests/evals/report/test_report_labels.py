"""Labels hide neither points nor each other."""

import itertools

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from dlmeval.evals.report.labels import place_labels


def placed(points, labels=6):
    figure = Figure(figsize=(6, 4), dpi=100)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot(*zip(*points, strict=True), "o", markersize=6)
    axes.margins(0.1)
    named = [(f"sampler {i}", point, "black") for i, point in enumerate(points[:labels])]
    place_labels(figure, axes, named, points[labels:])
    canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts]
    return figure, axes, boxes


def test_crowded_labels_stay_clear_of_points_and_of_each_other():
    points = [(1, 1), (1.05, 1.02), (2, 3), (2.1, 3), (4, 2), (4, 2.1), (1.1, 1.2), (3.9, 2.05)]
    _, axes, boxes = placed(points)
    assert len(boxes) == 6
    for a, b in itertools.combinations(boxes, 2):
        assert not a.overlaps(b)
    for x, y in axes.transData.transform(points):
        assert not any(box.contains(x, y) for box in boxes)


def test_a_label_at_the_edge_stays_inside():
    points = [(0, 0), (10, 0), (5, 1)]
    figure, _, boxes = placed(points, labels=2)
    width = figure.get_figwidth() * figure.dpi
    for box in boxes:
        assert 0 <= box.x0 < box.x1 <= width


def test_no_labels_no_work():
    _, axes, boxes = placed([(0, 0), (1, 1)], labels=0)
    assert boxes == []
    assert np.array_equal(axes.lines[0].get_xdata(), [0, 1])
