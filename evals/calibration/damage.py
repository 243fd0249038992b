"""Laws of generators that damage every row, with the exact probability of any string.

A law has `draw(num, rng) -> Rows` and `log_prob(rows) -> Float["n"]`, the exact log probability of
whole rows in nats, -inf where a row cannot come up. Over all rows probabilities sum to 1.
"""

import dataclasses
import itertools
from typing import Protocol

import numpy as np
from jaxtyping import Float

from ...models import MarkovOracle
from .language import Chain, Rows, chain_of, draw_chain, full_rows, log_prob_chain

_MOST_DRAWN = 1 << 15  # strings at once that a rejection draws


class Law(Protocol):
    """A distribution over rows."""

    def draw(self, num: int, rng: np.random.Generator) -> Rows:
        """Independent rows."""
        ...

    def log_prob(self, rows: Rows) -> Float[np.ndarray, "n"]:
        """Exact log probability of each row in nats."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class Language:
    """The language itself: strings of one length."""

    oracle: MarkovOracle
    length: int

    def draw(self, num: int, rng: np.random.Generator) -> Rows:
        return draw_chain(self.chain, num, self.length, rng)

    def log_prob(self, rows: Rows) -> Float[np.ndarray, "n"]:
        return of_length(self.length, rows, log_prob_chain(self.chain, rows))

    @property
    def chain(self) -> Chain:
        return chain_of(self.oracle)


@dataclasses.dataclass(frozen=True, eq=False)
class Tempered:
    """Every law of the chain raised to 1 / temperature: again a chain."""

    language: Language
    temperature: float

    def draw(self, num: int, rng: np.random.Generator) -> Rows:
        return draw_chain(self.chain, num, self.language.length, rng)

    def log_prob(self, rows: Rows) -> Float[np.ndarray, "n"]:
        return of_length(self.language.length, rows, log_prob_chain(self.chain, rows))

    @property
    def chain(self) -> Chain:
        initial, transition = self.language.chain
        tempered = initial ** (1 / self.temperature), transition ** (1 / self.temperature)
        return Chain(tempered[0] / tempered[0].sum(), _normalised(tempered[1]))


@dataclasses.dataclass(frozen=True, eq=False)
class Noisy:
    """Every id replaced, with probability `rate`, by one drawn uniformly from all ids.

    What is written is a hidden Markov chain, so its likelihood takes a forward recursion.
    """

    language: Language
    rate: float

    def draw(self, num: int, rng: np.random.Generator) -> Rows:
        ids = self.language.draw(num, rng).ids
        noise = rng.integers(self.language.oracle.num_ids, size=ids.shape)
        return full_rows(np.where(rng.random(ids.shape) < self.rate, noise, ids))

    def log_prob(self, rows: Rows) -> Float[np.ndarray, "n"]:
        initial, transition = self.language.chain
        v = len(initial)
        chance = (1 - self.rate) * np.eye(v) + self.rate / v  # [written, meant]
        by_middle = np.ascontiguousarray(transition.transpose(1, 0, 2))  # [b, a, c]
        state = initial * chance[rows.ids[:, 0]][:, :, None] * chance[rows.ids[:, 1]][:, None]
        total = np.zeros(len(rows.ids))
        for t in range(2, rows.ids.shape[1]):
            state, total = _rescaled(state, total)
            # For every middle id b one product [n, a] x [a, c].
            state = np.matmul(state.transpose(2, 0, 1), by_middle).transpose(1, 0, 2)
            state = state * chance[rows.ids[:, t]][:, None]
        _, total = _rescaled(state, total)
        return of_length(self.language.length, rows, total)


@dataclasses.dataclass(frozen=True, eq=False)
class Shuffled:
    """Windows of `window` ids put, each with probability `rate`, in an order drawn uniformly.

    Its likelihood is a forward recursion over the order that each window had before.
    """

    language: Language
    window: int
    rate: float

    def __post_init__(self):
        if self.window < 2 or self.language.length % self.window:
            raise ValueError(
                f"window={self.window} must be at least 2 and divide length={self.language.length}"
            )

    def draw(self, num: int, rng: np.random.Generator) -> Rows:
        ids = self.language.draw(num, rng).ids
        blocks = ids.reshape(num, -1, self.window)
        mixed = rng.permuted(blocks, axis=-1)
        chosen = rng.random(blocks.shape[:2]) < self.rate
        return full_rows(np.where(chosen[..., None], mixed, blocks).reshape(ids.shape))

    def log_prob(self, rows: Rows) -> Float[np.ndarray, "n"]:
        initial, transition = self.language.chain
        orders = np.array(list(itertools.permutations(range(self.window))))
        chance = np.full(len(orders), self.rate / len(orders))
        chance[0] += 1 - self.rate  # the first is the order as it is
        blocks = rows.ids.reshape(len(rows.ids), -1, self.window)
        total, state, last = np.zeros(len(blocks)), np.ones((len(blocks), 1)), None
        for k in range(blocks.shape[1]):
            meant = blocks[:, k][:, orders]  # [n, orders, window]
            a, b = meant[..., 0], meant[..., 1]
            if last is None:
                state = initial[a, b]
            else:
                x, y = last[..., 0, None], last[..., 1, None]
                a_, b_ = a[:, None], b[:, None]
                state = (state[..., None] * transition[x, y, a_] * transition[y, a_, b_]).sum(1)
            for t in range(2, self.window):
                state = state * transition[meant[..., t - 2], meant[..., t - 1], meant[..., t]]
            state, total = _rescaled(state * chance, total)
            last = meant[..., -2:]
        return of_length(self.language.length, rows, total)


@dataclasses.dataclass(frozen=True, eq=False)
class Avoiding:
    """The language given that none of some ids comes up: the modes that use them are dropped."""

    language: Language
    avoided: tuple[int, ...]

    def draw(self, num: int, rng: np.random.Generator) -> Rows:
        batch = min(round(num / self.kept_mass) + 1, _MOST_DRAWN)
        found = []
        while sum(map(len, found)) < num:
            rows = self.language.draw(batch, rng)
            found.append(rows.ids[self.keeps(rows)])
        return full_rows(np.concatenate(found)[:num])

    def log_prob(self, rows: Rows) -> Float[np.ndarray, "n"]:
        log_p = self.language.log_prob(rows) - np.log(self.kept_mass)
        return np.where(self.keeps(rows), log_p, -np.inf)

    def keeps(self, rows: Rows) -> np.ndarray:
        """Which rows hold none of the avoided ids."""
        return np.asarray(~np.isin(rows.ids, self.avoided).any(axis=1))

    @property
    def kept_mass(self) -> float:
        """Probability, under the language, of what is left."""
        return self.moments()[0]

    def moments(self) -> tuple[float, float]:
        """Sums of p and of p log p over the strings that are left, by a forward recursion."""
        initial, transition = self.language.chain
        allowed = np.ones(len(initial))
        allowed[list(self.avoided)] = 0
        mass = initial * allowed * allowed[:, None]
        steps = transition * allowed
        weighted, surprise = _times_log(mass), _times_log(steps)
        for _ in range(self.language.length - 2):
            weighted = np.einsum("ab,abc->bc", weighted, steps) + np.einsum(
                "ab,abc->bc", mass, surprise
            )
            mass = np.einsum("ab,abc->bc", mass, steps)
        return float(mass.sum()), float(weighted.sum())


def of_length(length: int, rows: Rows, log_p: np.ndarray) -> np.ndarray:
    """Log probabilities under a law that writes rows of one length only."""
    return np.where(rows.lengths == length, log_p, -np.inf)


def _normalised(laws: np.ndarray) -> np.ndarray:
    return laws / laws.sum(axis=-1, keepdims=True)


def _times_log(p: np.ndarray) -> np.ndarray:
    return p * np.log(np.where(p > 0, p, 1.0))


def _rescaled(state: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States that sum to 1 a row, their logarithms moved into the total."""
    sums = state.sum(axis=tuple(range(1, state.ndim)))
    with np.errstate(divide="ignore"):
        total = total + np.log(sums)
    scale = np.where(sums > 0, sums, 1.0).reshape((-1,) + (1,) * (state.ndim - 1))
    return state / scale, total
