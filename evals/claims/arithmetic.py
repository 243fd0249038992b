"""Claims that printed numbers alone decide: differences, quotients, counts and binomial errors."""

import itertools
import math

import numpy as np

from ..corpora.text_filter import english_filter
from ..reported import Printed, Reported
from ..statistics import mean_rank
from .finding import Finding, agreement, outcome


def difference(claim: Reported) -> Finding:
    """The printed difference of two printed numbers."""
    value = claim.number("minuend").value - claim.number("subtrahend").value
    return agreement(claim, {"difference": value})


def binomial_stderr(claim: Reported) -> Finding:
    """Standard error in percentage points of a printed accuracy on a printed number of tasks."""
    share = sum(number.value for number in claim.numbers("percent"))
    share /= 100 * len(claim.numbers("percent"))
    count = claim.number("tasks").value
    return agreement(claim, {"stderr": 100 * math.sqrt(share * (1 - share) / count)})


def within_noise(claim: Reported) -> Finding:
    """Whether a printed difference is smaller than a printed standard error."""
    a, b = (number.value for number in claim.numbers("percent"))
    return outcome(abs(a - b) < claim.number("stderr").value, {"difference": abs(a - b)})


def integer_counts(claim: Reported) -> Finding:
    """Whether printed means and standard errors are those of whole numbers of solved problems."""
    problems, seeds = int(claim.number("problems").value), int(claim.number("seeds").value)
    stderr = claim.number("stderr")
    found = [_triple(mean, stderr, problems, seeds) for mean in claim.numbers("means")]
    return outcome(
        all(found),
        {
            f"counts at {mean.text}": counts or ()
            for mean, counts in zip(claim.numbers("means"), found)
        },
        "solved problems a seed that print so",
    )


def _triple(mean: Printed, stderr: Printed, problems: int, seeds: int) -> tuple[int, ...] | None:
    """The first ascending counts whose mean and standard error, in per cent, print so."""
    near = int(mean.value * problems / 100)
    for counts in itertools.combinations_with_replacement(range(near - 3, near + 5), seeds):
        percent = 100 * np.array(counts) / problems
        error = float(percent.std(ddof=1)) / math.sqrt(seeds)
        if mean.admits(float(percent.mean())) and stderr.admits(error):
            return counts
    return None


def ratio(claim: Reported) -> Finding:
    """The printed quotient of two printed numbers."""
    above, below = claim.number("above").value, claim.number("below").value
    return agreement(claim, {"ratio": above / below})


def largest(claim: Reported) -> Finding:
    """A strategy that is said to take the most NFE, against the largest NFE printed."""
    said, most = claim.number("said_largest").value, claim.number("largest").value
    return outcome(
        said >= most,
        {"said_largest": said, "largest": most},
        otherwise="contradictory",
    )


def below(claim: Reported) -> Finding:
    """A printed number that is said to lie below a printed bound."""
    value, bound = claim.number("value").value, claim.number("bound").value
    return outcome(
        value < bound,
        {"value": value, "bound": bound},
        otherwise="contradictory",
    )


def above(claim: Reported) -> Finding:
    """A printed number that is said to lie above a printed bound."""
    value, bound = claim.number("value").value, claim.number("bound").value
    return outcome(
        value > bound,
        {"value": value, "bound": bound},
        otherwise="contradictory",
    )


def total(claim: Reported) -> Finding:
    """The printed sum of printed numbers; what is taken away is printed with a minus sign."""
    return agreement(claim, {"total": sum(number.value for number in claim.numbers("parts"))})


def citations(claim: Reported) -> Finding:
    """Two lists of references that are said to be the same works."""
    first, second = (
        {int(number.value) for number in claim.numbers(name)} for name in ("first", "second")
    )
    return outcome(
        first == second,
        {"only first": sorted(first - second), "only second": sorted(second - first)},
        "references that one list alone has",
        otherwise="contradictory",
    )


def filter_bounds(claim: Reported) -> Finding:
    """The language filter at and beyond its printed bounds, both of which are inclusive."""
    ascii_min, cjk_max = claim.number("ascii_min").value, claim.number("cjk_max").value
    kept = round(100 * ascii_min)
    foreign = round(100 * cjk_max)
    at = ["a" * kept + "é" * (100 - kept), "a" * (100 - foreign) + "語" * foreign]
    beyond = ["a" * (kept - 1) + "é" * (101 - kept), "a" * (99 - foreign) + "語" * (foreign + 1)]
    verdicts = [english_filter(text).accepted for text in at + beyond]
    return outcome(
        verdicts == [True, True, False, False],
        {"accepted at the bounds": verdicts[:2], "accepted beyond": verdicts[2:]},
        "100 characters each",
    )


def pairs(claim: Reported) -> Finding:
    """Unordered pairs of sources."""
    return agreement(claim, {"pairs": math.comb(int(claim.number("sources").value), 2)})


def matches_per_source(claim: Reported) -> Finding:
    """The mean number of matches a source has, against the printed range."""
    mean = 2 * claim.number("comparisons").value / claim.number("sources").value
    low, high = claim.number("low").value, claim.number("high").value
    return outcome(low <= mean <= high, {"mean": mean}, otherwise="contradictory")


def last_in_all_columns(claim: Reported) -> Finding:
    """A mean rank that only the last of the trained banks can have, by ranking such a table."""
    trained, banks, columns = (
        int(claim.number(name).value) for name in ("trained", "banks", "columns")
    )
    names = [str(column) for column in range(columns)]
    table = {f"bank {i}": dict.fromkeys(names, float(i)) for i in range(banks)}
    last = table[f"bank {trained - 1}"]
    directions = dict.fromkeys(names, "down")
    rank = mean_rank(table, directions)[f"bank {trained - 1}"]
    last[names[0]] = trained - 2.5  # one place better in one column
    better = mean_rank(table, directions)[f"bank {trained - 1}"]
    printed = claim.number("mean_rank")
    return outcome(
        printed.admits(rank) and not printed.admits(better),
        {"mean_rank": rank, "one place better once": better},
        "of the last trained bank, heuristics behind it",
    )


def attainable_correlations(claim: Reported) -> Finding:
    """Whether n ranks without ties can have the printed Spearman correlations.

    rho = 1 - 6 D / (n (n^2 - 1)) with D, the sum of squared rank differences, an even number.
    """
    n = int(claim.number("banks").value)
    scale = n * (n * n - 1) / 6
    found = []
    for printed in claim.numbers("rho"):
        squares = 2 * round(scale * (1 - printed.value) / 2)
        found.append(1 - squares / scale)
    return agreement(claim, {"rho": found}, f"the nearest that {n} ranks without ties can have")
