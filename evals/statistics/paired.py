"""Paired comparison of two arms: Student's t, and the exact test by flipping signs."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from ..errors import InputError
from .checks import ROUNDING, finite_values, positive_count, random_seed

MOST_EXACT = 40  # differences whose 2^n sign patterns are counted, in two halves of 2^20


class PairedTest(NamedTuple):
    """Student's t-test of mean(a - b) = 0.

    Attributes:
        mean: of the differences.
        stderr: standard deviation of the differences (ddof = 1) over sqrt(n).
        t: mean / stderr; None where the differences are all equal.
        df: n - 1.
        p: two-sided; None with t.
    """

    mean: float
    stderr: float
    t: float | None
    df: int
    p: float | None

    @property
    def reason(self) -> str | None:
        """Why there is no t and no p, or None where there are."""
        if self.t is not None:
            return None
        return (
            f"all {self.df + 1} differences are equal, so nothing tells how far chance moves them; "
            "let the seed change what is drawn (prefixes, sampler noise, clustering)"
        )


class SignFlipTest(NamedTuple):
    """Share of sign patterns whose mean difference is at least as far from 0 as the one found.

    `exact` says that all 2^n patterns were counted; else num_flips random ones, and the pattern
    found among them.
    """

    mean: float
    p: float
    num_flips: int
    exact: bool


def paired_values(
    a: Mapping[Hashable, float | None] | None,
    b: Mapping[Hashable, float | None] | None,
    *,
    names: tuple[str, str] = ("a", "b"),
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Two arms' values in one order of their common keys.

    Args:
        a: {key: value}; the key is what the arms share, such as the seed or (seed, prefix).
        b: likewise.
        names: of the arms, for messages.

    Raises:
        InputError: an arm that is missing or empty, keys that only one arm has (they are never
            dropped: the rest would be another comparison), or a value that is missing or not
            finite.
    """
    arms = []
    for arm, name in zip((a, b), names):
        if arm is not None and not isinstance(arm, Mapping):
            raise InputError(
                f"{name} is a {type(arm).__name__}; it must be a mapping from what the arms share,"
                " such as the seed, to the value there"
            )
        if not arm:
            raise InputError(f"{name} has no values; run that arm or leave the comparison out")
        arms.append(arm)
    for (mine, other), (name, others) in zip((arms, arms[::-1]), (names, names[::-1])):
        alone = [key for key in mine if key not in other]
        if alone:
            raise InputError(
                f"{name} and {others} are not paired: only {name} has {_listed(alone)}; run both "
                "arms on the same seeds and prefixes"
            )
    keys = list(arms[0])
    for arm, name in zip(arms, names):
        missing = [key for key in keys if arm[key] is None]
        if missing:
            raise InputError(f"{name} has no value at {_listed(missing)}; score it first")
    first, second = ([arm[key] for key in keys] for arm in arms)
    return finite_values(first, names[0], least=1), finite_values(second, names[1], least=1)


def paired_test(a: Sequence[float], b: Sequence[float]) -> PairedTest:
    """Two-sided paired t-test (spec care.md 6.1): d = a - b, t = mean(d) / (sd(d) / sqrt(n)).

    Differences that are equal up to rounding have no spread to compare the mean with: `stderr` is
    0, `t` and `p` are None and `reason` says so. No p of 0 is made up for them.

    Args:
        a: one value a seed.
        b: the other arm at the same seeds, in the same order (see `paired_values`).

    Raises:
        InputError: a missing arm, unequal lengths, fewer than two pairs, NaN or infinity.
    """
    first, second = finite_values(a, "a"), finite_values(b, "b")
    if len(first) != len(second):
        raise InputError(
            f"a has {len(first)} values, b has {len(second)}; a paired test needs both arms at "
            "the same seeds"
        )
    difference = first - second
    mean, df = float(difference.mean()), len(difference) - 1
    scale = max(np.abs(first).max(), np.abs(second).max())
    if np.ptp(difference) <= ROUNDING * scale:
        return PairedTest(mean, 0.0, None, df, None)
    stderr = float(difference.std(ddof=1)) / math.sqrt(df + 1)
    t = mean / stderr
    return PairedTest(mean, stderr, t, df, 2 * float(special.stdtr(df, -abs(t))))


def sign_flip_test(
    differences: Sequence[float], *, num_flips: int = 100_000, seed: int = 0
) -> SignFlipTest:
    """Permutation alternative to `paired_test`: under the null each difference is symmetric at 0.

    Up to 40 differences all 2^n sign patterns are counted, by pairing the sorted sums of two
    halves. Beyond, `num_flips` random patterns give (1 + hits) / (1 + num_flips). The least p is
    2 / 2^n: three seeds can never show p below 0.25.

    Raises:
        InputError: no differences, NaN or infinity.
    """
    values = finite_values(differences, "differences", least=1)
    n, total, size = len(values), abs(float(values.sum())), float(np.abs(values).sum())
    mean = float(values.mean())
    # Patterns that tie with the one found count, in spite of rounding.
    threshold = total - n * ROUNDING * size
    if n <= MOST_EXACT:
        if threshold <= 0:
            return SignFlipTest(mean, 1.0, 2**n, True)
        left, right = _signed_sums(values[: n // 2]), np.sort(_signed_sums(values[n // 2 :]))
        above = len(right) - np.searchsorted(right, threshold - left, side="left")
        below = np.searchsorted(right, -threshold - left, side="right")
        hits = int(above.sum()) + int(below.sum())
        return SignFlipTest(mean, hits / 2**n, 2**n, True)
    num_flips = positive_count(num_flips, "num_flips")
    rng, hits, chunk = random_seed(seed), 0, max(1, 2**22 // n)
    for start in range(0, num_flips, chunk):
        signs = rng.integers(0, 2, (min(chunk, num_flips - start), n), np.int8) * 2 - 1
        hits += int(np.count_nonzero(np.abs(signs @ values) >= threshold))
    return SignFlipTest(mean, (1 + hits) / (1 + num_flips), num_flips, False)


def _signed_sums(values: Float[np.ndarray, "k"]) -> Float[np.ndarray, "2**k"]:
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums - value, sums + value])
    return sums


def _listed(keys: Sequence[Hashable]) -> str:
    shown = ", ".join(repr(key) for key in keys[:3])
    return shown if len(keys) <= 3 else f"{shown} and {len(keys) - 3} more"
