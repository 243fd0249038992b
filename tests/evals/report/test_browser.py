"""The page in a real browser: fits a phone and a desk, sorts, explains itself by keyboard."""

import itertools

import pytest

pytestmark = pytest.mark.browser
PHONE, DESK = (390, 844), (1280, 900)


@pytest.fixture
def load(driver, emulate, report_folder):
    """Opens the page from disk at a size and colour scheme."""

    def open_page(size, scheme="light"):
        emulate(size, scheme)
        driver.get((report_folder / "index.html").as_uri())
        return driver

    return open_page


def press(driver, key):
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver).send_keys(key).perform()


def column(driver, place):
    return driver.execute_script(
        """return [...document.querySelectorAll("#table-profile tbody tr")].map(
             row => row.cells[arguments[0]].dataset.v ?? row.cells[arguments[0]].innerText);""",
        place,
    )


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_page_fits_and_is_silent(load, size):
    driver = load(size)
    assert driver.get_log("browser") == []
    page, window = driver.execute_script(
        "return [document.documentElement.scrollWidth, innerWidth];"
    )
    assert page <= window == size[0]
    # The profile is wider than a phone: it scrolls inside its own box.
    scrolls = driver.execute_script(
        """const box = document.querySelector("#table-profile .scroll");
           return [box.scrollWidth > box.clientWidth, getComputedStyle(box).overflowX];"""
    )
    assert scrolls[1] == "auto"
    assert scrolls[0] or size is DESK


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_figures_are_drawn_for_the_width_with_legible_text(load, size):
    driver = load(size)
    found = driver.execute_script(
        """return [...document.querySelectorAll(".plot svg")].map(svg => {
             const box = svg.getBoundingClientRect();
             const text = [...svg.querySelectorAll("text")].map(t => parseFloat(
               getComputedStyle(t).fontSize) * svg.getScreenCTM().a);
             return [svg.parentElement.className, box.width, Math.min(...text)]; });"""
    )
    shown = [entry for entry in found if entry[1] > 0]
    assert len(shown) == 3
    assert {name for name, _, _ in shown} == {"narrow" if size is PHONE else "wide"}
    for _, width, smallest in shown:
        assert width <= size[0]
        assert smallest >= 10  # pixels


def test_heading_sorts_by_click_and_keeps_null_band_and_missing_in_place(load):
    from selenium.webdriver.common.by import By

    driver = load(DESK)
    heads = driver.find_elements(By.CSS_SELECTOR, "#table-profile thead th")
    place = next(i for i, head in enumerate(heads) if head.text.startswith("MMD"))
    for state, up in (("ascending", True), ("descending", False)):
        heads[place].find_element(By.CSS_SELECTOR, "button").click()
        assert heads[place].get_attribute("aria-sort") == state
        assert column(driver, 0)[:2] == ["null band, low", "null band, high"]
        values = column(driver, place)[2:]
        numbers = [float(value) for value in values if value]
        assert numbers == sorted(numbers, reverse=not up)
        assert len(numbers) == 16
        assert values[-2:] == ["", ""]  # the reference and an arm without MMD stay last
    heads[0].find_element(By.CSS_SELECTOR, "button").click()
    names = column(driver, 0)[2:]
    assert names[0] == "autoregressive t=1"
    assert heads[place].get_attribute("aria-sort") is None


def test_tooltip_opens_by_keyboard_and_closes_with_escape(load):
    from selenium.webdriver.common.keys import Keys

    driver = load(DESK)
    active = "return document.activeElement.className;"
    for _ in range(60):
        press(driver, Keys.TAB)
        if driver.execute_script(active) == "num":
            break
    assert driver.execute_script(active) == "num"
    tip = "const t = document.getElementById('tip'); return t.hidden ? '' : t.innerText;"
    assert "gen-PPL: missing, not measured on the null draws" in driver.execute_script(tip)
    for _ in range(2):
        press(driver, Keys.ARROW_DOWN)
    text = driver.execute_script(tip)
    assert "gen-PPL = 9.3" in text
    assert "n = 128" in text
    assert "gen_ppl|K:13|seeds:0-4|n:128|v:0.1.0" in text
    top, bottom, below = driver.execute_script(
        """const t = document.getElementById("tip").getBoundingClientRect();
           return [t.top, t.bottom, document.activeElement.getBoundingClientRect().bottom];"""
    )
    assert 0 <= top < bottom <= DESK[1]
    assert abs(top - below) < 150
    described = "return document.activeElement.getAttribute('aria-describedby');"
    assert driver.execute_script(described) == "tip"
    press(driver, Keys.ESCAPE)
    assert driver.execute_script(tip) == ""


def test_tooltip_opens_by_touch_inside_the_screen(load):
    driver = load(PHONE)
    box = driver.execute_script(
        """const b = document.querySelector("#table-profile tr.role-generated .num");
           b.scrollIntoView({block: "center"}); const r = b.getBoundingClientRect();
           return [r.left + r.width / 2, r.top + r.height / 2];"""
    )
    driver.execute_async_script("const done = arguments[0]; setTimeout(done, 200);")
    point = [{"x": box[0], "y": box[1]}]
    driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": point})
    driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    driver.execute_async_script("const done = arguments[0]; setTimeout(done, 400);")
    text, left, right = driver.execute_script(
        """const t = document.getElementById("tip"), r = t.getBoundingClientRect();
           return [t.hidden ? "" : t.innerText, r.left, r.right];"""
    )
    assert "gen-PPL = 14" in text
    assert 0 <= left < right <= PHONE[0]


def test_replay_steps_through_the_sample(load):
    driver = load(DESK)
    show = """const s = document.querySelector(".replay input"); s.value = arguments[0];
              s.dispatchEvent(new Event("input"));
              return [...document.querySelectorAll(".replay .canvas span")].map(
                e => [e.className, e.textContent]);"""
    first = driver.execute_script(show, 1)
    last = driver.execute_script(show, 32)
    assert sum(name == "masked" for name, _ in first) == 47
    assert first[0] == ["unmasked", "<b>"]
    assert not any(name == "masked" for name, _ in last)
    assert "".join(text for _, text in last).startswith("<b> w1 w2")


def test_both_schemes_have_readable_contrast(load):
    for scheme in ("light", "dark"):
        driver = load(DESK, scheme)
        colours = driver.execute_script(
            """const parse = c => c.match(/\\d+(\\.\\d+)?/g).slice(0, 3).map(Number);
               const css = (e, p) => parse(getComputedStyle(e)[p]);
               const paper = css(document.body, "backgroundColor");
               return [paper, css(document.body, "color"),
                       css(document.querySelector(".note"), "color"),
                       css(document.querySelector("nav a"), "color"),
                       css(document.querySelector(".plot text"), "fill")];"""
        )
        paper, *inks = colours
        assert (sum(paper) > 382) == (scheme == "light")
        for ink in inks:
            assert contrast(paper, ink) >= 4.5, (scheme, ink)


def contrast(a, b):
    """The WCAG 2 contrast ratio of two sRGB colours."""

    def luminance(colour):
        linear = [
            c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4
            for c in (value / 255 for value in colour)
        ]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


def test_series_colours_stay_apart_for_colour_blind_readers():
    from dlmeval.evals.report.heatmap import CLASS_STYLES

    # Lightness alone, as seen without any hue, already tells the classes of the heat map apart.
    greys = []
    for colour, _ in CLASS_STYLES.values():
        rgb = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        greys.append(contrast((0, 0, 0), rgb))
    for a, b in itertools.pairwise(sorted(greys)):
        assert b / a > 1.5
