"""Claims about the headline gap of CaRE: its paired error, t, p and bootstrap interval.

Printed numbers are intervals: a claim is contradictory only if no numbers that round to the printed
ones satisfy it.
"""

import scipy.stats

from ..reported import Reported
from ..statistics import bootstrap_interval, paired_test
from .finding import Finding, outcome

_ZEROS = (0.0, 0.0, 0.0)


def paired_stderr(claim: Reported) -> Finding:
    """Whether a paired standard error fits those of its arms, and the correlation it implies."""
    a, b = (number.value for number in claim.numbers("arm_stderrs"))
    paired = claim.number("paired_stderr").value
    correlation = (a * a + b * b - paired * paired) / (2 * a * b)
    return outcome(
        -1 <= correlation <= 1,
        {"correlation": correlation},
        "of the arms over the seeds, from var(a - b) = var(a) + var(b) - 2 cov(a, b)",
        otherwise="contradictory",
    )


def t_statistic(claim: Reported) -> Finding:
    """t as the quotient of a printed gap and its printed standard error, with their rounding."""
    gap, stderr = claim.number("gap"), claim.number("stderr")
    low, high = gap.low / stderr.high, gap.high / stderr.low
    printed = claim.number("t")
    fits = low <= printed.high and printed.low <= high
    return outcome(fits, {"t": (low, high)}, "range left by rounding", otherwise="contradictory")


def p_value(claim: Reported) -> Finding:
    """The two-sided p of a printed t, with the rounding of both."""
    t, df = claim.number("t"), claim.number("df").value
    low, high = (2 * float(scipy.stats.t.sf(value, df)) for value in (t.high, t.low))
    printed = claim.number("p")
    fits = low <= printed.high and printed.low <= high
    return outcome(fits, {"p": (low, high)}, "range left by rounding t", otherwise="contradictory")


def bootstrap(claim: Reported) -> Finding:
    """Whether three paired differences can have the printed interval and the printed error.

    Each of three values is drawn three times with probability 1/27 > 2.5%, so a percentile
    interval is [smallest, largest], and three values so far apart at most have their standard error
    where the middle one equals an end: a third of their distance.
    """
    low, high = claim.number("low"), claim.number("high")
    stderr, gap = claim.number("stderr"), claim.number("gap")
    middle = 3 * gap.value - low.value - high.value
    triple = [low.value, min(max(middle, low.value), high.value), high.value]
    interval = bootstrap_interval(triple)
    test = paired_test(triple, _ZEROS)
    ends = [low.low, low.low, high.high], [low.low, high.high, high.high]
    most = max(paired_test(triple, _ZEROS).stderr for triple in ends)
    fits = most >= stderr.low and low.admits(interval.low) and high.admits(interval.high)
    return outcome(
        fits,
        {
            "low": interval.low,
            "high": interval.high,
            "stderr": test.stderr,
            "largest stderr": most,
        },
        "of the triple that the interval and the mean fix, and of any triple with this interval",
        otherwise="contradictory",
    )
