"""What a metric can tell: the band of clean draws, power against it, the least damage it sees."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

SEEN = 0.8  # power from which a damage counts as seen
LEAST_CLEAN = 39  # draws whose range a further one leaves with probability 0.05


def null_band(values: Float[np.ndarray, "n"], level: float = 0.95) -> tuple[float, float]:
    """Bounds that a further independent draw of the same law leaves with probability 1 - level.

    Order statistics at (n + 1) (1 - level) / 2 from either end: distribution-free, for 39 clean
    draws their minimum and maximum.

    Raises:
        ValueError: too few values for bounds of that level.
    """
    values = np.sort(np.asarray(values, np.float64))
    needed = math.ceil(2 / (1 - level) - 1 - 1e-9)
    if values.ndim != 1 or len(values) < needed:
        raise ValueError(
            f"values has shape {list(values.shape)}; a band of level {level} needs one axis of at "
            f"least {needed} clean draws"
        )
    place = round((len(values) + 1) * (1 - level) / 2, 9) - 1
    low, high = np.interp([place, len(values) - 1 - place], np.arange(len(values)), values)
    return float(low), float(high)


def power(values: Float[np.ndarray, "n"], band: tuple[float, float]) -> float:
    """Share of draws strictly outside a band."""
    values = np.asarray(values, np.float64)
    return float(np.mean((values < band[0]) | (values > band[1])))


def detectable(
    levels: Sequence[float], powers: Sequence[float], *, null_power: float = 0.05
) -> float | None:
    """The least level from which on every tested level is seen, with power 0.8 or more.

    Interpolated in the logarithm of the level between the last level that is missed and the next;
    from no damage (power `null_power`) to the first level in the level itself.

    Args:
        levels: rising, above 0.
        powers: at those levels.

    Returns:
        None where the highest level is missed.

    Raises:
        ValueError: unequal or no values, or levels that do not rise from above 0.
    """
    if len(levels) != len(powers) or not len(levels):
        raise ValueError(f"levels has {len(levels)} values, powers {len(powers)}; both need k >= 1")
    if min(levels) <= 0 or any(a >= b for a, b in itertools.pairwise(levels)):
        raise ValueError(f"levels={list(levels)} must rise from above 0")
    missed = [i for i, value in enumerate(powers) if value < SEEN]
    if not missed:
        return float(levels[0] * (SEEN - null_power) / (powers[0] - null_power))
    last = missed[-1]
    if last == len(levels) - 1:
        return None
    share = (SEEN - powers[last]) / (powers[last + 1] - powers[last])
    low, high = math.log(levels[last]), math.log(levels[last + 1])
    return math.exp(low + share * (high - low))
