"""Looks of the series of a figure: colour, marker and dash by place, distinct without colour."""

from typing import Any, Literal

from .figures import PAPER, SERIES_COLOURS, SOFT

Dash = Literal["-", "--", ":", "-."]

# Seven colours and eight markers have no common period: fifty-six series differ in one of them.
_COLOURS = (*SERIES_COLOURS, SOFT)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
_DASHES: tuple[Dash, ...] = ("-", "--", ":", "-.")


def colour(place: int) -> str:
    """Colour of the series at a place; the seven remasking strategies have one each."""
    return _COLOURS[place % len(_COLOURS)]


def marker(place: int) -> str:
    """Marker of the series at a place."""
    return _MARKERS[place % len(_MARKERS)]


def dash(place: int) -> Dash:
    """Line style of the series at a place."""
    return _DASHES[place % len(_DASHES)]


def look(place: int, size: float = 6.5) -> dict[str, Any]:
    """Colour, marker and line of the series at a place, for `plot`, `errorbar` and `Line2D`.

    Crosses are larger than `size`: the edge that parts a marker from its line takes more of them.
    """
    return {
        "color": colour(place),
        "marker": marker(place),
        "markersize": size * (1.35 if marker(place) in "PX" else 1.0),
        "markeredgecolor": PAPER,
        "linestyle": dash(place),
    }
