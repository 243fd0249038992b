"""Memorisation: how much of a bank is copied, token for token, from the training text."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .ngrams import check_order
from .spread import mean_stderr
from .token_rows import AnyArray, check_token_rows
from .training_index import TrainingIndex, fit_training_index, narrow, search_rows


class Memorisation(NamedTuple):
    """Copying of a bank beside that of fresh text; all but the z scores 0-d float64 arrays.

    A generator that copies has a low novelty and a long copied span against its null. |z|
    beyond 3 is no accident.

    Attributes:
      novelty: mean share of n-grams the training text lacks.
      novelty_null: the same of the reference.
      novelty_z: their difference in standard errors; negative = the bank copies more.
      copied_span: mean longest copied span, tokens.
      copied_span_null: the same of the reference.
      copied_span_z: their difference in standard errors; positive = the bank copies more.
      exceeding: share of rows with a longer copied span than every reference row; about
        1 / (reference rows + 1) at most where nothing is copied.
    """

    novelty: Float[np.ndarray, ""]
    novelty_null: Float[np.ndarray, ""]
    novelty_z: Float[np.ndarray, ""]
    copied_span: Float[np.ndarray, ""]
    copied_span_null: Float[np.ndarray, ""]
    copied_span_z: Float[np.ndarray, ""]
    exceeding: Float[np.ndarray, ""]


def longest_copied_span(
    ids: Int[AnyArray, "n t"],
    training: TrainingIndex | Int[AnyArray, "m u"],
    lengths: Int[AnyArray, " n"] | None = None,
    training_lengths: Int[AnyArray, " m"] | None = None,
) -> Int[np.ndarray, " n"]:
    """Longest run of tokens of each row that one training document holds verbatim.

    Exact. Its length is that of the row for a copied row and 0 for a row none of whose tokens
    are in the training text. Grows with the row and (like its logarithm) with the training
    text, so read it beside fresh text of the same lengths: `memorisation`.

    Cost: a few binary searches a token for each doubling of the span; a million tokens in ten
    million take seconds once the index is built. NumPy on the host.

    Args:
      ids: Int[Array, "n t"] token ids of the bank.
      training: `fit_training_index` of the training documents, or their ids Int[Array, "m u"],
        of which an index is then built for this call alone.
      lengths: Int[Array, "n"] valid tokens per row of ids; None = full rows.
      training_lengths: Int[Array, "m"] the same of training ids; None with an index.

    Returns:
      Int64[np.ndarray, "n"] tokens.

    Raises:
      ValueError: bad ids or lengths, training_lengths beside an index, traced arrays.

    >>> import numpy as np
    >>> training = np.array([[1, 2, 3, 4, 5], [6, 7, 8, 9, 1]])
    >>> longest_copied_span(np.array([[0, 2, 3, 4, 0], [8, 9, 1, 2, 3], [0, 0, 0, 0, 0]]), training)
    array([3, 3, 0])
    """
    index = _as_index(training, training_lengths)
    runs = search_rows(index, ids, lengths)
    top = np.full(len(runs.row), -1)
    for level, (low, high) in enumerate(zip(runs.low, runs.high, strict=True)):
        top[low < high] = level
    row_top = np.full(runs.num_rows, -1)
    np.maximum.at(row_top, runs.row, top)
    position = np.flatnonzero((top >= 0) & (top == row_top[runs.row]))
    span = 2 ** top[position]
    low, high = (np.stack(slots)[top[position], position] for slots in (runs.low, runs.high))
    best = np.where(row_top >= 0, 2 ** np.maximum(row_top, 0), 0)
    # Bits of the answer from the highest down. A span that is behind its row's longest by one
    # bit cannot catch up with all lower ones, so only the longest of each row go on.
    for level in reversed(range(len(runs.low))):
        end = np.minimum(position + span, len(runs.row) - 1)
        name, known = runs.low[level][end], runs.low[level][end] < runs.high[level][end]
        fits = (top[position] > level) & (span + 2**level <= runs.left[position]) & known
        trying = np.flatnonzero(fits)
        begin, stop = narrow(index, low[trying], high[trying], span[trying], level, name[trying])
        longer = begin < stop
        low[trying[longer]], high[trying[longer]] = begin[longer], stop[longer]
        span[trying[longer]] += 2**level
        np.maximum.at(best, runs.row[position], span)
        ahead = span == best[runs.row[position]]
        position, span, low, high = (x[ahead] for x in (position, span, low, high))
    return best


def longest_copied_span_stderr(
    ids: Int[AnyArray, "n t"],
    training: TrainingIndex | Int[AnyArray, "m u"],
    lengths: Int[AnyArray, " n"] | None = None,
    training_lengths: Int[AnyArray, " m"] | None = None,
) -> Float[np.ndarray, ""]:
    """Standard error of the bank's mean `longest_copied_span`: the rows' sd / sqrt(n).

    Exact for independent rows and a given training text.

    Args:
      ids, training, lengths, training_lengths: as `longest_copied_span`.

    Returns:
      0-d float64 array, tokens.

    Raises:
      ValueError: as `longest_copied_span`, or fewer than two rows.

    >>> import numpy as np
    >>> training = np.array([[1, 2, 3, 4, 5]])
    >>> float(longest_copied_span_stderr(np.array([[2, 3, 4, 5], [2, 3, 0, 1]]), training))
    1.0
    """
    return np.asarray(mean_stderr(longest_copied_span(ids, training, lengths, training_lengths)))


def ngram_novelty(
    ids: Int[AnyArray, "n t"],
    training: TrainingIndex | Int[AnyArray, "m u"],
    lengths: Int[AnyArray, " n"] | None = None,
    training_lengths: Int[AnyArray, " m"] | None = None,
    *,
    order: int = 4,
) -> Float[np.ndarray, " n"]:
    """Share of each row's n-grams, repeated ones included, that no training document holds.

    0 for a copied row, 1 for a row without a known n-gram. Noise is novel too: high novelty is
    no merit, novelty far below that of fresh text is copying (`memorisation`). Falls as the
    training text grows. A row shorter than `order` says nothing new and scores 0.

    Cost: as `longest_copied_span`, but for spans up to `order` only.

    Args:
      ids, training, lengths, training_lengths: as `longest_copied_span`.
      order: the n of n-grams.

    Returns:
      Float64[np.ndarray, "n"] in [0, 1].

    Raises:
      ValueError: no row has `order` tokens, order < 1, bad ids or lengths, training_lengths
        beside an index, traced arrays.

    Source: n-gram novelty as in McCoy et al. 2023 (RAVEN), without smoothing.

    >>> import numpy as np
    >>> training = np.array([[1, 2, 3, 4, 5]])
    >>> ngram_novelty(np.array([[2, 3, 4, 5], [2, 3, 0, 1]]), training, order=2).round(4).tolist()
    [0.0, 0.6667]
    """
    order = check_order(order)
    index = _as_index(training, training_lengths)
    runs = search_rows(index, ids, lengths, max_span=order)
    position = np.flatnonzero(runs.left >= order)
    if not len(position):
        raise ValueError(
            f"no row has {order} tokens, so there are no {order}-grams; lower order or pass "
            "longer rows"
        )
    totals = np.bincount(runs.row[position], minlength=runs.num_rows)
    level = order.bit_length() - 1
    if level < len(runs.low):
        position = position[runs.low[level][position] < runs.high[level][position]]
        low, high = runs.low[level][position], runs.high[level][position]
        span = 2**level
        while span < order:
            level = (order - span).bit_length() - 1
            name = runs.low[level][position + span]
            known = name < runs.high[level][position + span]
            position, low, high, name = (x[known] for x in (position, low, high, name))
            offset = np.full(len(position), span, np.int32)
            low, high = narrow(index, low, high, offset, level, name)
            position, low, high = (x[low < high] for x in (position, low, high))
            span += 2**level
    else:
        position = position[:0]
    copied = np.bincount(runs.row[position], minlength=runs.num_rows)
    return (totals - copied) / np.maximum(totals, 1)


def ngram_novelty_stderr(
    ids: Int[AnyArray, "n t"],
    training: TrainingIndex | Int[AnyArray, "m u"],
    lengths: Int[AnyArray, " n"] | None = None,
    training_lengths: Int[AnyArray, " m"] | None = None,
    *,
    order: int = 4,
) -> Float[np.ndarray, ""]:
    """Standard error of the bank's mean `ngram_novelty`: the rows' sd / sqrt(n).

    Exact for independent rows and a given training text.

    Args:
      ids, training, lengths, training_lengths, order: as `ngram_novelty`.

    Returns:
      0-d float64 array.

    Raises:
      ValueError: as `ngram_novelty`, or fewer than two rows.

    >>> import numpy as np
    >>> training = np.array([[1, 2, 3, 4, 5]])
    >>> bank = np.array([[2, 3, 4, 5], [2, 3, 0, 1]])
    >>> round(float(ngram_novelty_stderr(bank, training, order=2)), 4)
    0.3333
    """
    rows = ngram_novelty(ids, training, lengths, training_lengths, order=order)
    return np.asarray(mean_stderr(rows))


def memorisation(
    reference_ids: Int[AnyArray, "n t"],
    generated_ids: Int[AnyArray, "m u"],
    training: TrainingIndex,
    reference_lengths: Int[AnyArray, " n"] | None = None,
    generated_lengths: Int[AnyArray, " m"] | None = None,
    *,
    order: int = 4,
) -> Memorisation:
    """Whether a bank copies its training text more than fresh text of the same source does.

    The reference must be text of the training text's source that was held out of it, in rows as
    long as the generated ones: people repeat each other too, and its values are the null.
    Verbatim training rows have novelty 0 and a copied span of their own length. It does not
    see paraphrase, nor copying of text that is not in the index.

    Args:
      reference_ids: Int[Array, "n t"] held-out rows.
      generated_ids: Int[Array, "m u"] the bank in question.
      training: `fit_training_index` of the training documents.
      reference_lengths, generated_lengths: valid tokens per row; None = full rows.
      order: of `ngram_novelty`.

    Returns:
      `Memorisation`. A z is 0 for equal means and ±inf for others if neither bank varies.

    Raises:
      ValueError: fewer than two rows in a bank, or as `ngram_novelty`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> text, fresh = rng.integers(0, 20, (50, 30)), rng.integers(0, 20, (9, 30))
    >>> index = fit_training_index(text)
    >>> found = memorisation(fresh, text[:9], index)
    >>> float(found.novelty), round(float(found.novelty_null), 4)
    (0.0, 1.0)
    >>> float(found.copied_span), float(found.exceeding)
    (30.0, 1.0)
    """
    check_token_rows(reference_ids, reference_lengths, name="reference_ids")
    check_token_rows(generated_ids, generated_lengths, name="generated_ids")
    novelty = ngram_novelty(generated_ids, training, generated_lengths, order=order)
    novelty_null = ngram_novelty(reference_ids, training, reference_lengths, order=order)
    copied = longest_copied_span(generated_ids, training, generated_lengths)
    copied_null = longest_copied_span(reference_ids, training, reference_lengths)
    return Memorisation(
        novelty=np.asarray(novelty.mean()),
        novelty_null=np.asarray(novelty_null.mean()),
        novelty_z=_z(novelty, novelty_null),
        copied_span=np.asarray(copied.mean()),
        copied_span_null=np.asarray(copied_null.mean()),
        copied_span_z=_z(copied, copied_null),
        exceeding=np.asarray(np.mean(copied > copied_null.max())),
    )


def _as_index(training, training_lengths) -> TrainingIndex:
    if isinstance(training, TrainingIndex):
        if training_lengths is not None:
            raise ValueError(
                "training_lengths must be None with a TrainingIndex, which has its own; pass "
                "them to fit_training_index"
            )
        return training
    return fit_training_index(training, training_lengths)


def _z(rows: np.ndarray, null: np.ndarray) -> Float[np.ndarray, ""]:
    shift = null[0]  # equal values then have equal means to the last bit
    difference = float(np.mean(rows - shift) - np.mean(null - shift))
    error = math.hypot(float(mean_stderr(rows)), float(mean_stderr(null)))
    if error == 0.0:
        return np.asarray(math.copysign(math.inf, difference) if difference else 0.0)
    return np.asarray(difference / error)
