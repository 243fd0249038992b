"""The interaction gap of a row: computed from its arms, never taken from anyone's word."""

import math
from collections.abc import Mapping, Sequence

from ..errors import InputError, naming, one_line
from ..report.care.gaps import paired_scores
from ..report.data import missing
from ..scoring.scores import Score
from ..signature import merged
from ..statistics import bootstrap_interval, paired_test, range_warning
from ..workdir.seed_scores import SeededArm


def interaction_gap(
    baseline: SeededArm | None, strategy: SeededArm | None, lacking: Mapping[str, str]
) -> tuple[Score, str]:
    """MAUVE without remasking minus MAUVE with it, at the same temperature, budget and seeds.

    Args:
        baseline, strategy: the arms; None where one has no numbers.
        lacking: {"baseline" or "strategy": why}.

    Returns:
        The mean difference with its paired standard error (none for a single seed), and a sentence
        on its test. The number is missing, with the reason, where the arms are not paired.
    """
    if baseline is None or strategy is None:
        absent = "baseline" if baseline is None else "strategy"
        return missing(lacking.get(absent, f"the {absent} has no numbers")), ""
    try:
        first, second = paired_scores(baseline, strategy, "mauve")
        arms = (baseline, strategy)
        with naming(f"MAUVE of {baseline.label} and {strategy.label}"):
            of = merged([s.metrics["mauve"].signature for a in arms for s in a.seeds.values()])
    except InputError as error:
        return missing(one_line(error)), ""
    names = f"{baseline.cell.strategy}-{strategy.cell.strategy}"
    return paired_gap(first, second, list(baseline.seeds), names, of)


def paired_gap(
    first: Sequence[float],
    second: Sequence[float],
    seeds: Sequence[int],
    names: str,
    of: str,
) -> tuple[Score, str]:
    """The gap between two arms' values at the same seeds, and a sentence on its test.

    Args:
        names: of the arms, such as "none-high_entropy".
        of: signature of the values.
    """
    shown = ",".join(map(str, seeds))
    signature = f"gap|arms:{names}|paired:seeds {shown}|stderr:ddof=1|of:{of}"
    differences = [a - b for a, b in zip(first, second, strict=True)]
    mean = math.fsum(differences) / len(differences)
    if len(first) < 2:
        return Score(mean, None, 1, "", None, signature), "One seed: no standard error, no test."
    test, interval = paired_test(first, second), bootstrap_interval(differences)
    text = f"Paired over seeds {shown.replace(',', ', ')}: "
    if test.t is None or test.p is None:
        text += "no test"
    else:
        text += f"t({test.df}) = {test.t:.2f}, p = {test.p:.2g}"
    text += f"; 95 % bootstrap interval {interval.low:.3f} to {interval.high:.3f}."
    for note in (test.reason, range_warning(interval, differences)):
        text += f" {note[0].upper()}{note[1:]}." if note else ""
    return Score(mean, test.stderr, len(first), "", None, signature), text.replace(" -", " −")
