"""Samplers that know nothing but counts, and yet beat trained models on generative perplexity.

The four samplers of "Hacking Generative Perplexity" (section 4): each is degenerate in a way that
a metric worth reporting must punish. All are host-side NumPy and exact: their entropies have closed
forms, which the tests use.
"""

import operator
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray


class CorpusCounts(NamedTuple):
    """Token and n-gram counts of a corpus, both ranked.

    Attributes:
      tokens, token_counts: distinct ids (int32) and their counts, by (-count, id).
      phrases, phrase_counts: distinct n-grams (int32) and their counts, by (-count, ids). n-grams
        never cross documents.
      ngram: tokens per phrase.
    """

    tokens: Int[ndarray, "v"]
    token_counts: Int[ndarray, "v"]
    phrases: Int[ndarray, "m ngram"]
    phrase_counts: Int[ndarray, "m"]
    ngram: int


def corpus_counts(documents: Sequence[Int[ndarray, "_"]], *, ngram: int = 5) -> CorpusCounts:
    """Counts tokens and n-grams of documents given as 1-D arrays of ids.

    Documents shorter than `ngram` contribute tokens only. Cost: a few sorts of the whole corpus,
    about a second per million tokens, and 8 * (ngram + 2) bytes a token.

    Raises:
      ValueError: no documents or no tokens, a document that is not 1-D or not integer, a negative
        id, or ngram < 1.
    """
    ngram = _at_least_one("ngram", ngram)
    arrays = [_document(index, document) for index, document in enumerate(documents)]
    if not arrays or sum(map(len, arrays)) == 0:
        raise ValueError(f"documents: {len(arrays)} documents hold no tokens; nothing to count")
    ids = np.concatenate(arrays)
    if ids.min() < 0:
        raise ValueError(f"documents hold the id {int(ids.min())}; ids are at least 0")
    tokens, dense, token_counts = np.unique(ids, return_inverse=True, return_counts=True)
    rank = np.argsort(-token_counts, kind="stable")

    lengths = np.array([len(document) for document in arrays])
    ends = np.repeat(np.cumsum(lengths), lengths)
    starts = np.flatnonzero(np.arange(len(ids)) + ngram <= ends)
    codes = _phrase_codes(dense, starts, ngram, len(tokens))
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    # np.unique sorts by code, that is by the phrase's ids: stable sorting keeps that for ties.
    order = np.argsort(-counts, kind="stable")
    windows = starts[first[order]][:, None] + np.arange(ngram)
    return CorpusCounts(
        tokens=tokens[rank].astype(np.int32),
        token_counts=token_counts[rank],
        phrases=ids[windows].astype(np.int32).reshape(-1, ngram),
        phrase_counts=counts[order],
        ngram=ngram,
    )


def topk_iid(
    counts: CorpusCounts,
    size: int,
    *,
    length: int,
    num_samples: int,
    seed: int,
    clamp: bool = False,
) -> Int[ndarray, "n length"]:
    """Independent draws from the `size` most frequent ids, in proportion to their counts.

    H_pos is the entropy of those renormalised counts; total correlation is 0.

    Raises:
      ValueError: size, length or num_samples < 1, or size above the number of distinct ids
        (`clamp=True` takes all there are instead).
    """
    size = _vocabulary(counts, size, clamp)
    return _draw(counts, size, _shape(num_samples, length), seed)


def mirror(
    counts: CorpusCounts,
    size: int,
    *,
    length: int,
    num_samples: int,
    seed: int,
    clamp: bool = False,
) -> Int[ndarray, "n length"]:
    """Top-k draws whose second half repeats the first; an odd length drops the last repeat.

    The marginals are those of `topk_iid`, the joint entropy is that of ceil(length / 2) draws.
    Raises ValueError as `topk_iid`.
    """
    size = _vocabulary(counts, size, clamp)
    num_samples, length = _shape(num_samples, length)
    half = _draw(counts, size, (num_samples, (length + 1) // 2), seed)
    return np.concatenate([half, half], axis=1)[:, :length]


def periodic(
    counts: CorpusCounts,
    size: int,
    *,
    length: int,
    num_samples: int,
    seed: int,
    clamp: bool = False,
) -> Int[ndarray, "n length"]:
    """Every sample recites the `size` most frequent ids by rank, over and over; no randomness.

    `seed` is there for symmetry with the other samplers. Raises ValueError as `topk_iid`.
    """
    size = _vocabulary(counts, size, clamp)
    num_samples, length = _shape(num_samples, length)
    row = counts.tokens[:size][np.arange(length) % size]
    return np.tile(row, (num_samples, 1))


def phrase_bank(
    counts: CorpusCounts, size: int, *, length: int, num_samples: int, seed: int
) -> Int[ndarray, "n length"]:
    """Phrases drawn uniformly from the `size` most frequent n-grams, joined and cut to length.

    Joint entropy is at most ceil(length / ngram) * log(size). A size above the number of distinct
    phrases is lowered to it with a warning.

    Raises:
      ValueError: size, length or num_samples < 1, or a corpus without any n-gram.
    """
    size = _at_least_one("size", size)
    num_samples, length = _shape(num_samples, length)
    known = len(counts.phrases)
    if known == 0:
        raise ValueError(
            f"counts hold no {counts.ngram}-gram: every document is shorter than {counts.ngram} "
            "tokens; count longer documents or a smaller ngram"
        )
    if size > known:
        warnings.warn(
            f"size={size} exceeds the {known} distinct {counts.ngram}-grams; using all of them",
            stacklevel=2,
        )
        size = known
    num_phrases = -(-length // counts.ngram)
    chosen = np.random.default_rng(seed).integers(size, size=(num_samples, num_phrases))
    return counts.phrases[chosen].reshape(num_samples, -1)[:, :length]


def _phrase_codes(
    dense: Int[ndarray, "t"], starts: Int[ndarray, "w"], ngram: int, vocab: int
) -> Int[ndarray, "w"]:
    """One int64 per window, ordered as the windows' ids are.

    Digits in base `vocab` while they fit; when they would not, codes are replaced by their ranks,
    which keeps the order.
    """
    codes, span = dense[starts].astype(np.int64), vocab
    for offset in range(1, ngram):
        if span * vocab >= 2**63:
            distinct, codes = np.unique(codes, return_inverse=True)
            span = len(distinct)
        codes = codes * vocab + dense[starts + offset]
        span *= vocab
    return codes


def _draw(
    counts: CorpusCounts, size: int, shape: tuple[int, int], seed: int
) -> Int[ndarray, "n length"]:
    weights = counts.token_counts[:size] / counts.token_counts[:size].sum()
    chosen = np.random.default_rng(seed).choice(size, size=shape, p=weights)
    return counts.tokens[chosen]


def _document(index: int, document: Sequence[int] | ndarray) -> ndarray:
    array = np.asarray(document)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise ValueError(
            f"documents[{index}] is {array.dtype}{list(array.shape)}; expected a 1-D array of ids"
        )
    return array.astype(np.int64)


def _vocabulary(counts: CorpusCounts, size: int, clamp: bool) -> int:
    size = _at_least_one("size", size)
    known = len(counts.tokens)
    if size > known and not clamp:
        raise ValueError(
            f"size={size} exceeds the {known} distinct ids of the corpus; lower it, or pass "
            "clamp=True to use all of them"
        )
    return min(size, known)


def _shape(num_samples: int, length: int) -> tuple[int, int]:
    return _at_least_one("num_samples", num_samples), _at_least_one("length", length)


def _at_least_one(name: str, value: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1")
    return number
