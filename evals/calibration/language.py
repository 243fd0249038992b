"""A language of characters whose every probability is known: an order-2 chain of real text.

Its strings decode to text, so that they go through the pipeline that judges real samples, and its
law is a `MarkovOracle`, so that what a damage does to it can be written down.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ...models import MarkovOracle

ALPHABET = " abcdefghijklmnopqrstuvwxyz,.:;'"
# Marks of the source that have no character of their own.
_REPLACED = str.maketrans({"!": ".", "?": ".", "(": ",", ")": ",", "-": " "})


class Rows(NamedTuple):
    """Strings as padded ids.

    Attributes:
        ids: int32, 0 beyond a row's length.
        lengths: ids of each row that count.
    """

    ids: Int[np.ndarray, "n t"]
    lengths: Int[np.ndarray, "n"]


class Chain(NamedTuple):
    """An order-2 chain.

    Attributes:
        initial: joint law of the first two ids.
        transition: law of the next id given the last two, oldest first.
    """

    initial: Float[np.ndarray, "v v"]
    transition: Float[np.ndarray, "v v v"]


def full_rows(ids: Int[np.ndarray, "n t"]) -> Rows:
    """Rows of equal length."""
    return Rows(np.asarray(ids, np.int32), np.full(len(ids), ids.shape[1], np.int32))


def encode(text: str) -> Int[np.ndarray, "t"]:
    """Ids of a text in `ALPHABET`: lower case, other marks replaced or dropped, spaces merged."""
    kept = "".join(c for c in text.lower().translate(_REPLACED) if c in ALPHABET)
    table = np.zeros(128, np.int32)
    table[[ord(c) for c in ALPHABET]] = np.arange(len(ALPHABET))
    return table[np.frombuffer(" ".join(kept.split()).encode("ascii"), np.uint8)]


def decode(rows: Rows) -> tuple[str, ...]:
    """The text of each row."""
    letters = np.frombuffer(ALPHABET.encode("ascii"), np.uint8)[rows.ids]
    return tuple(bytes(row[:n]).decode("ascii") for row, n in zip(letters, rows.lengths))


def estimate_language(
    documents: Sequence[Int[np.ndarray, "_"]], num_ids: int, *, smoothing: float = 20.0
) -> MarkovOracle:
    """The order-2 chain of some text, every string possible.

    Counts of an order are mixed with `smoothing` counts spread by the law of the order below, the
    lowest being uniform. Strings begin anywhere in the text: `initial` is the law of its bigrams.
    """
    joined = [np.asarray(document, np.int64) for document in documents]
    shape = (num_ids,) * 3
    triples = np.concatenate([(d[:-2] * num_ids + d[1:-1]) * num_ids + d[2:] for d in joined])
    counts = np.bincount(triples, minlength=num_ids**3).reshape(shape).astype(np.float64)

    def mixed(counts, lower):
        total = counts.sum(axis=-1, keepdims=True)
        return (counts + smoothing * lower) / (total + smoothing)

    single = mixed(counts.sum(axis=(0, 1)), np.full(num_ids, 1 / num_ids))
    pair = mixed(counts.sum(axis=0), single)
    initial = mixed(counts.sum(axis=2).reshape(-1), (single[:, None] * pair).reshape(-1))
    return MarkovOracle(initial.reshape(num_ids, num_ids), mixed(counts, pair))


def chain_of(oracle: MarkovOracle) -> Chain:
    """An oracle of order 1 or 2 as an order-2 chain."""
    if oracle.order == 2:
        return Chain(oracle.initial, oracle.transition)
    v = oracle.num_ids
    initial = oracle.initial[:, None] * oracle.transition
    return Chain(initial, np.broadcast_to(oracle.transition, (v, v, v)))


def draw_chain(chain: Chain, num: int, length: int, rng: np.random.Generator) -> Rows:
    """Strings of the chain, each by inverting its cumulative laws.

    Raises:
        ValueError: fewer than two ids a string.
    """
    if length < 2:
        raise ValueError(f"length={length}: an order-2 chain needs at least 2 ids a string")
    v = len(chain.initial)
    first = _inverted(np.cumsum(chain.initial.reshape(-1))[None], rng.random(num))
    ids = np.empty((num, length), np.int32)
    ids[:, 0], ids[:, 1] = first // v, first % v
    cumulative = np.cumsum(chain.transition, axis=-1)
    for t in range(2, length):
        ids[:, t] = _inverted(cumulative[ids[:, t - 2], ids[:, t - 1]], rng.random(num))
    return full_rows(ids)


def log_prob_chain(chain: Chain, rows: Rows) -> Float[np.ndarray, "n"]:
    """log p of whole strings in nats."""
    with np.errstate(divide="ignore"):
        first, later = np.log(chain.initial), np.log(chain.transition)
    ids = rows.ids
    steps = later[ids[:, :-2], ids[:, 1:-1], ids[:, 2:]]
    inside = np.arange(2, ids.shape[1]) < rows.lengths[:, None]
    return first[ids[:, 0], ids[:, 1]] + np.where(inside, steps, 0.0).sum(axis=1)


def _inverted(cumulative: Float[np.ndarray, "n v"], uniform: Float[np.ndarray, "n"]) -> np.ndarray:
    """The first id whose cumulative probability exceeds the uniform number."""
    scaled = uniform[:, None] * cumulative[:, -1:]
    return (cumulative <= scaled).sum(axis=1)


def king_james(sources: Any) -> tuple[MarkovOracle, tuple[Int[np.ndarray, "_"], ...]]:
    """The language of the King James training text and that text in its ids."""
    documents = tuple(encode(text) for text in sources.corpus("kjv:train").documents)
    return estimate_language(documents, len(ALPHABET)), documents
