"""Laws that damage some rows of a bank and leave the others as they are."""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

from .damage import Language, Law, of_length
from .language import Rows, full_rows, log_prob_chain


@dataclasses.dataclass(frozen=True, eq=False)
class Atoms:
    """A uniform draw from a list of strings, repeats counting as often as they are there."""

    ids: Int[np.ndarray, "m t"]

    def draw(self, num: int, rng: np.random.Generator) -> Rows:
        return full_rows(self.ids[rng.integers(len(self.ids), size=num)])

    def log_prob(self, rows: Rows) -> Float[np.ndarray, "n"]:
        strings, shares = self.shares()
        known = {string.tobytes(): share for string, share in zip(strings, shares)}
        found = [known.get(row.tobytes(), 0.0) for row in rows.ids.astype(np.int32)]
        with np.errstate(divide="ignore"):
            return of_length(self.ids.shape[1], rows, np.log(np.array(found)))

    def shares(self) -> tuple[Int[np.ndarray, "k t"], Float[np.ndarray, "k"]]:
        """The different strings and their probabilities."""
        strings, counts = np.unique(self.ids.astype(np.int32), axis=0, return_counts=True)
        return np.ascontiguousarray(strings), counts / len(self.ids)


@dataclasses.dataclass(frozen=True, eq=False)
class CutShort:
    """Strings of the language that end early, after `shortest`..length - 1 ids, all as likely."""

    language: Language
    shortest: int

    def __post_init__(self):
        if not 2 <= self.shortest < self.language.length:
            raise ValueError(
                f"shortest={self.shortest} must lie in 2..{self.language.length - 1}, below length"
            )

    def draw(self, num: int, rng: np.random.Generator) -> Rows:
        ids = self.language.draw(num, rng).ids
        lengths = rng.integers(self.shortest, self.language.length, size=num).astype(np.int32)
        inside = np.arange(ids.shape[1]) < lengths[:, None]
        return Rows(np.where(inside, ids, 0).astype(np.int32), lengths)

    def log_prob(self, rows: Rows) -> Float[np.ndarray, "n"]:
        log_p = log_prob_chain(self.language.chain, rows)
        log_p = log_p - np.log(self.language.length - self.shortest)
        cut = (rows.lengths >= self.shortest) & (rows.lengths < self.language.length)
        return np.where(cut, log_p, -np.inf)


@dataclasses.dataclass(frozen=True, eq=False)
class Independent:
    """Ids drawn independently; with `mirrored`, the second half repeats the first."""

    sampler: Callable[[int, int], Int[np.ndarray, "n t"]]  # (num, seed) -> ids
    probabilities: Float[np.ndarray, "v"]
    length: int
    mirrored: bool = False

    def draw(self, num: int, rng: np.random.Generator) -> Rows:
        return full_rows(self.sampler(num, int(rng.integers(2**31))))

    def log_prob(self, rows: Rows) -> Float[np.ndarray, "n"]:
        with np.errstate(divide="ignore"):
            log_p = np.log(self.probabilities)[rows.ids]
        if self.mirrored:
            half = (self.length + 1) // 2
            repeats = (rows.ids[:, half:] == rows.ids[:, : self.length - half]).all(axis=1)
            log_p = np.where(repeats, log_p[:, :half].sum(axis=1), -np.inf)
        else:
            log_p = log_p.sum(axis=1)
        return of_length(self.length, rows, log_p)


@dataclasses.dataclass(frozen=True, eq=False)
class Phrases:
    """Phrases drawn uniformly, joined and cut to length."""

    sampler: Callable[[int, int], Int[np.ndarray, "n t"]]  # (num, seed) -> ids
    phrases: Int[np.ndarray, "m k"]
    length: int

    def draw(self, num: int, rng: np.random.Generator) -> Rows:
        return full_rows(self.sampler(num, int(rng.integers(2**31))))

    def log_prob(self, rows: Rows) -> Float[np.ndarray, "n"]:
        total = np.zeros(len(rows.ids))
        width = self.phrases.shape[1]
        for start in range(0, self.length, width):
            part = rows.ids[:, start : start + width]
            fits = (part[:, None] == self.phrases[None, :, : part.shape[1]]).all(axis=2)
            with np.errstate(divide="ignore"):
                total += np.log(fits.mean(axis=1))
        return of_length(self.length, rows, total)


@dataclasses.dataclass(frozen=True, eq=False)
class Mixture:
    """The language, except that a row comes from `other` with probability `share`."""

    language: Language
    other: Law
    share: float

    def draw(self, num: int, rng: np.random.Generator) -> Rows:
        width = self.language.length
        real, damaged = self.language.draw(num, rng), self.other.draw(num, rng)
        chosen = rng.random(num) < self.share
        ids = np.where(chosen[:, None], damaged.ids[:, :width], real.ids)
        return Rows(ids, np.where(chosen, damaged.lengths, real.lengths))

    def log_prob(self, rows: Rows) -> Float[np.ndarray, "n"]:
        with np.errstate(divide="ignore"):
            kept, taken = np.log(1 - self.share), np.log(self.share)
        return np.logaddexp(kept + self.language.log_prob(rows), taken + self.other.log_prob(rows))
