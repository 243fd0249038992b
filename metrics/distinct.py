"""Distinct-n: the share of a bank's n-grams that are different."""

import numpy as np
from jaxtyping import Float, Int

from .ngrams import NgramCounts, ngram_counts
from .token_rows import AnyArray


def distinct_n(
    ids: Int[AnyArray, "n t"], lengths: Int[AnyArray, " n"] | None = None, *, order: int = 3
) -> Float[np.ndarray, ""]:
    """Number of different n-grams of the bank over the number of its n-grams.

    Pooled over rows; n-grams never cross rows, rows shorter than `order` add none. Falls as
    the bank grows, so compare banks of the same size only. (Li et al. 2016, the source,
    divide by the number of tokens; by n-grams is the usual form and reaches 1.)

    Cost: about one sort of the bank's tokens for each order up to `order`; NumPy.

    Args:
      ids: Int[Array, "n t"] token ids.
      lengths: Int[Array, "n"] valid tokens per row; None = full rows.
      order: the n of n-grams.

    Returns:
      0-d float64 array in (0, 1].

    Raises:
      ValueError: no row has `order` tokens, order < 1, bad ids or lengths, traced arrays.

    >>> import numpy as np
    >>> float(distinct_n(np.array([[1, 2, 3, 4], [1, 2, 3, 5]])))
    0.75
    """
    counts = _counts(ids, lengths, order)
    return np.asarray(len(counts.starts) / counts.totals.sum())


def distinct_n_stderr(
    ids: Int[AnyArray, "n t"], lengths: Int[AnyArray, " n"] | None = None, *, order: int = 3
) -> Float[np.ndarray, ""]:
    """Standard error of `distinct_n` by the delete-one-row jackknife, exact in linear time.

    Dropping a row loses its n-grams and, of the different ones, those that no other row has.

    Args:
      ids, lengths, order: as `distinct_n`.

    Returns:
      0-d float64 array.

    Raises:
      ValueError: as `distinct_n`, or fewer than two rows with n-grams.

    >>> import numpy as np
    >>> ids = np.array([[1, 2, 3, 4], [1, 2, 3, 5], [6, 7, 8, 9]])
    >>> round(float(distinct_n_stderr(ids)), 4)  # without a row: 1, 1 and 3 / 4
    0.1667
    """
    counts = _counts(ids, lengths, order)
    with_ngrams = np.count_nonzero(counts.totals)
    if with_ngrams < 2:
        raise ValueError(
            f"a standard error needs at least 2 rows of {order} tokens or more, got {with_ngrams}"
        )
    n = len(counts.totals)
    rows_with = np.diff(counts.starts, append=len(counts.ngram))
    lone = counts.row[counts.starts[rows_with == 1]]
    lost = np.bincount(lone, minlength=n)
    without = (len(counts.starts) - lost) / (counts.totals.sum() - counts.totals)
    return np.asarray(np.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2)))


def _counts(ids, lengths, order: int) -> NgramCounts:
    counts = ngram_counts(ids, lengths, order=order)
    if not counts.totals.any():
        raise ValueError(
            f"no row has {order} tokens, so there are no {order}-grams; lower order or pass "
            "longer rows"
        )
    return counts
