"""Exact n-gram counts of ragged id arrays by sorting, without dictionaries or hash collisions.

An n-gram is named by its rank among all n-grams of the bank. The rank of an (n + 1)-gram is
the rank of the pair (rank of its first n tokens, rank of its last token), and such a pair fits
one 64-bit integer exactly, so every order costs one sort of integers.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from .token_rows import AnyArray, check_token_rows, is_traced, valid_positions


class NgramCounts(NamedTuple):
    """Non-zero counts of n-grams by row, sorted by n-gram, then row (all Int64[np.ndarray]).

    Attributes:
      ngram: "m" which n-gram, 0 to num_ngrams - 1.
      row: "m" which row.
      count: "m" how often the row holds it.
      starts: "g" where the entries of each n-gram start.
      totals: "n" number of n-grams in each row (with repetitions).
    """

    ngram: Int[np.ndarray, " m"]
    row: Int[np.ndarray, " m"]
    count: Int[np.ndarray, " m"]
    starts: Int[np.ndarray, " g"]
    totals: Int[np.ndarray, " n"]


def check_order(order: int) -> int:
    """The n of n-grams as an int, or `ValueError`."""
    if isinstance(order, bool) or not isinstance(order, int | np.integer) or order < 1:
        raise ValueError(f"order must be an integer >= 1 (the n of n-grams), got {order!r}")
    return int(order)


def count_ngrams(
    ids: Int[AnyArray, "n t"], lengths: Int[AnyArray, " n"] | None = None, *, max_order: int
) -> Iterator[NgramCounts]:
    """Counts of all n-grams of orders 1 to max_order, one order at a time.

    N-grams never cross rows or a row's length. Cost: two sorts of the bank's tokens an order;
    NumPy on the host.

    Args:
      ids: Int[Array, "n t"] token ids.
      lengths: Int[Array, "n"] valid tokens per row; None = full rows.
      max_order: the highest order.

    Yields:
      `NgramCounts` of order 1, 2, … (empty arrays where every row is too short).

    Raises:
      ValueError: bad ids, lengths or order, or traced arrays.

    >>> import numpy as np
    >>> ids = np.array([[7, 8, 7, 8], [7, 7, 7, 9]])
    >>> for counts in count_ngrams(ids, max_order=2):
    ...     print(counts.ngram.tolist(), counts.row.tolist(), counts.count.tolist())
    [0, 0, 1, 2] [0, 1, 0, 1] [2, 3, 2, 1]
    [0, 1, 2, 3] [1, 0, 1, 0] [2, 2, 1, 1]
    """
    for ranks, rows, n in _ranked_ngrams(ids, lengths, check_order(max_order)):
        yield _count_by_row(ranks, rows, n)


def ngram_counts(
    ids: Int[AnyArray, "n t"], lengths: Int[AnyArray, " n"] | None = None, *, order: int
) -> NgramCounts:
    """Counts of the n-grams of one order; arguments, cost and errors as `count_ngrams`.

    >>> import numpy as np
    >>> counts = ngram_counts(np.array([[7, 8, 7, 8], [7, 7, 7, 9]]), order=2)
    >>> len(counts.starts), counts.totals.tolist()  # different 2-grams, 2-grams by row
    (4, [3, 3])
    """
    order = check_order(order)
    ranks, rows, n = list(_ranked_ngrams(ids, lengths, order))[-1]
    return _count_by_row(ranks, rows, n)


def _ranked_ngrams(ids, lengths, max_order: int) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """For orders 1, 2, …: rank and row of every n-gram occurrence, and the number of rows."""
    flat, rows, left, n = flat_tokens(ids, lengths)
    tokens = _dense_ranks(flat.astype(np.int64))
    num_tokens = np.int64(tokens.max() + 1)
    ranks, where = tokens, np.arange(len(tokens))
    for order in range(1, max_order + 1):
        if order > 1:
            longer = left[where] >= order
            ranks, where = ranks[longer], where[longer]
            ranks = _dense_ranks(ranks * num_tokens + tokens[where + order - 1])
        yield ranks, rows[where], n


def run_starts(sorted_keys: np.ndarray) -> np.ndarray:
    """True where a run of equal keys starts."""
    starts = np.ones(len(sorted_keys), bool)
    np.not_equal(sorted_keys[1:], sorted_keys[:-1], out=starts[1:])
    return starts


def flat_tokens(
    ids: Int[AnyArray, "n t"], lengths: Int[AnyArray, " n"] | None, *, name: str = "ids"
) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"], Int[np.ndarray, " m"], int]:
    """The rows' tokens end to end, the row of each, the tokens left from each, number of rows."""
    if is_traced(ids, lengths):
        raise ValueError(f"{name} are counted in NumPy on the host; call this outside jax.jit")
    ids, lengths = (np.asarray(array) for array in check_token_rows(ids, lengths, name=name))
    rows = np.repeat(np.arange(len(ids)), lengths)
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(rows))
    return ids[valid_positions(lengths, ids.shape[1])], rows, left, len(ids)


def _dense_ranks(keys: np.ndarray) -> np.ndarray:
    """Rank of each key among the distinct keys."""
    order = np.argsort(keys)
    keys = keys[order]
    ranks = np.empty(len(keys), np.int64)
    ranks[order] = np.cumsum(run_starts(keys)) - 1
    return ranks


def _count_by_row(ranks: np.ndarray, rows: np.ndarray, n: int) -> NgramCounts:
    keys = np.sort(ranks * np.int64(n) + rows)
    starts = np.flatnonzero(run_starts(keys))
    ngram, row = np.divmod(keys[starts], n)
    return NgramCounts(
        ngram=ngram,
        row=row,
        count=np.diff(starts, append=len(keys)),
        starts=np.flatnonzero(run_starts(ngram)),
        totals=np.bincount(rows, minlength=n),
    )
