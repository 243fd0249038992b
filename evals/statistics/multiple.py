"""Several tests at once: Holm's step-down correction."""

from collections.abc import Sequence

from ..errors import InputError
from .checks import is_number


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p of a family of tests (Holm 1979, Scandinavian Journal of Statistics 6).

    Sorted ascending, the i-th of m values (from 0) becomes the largest p_j (m - j) for j <= i, at
    most 1. Rejecting where the adjusted p is at most alpha bounds the chance of any false claim in
    the family by alpha, however the tests depend on each other.

    Args:
        p_values: in any order; None for a test without p (see `PairedTest.reason`). It stays None
            and still counts in m, since it was asked.

    Raises:
        InputError: an empty family, or a value outside [0, 1].
    """
    values = [] if p_values is None else list(p_values)
    if not values:
        raise InputError("p_values is empty; a family needs at least one test")
    for i, p in enumerate(values):
        if p is not None and not (is_number(p) and 0 <= p <= 1):
            raise InputError(f"p_values[{i}] is {p!r}; accepted: a number in [0, 1], or None")
    known = sorted((float(p), i) for i, p in enumerate(values) if p is not None)
    adjusted: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (p, i) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(values) - rank)))
        adjusted[i] = largest
    return adjusted
