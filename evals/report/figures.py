"""Figures: SVG for the page, SVG and PNG files beside it, the same bytes every time."""

import dataclasses
import io
import pathlib
import re
from collections.abc import Callable

import matplotlib.style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas

STYLE = pathlib.Path(__file__).parent / "report.mplstyle"
WIDE, NARROW = 7.2, 3.7  # inches; the narrow drawing is laid out anew for a phone or a column
# Okabe and Ito's palette: its hues stay apart for the common kinds of colour blindness.
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#aa4499",
    "#e69f00",
    "#56b4e9",
)
SERIES_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
INK, SOFT, RULE, EDGE, PAPER, SHADE = (
    "#24292f",
    "#57606a",
    "#d8dee4",
    "#8c959f",
    "#ffffff",
    "#eaeef2",
)
# On the page these follow the light or dark scheme of the reader.
_THEMED = {
    INK: "--ink",
    SOFT: "--soft",
    RULE: "--rule",
    EDGE: "--edge",
    PAPER: "--paper",
    SHADE: "--shade",
    BLUE: "--blue",
    VERMILLION: "--vermillion",
    GREEN: "--green",
    PURPLE: "--purple",
    ORANGE: "--orange",
    SKY: "--sky",
}


@dataclasses.dataclass(frozen=True)
class Figure:
    """A drawn figure.

    Attributes:
        name, caption, alt: of `render`.
        svg, png: files as wide as a page.
        column_svg, column_png: files as wide as a column, laid out anew with letters as large.
        wide, narrow: SVG elements for the page.
    """

    name: str
    caption: str
    alt: str
    svg: str
    png: bytes
    column_svg: str
    column_png: bytes
    wide: str
    narrow: str
    kind: str = dataclasses.field(default="figure", init=False)


def render(name: str, caption: str, alt: str, draw: Callable[[float], Canvas]) -> Figure:
    """Draws a figure at both widths.

    Args:
        name: file name without suffix, and prefix of the ids inside the SVG.
        caption: sentence below the figure.
        alt: what a reader who cannot see it should know.
        draw: width in inches -> matplotlib figure; called inside the house style.
    """
    with matplotlib.style.context(["default", str(STYLE)]):
        (svg, png), (column_svg, column_png) = (_files(draw(w), alt) for w in (WIDE, NARROW))
    wide, narrow = _inline(svg, f"{name}-wide", alt), _inline(column_svg, f"{name}-narrow", alt)
    return Figure(name, caption, alt, svg, png, column_svg, column_png, wide, narrow)


def _files(canvas: Canvas, alt: str) -> tuple[str, bytes]:
    svg = _svg(canvas, alt)
    stream = io.BytesIO()
    FigureCanvasAgg(canvas)
    # Not print_png: drawing the SVG has left the figure at 72 dots an inch.
    canvas.savefig(stream, format="png", metadata={"Software": None})
    return svg, stream.getvalue()


def _svg(canvas: Canvas, title: str) -> str:
    stream = io.StringIO()
    absent = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    FigureCanvasSVG(canvas).print_svg(stream, metadata={**absent, "Title": title})
    lines = (line.rstrip() for line in stream.getvalue().splitlines())
    return "\n".join(lines) + "\n"


def _inline(svg: str, prefix: str, alt: str) -> str:
    """The bare <svg> element: ids made unique, colours tied to the page's scheme."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', body)
    for colour, name in _THEMED.items():
        body = body.replace(colour, f"var({name})")
    body = re.sub(r'<svg\b([^>]*?)\swidth="[^"]*"', r"<svg\1", body, count=1)
    body = re.sub(r'<svg\b([^>]*?)\sheight="[^"]*"', r"<svg\1", body, count=1)
    label = alt.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return body.replace("<svg", f'<svg role="img" aria-label="{label}" focusable="false"', 1)
