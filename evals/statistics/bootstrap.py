"""Bootstrap intervals of a mean: every resample of up to five values, random ones of more."""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from ..errors import InputError
from .checks import ROUNDING, finite_values, positive_count, probability, random_seed

MOST_ENUMERATED = 5  # 5^5 = 3,125 ordered resamples
METHODS = ("percentile", "bca")
QUANTILES = ("inverted_cdf", "linear")


class Interval(NamedTuple):
    """A bootstrap interval of the mean.

    `num_unique` is the number of distinct resamples, C(2n - 1, n): 10 for three seeds, and an
    exact integer of thousands of digits for thousands of rows.
    """

    low: float
    high: float
    num_unique: int

    def __repr__(self) -> str:
        count = _in_words(self.num_unique)
        return f"Interval(low={self.low!r}, high={self.high!r}, num_unique={count})"


class Resamples(NamedTuple):
    """Means of resamples, and how many ordered resamples have each."""

    means: Float[np.ndarray, "r ..."]
    weights: Int[np.ndarray, "r"]


def bootstrap_interval(
    differences: Sequence[float],
    *,
    level: float = 0.95,
    num_resamples: int = 10_000,
    seed: int = 0,
    method: str = "percentile",
    quantile: str | None = None,
) -> Interval:
    """Interval of the mean of paired differences (spec care.md 6.1; Efron & Tibshirani 1993).

    Up to five values all n^n resamples are enumerated, so the interval depends on no seed. With
    three, both extremes have probability 1/27, above 2.5 %: the 95 % interval is the range of the
    data, and `range_warning` says so.

    Args:
        differences: one value a seed; resampled jointly, as they are already paired.
        level: of the interval, two-sided.
        num_resamples: random resamples for n > 5.
        seed: of those.
        method: "percentile", or "bca": bias-corrected and accelerated (Efron 1987), with the
            acceleration from the jackknife and ties counted half.
        quantile: "inverted_cdf" or "linear" (interpolated) quantiles; None is the first where all
            resamples are enumerated, the second otherwise.

    Raises:
        InputError: fewer than two values, NaN or infinity, or an option out of range.
    """
    values = finite_values(differences, "differences")
    if method not in METHODS:
        raise InputError(f"method={method!r}; accepted: {', '.join(METHODS)}")
    if quantile is None:
        quantile = "inverted_cdf" if len(values) <= MOST_ENUMERATED else "linear"
    elif quantile not in QUANTILES:
        raise InputError(f"quantile={quantile!r}; accepted: {', '.join(QUANTILES)} or None")
    tail = (1 - probability(level, "level")) / 2
    num_unique = math.comb(2 * len(values) - 1, len(values))
    if np.ptp(values) <= ROUNDING * np.abs(values).max():
        return Interval(float(values.min()), float(values.max()), num_unique)
    resamples = resampled_means(values, num_resamples=num_resamples, seed=seed)
    places = [tail, 1 - tail]
    if method == "bca":
        places = _accelerated(values, resamples, tail)
    # Fewer than 3,126 means where weights differ from 1: repeating them is cheap.
    means = np.repeat(resamples.means, resamples.weights)
    low, high = np.quantile(means, np.round(places, 12), method=quantile)
    return Interval(float(low), float(high), num_unique)


def range_warning(interval: Interval, differences: Sequence[float]) -> str | None:
    """What to print beside an interval that an end of the data cuts short; None for others."""
    values = finite_values(differences, "differences")
    if interval.low > values.min() and interval.high < values.max():
        return None
    return (
        f"the interval is bounded by the data range: {len(values)} values have only "
        f"{_in_words(interval.num_unique)} distinct resamples"
    )


def resampled_means(
    values: Float[np.ndarray, "n ..."], *, num_resamples: int = 10_000, seed: int = 0
) -> Resamples:
    """Means over resamples of the first axis; what the other axes hold is resampled together.

    Up to five rows: the C(2n - 1, n) distinct resamples, weighted by the ordered ones that give
    them. Beyond: `num_resamples` random ones, each of weight 1.

    Raises:
        InputError: `num_resamples` below 1.
    """
    n, shape = len(values), np.shape(values)[1:]
    rows = np.asarray(values, np.float64).reshape(n, -1)
    if n <= MOST_ENUMERATED:
        counts, weights = _multisets(n)
        means = counts @ rows / n
        # The mean of n equal values is that value, whatever rounding says.
        means[counts.max(axis=1) == n] = rows[np.argmax(counts[counts.max(axis=1) == n], axis=1)]
        return Resamples(means.reshape(-1, *shape), weights)
    num_resamples = positive_count(num_resamples, "num_resamples")
    rng, means = random_seed(seed), np.empty((num_resamples, rows.shape[1]))
    chunk = max(1, 2**21 // n)
    for start in range(0, num_resamples, chunk):
        size = min(chunk, num_resamples - start)
        picks = rng.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
        counts = np.bincount(picks.ravel(), minlength=size * n).reshape(size, n)
        means[start : start + size] = counts @ rows / n
    return Resamples(means.reshape(-1, *shape), np.ones(num_resamples, np.int64))


def _in_words(count: int) -> str:
    # Python refuses to print integers of more than 4,300 digits.
    return str(count) if count < 10**15 else f"about 10^{math.log10(count):.0f}"


@functools.cache
def _multisets(n: int) -> tuple[Int[np.ndarray, "r n"], Int[np.ndarray, "r"]]:
    """How often each value is drawn in each distinct resample, and its ordered resamples."""
    picks = itertools.combinations_with_replacement(range(n), n)
    counts = np.array([np.bincount(pick, minlength=n) for pick in picks])
    ways = [math.factorial(n) // math.prod(map(math.factorial, row)) for row in counts.tolist()]
    return counts, np.array(ways)


def _accelerated(values: Float[np.ndarray, "n"], resamples: Resamples, tail: float) -> list[float]:
    """The two probabilities at which BCa reads the bootstrap distribution (Efron 1987)."""
    centred = values - values.mean()
    gap = resamples.means - values.mean()
    tied = np.abs(gap) <= ROUNDING * np.abs(values).max()
    weights = resamples.weights / resamples.weights.sum()
    bias = special.ndtri(float(weights @ np.where(tied, 0.5, gap < 0)))
    # Cubes of small differences are 0 in float64; the acceleration has no unit.
    centred = centred / np.abs(centred).max()
    acceleration = float((centred**3).sum() / (6 * (centred**2).sum() ** 1.5))
    places = []
    for normal in (special.ndtri(tail), -special.ndtri(tail)):
        shifted = bias + normal
        # Where the correction passes its pole it has run off the end of the distribution.
        stretch = max(1 - acceleration * shifted, 1e-9)
        places.append(float(special.ndtr(bias + shifted / stretch)))
    return places
