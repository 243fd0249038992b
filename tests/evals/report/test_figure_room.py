"""Figures at both widths: no text leaves them, and what the legend names is drawn."""

import itertools

import matplotlib.style
import pytest
from matplotlib.colors import to_hex

from dlmeval.evals.report import data as records
from dlmeval.evals.report import figures, line_figures
from dlmeval.evals.report.care import dose_tables
from dlmeval.evals.report.labels import columns_that_fit
from dlmeval.evals.report.rebenchmark import figures as maps
from dlmeval.evals.report.rebenchmark.size_tables import sized
from dlmeval.evals.scoring.scores import Band, Score

SIZES = (32, 64, 128)
METRICS = ("h_uni", "gen_ppl", "jcd_coverage", "jcd_fidelity")


def arm(label, role, strategy, place, size=None):
    """An arm close to its neighbours, so that labels are in each other's way."""
    numbers = (2.0 + 0.05 * place, 20.0 + place, 2.0 + 0.05 * place, 1.0 + 0.02 * place)
    values = dict(zip(METRICS, numbers, strict=True))
    values |= {sized("mauve", n): 1.0 / (1 + place) for n in SIZES}
    scores = {m: Score(v, 0.02 * v, 64, "", None, m) for m, v in values.items()}
    fields = {"strategy": strategy, "size": size, "unmask_temp": 0.25, "num_steps": 20}
    return records.Arm(label, role, scores, fields)


@pytest.fixture
def crowd():
    """Six trained arms and two swept samplers within a corner; one null bank."""
    arms = [arm(f"high_entropy t=0.25 N={20 + i}", "generated", "none", i) for i in range(6)]
    for s, strategy in enumerate(("periodic", "phrase_bank")):
        arms += [
            arm(f"{strategy} {k}", "heuristic", strategy, 0.3 * i + s, k)
            for i, k in enumerate((2, 4, 8, 16, 32, 64, 128))
        ]
    names = ("jcd_coverage", "jcd_fidelity", *(sized("mauve", n) for n in SIZES))
    band = {name: Band(0.02, 0.02, 0.02, 0.0, 1, "", name) for name in names}
    return records.ReportData("crowd", tuple(arms), records.Provenance("run"), null_band=band)


@pytest.fixture(
    params=itertools.product(("attack", "coding", "sample_size"), (figures.WIDE, figures.NARROW)),
    ids=lambda pair: f"{pair[0]}-{pair[1]}",
)
def drawn(request, crowd, monkeypatch):
    """One figure of the crowd at one width."""
    name, width = request.param
    for module in (maps, line_figures):
        monkeypatch.setattr(module, "render", lambda name, caption, alt, draw: draw)
    draw = {
        "attack": lambda: maps.attack_figure(crowd),
        "coding": lambda: maps.coding_figure(crowd),
        "sample_size": lambda: line_figures.size_figure(crowd, SIZES),
    }[name]()
    with matplotlib.style.context(["default", str(figures.STYLE)]):
        canvas = draw(width)
        canvas.draw_without_rendering()
    return name, canvas


@pytest.mark.parametrize("width", [figures.WIDE, figures.NARROW])
def test_no_text_leaves_the_dose_figure(width, monkeypatch):
    arms = []
    for strategy in ("high_entropy", "random", "running_confidence"):
        for f in (0.0, 0.15):
            score = Score(0.5 + f, 0.1, 64, "score", "up", "mauve")
            fields = {"strategy": strategy, "remask_fraction": f}
            arms.append(records.Arm(f"{strategy} f={f}", "generated", {"mauve": score}, fields))
    band = {"mauve": Band(0.95, 0.94, 0.96, 0.01, 2, "score", "mauve")}
    data = records.ReportData("dose", tuple(arms), records.Provenance("run"), null_band=band)
    churn = {a.label: Score(0.01, 0.001, 8, "share", None, "churn") for a in arms}
    monkeypatch.setattr(dose_tables, "render", lambda name, caption, alt, draw: draw)
    with matplotlib.style.context(["default", str(figures.STYLE)]):
        canvas = dose_tables.dose_figure(data, churn)(width)
        canvas.draw_without_rendering()
    check_room(canvas)


def test_no_text_leaves_the_figure(drawn):
    check_room(drawn[1])


def check_room(canvas):
    axes, legend = canvas.axes[0], canvas.legends[0]
    texts = [axes.xaxis.label, axes.yaxis.label, *axes.texts, *legend.get_texts()]
    frame = canvas.bbox
    for text in texts:
        box = text.get_window_extent()
        assert frame.x0 - 1 <= box.x0 < box.x1 <= frame.x1 + 1, text.get_text()
        assert frame.y0 - 1 <= box.y0 < box.y1 <= frame.y1 + 1, text.get_text()


def test_sizes_without_room_are_left_out_and_both_ends_stay(drawn):
    name, canvas = drawn
    if name == "sample_size":
        return
    sizes = [text for text in canvas.axes[0].texts if text.get_text().isdigit()]
    assert {"2", "128"} <= {text.get_text() for text in sizes}
    middle = [t.get_window_extent() for t in sizes if t.get_text() not in ("2", "128")]
    assert len(middle) < 10  # of ten, in this crowd
    for one, other in itertools.combinations(middle, 2):
        assert not one.overlaps(other)


def test_one_null_bank_is_a_mark_and_not_an_empty_box(drawn):
    name, canvas = drawn
    named = [text.get_text() for text in canvas.legends[0].get_texts()]
    if name == "coding":
        assert "real vs real" in named
        assert "its null band" not in named
        assert any(line.get_marker() == "*" for line in canvas.axes[0].lines)
    if name == "sample_size":
        key = canvas.legends[0].legend_handles[named.index("null band: real vs real")]
        # The rim has the colour of the line, which is all there is of a single bank.
        rim = to_hex(key.get_edgecolor())
        lines = [to_hex(line.get_color()) for line in canvas.axes[0].lines]
        assert rim in lines


def test_legend_columns_follow_the_texts():
    short, long = ["a", "b", "c"], ["high_entropy t=0.25 N=20"] * 3
    assert columns_that_fit(short, figures.NARROW, 3) == 3
    assert columns_that_fit(short, figures.NARROW, 2) == 2
    assert columns_that_fit(long, figures.NARROW, 3) == 1
    assert columns_that_fit(long, figures.WIDE, 3) == 3
    assert columns_that_fit([], figures.WIDE, 3) == 1
