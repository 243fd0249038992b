"""The outcome of checking a claim: what we get, and what that says about it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from ..reported import Reported

Verdict = Literal["holds", "does not hold", "contradictory"]


class Finding(NamedTuple):
    """What a check found.

    Attributes:
        verdict: "holds"; "does not hold": ours differs; "contradictory": printed numbers or
            statements cannot all be true, whatever the data were.
        ours: our numbers by name.
        note: what decided, or the condition under which it holds.
    """

    verdict: Verdict
    ours: Mapping[str, tuple[float, ...]]
    note: str = ""


Check = Callable[[Reported], Finding]


def agreement(
    claim: Reported, ours: Mapping[str, float | Sequence[float]], note: str = ""
) -> Finding:
    """Holds where each of our numbers rounds to the printed one of its name.

    Raises:
        InputError: the claim has no number of a name.
    """
    listed = as_tuples(ours)
    agrees = True
    for name, numbers in listed.items():
        printed = claim.numbers(name)
        agrees &= len(printed) == len(numbers)
        agrees &= all(p.admits(number) for p, number in zip(printed, numbers))
    return Finding("holds" if agrees else "does not hold", listed, note)


def outcome(
    holds: bool,
    ours: Mapping[str, float | Sequence[float]],
    note: str = "",
    *,
    otherwise: Verdict = "does not hold",
) -> Finding:
    """Holds if `holds`, else what `otherwise` says."""
    return Finding("holds" if holds else otherwise, as_tuples(ours), note)


def as_tuples(ours: Mapping[str, float | Sequence[float]]) -> dict[str, tuple[float, ...]]:
    """Every value as a tuple of Python floats."""
    return {
        name: tuple(float(v) for v in value) if isinstance(value, Sequence) else (float(value),)
        for name, value in ours.items()
    }
