"""The leaderboard's page: whole without scripts or network, and in a real browser."""

import html
import re

import board_world as world
import pytest

from dlmeval.evals import leaderboard as boards
from dlmeval.evals import storage

PHONE, DESK = (400, 850), (1280, 900)
SHOWN = """return [...document.querySelectorAll("#table-leaderboard tbody tr")]
    .filter(row => row.getClientRects().length).map(row => row.dataset.name);"""
DRAWER = """const d = document.getElementById("drawer");
    return d.open ? d.innerText : null;"""


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage.os, "fsync", lambda descriptor: None)
        paths = world.write_world(tmp_path_factory.mktemp("runs"))
        return boards.build_board(world.settings(paths))


@pytest.fixture(scope="module")
def page(board, tmp_path_factory):
    return boards.write_site(tmp_path_factory.mktemp("site"), board)


# The file


def test_the_page_needs_no_other_file_and_no_network(page):
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"""<(?:script|img|link|iframe)[^>]*(?:src|href)=["'](?!data:)""", text)
    assert not re.findall(r"@import|url\((?!#)|fetch\(|XMLHttpRequest", text)
    links = set(re.findall(r'href="([^"#][^"]*)"', text)) - {"data:,"}
    assert links - {"https://example.org/ours"} == {
        *(f"leaderboard.{suffix}" for suffix in ("csv", "md", "tex", "json")),
        "submission.schema.json",
        "submission.json",
    }
    for link in links - {"https://example.org/ours"}:
        assert (page.parent / link).is_file()


def test_hostile_names_are_text(page):
    text = page.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert html.escape(world.HOSTILE).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in text


def test_every_row_has_its_record_without_scripts(page, board):
    bs4 = pytest.importorskip("bs4")
    soup = bs4.BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")
    links = [link["href"] for link in soup.select("#table-leaderboard tbody th a")]
    assert links == [f"#row-{place + 1}" for place in range(len(board.rows))]
    for link, row, name in zip(links, board.rows, board.names, strict=True):
        record = soup.select_one(link)
        assert record.h3.text == name
        assert row.model.source in record.text
        for bank in row.banks:
            assert bank.fingerprint in record.text
            assert bank.digest in record.text
        for reason in row.reasons:
            assert reason in record.text
        assert len(record.select("ol.points li")) == (7 if row.protocol else 0)
    assert "theirs.py --all" in soup.select_one("#row-6").text


# The browser


@pytest.fixture
def load(driver, emulate, page):
    """Opens the page from disk at a size and colour scheme, at a fragment."""

    def open_page(size=DESK, scheme="light", fragment=""):
        emulate(size, scheme)
        driver.get("about:blank")
        driver.get(page.as_uri() + fragment)
        return driver

    return open_page


def choose(driver, field, value):
    driver.execute_script(
        """const e = document.querySelector(`.filters [data-field="${arguments[0]}"]`);
           e.value = arguments[1]; e.dispatchEvent(new Event("input", {bubbles: true}));""",
        field,
        value,
    )


def sort_by(driver, place):
    driver.execute_script(
        """document.querySelectorAll("#table-leaderboard .sort")[arguments[0]].click();""", place
    )
    return driver.execute_script(
        """return [...document.querySelectorAll("#table-leaderboard tbody tr")].map(
             row => [row.dataset.name, row.cells[arguments[0]].dataset.v ?? null]);""",
        place,
    )


@pytest.mark.browser
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_the_page_fits_and_is_silent(load, size):
    driver = load(size)
    assert driver.get_log("browser") == []
    width = driver.execute_script("return document.documentElement.scrollWidth;")
    assert width <= size[0]
    box = driver.execute_script(
        """const box = document.querySelector("#table-leaderboard .scroll");
           return [box.scrollWidth > box.clientWidth, getComputedStyle(box).overflowX];"""
    )
    assert box == [True, "auto"]
    controls = driver.execute_script(
        """return [...document.querySelectorAll(".filters :is(select, input)")].map(
             e => [e.getBoundingClientRect().right, e.getBoundingClientRect().height]);"""
    )
    assert len(controls) == 4
    assert all(right <= size[0] and height >= 32 for right, height in controls)
    # The records stand in the drawer alone.
    hidden = "return document.getElementById('records').getClientRects().length;"
    assert driver.execute_script(hidden) == 0


