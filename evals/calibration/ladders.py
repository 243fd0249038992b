"""Ladders of damage: what is done to the language, and how much of it at each step."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from ... import samplers
from .damage import Avoiding, Language, Law, Noisy, Shuffled, Tempered
from .language import ALPHABET
from .mixture import Atoms, CutShort, Independent, Mixture, Phrases

SHUFFLED = 4  # characters of a window
_TOP_IDS, _PERIOD, _PHRASES = 8, 4, 16
_COPIED_ROWS = 256
_SHARES = (0.01, 0.05, 0.2, 1.0)


class Level(NamedTuple):
    """One step of a ladder: its size, in the ladder's unit, and the damaged law."""

    size: float
    law: Law


# What a level counts, for the axis of the figure and the table.
UNITS = {
    "cold": "1 − temperature",
    "hot": "temperature − 1",
    "noise": "share of characters replaced",
    "shuffle": f"share of windows of {SHUFFLED} shuffled",
    "dropped": "mass of strings dropped",
    "copying": f"share of rows out of {_COPIED_ROWS} training rows",
    "cut short": "share of rows that end early",
    "topk_iid": "share of rows",
    "mirror": "share of rows",
    "periodic": "share of rows",
    "phrase_bank": "share of rows",
}


def training_rows(language: Language, seed: int) -> Int[np.ndarray, "m t"]:
    """The fixed rows of the language that the copying generator has learnt by heart."""
    return language.draw(_COPIED_ROWS, np.random.default_rng([seed, 1])).ids


def ladders(
    language: Language, documents: Sequence[Int[np.ndarray, "_"]], *, seed: int
) -> dict[str, list[Level]]:
    """All ladders, levels rising; the undamaged level 0 is the language and not listed.

    Args:
        documents: text in the language's ids, for the counts of the naive samplers.
    """
    found = {
        "cold": [Level(1 - t, Tempered(language, t)) for t in (0.97, 0.9, 0.75, 0.5)],
        "hot": [Level(t - 1, Tempered(language, t)) for t in (1.03, 1.1, 1.3, 2.0)],
        "noise": [Level(r, Noisy(language, r)) for r in (0.003, 0.015, 0.06, 0.3)],
        "shuffle": [Level(r, Shuffled(language, SHUFFLED, r)) for r in (0.01, 0.05, 0.2, 1.0)],
        "dropped": [
            Level(1 - law.kept_mass, law)
            for letters in ("q", "z", ":", ":;.j")
            for law in [Avoiding(language, tuple(ALPHABET.index(c) for c in letters))]
        ],
    }
    parts = {
        "copying": Atoms(training_rows(language, seed)),
        "cut short": CutShort(language, language.length // 4),
        **naive_laws(documents, language.length),
    }
    for name, law in parts.items():
        found[name] = [Level(share, Mixture(language, law, share)) for share in _SHARES]
    return found


def naive_laws(documents: Sequence[Int[np.ndarray, "_"]], length: int) -> dict[str, Law]:
    """The four naive samplers, counting characters of the documents, with their exact laws."""
    counts = samplers.corpus_counts(documents)

    def drawer(sample, size):
        return functools.partial(_drawn, sample, counts, size, length)

    top = np.zeros(len(ALPHABET))
    top[counts.tokens[:_TOP_IDS]] = counts.token_counts[:_TOP_IDS]
    top /= top.sum()
    return {
        "topk_iid": Independent(drawer(samplers.topk_iid, _TOP_IDS), top, length),
        "mirror": Independent(drawer(samplers.mirror, _TOP_IDS), top, length, mirrored=True),
        "periodic": Atoms(drawer(samplers.periodic, _PERIOD)(1, 0)),
        "phrase_bank": Phrases(
            drawer(samplers.phrase_bank, _PHRASES), counts.phrases[:_PHRASES], length
        ),
    }


def _drawn(sample, counts, size: int, length: int, num: int, seed: int) -> np.ndarray:
    return sample(counts, size, length=length, num_samples=num, seed=seed)
