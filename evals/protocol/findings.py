"""What a check of the protocol found, and the sentence that says so."""

from collections.abc import Sequence
from typing import NamedTuple

# Problems of one point that its reason spells out; the others are counted.
_SHOWN = 3


class Finding(NamedTuple):
    """The outcome of one point.

    Attributes:
        problems: why it fails; empty where it passes.
        summary: what was found, for a point that passes.
        warnings: what a reader should know although it passes.
    """

    problems: Sequence[str]
    summary: str
    warnings: Sequence[str] = ()

    @property
    def reason(self) -> str:
        """One line: the first problems and how many more there are, or the summary."""
        if not self.problems:
            return "; ".join([self.summary, *(f"warning: {text}" for text in self.warnings)])
        distinct = list(dict.fromkeys(self.problems))
        more = len(distinct) - _SHOWN
        return "; ".join(distinct[:_SHOWN] + ([f"and {more} more"] if more > 0 else []))


def counted(banks: Sequence[object]) -> str:
    """How many: "1 bank", "24 banks"."""
    return "1 bank" if len(banks) == 1 else f"{len(banks)} banks"


def listed(items: Sequence[object], limit: int = 4) -> str:
    """Items joined by commas, the first few where there are many."""
    shown = ", ".join(str(item) for item in items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"
