"""Values rounded to what their standard error supports: two significant digits of it."""

import math
from typing import NamedTuple

from ..scoring.scores import Score

MISSING = "–"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Rounded(NamedTuple):
    """Decimal strings of a value and its standard error, both times ten to `exponent`."""

    value: str
    stderr: str | None
    exponent: int = 0


def round_number(value: float, stderr: float | None = None) -> Rounded:
    """Rounds a value to the second significant digit of its standard error.

    Without a standard error, or with one below float32's resolution of the value (identical rows
    leave such dust), four significant digits are kept, trailing zeros dropped; integers of at
    most six digits are kept whole. Values whose magnitude leaves [1e-3, 1e6) are written with a
    power of ten.
    """
    size = max(abs(value), stderr or 0.0)
    exponent = 0
    if size and not 1e-3 <= size < 1e6:
        exponent = math.floor(math.log10(size))
        value = value / 10.0**exponent
        stderr = stderr / 10.0**exponent if stderr is not None else None
    if stderr and stderr > 1e-6 * abs(value):
        places = _places(stderr, 2)
        return Rounded(_fixed(value, places), _fixed(stderr, places), exponent)
    whole = float(value).is_integer() and abs(value) < 1e6
    places = 0 if whole else _places(value, 4)
    text = _fixed(value, places)
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return Rounded(text, None if stderr is None else "0", exponent)


def plain_text(number: Score) -> str:
    """A number for text and Markdown: `12.3 ± 0.4`, `(1.20 ± 0.30)×10⁻⁵`, or an en dash."""
    if number.value is None:
        return MISSING
    value, stderr, exponent = round_number(number.value, number.stderr)
    text = value if stderr is None else f"{value} ± {stderr}"
    body = text if stderr is None or not exponent else f"({text})"
    return body + power_of_ten(exponent)


def p_text(p: float | None) -> str:
    """A p value behind its letter: `p = 0.19`, `p < 0.0001`, `p = –` where there is none."""
    if p is None:
        return "p = –"
    return f"p = {p:.2g}" if p >= 1e-4 else "p < 0.0001"


def power_of_ten(exponent: int) -> str:
    """`×10⁻⁵`, or nothing for an exponent of zero."""
    return f"×10{str(exponent).translate(_SUPERSCRIPT)}" if exponent else ""


def latex_text(number: Score) -> str:
    """The same in LaTeX maths; a missing number is `--` in text."""
    if number.value is None:
        return "--"
    value, stderr, exponent = round_number(number.value, number.stderr)
    body = value.replace("−", "-")
    if stderr is not None:
        body = rf"{body} \pm {stderr}"
    if exponent:
        body = body if stderr is None else f"({body})"
        body = rf"{body} \times 10^{{{exponent}}}"
    return f"${body}$"


def _places(scale: float, digits: int) -> int:
    """Decimal places that show `scale` with the given number of significant digits."""
    magnitude = math.floor(math.log10(abs(scale)))
    # 0.0996 shown with two digits is 0.10, one place fewer than its magnitude suggests.
    if round(abs(scale) / 10.0**magnitude, digits - 1) >= 10:
        magnitude += 1
    return digits - 1 - magnitude


def _fixed(value: float, places: int) -> str:
    rounded = round(value, places)
    text = f"{rounded:.{max(places, 0)}f}"
    if float(text) == 0:
        text = text.removeprefix("-")
    return text.replace("-", "−")
