"""What every test asks of its numbers: present, finite, enough, and more than rounding apart."""

import numbers
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from ..errors import InputError

# Values computed in a few operations from float64 numbers of size 1 differ by this much at most.
ROUNDING = 8 * np.finfo(np.float64).eps
# Squares of larger numbers, summed, leave the range of float64.
LARGEST = 1e150


def plain_array(values: object, name: str) -> Float[np.ndarray, "..."]:
    """Any numbers as float64; masked entries become NaN, so that no check overlooks them.

    Raises:
        InputError: values that are no numbers, or none that float64 holds.
    """
    if values is None:
        raise InputError(f"{name} is missing; run that arm or leave the comparison out")
    try:
        if isinstance(values, np.ma.MaskedArray):
            return np.ma.filled(values.astype(np.float64), np.nan)
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must hold numbers alone: {error}") from error


def finite_values(values: Sequence[float], name: str, *, least: int = 2) -> Float[np.ndarray, "n"]:
    """The values as one axis of float64.

    Raises:
        InputError: missing, not one axis of numbers, too few, NaN, infinite or beyond `LARGEST`.
    """
    array = plain_array(values, name)
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
    check_size(array, name)
    return array


def check_size(values: Float[np.ndarray, "..."], name: str) -> None:
    """Refuses numbers whose squares overflow: an error of infinity would look like no effect.

    Raises:
        InputError: a number beyond `LARGEST`.
    """
    largest = np.abs(values).max(initial=0.0)
    if largest > LARGEST:
        raise InputError(f"{name} holds {largest:g}; accepted: up to {LARGEST:g} in size")


def probability(value: float, name: str) -> float:
    """A number strictly between 0 and 1.

    Raises:
        InputError: anything else.
    """
    if not is_number(value) or not 0 < value < 1:
        raise InputError(f"{name}={value!r}; accepted: a number strictly between 0 and 1")
    return float(value)


def positive_count(value: int, name: str) -> int:
    """A whole number of at least 1.

    Raises:
        InputError: anything else.
    """
    if not is_number(value) or not 1 <= value < 2**63 or int(value) != value:
        raise InputError(f"{name}={value!r}; accepted: a whole number of at least 1")
    return int(value)


def random_seed(value: int) -> np.random.Generator:
    """The generator of a seed that is named: None would draw anew at every call.

    Raises:
        InputError: anything but a whole number of at least 0.
    """
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 0:
        raise InputError(f"seed={value!r}; accepted: a whole number of at least 0")
    return np.random.default_rng(int(value))


def is_number(value: object) -> bool:
    """Whether a value is a real number; texts and truth values are none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
