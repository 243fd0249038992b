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


def labelled(**extra):
    figure = Figure(figsize=(6, 4), dpi=100)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot([0, 10], [0, 10], "o")
    place_labels(figure, axes, **extra)
    return axes, {text.get_text(): text.get_window_extent() for text in axes.texts}


def test_labels_leave_lines_free():
    line = [(5, 5), (5, 9)]  # straight up, where a label would stand
    axes, free = labelled(labels=[("middle", (5, 5), "black")])
    top, bottom = axes.transData.transform([line[1], line[0]])
    assert free["middle"].x0 < top[0] < free["middle"].x1
    assert free["middle"].y0 > bottom[1]
    _, moved = labelled(labels=[("middle", (5, 5), "black")], lines=[line])
    box = moved["middle"]
    assert box.y1 < bottom[1] or box.x0 > top[0] or box.x1 < top[0]


def test_spare_labels_are_left_out_where_they_find_no_place():
    crowd = [(5 + 0.02 * i, 5 + 0.02 * i) for i in range(25)]
    spare = [(f"spare {i}", point, "black") for i, point in enumerate(crowd)]
    _, boxes = labelled(labels=[("needed", (5, 5), "black")], spare=[*spare, ("far", (1, 1), "k")])
    assert {"needed", "far"} <= set(boxes)
    assert len(boxes) < 12
    for a, b in itertools.combinations(boxes.values(), 2):
        assert not a.overlaps(b)
