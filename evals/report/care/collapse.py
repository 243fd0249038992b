"""Collapse along compute: more forwards, a better perplexity, less varied text.

Spec genppl.md section 11, "NFE trajectories" (the left of Fig. 3 of the gen-PPL paper).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ...errors import InputError
from ...scoring.scores import Score
from ...statistics import spearman

MARGIN = 2.0  # combined standard errors beyond which a change is called clear


class Trend(NamedTuple):
    """How a metric moves from the fewest forwards to the most.

    Attributes:
        rho: Spearman's correlation of NFE and metric over budgets of different NFE; None for
            fewer than three, a missing value, or a metric that does not move.
        change: value at the most forwards less value at the fewest; None where one is missing.
        stderr: of the change, both ends taken as independent; None where an end has none.
        num_budgets: budgets of different NFE.
    """

    rho: float | None
    change: float | None
    stderr: float | None
    num_budgets: int

    @property
    def clear(self) -> bool:
        """Whether the change exceeds two combined standard errors."""
        if self.change is None or self.stderr is None:
            return False
        return abs(self.change) > MARGIN * self.stderr


class Collapse(NamedTuple):
    """Signs that a sampler wins perplexity by losing variety; None where not decided.

    The first two are the paper's. They miss a sample that says one thing over and over while
    its words and the other samples differ, so repetition is the third (our choice).

    Attributes:
        gen_ppl, self_bleu, h_uni, repetition: the trends they are read off.
        alike: Self-BLEU rises with NFE while gen-PPL falls.
        narrows: H_uni falls with NFE.
        loops: repetition inside a sample rises with NFE while gen-PPL falls.
    """

    gen_ppl: Trend
    self_bleu: Trend
    h_uni: Trend
    repetition: Trend
    alike: bool | None
    narrows: bool | None
    loops: bool | None


def nfe_trend(nfe: Sequence[float], scores: Sequence[Score]) -> Trend:
    """The trend of one metric over budgets.

    Budgets that end at the same NFE are one run under several names (a strategy that never
    remasks stops when no mask is left), so the first of them stands for all.

    Args:
        nfe: counted forwards a sample at each budget, in any order.
        scores: the metric at each budget.

    Raises:
        InputError: unequal or empty lists, or an NFE that is no finite number.
    """
    if len(nfe) != len(scores) or not scores:
        raise InputError(f"{len(nfe)} NFE for {len(scores)} scores; give one for each, at least 1")
    if not all(map(math.isfinite, nfe)):
        raise InputError(f"nfe holds {list(nfe)}; every budget needs its counted forwards")
    distinct: dict[float, Score] = {}
    for count, score in sorted(zip(nfe, scores), key=lambda pair: pair[0]):
        distinct.setdefault(float(count), score)
    ends = list(distinct.values())
    first, last = ends[0], ends[-1]
    change = stderr = rho = None
    if first.value is not None and last.value is not None:
        change = last.value - first.value
        if first.stderr is not None and last.stderr is not None:
            stderr = math.hypot(first.stderr, last.stderr)
    values = [score.value for score in ends if score.value is not None]
    if len(values) == len(ends) and len(values) >= 3:
        found = spearman(list(distinct), values)
        rho = None if math.isnan(found) else found
    return Trend(rho, change, stderr, len(ends))


def collapse_flags(
    nfe: Sequence[float],
    *,
    gen_ppl: Sequence[Score],
    self_bleu: Sequence[Score],
    h_uni: Sequence[Score],
    repetition: Sequence[Score],
) -> Collapse:
    """The flags of one strategy at one temperature, over its budgets.

    A flag needs a rank correlation, so at least three budgets of different NFE; its size says
    nothing of noise, for which see `Trend.clear`.

    Raises:
        InputError: as in `nfe_trend`.
    """
    ppl, bleu, uni, loops = (
        nfe_trend(nfe, scores) for scores in (gen_ppl, self_bleu, h_uni, repetition)
    )
    return Collapse(
        ppl,
        bleu,
        uni,
        loops,
        alike=_bought(bleu, ppl),
        narrows=None if uni.rho is None else uni.rho < 0,
        loops=_bought(loops, ppl),
    )


def _bought(price: Trend, perplexity: Trend) -> bool | None:
    """Whether what is better low rises while perplexity falls."""
    if price.rho is None or perplexity.rho is None:
        return None
    return price.rho > 0 and perplexity.rho < 0
