"""Repetition within rows: seq-rep-n of each row, and the diversity of a bank made from it."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from .ngrams import check_order, count_ngrams, ngram_counts
from .spread import mean_stderr
from .token_rows import AnyArray


def sequence_repetition(
    ids: Int[AnyArray, "n t"], lengths: Int[AnyArray, " n"] | None = None, *, order: int = 4
) -> Float[np.ndarray, " n"]:
    """seq-rep-n of each row: the share of its n-grams that repeat an earlier one of the row.

    1 - (different n-grams) / (n-grams). A row of one token repeated scores 1 - 1 / (its
    n-grams). Rises with the row's length, so compare banks of equal lengths. It is the bank's
    mean that is reported; its standard error is `sequence_repetition_stderr`. Rows shorter
    than `order` have nothing to repeat and score 0.

    Unbiased as a mean over rows. Cost: about one sort of the bank's tokens for each order up
    to `order`; NumPy float64 on the host.

    Args:
      ids: Int[Array, "n t"] token ids.
      lengths: Int[Array, "n"] valid tokens per row; None = full rows.
      order: the n of n-grams.

    Returns:
      Float64[np.ndarray, "n"] in [0, 1).

    Raises:
      ValueError: no row has `order` tokens, order < 1, bad ids or lengths, traced arrays.

    Source: Welleck et al. 2020 (unlikelihood training), seq-rep-n.

    >>> import numpy as np
    >>> ids = np.array([[1, 2, 3, 1, 2, 3, 1], [1, 2, 3, 4, 5, 6, 7]])
    >>> sequence_repetition(ids, order=2).tolist()
    [0.5, 0.0]
    """
    counts = ngram_counts(ids, lengths, order=order)
    _check_any(counts.totals, order)
    different = np.bincount(counts.row, minlength=len(counts.totals))
    return 1.0 - np.where(counts.totals > 0, different / np.maximum(counts.totals, 1), 1.0)


def sequence_repetition_stderr(
    ids: Int[AnyArray, "n t"], lengths: Int[AnyArray, " n"] | None = None, *, order: int = 4
) -> Float[np.ndarray, ""]:
    """Standard error of the bank's mean `sequence_repetition`: the rows' sd / sqrt(n).

    Exact for independent rows, since no row's value depends on another's.

    Args:
      ids, lengths, order: as `sequence_repetition`.

    Returns:
      0-d float64 array.

    Raises:
      ValueError: as `sequence_repetition`, or fewer than two rows.

    >>> import numpy as np
    >>> ids = np.array([[1, 2, 3, 1, 2, 3, 1], [1, 2, 3, 4, 5, 6, 7]])
    >>> float(sequence_repetition_stderr(ids, order=2))
    0.25
    """
    return np.asarray(mean_stderr(sequence_repetition(ids, lengths, order=order)))


def diversity(
    ids: Int[AnyArray, "n t"],
    lengths: Int[AnyArray, " n"] | None = None,
    *,
    orders: Sequence[int] = (2, 3, 4),
) -> Float[np.ndarray, ""]:
    """Product over orders of (1 - rep-n), rep-n pooled over the bank's rows (higher = better).

    1 - rep-n = (sum over rows of the row's different n-grams) / (n-grams of the bank). It sees
    repetition within rows only: a bank of one good text over and over keeps that text's
    value. `1 - diversity(ids, lengths, orders=(n,))` is rep-n.

    A ratio of means, biased by O(1 / n). Cost: about two sorts of the bank's tokens an order;
    NumPy float64 on the host.

    Published values come from whitespace tokens and a loop that leaves out the last n-gram of
    each text: `diversity(ids, numpy.maximum(lengths - 1, 0))` of `text_ids` gives those.

    Args:
      ids: Int[Array, "n t"] token ids.
      lengths: Int[Array, "n"] valid tokens per row; None = full rows.
      orders: the n of n-grams, each once.

    Returns:
      0-d float64 array in (0, 1].

    Raises:
      ValueError: no row has max(orders) tokens, orders empty, repeated or < 1, bad ids or
        lengths, traced arrays.

    Source: Su et al. 2022 (contrastive search), and their public `simctg` package.

    >>> import numpy as np
    >>> ids = np.array([[1, 2, 3, 1, 2, 3, 1], [1, 2, 3, 4, 5, 6, 7]])
    >>> round(float(diversity(ids)), 4)  # (9 / 12) (8 / 10) (7 / 8)
    0.525
    """
    different, totals = _by_row(ids, lengths, orders)
    return np.asarray(np.prod(different.sum(axis=1) / totals.sum(axis=1)))


def diversity_stderr(
    ids: Int[AnyArray, "n t"],
    lengths: Int[AnyArray, " n"] | None = None,
    *,
    orders: Sequence[int] = (2, 3, 4),
) -> Float[np.ndarray, ""]:
    """Standard error of `diversity` by the delete-one-row jackknife, exact in linear time.

    Args:
      ids, lengths, orders: as `diversity`.

    Returns:
      0-d float64 array.

    Raises:
      ValueError: as `diversity`, or fewer than two rows of max(orders) tokens.

    >>> import numpy as np
    >>> ids = np.array([[1, 2, 3, 1, 2, 3, 1], [1, 2, 3, 4, 5, 6, 7]])
    >>> round(float(diversity_stderr(ids)), 4)
    0.3875
    """
    different, totals = _by_row(ids, lengths, orders)
    if np.count_nonzero(totals.min(axis=0)) < 2:
        raise ValueError(
            f"a standard error needs at least 2 rows of {max(orders)} tokens or more, got 1"
        )
    left = different.sum(axis=1, keepdims=True) - different
    without = np.prod(left / (totals.sum(axis=1, keepdims=True) - totals), axis=0)
    n = len(without)
    return np.asarray(np.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2)))


def _by_row(
    ids, lengths, orders: Sequence[int]
) -> tuple[Int[np.ndarray, "k n"], Int[np.ndarray, "k n"]]:
    """For each order and row the different n-grams and all n-grams."""
    orders = [check_order(order) for order in orders]
    if not orders or len(set(orders)) < len(orders):
        raise ValueError(f"orders must list at least one order, each once, got {tuple(orders)}")
    different, totals = [], []
    for order, counts in enumerate(count_ngrams(ids, lengths, max_order=max(orders)), start=1):
        if order in orders:
            different.append(np.bincount(counts.row, minlength=len(counts.totals)))
            totals.append(counts.totals)
    _check_any(totals[-1], max(orders))
    return np.stack(different), np.stack(totals)


def _check_any(totals: Int[np.ndarray, " n"], order: int) -> None:
    if not totals.any():
        raise ValueError(
            f"no row has {order} tokens, so there are no {order}-grams; lower the order or pass "
            "longer rows"
        )
