"""Exact search for spans of token rows in training documents: a suffix array by doubling.

All suffixes of the documents are sorted, so those that start with a given span lie in one run of
slots. The first slot of that run names the span: equal spans have equal names, no hash can
collide. Names of spans of 1, 2, 4, … tokens are kept, which makes both building and searching a
matter of comparing two names at a time, whatever the length of a span.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from .ngrams import flat_tokens, run_starts
from .token_rows import AnyArray


class TrainingIndex(NamedTuple):
    """Training documents ready to be searched; made by `fit_training_index`.

    Attributes:
      order: Int32["n"] where each suffix starts, suffixes sorted; n training tokens in all.
      names: one Int32["n"] for each level k: the first slot of `order` among the suffixes that
        share the 2**k tokens from here on (or all, where the document ends before).
      left: Int32["n"] tokens from here to the end of the document.
      tokens: Int32["v"] the different tokens, sorted.
      starts: Int32["v + 1"] first slot of the suffixes that start with each token, then n.
    """

    order: Int[np.ndarray, " n"]
    names: tuple[Int[np.ndarray, " n"], ...]
    left: Int[np.ndarray, " n"]
    tokens: Int[np.ndarray, " v"]
    starts: Int[np.ndarray, " w"]


class TokenRuns(NamedTuple):
    """Rows of tokens end to end, with the slots of their spans of 1, 2, 4, … tokens.

    Attributes:
      row: "m" which row each position is in.
      left: "m" tokens from here to the row's end.
      low, high: for each level k "m": the training suffixes that start with the 2**k tokens
        from here lie in slots low to high - 1; none where the two are equal.
      num_rows: how many rows, empty ones included.
    """

    row: Int[np.ndarray, " m"]
    left: Int[np.ndarray, " m"]
    low: list[Int[np.ndarray, " m"]]
    high: list[Int[np.ndarray, " m"]]
    num_rows: int


def fit_training_index(
    training_ids: Int[AnyArray, "n t"] | Sequence[Int[AnyArray, " t"]],
    lengths: Int[AnyArray, " n"] | None = None,
) -> TrainingIndex:
    """Index of training documents, built once and searched by any number of banks.

    Cost: a sort of all tokens a level, levels doubling up to the longest document; beyond the
    first few only tokens of repeated passages are sorted. 4 (levels + 2) bytes a token at most,
    levels in which nothing changes any more being shared. NumPy on the host.

    Args:
      training_ids: Int[Array, "n t"] token ids, a document a row, by the tokenizer of the banks
        to be searched; or a list of documents Int[Array, "t"], which need no padding.
      lengths: Int[Array, "n"] valid tokens per row; None = full rows.

    Returns:
      `TrainingIndex`.

    Raises:
      ValueError: bad ids or lengths, traced arrays, 2**31 tokens or more.

    Source: Manber and Myers 1993 (suffix arrays by doubling).

    >>> import numpy as np
    >>> index = fit_training_index(np.array([[5, 6, 5, 6, 7]]))
    >>> index.order.tolist()  # the suffixes 5 6 5 6 7, 5 6 7, 6 5 6 7, 6 7 and 7
    [0, 2, 1, 3, 4]
    """
    flat, left = _flat_documents(training_ids, lengths)
    n = len(flat)
    if n >= 2**31:
        raise ValueError(f"training_ids hold {n} tokens: an index takes fewer than 2**31")
    left = left.astype(np.int32)
    order = np.argsort(flat).astype(np.int32)
    first = run_starts(flat[order])
    starts = np.flatnonzero(first).astype(np.int32)
    name = np.empty(n, np.int32)
    name[order] = np.repeat(starts, np.diff(starts, append=n))
    names, settled, span, longest = [name], False, 1, left.max()
    while span < longest:  # sorts by twice as many tokens
        if not settled:
            known = np.count_nonzero(first)
            longer = _double(order, first, name, left, span)
            settled = np.count_nonzero(first) == known  # then no longer span splits a run either
            name = name if settled else longer
        span *= 2
        if span <= longest:
            names.append(name)
    return TrainingIndex(
        order, tuple(names), left, flat[order[starts]], np.append(starts, np.int32(n))
    )


def _flat_documents(training_ids, lengths) -> tuple[np.ndarray, np.ndarray]:
    """All tokens end to end, and the tokens left in the document from each."""
    if lengths is None and isinstance(training_ids, list | tuple):
        documents = [np.asarray(document) for document in training_ids]
        wrong = [i for i, document in enumerate(documents) if document.ndim != 1]
        if wrong or not documents:
            found = f"document {wrong[0]} of shape {documents[wrong[0]].shape}" if wrong else "none"
            raise ValueError(f"training_ids must list 1-D documents of token ids, got {found}")
        # NumPy makes an empty list an array of floats.
        documents = [d if d.size else d.astype(np.int32) for d in documents]
        flat, _, _, _ = flat_tokens(np.concatenate(documents)[None], None, name="training_ids")
        sizes = np.array([len(document) for document in documents])
        return flat, np.repeat(np.cumsum(sizes), sizes) - np.arange(len(flat))
    flat, _, left, _ = flat_tokens(training_ids, lengths, name="training_ids")
    return flat, left


def search_rows(
    index: TrainingIndex,
    ids: Int[AnyArray, "n t"],
    lengths: Int[AnyArray, " n"] | None,
    max_span: int | None = None,
) -> TokenRuns:
    """Slots of all spans of 1, 2, 4, … tokens, up to max_span, that the training text holds."""
    flat, row, left, num_rows = flat_tokens(ids, lengths)
    which = np.minimum(np.searchsorted(index.tokens, flat), len(index.tokens) - 1)
    found = index.tokens[which] == flat
    low = [np.where(found, index.starts[which], 0)]
    high = [np.where(found, index.starts[which + 1], 0)]
    for level in range(len(index.names) - 1):
        span = 2**level
        here, there = low[level] < high[level], np.zeros(len(flat), bool)
        there[:-span] = here[span:]
        position = np.flatnonzero(here & there & (left >= 2 * span))
        if not len(position) or (max_span is not None and 2 * span > max_span):
            break
        low.append(np.zeros_like(low[0]))
        high.append(np.zeros_like(high[0]))
        low[-1][position], high[-1][position] = narrow(
            index,
            low[level][position],
            high[level][position],
            np.full(len(position), span, np.int32),
            level,
            low[level][position + span],
        )
    return TokenRuns(row, left, low, high, num_rows)


def narrow(
    index: TrainingIndex,
    low: Int[np.ndarray, " m"],
    high: Int[np.ndarray, " m"],
    offset: Int[np.ndarray, " m"],
    level: int,
    name: Int[np.ndarray, " m"],
) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"]]:
    """Of slots low to high - 1, whose suffixes share `offset` tokens, those that go on as named.

    Args:
      index: the training text.
      low, high: the slots.
      offset: shared tokens.
      level: the next 2**level tokens must have that name.
      name: their name, as in `index.names[level]`.

    Returns:
      (low, high), equal where no suffix goes on so.
    """
    begin = _bisect(index, low, high, offset, level, name)
    inside = np.flatnonzero(begin < high)
    held = _following(index, begin[inside], offset[inside], level) == name[inside]
    inside = inside[held]
    end = begin.copy()
    end[inside] = _bisect(
        index, begin[inside], high[inside], offset[inside], level, name[inside] + 1
    )
    return begin, end


def _bisect(index: TrainingIndex, low, high, offset, level: int, name) -> Int[np.ndarray, " m"]:
    """First slot of each run that goes on with `name` or a later one."""
    low, high = low.copy(), high.copy()
    active = np.flatnonzero(low < high)
    while len(active):
        middle = low[active] + (high[active] - low[active]) // 2
        before = _following(index, middle, offset[active], level) < name[active]
        low[active[before]] = middle[before] + 1
        high[active[~before]] = middle[~before]
        active = active[low[active] < high[active]]
    return low


def _following(index: TrainingIndex, slot, offset, level: int) -> Int[np.ndarray, " m"]:
    """Name of the 2**level tokens after the first `offset` of a suffix, -1 if it ends there."""
    position = index.order[slot]
    goes_on = index.left[position] > offset
    return np.where(goes_on, index.names[level][np.where(goes_on, position + offset, 0)], -1)


def _double(
    order: Int[np.ndarray, " n"],
    first: Bool[np.ndarray, " n"],
    name: Int[np.ndarray, " n"],
    left: Int[np.ndarray, " n"],
    span: int,
) -> Int[np.ndarray, " n"]:
    """Sorts by twice as many tokens: updates `order` and `first`, returns the new names."""
    slots = np.flatnonzero(~(first & np.append(first[1:], True)))  # runs of two or more
    position = order[slots]
    goes_on = left[position] > span
    following = np.where(goes_on, name[np.where(goes_on, position + span, 0)], -1)
    keys = name[position].astype(np.int64) * (len(order) + 1) + following + 1
    by_key = np.argsort(keys)
    order[slots] = position = position[by_key]
    first[slots] = changes = run_starts(keys[by_key])
    starts = np.flatnonzero(changes)
    name = name.copy()
    name[position] = np.repeat(slots[starts], np.diff(starts, append=len(slots)))
    return name
