"""The badge of a run: which of the seven points it meets, as text and as SVG."""

import pathlib
from collections.abc import Sequence
from xml.sax.saxutils import escape

from .. import storage
from .validate import ProtocolReport

# Blue, orange and grey stay apart for the common kinds of colour blindness; white text on each of
# them, and the words themselves, say the same.
_ALL, _SOME, _NONE, _LEFT = "#0072b2", "#9a5b00", "#57606a", "#24292f"
# Widths of the sans-serif face at 11 pixels, rounded up; `textLength` makes them exact.
_LETTER, _PADDING, _HEIGHT = 6.6, 7.0, 20


def badge(report: ProtocolReport) -> str:
    """The badge as text: "care: 7/7 [1..7]", or "care: 5/7 [1..2,5..7]" with the points met."""
    return f"care: {_message(report)}"


def badge_svg(report: ProtocolReport) -> str:
    """The badge as an SVG image of its own; its title says of each point whether it is met."""
    left, right = "care", _message(report)
    widths = [len(text) * _LETTER + 2 * _PADDING for text in (left, right)]
    met = sum(point.passed for point in report.points)
    colour = _ALL if report.passed else _SOME if met else _NONE
    lines = [
        f"{point.number} {point.name}: {'met' if point.passed else 'not met'}"
        for point in report.points
    ]
    total = sum(widths)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{total:.1f}" height="{_HEIGHT}"'
            f' viewBox="0 0 {total:.1f} {_HEIGHT}" role="img"'
            f' aria-label="{escape(badge(report))}">',
            f"<title>{escape(chr(10).join([badge(report), *lines]))}</title>",
            f'<rect width="{total:.1f}" height="{_HEIGHT}" rx="3" fill="{colour}"/>',
            f'<path d="M3 0h{widths[0] - 3:.1f}v{_HEIGHT}h-{widths[0] - 3:.1f}a3 3 0 0 1-3-3V3'
            f'a3 3 0 0 1 3-3z" fill="{_LEFT}"/>',
            '<g fill="#ffffff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">',
            _text(left, _PADDING, widths[0]),
            _text(right, widths[0] + _PADDING, widths[1]),
            "</g>",
            "</svg>",
            "",
        ]
    )


def write_badge(path: str | pathlib.Path, report: ProtocolReport) -> None:
    """Writes the SVG; an older badge of that name is replaced, since runs may be judged again."""
    storage.write_bytes(pathlib.Path(path), badge_svg(report).encode("utf-8"))


def _message(report: ProtocolReport) -> str:
    met = [point.number for point in report.points if point.passed]
    return f"{len(met)}/{len(report.points)} [{_ranges(met)}]"


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in order, neighbours joined: "1..3,5"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs)


def _text(text: str, x: float, width: float) -> str:
    length = width - 2 * _PADDING
    return (
        f'<text x="{x:.1f}" y="14" textLength="{length:.1f}"'
        f' lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
    )
