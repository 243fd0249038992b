"""The page and the files: self-contained, escaped, signed, the same bytes twice."""

import itertools
import json
import re
import shlex

import bs4
import numpy as np
import pytest
from PIL import Image

from dlmeval.evals.report import (
    Provenance,
    ReportData,
    Section,
    Trajectory,
    gallery,
    heat_map,
    render_page,
    replay,
    write_report,
)
from dlmeval.evals.report.heatmap import CLASS_STYLES, _boxes
from dlmeval.evals.report.page import shell_lines
from dlmeval.samplers import CELL_CLASSES

# Names of XML vocabularies, which no browser ever fetches.
NAMESPACES = ("http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink")


@pytest.fixture(scope="module")
def html(report_folder):
    return (report_folder / "index.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def soup(html):
    return bs4.BeautifulSoup(html, "html.parser")


def test_no_address_outside_the_folder(html, soup):
    for name in NAMESPACES:
        html = html.replace(name, "")
    assert not re.search(r"(?:https?:)?//[a-z0-9]", html.replace("</", ""), re.IGNORECASE)
    for tag, attribute in (("a", "href"), ("link", "href"), ("img", "src"), ("script", "src")):
        for found in soup.find_all(tag):
            address = found.get(attribute)
            assert address is None or not re.match(r"[a-z]+://|/", address), address
    assert "@import" not in html


def test_links_lead_to_files_or_anchors(soup, report_folder):
    for link in soup.find_all("a"):
        address = link["href"]
        if address.startswith("#"):
            assert soup.find(id=address[1:]) is not None, address
        elif address != "a/b.csv":
            assert (report_folder / address).is_file(), address


def test_hostile_text_stays_text(html, soup):
    assert "<script>alert" not in html
    quoted = [quote.get_text() for quote in soup.select("blockquote.sample")]
    assert any(text.startswith("<script>alert('x')</script> & \"quotes\"") for text in quoted)
    assert any("日本語 \ufffd" in text for text in quoted)
    scripts = soup.find_all("script")
    assert [script.get("type") for script in scripts] == ["application/json", None]
    assert soup.title.get_text() == "quickstart <b>"


def test_every_number_has_a_tooltip_with_n_and_signature_or_a_reason(soup, report_data):
    buttons = soup.select("button.num")
    assert len(buttons) > 250
    for button in buttons:
        tip = button["title"]
        if button.get_text() == "–":
            assert "missing, " in tip
        else:
            assert re.search(r"\bn = \d+ · ", tip), tip
            assert "|" in tip.splitlines()[-1], tip
    arm = report_data.arms[1]
    tip = next(b["title"] for b in buttons if arm.scores["mauve"].signature in b["title"])
    assert "higher is better" in tip


def test_every_signature_is_printed_below_its_table(soup, report_data):
    printed = {code.get_text() for code in soup.select(".signatures code")}
    for arm in report_data.arms:
        for score in arm.scores.values():
            assert score.signature in printed


def test_missing_value_shows_its_reason(soup):
    row = next(
        r for r in soup.select("#table-profile tbody tr") if "phrase_bank" in r.th.get_text()
    )
    reasons = [b["title"] for b in row.select("button.num") if b.get_text() == "–"]
    assert reasons == [
        "MMD: missing, mmd needs more samples",
        "mean rank: missing, a ranked column is missing for this arm",
    ]


def test_structure_for_readers_who_listen(soup):
    assert soup.html["lang"] == "en"
    assert len(soup.find_all("h1")) == 1
    levels = [int(tag.name[1]) for tag in soup.find_all(re.compile("^h[1-6]$"))]
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    for figure in soup.select("figure.plot"):
        assert figure.figcaption.get_text().strip()
        for drawing in figure.find_all("svg"):
            assert drawing["role"] == "img"
            assert len(drawing["aria-label"]) > 40
    for table in soup.select("figure.table table"):
        assert all(head["scope"] == "col" for head in table.thead.find_all("th"))
        assert all(row.th["scope"] == "row" for row in table.tbody.find_all("tr"))
    # The best of a column is said in words, not by colour alone.
    assert "best of its column" in soup.select_one("td.best").get_text()


def test_ids_are_unique_and_references_resolve(html, soup):
    ids = [tag["id"] for tag in soup.find_all(id=True)]
    assert len(ids) == len(set(ids))
    used = set(re.findall(r"url\(#([^)]+)\)", html))
    used |= set(re.findall(r'(?:xlink:href|aria-labelledby)="#?([^"]+)"', html))
    assert used <= set(ids)


def test_drawings_keep_text_and_follow_the_colour_scheme(soup, report_folder):
    drawing = soup.select_one("#figure-frontier .wide svg")
    words = " ".join(text.get_text() for text in drawing.find_all("text"))
    for label in ("mirror 40", "topk_iid 50", "periodic 8", "phrase_bank 9"):
        assert label in words
    assert "var(--ink)" in str(drawing)
    saved = (report_folder / "figures/frontier.svg").read_text(encoding="utf-8")
    assert "var(" not in saved
    assert "<dc:date>" not in saved
    assert "mirror 40" in saved


def test_same_data_same_bytes(report_data, pages, report_folder, tmp_path):
    # Figures are drawn anew; everything else is a function of the same records.
    traced = report_data.trajectories[0]
    again = [
        Section("Unmasking", (heat_map(traced), replay(traced))) if s.title == "Unmasking" else s
        for s in pages[1]
    ]
    write_report(tmp_path, report_data, pages[0], again)
    first = {p.relative_to(report_folder): p for p in report_folder.rglob("*") if p.is_file()}
    second = {p.relative_to(tmp_path): p for p in tmp_path.rglob("*") if p.is_file()}
    assert first.keys() == second.keys()
    for name, path in first.items():
        assert path.read_bytes() == second[name].read_bytes(), name


def test_folder_holds_what_is_promised_and_nothing_half_written(report_folder):
    files = {
        p.relative_to(report_folder).as_posix() for p in report_folder.rglob("*") if p.is_file()
    }
    tables = {f"tables/{t}.{s}" for t in ("profile", "compute") for s in ("md", "csv", "tex")}
    figures = {
        f"figures/{figure}{width}.{suffix}"
        for figure in ("frontier", "sweep", "trajectory")
        for width in ("", ".column")
        for suffix in ("svg", "png")
    }
    assert files == tables | figures | {"tables/numbers.csv", "index.html"}
    assert (report_folder / "figures/sweep.png").read_bytes().startswith(b"\x89PNG")


def test_a_figure_for_a_column_has_letters_as_large_as_one_for_a_page(report_folder):
    widths, letters = {}, {}
    for name in ("sweep", "sweep.column"):
        svg = (report_folder / f"figures/{name}.svg").read_text(encoding="utf-8")
        widths[name] = float(re.search(r'<svg [^>]*?width="([\d.]+)pt"', svg)[1]) / 72
        letters[name] = min(float(size) for size in re.findall(r"font-size: ([\d.]+)px", svg))
        with Image.open(report_folder / f"figures/{name}.png") as picture:
            assert picture.width == pytest.approx(160 * widths[name], abs=1)
    assert widths["sweep"] == pytest.approx(7.2)
    assert widths["sweep.column"] == pytest.approx(3.7)
    assert letters["sweep"] == letters["sweep.column"] >= 8


def test_two_tables_of_one_name_are_refused(report_data, pages, tmp_path):
    sections = [pages[1][0], pages[1][0]]
    with pytest.raises(ValueError, match="tables must have names of their own"):
        write_report(tmp_path, report_data, (), sections)
    assert not any(tmp_path.iterdir())


def test_an_empty_run_still_makes_a_page():
    page = render_page(ReportData("empty", (), Provenance("cmd")), (), ())
    assert "<h1>empty</h1>" in page
    assert "What this run shows" not in page


def test_gallery_takes_the_first_samples(report_data):
    arms = {label: texts for label, _, texts in gallery(report_data, per_arm=1).arms}
    assert arms["autoregressive t=1"] == report_data.arms[1].samples[:1]
    with pytest.raises(ValueError, match="per_arm=0"):
        gallery(report_data, per_arm=0)


def test_boxes_cover_exactly_the_true_cells():
    mask = np.random.default_rng(0).random((7, 9)) < 0.4
    path = _boxes(mask)
    centres = [(j + 1, i + 1) for i in range(7) for j in range(9)]
    inside = [
        any(
            left < x < right and top < y < bottom
            for left, top, right, bottom in (
                (*box[0], *box[2]) for box in path.vertices.reshape(-1, 5, 2)
            )
        )
        for x, y in centres
    ]
    np.testing.assert_array_equal(np.reshape(inside, (7, 9)), mask)
    assert _boxes(np.zeros((2, 2), bool)) is None


def test_replay_round_trips_and_cannot_end_its_script():
    pieces = ((None, "</script><!--"), ("&", "</script><!--"))
    codes = [CELL_CLASSES.index(name) for name in ("masked", "stable", "unmasked", "stable")]
    made = replay(Trajectory("x", np.array(codes).reshape(2, 2), pieces, "text"))
    assert not set("<>&") & set(made.payload)
    content = json.loads(made.payload)
    words = content["vocabulary"]
    back = tuple(tuple(None if i < 0 else words[i] for i in row) for row in content["canvas"])
    assert back == pieces
    assert dict(made.counts)["stable"] == 2
    assert set(CLASS_STYLES) == set(CELL_CLASSES)


def test_long_commands_break_between_flags_and_still_say_the_same():
    words = ["python", "launch/run.py", *(f"--flag_{i}=value {i}" for i in range(9))]
    shown = shell_lines(shlex.join(words))
    assert shown.splitlines()[0] == "python launch/run.py \\"
    assert max(map(len, shown.splitlines())) < 40
    assert shlex.split(shown.replace("\\\n", "")) == words
    assert shell_lines("python launch/run.py --dry_run") == "python launch/run.py --dry_run"