@pytest.mark.browser
def test_headings_sort_numbers_and_keep_rows_without_one_last(load, board):
    driver = load()
    keys = [head.key for head in boards.board_table(board).heads]
    for key in ("gap", "params_active", "rank"):
        for up in (True, False):
            values = [value for _, value in sort_by(driver, keys.index(key))]
            given = [float(value) for value in values if value]
            assert given == sorted(given, reverse=not up)
            assert len(given) >= 3
            assert not any(values[len(given) :])
    names = [name for name, _ in sort_by(driver, keys.index("model"))]
    assert names == sorted(names)


@pytest.mark.browser
def test_filters_narrow_the_rows_and_count_them(load, board):
    driver = load()
    count = "return document.querySelector('.filters output').textContent;"
    assert driver.execute_script(SHOWN) == list(board.names)
    choose(driver, "status", "verified")
    assert driver.execute_script(SHOWN) == list(board.names[:3])
    assert driver.execute_script(count) == f"3 of {len(board.rows)} rows"
    choose(driver, "tier", "1")
    assert driver.execute_script(SHOWN) == list(board.names[:2])
    choose(driver, "family", "llada_moe")
    assert driver.execute_script(SHOWN) == ["llada-moe-7b-a1b-base"]
    choose(driver, "name", "Dream")
    assert driver.execute_script(SHOWN) == []
    empty = "return document.querySelector('.note.none').getClientRects().length;"
    assert driver.execute_script(empty) == 1
    for field in ("status", "tier", "family"):
        choose(driver, field, "")
    found = driver.execute_script(SHOWN)
    assert found == [name for name in board.names if "dream" in name]
    assert driver.execute_script(empty) == 0
    sort_by(driver, 0)
    assert sorted(driver.execute_script(SHOWN)) == sorted(found)


@pytest.mark.browser
def test_a_name_opens_its_record_by_keyboard_and_escape_closes_it(load, board):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    driver = load(PHONE)
    assert driver.execute_script(DRAWER) is None
    link = driver.find_element(By.CSS_SELECTOR, "#table-leaderboard tbody th a")
    link.send_keys(Keys.ENTER)
    text = driver.execute_script(DRAWER)
    assert "llada-8b-base" in text
    assert "every bank was read again" in text
    assert board.rows[0].gap_test in " ".join(text.split())
    assert "7/7 [1..7]" in driver.find_element(By.CSS_SELECTOR, "#drawer h4 svg").text
    right = "return document.querySelector('#drawer .record').getBoundingClientRect().right;"
    assert driver.execute_script(right) <= PHONE[0]
    driver.find_element(By.CSS_SELECTOR, "#drawer details:last-of-type summary").click()
    driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert driver.execute_script(DRAWER) is None
    # The record went back, so that it opens again, and its links stay unique.
    count = "return [document.querySelectorAll('.record').length, location.hash];"
    assert driver.execute_script(count) == [len(board.rows), ""]
    assert driver.switch_to.active_element == link
    link.send_keys(Keys.ENTER)
    assert "llada-8b-base" in driver.execute_script(DRAWER)


@pytest.mark.browser
def test_an_address_with_a_row_opens_its_record(load, board):
    place = 1 + [row.status for row in board.rows].index("self-reported")
    driver = load(fragment=f"#row-{place}")
    text = driver.execute_script(DRAWER)
    assert world.HOSTILE in text
    assert "theirs.py --all" in text
    assert driver.get_log("browser") == []


@pytest.mark.browser
def test_both_schemes_have_readable_contrast(load):
    for scheme in ("light", "dark"):
        driver = load(DESK, scheme)
        dark, ratios = driver.execute_script(
            """const parse = c => c.match(/\\d+(\\.\\d+)?/g).map(Number);
               const light = c => [.2126, .7152, .0722].reduce((sum, weight, i) => {
                 const v = c[i] / 255;
                 return sum + weight * (v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
               }, 0);
               const behind = e => {
                 const c = parse(getComputedStyle(e).backgroundColor);
                 return c.length === 4 && c[3] === 0 ? behind(e.parentElement) : c;
               };
               const ratio = selector => {
                 const e = document.querySelector(selector);
                 const pair = [light(parse(getComputedStyle(e).color)), light(behind(e))];
                 return (Math.max(...pair) + .05) / (Math.min(...pair) + .05);
               };
               return [light(behind(document.body)) < .2, arguments[0].map(s => [s, ratio(s)])];""",
            [
                "tr.status-verified .more",
                "tr.status-self-reported .more",
                "tr.status-self-reported .se",
                ".status.verified",
                "tr .status.pending",
                ".marks",
                "td.reported",
                ".filters select",
                ".filters label",
                ".filters output",
            ],
        )
        assert dark == (scheme == "dark")
        for selector, ratio in ratios:
            assert ratio >= 4.5, (scheme, selector, ratio)
