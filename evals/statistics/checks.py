"""What every test asks of its numbers: present, finite, enough, and more than rounding apart."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from ..errors import InputError

# Values computed in a few operations from float64 numbers of size 1 differ by this much at most.
ROUNDING = 8 * np.finfo(np.float64).eps


def finite_values(values: Sequence[float], name: str, *, least: int = 2) -> Float[np.ndarray, "n"]:
    """The values as one axis of float64.

    Raises:
        InputError: missing, not one axis of numbers, too few, NaN or infinite.
    """
    if values is None:
        raise InputError(f"{name} is missing; run that arm or leave the comparison out")
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be one axis of numbers: {error}") from error
    if array.ndim != 1 or len(array) < least:
        raise InputError(
            f"{name} has shape {list(array.shape)}; accepted: one axis of at least {least} values, "
            "such as one value a seed"
        )
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise InputError(
            f"{name}[{bad[0]}] is {array[bad[0]]}; every value must be finite: a value that could "
            "not be measured has no place in a test"
        )
    return array


def probability(value: float, name: str) -> float:
    """A number strictly between 0 and 1.

    Raises:
        InputError: anything else.
    """
    if not 0 < value < 1:
        raise InputError(f"{name}={value!r}; accepted: a number strictly between 0 and 1")
    return float(value)


def positive_count(value: int, name: str) -> int:
    """A whole number of at least 1.

    Raises:
        InputError: anything else.
    """
    if int(value) != value or value < 1:
        raise InputError(f"{name}={value!r}; accepted: a whole number of at least 1")
    return int(value)
