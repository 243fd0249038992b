"""Ratings from pairwise preferences: sequential Elo, its spread over orders, Bradley–Terry.

"Hacking Generative Perplexity", eq. 20; the update is that of FastChat's `compute_elo`, with the
scale, base and start that its ladders show.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.sparse.csgraph
from jaxtyping import Float

from ..errors import InputError
from .checks import is_number, positive_count, random_seed

SCALE = 400.0  # rating points at which the better side is expected to win ten times in eleven
MEAN = 1500.0


class Match(NamedTuple):
    """One comparison of two sources.

    Attributes:
        a, b: their names.
        score: 1 where `a` is better, 0 where `b` is, 0.5 where neither is, None where it was
            skipped: then it changes nothing and is not counted.
    """

    a: str
    b: str
    score: float | None


class Update(NamedTuple):
    """What a match did: its place among all matches, and both ratings before and after."""

    index: int
    a: str
    b: str
    score: float
    before: tuple[float, float]
    after: tuple[float, float]


class Ratings(NamedTuple):
    """Ratings of all sources that took part in a match that counts.

    Attributes:
        ratings: {source: rating}, in order of first appearance; their mean is the start.
        trace: every update of Elo, in order; empty where order plays no part.
        num_matches: {source: matches that count}.
    """

    ratings: dict[str, float]
    trace: tuple[Update, ...]
    num_matches: dict[str, int]


class Spread(NamedTuple):
    """Mean and standard deviation of a rating over shuffled orders of the same matches."""

    mean: float
    deviation: float
    num_orders: int


def elo_ratings(matches: Sequence[Match], *, k: float = 32.0, initial: float = MEAN) -> Ratings:
    """Elo in the order given: E_a = 1 / (1 + 10^((R_b − R_a) / 400)), R_a += k (s − E_a).

    What `a` gains `b` loses, so the mean stays `initial`. Later matches weigh more: see
    `elo_spread` for what the order alone does.

    Args:
        matches: in the order in which they were judged.
        k: largest change a match can make, in rating points.
        initial: rating before the first match.

    Raises:
        InputError: no match that counts, a score other than 1, 0.5, 0 or None, a source compared
            with itself, a name that is no text, `initial` not finite, or `k` not above 0.
    """
    usable = is_number(k) and is_number(initial) and math.isfinite(k) and math.isfinite(initial)
    if not usable or k <= 0:
        raise InputError(f"k={k!r}, initial={initial!r}; accepted: numbers, k above 0")
    kept = _counted(matches)
    ratings: dict[str, float] = {}
    trace = []
    for index, match in kept:
        before = ratings.get(match.a, initial), ratings.get(match.b, initial)
        expected = 1.0 / (1.0 + 10.0 ** ((before[1] - before[0]) / SCALE))
        gain = k * (_score(match) - expected)
        after = before[0] + gain, before[1] - gain
        ratings[match.a], ratings[match.b] = after
        trace.append(Update(index, match.a, match.b, _score(match), before, after))
    return Ratings(ratings, tuple(trace), _counts(kept))


def elo_spread(
    matches: Sequence[Match],
    *,
    k: float = 32.0,
    initial: float = MEAN,
    num_orders: int = 200,
    seed: int = 0,
) -> dict[str, Spread]:
    """How far Elo depends on the order: the same matches in `num_orders` shuffled orders.

    Raises:
        InputError: as `elo_ratings`, or fewer than 1 order.
    """
    count = positive_count(num_orders, "num_orders")
    rng = random_seed(seed)
    found: dict[str, list[float]] = {name: [] for name in _counts(_counted(matches))}
    for _ in range(count):
        order = rng.permutation(len(matches))
        shuffled = elo_ratings([matches[i] for i in order], k=k, initial=initial)
        for name, rating in shuffled.ratings.items():
            found[name].append(rating)
    return {
        name: Spread(float(np.mean(values)), float(np.std(values)), count)
        for name, values in found.items()
    }


def bradley_terry(matches: Sequence[Match]) -> Ratings:
    """The most likely strengths whatever the order, on the scale of Elo with mean 1500.

    P(a better than b) = 1 / (1 + 10^((R_b − R_a) / 400)); an even match is half a win for each.

    Raises:
        InputError: as `elo_ratings`, sources that no chain of wins and even matches joins in both
            directions, whose distance would be infinite or arbitrary (they are named), or a fit
            that does not converge.
    """
    kept = _counted(matches)
    counts = _counts(kept)
    names = list(counts)
    place = {name: i for i, name in enumerate(names)}
    wins = np.zeros((len(names), len(names)))
    for _, match in kept:
        a, b, score = place[match.a], place[match.b], _score(match)
        wins[a, b] += score
        wins[b, a] += 1.0 - score
    _check_joined(wins, names)
    # The slope of the likelihood is 0 at one point alone, as the likelihood is concave.
    found = scipy.optimize.root(
        _slope, np.zeros(len(names)), (wins / wins.sum(),), jac=_curvature, tol=1e-13
    )
    if not found.success:
        raise InputError(f"the fit of {len(kept)} matches did not converge: {found.message}")
    strengths = (found.x - found.x.mean()) * SCALE / np.log(10.0) + MEAN
    return Ratings(dict(zip(names, strengths.tolist(), strict=True)), (), counts)


def _slope(x: Float[np.ndarray, "n"], wins: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n"]:
    lost = wins / (1.0 + np.exp(x[:, None] - x[None, :]))
    # The sum is free, as only differences count; held at 0 the solution is unique.
    return lost.sum(axis=0) - lost.sum(axis=1) + x.sum()


def _curvature(
    x: Float[np.ndarray, "n"], wins: Float[np.ndarray, "n n"]
) -> Float[np.ndarray, "n n"]:
    chance = 1.0 / (1.0 + np.exp(x[None, :] - x[:, None]))
    weight = (wins + wins.T) * chance * (1.0 - chance)
    return np.diag(weight.sum(axis=1)) - weight + 1.0


def _check_joined(wins: Float[np.ndarray, "n n"], names: Sequence[str]) -> None:
    count, group = scipy.sparse.csgraph.connected_components(wins > 0, connection="strong")
    if count > 1:
        smallest = np.argmin(np.bincount(group)[group])
        apart = [name for name, g in zip(names, group, strict=True) if g == group[smallest]]
        more = f" and {len(apart) - 8} more" if apart[8:] else ""
        raise InputError(
            f"{', '.join(apart[:8])}{more} are not joined with the other sources by wins in both"
            " directions, so that no finite distance is most likely; add matches, or use"
            " elo_ratings"
        )


def _counted(matches: Sequence[Match]) -> list[tuple[int, Match]]:
    for index, match in enumerate(matches):
        if not all(isinstance(name, str) and name for name in match[:2]):
            raise InputError(f"matches[{index}] is of {match[0]!r} and {match[1]!r}; give names")
        if match.a == match.b:
            raise InputError(f"matches[{index}] compares {match.a!r} with itself")
        if match.score is not None and match.score not in (0, 0.5, 1):
            raise InputError(
                f"matches[{index}] has score {match.score!r}; accepted: 1, 0.5, 0 or None (skipped)"
            )
    kept = [(index, match) for index, match in enumerate(matches) if match.score is not None]
    if not kept:
        raise InputError(f"none of {len(matches)} matches counts; give one that was not skipped")
    return kept


def _score(match: Match) -> float:
    assert match.score is not None
    return float(match.score)


def _counts(kept: Sequence[tuple[int, Match]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for _, match in kept:
        for name in (match.a, match.b):
            found[name] = found.get(name, 0) + 1
    return found
