"""Rounding to the standard error, and the three written forms of a number."""

import pytest

from dlmeval.evals.report.rounding import latex_text, p_text, plain_text, round_number
from dlmeval.evals.scoring.scores import Score


def number(value, stderr=None):
    return Score(value, stderr, 10, "1", "up", "m|v:1")


@pytest.mark.parametrize(
    ("value", "stderr", "expected"),
    [
        (12.3456, 0.1234, "12.35 ± 0.12"),
        (12.3456, 0.0996, "12.35 ± 0.10"),  # two digits of 0.0996 are 0.10
        (12.3456, 0.9949, "12.35 ± 0.99"),
        (12.3456, 0.9951, "12.3 ± 1.0"),
        (12345.678, 123.4, "12350 ± 120"),
        (12345.678, 99.6, "12350 ± 100"),
        (-0.5, 0.25, "−0.50 ± 0.25"),
        (-0.001, 0.25, "0.00 ± 0.25"),  # no minus zero
        (0.0, 0.013, "0.000 ± 0.013"),
        (0.948, 0.0, "0.948 ± 0"),
        (3.14159, None, "3.142"),
        (2.0 / 3.0, None, "0.6667"),
        (16.80000001, None, "16.8"),
        (20.0, None, "20"),
        (8129.0, None, "8129"),
        (1.2e-5, 3.04e-6, "(1.20 ± 0.30)×10⁻⁵"),
        (2.5e-7, None, "2.5×10⁻⁷"),
        (3.2e8, 1.5e7, "(3.20 ± 0.15)×10⁸"),
        (1e-9, 0.5, "0.00 ± 0.50"),  # the larger of the two sets the power
    ],
)
def test_plain_text(value, stderr, expected):
    assert plain_text(number(value, stderr)) == expected


def test_rounded_pair_lies_within_half_a_last_digit_of_the_truth():
    for power in range(-8, 9):
        for value, stderr in ((3.14159, 0.0271), (-99.96, 4.449), (0.5, 0.999)):
            scale = 10.0**power
            shown = round_number(value * scale, stderr * scale)
            back = float(shown.value.replace("−", "-")) * 10.0**shown.exponent
            error = float(shown.stderr) * 10.0**shown.exponent
            assert error == pytest.approx(stderr * scale, rel=0.051)
            assert abs(back - value * scale) <= 0.051 * stderr * scale


def test_latex_text():
    assert latex_text(number(-0.5, 0.25)) == r"$-0.50 \pm 0.25$"
    assert latex_text(number(1.2e-5, 3.04e-6)) == r"$(1.20 \pm 0.30) \times 10^{-5}$"
    assert latex_text(number(2.5e-7)) == r"$2.5 \times 10^{-7}$"
    assert latex_text(Score(None, None, 3, "1", "up", "m", "too few texts")) == "--"


def test_missing_is_an_en_dash():
    assert plain_text(Score(None, None, 3, "1", "up", "m", "too few texts")) == "–"


def test_dust_below_float32_counts_as_no_standard_error():
    assert round_number(2.732477884059707, 2.5e-15) == ("2.732", "0", 0)
    assert round_number(0.004072096199, 9e-11) == ("0.004072", "0", 0)
    assert round_number(1.0, 1e-5) == ("1.000000", "0.000010", 0)


def test_a_p_value_below_four_decimals_is_a_bound():
    assert [p_text(p) for p in (0.187, 1e-4, 9.9e-5, 0.0, None)] == [
        "p = 0.19",
        "p = 0.0001",
        "p < 0.0001",
        "p < 0.0001",
        "p = –",
    ]
