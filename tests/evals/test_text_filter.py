"""The language filter's golden values (CaRE, section 4.3) and its bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmeval.evals import english_filter


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("a" * 85 + "é" * 15, True),
        ("a" * 84 + "é" * 16, False),
        ("a" * 98 + "漢" * 2, True),
        ("a" * 97 + "漢" * 3, False),
        ("", False),
        (" ", True),
    ],
)
def test_golden_verdicts(text, accepted):
    assert english_filter(text).accepted is accepted


def test_shares_are_of_characters():
    verdict = english_filter("abcd" + "é" * 3 + "あ한漢")
    assert verdict.ascii == pytest.approx(0.4)
    assert verdict.cjk == pytest.approx(0.3)


@pytest.mark.parametrize("letter", ["一", "鿿", "㐀", "䶿", "぀", "ヿ", "가", "힣", "豈", "﫿"])
def test_block_ends_are_cjk(letter):
    assert english_filter(letter).cjk == 1.0


@pytest.mark.parametrize("point", [0x4DFF, 0xA000, 0x33FF, 0x303F, 0x3100, 0xABFF, 0xD7B0, 0xFB00])
def test_neighbours_of_the_blocks_are_not(point):
    assert english_filter(chr(point)).cjk == 0.0


@given(st.text(min_size=1, max_size=40))
def test_verdict_follows_the_shares(text):
    verdict = english_filter(text, ascii_min=0.5, cjk_max=0.25)
    assert verdict.accepted == (verdict.ascii >= 0.5 and verdict.cjk <= 0.25)
    assert verdict.ascii + verdict.cjk <= 1.0


@pytest.mark.parametrize("bounds", [{"ascii_min": 1.1}, {"cjk_max": -0.1}])
def test_bounds_outside_the_unit_interval_are_refused(bounds):
    with pytest.raises(ValueError, match=next(iter(bounds))):
        english_filter("a", **bounds)
