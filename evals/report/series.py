"""Looks of the series of a figure: colour, marker and dash by place, distinct without colour."""

from typing import Literal

from .figures import SERIES_COLOURS, SOFT

Dash = Literal["-", "--", ":", "-."]

_COLOURS = (*SERIES_COLOURS, SOFT)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
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
