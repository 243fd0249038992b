"""Ragged rows of token ids: the checks every token metric shares, and windows of long rows."""

from typing import NamedTuple

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Bool, Int

AnyArray = jax.Array | np.ndarray
INT32 = np.iinfo(np.int32)


class ScoringWindows(NamedTuple):
    """Pieces of rows that fit a scorer, one entry a window, in the order of rows.

    Attributes:
      row: which row.
      start, stop: the window holds ids[row, start:stop].
      first_target: first position of the row that this window scores; it scores
        first_target..stop-1, each after the tokens start..position-1.
    """

    row: Int[np.ndarray, " w"]
    start: Int[np.ndarray, " w"]
    stop: Int[np.ndarray, " w"]
    first_target: Int[np.ndarray, " w"]


def scoring_windows(
    lengths: Int[AnyArray, " n"], context: int, stride: int | None = None
) -> ScoringWindows:
    """Windows by which a scorer of a limited context reads rows of any length.

    * stride None: non-overlapping chunks of `context` tokens, as MDLM, Duo and ELF split. The
      first token of every chunk has nothing before it and is not scored.
    * stride s < context: windows begin s tokens apart and overlap; each scores what the one
      before it did not reach, so every target 1..length-1 is scored exactly once, beyond the
      first window after at least context - s tokens. NLLs are lower than those of chunks: the
      smaller the stride the less, at context / s times the cost.

    A row within the context has one window either way. Rows and chunks of fewer than two
    tokens have no target and no window.

    Args:
      lengths: Int[Array, "n"] tokens per row; concrete.
      context: the scorer's longest input, >= 2 (1,024 for GPT-2).
      stride: new tokens a window, in [1, context - 1]; None = chunks.

    Returns:
      `ScoringWindows` of int32 arrays. O(windows), NumPy.

    Raises:
      ValueError: lengths not 1-D, not integer or negative, context < 2, a stride out of range.

    Source: the strided form is the one of the Hugging Face guide to perplexity of models of
    fixed length.

    >>> chunks = scoring_windows(np.array([10, 3]), context=4)
    >>> [tuple(map(int, w)) for w in zip(*chunks)]  # (row, start, stop, first_target)
    [(0, 0, 4, 1), (0, 4, 8, 5), (0, 8, 10, 9), (1, 0, 3, 1)]
    >>> [tuple(map(int, w)) for w in zip(*scoring_windows(np.array([10]), context=4, stride=2))]
    [(0, 0, 4, 1), (0, 2, 6, 4), (0, 4, 8, 6), (0, 6, 10, 8)]
    """
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or not np.issubdtype(lengths.dtype, np.integer):
        raise ValueError(
            f"lengths must be 1-D integers, one a row, got shape {lengths.shape}, {lengths.dtype}"
        )
    if np.any(lengths < 0):
        raise ValueError(f"lengths count tokens and cannot be negative, got {lengths.min()}")
    check_integer("context", context, 2, INT32.max)
    step = context
    if stride is not None:
        check_integer("stride", stride, 1, context - 1)
        step = stride
    windows = 1 + np.maximum(-(-(lengths.astype(np.int64) - context) // step), 0)
    # A chunk of one token has no target; an overlapping window always has one.
    lonely = (lengths % context == 1) if stride is None else (lengths == 1)
    windows = np.where(lengths > 0, windows - lonely, 0)
    row = np.repeat(np.arange(len(lengths)), windows)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(windows) - windows, windows)
    start = nth * step
    stop = np.minimum(start + context, lengths[row])
    first = start + 1 if stride is None else np.where(nth == 0, 1, start - step + context)
    return ScoringWindows(*(x.astype(np.int32) for x in (row, start, stop, first)))


def is_traced(*arrays) -> bool:
    """True if any argument is abstract (inside `jax.jit`, `jax.vmap`, `jax.grad`)."""
    return any(isinstance(array, Tracer) for array in arrays)


def check_token_rows(ids, lengths=None, *, name: str = "ids"):
    """Validates `ids` and `lengths`; fills in full lengths.

    Shapes and dtypes are always checked, values only where they are concrete (under `jax.jit`
    there is nothing to look at yet). Ids at positions >= length are never looked at.

    Args:
      ids: Int[Array, "n t"], NumPy or JAX, valid ids in [0, 2**31).
      lengths: Int[Array, "n"] valid tokens per row, in [0, t]; None = every row is full.
      name: how errors call `ids`.

    Returns:
      (ids Int32[Array, "n t"], lengths Int32[Array, "n"]), still NumPy where NumPy came in.

    Raises:
      ValueError: wrong rank, dtype or shape, an empty bank, a length outside [0, t], an id
        outside int32, or no valid token at all.

    >>> ids, lengths = check_token_rows([[3, 1, 4], [1, 5, 9]])
    >>> ids.dtype.name, lengths.tolist()
    ('int32', [3, 3])
    """
    ids = as_array(ids, name)
    if ids.dtype.kind in "SU":
        raise ValueError(
            f"{name} must hold integer token ids, got text (dtype {ids.dtype}); encode it with "
            "the tokenizer first"
        )
    if ids.ndim != 2:
        raise ValueError(
            f"{name} must be 2-D, one row of token ids a sample, got shape {ids.shape}"
        )
    if not np.issubdtype(ids.dtype, np.integer):
        raise ValueError(f"{name} must hold integer token ids, got dtype {ids.dtype}")
    n, t = ids.shape
    if n == 0 or t == 0:
        raise ValueError(
            f"{name} has shape {ids.shape}: an empty bank has no metrics; pass samples"
        )
    if lengths is None:
        lengths = np.full(n, t, np.int32)
    lengths = as_array(lengths, "lengths")
    if lengths.shape != (n,):
        raise ValueError(
            f"lengths must hold one length for each of the {n} rows of {name}, "
            f"got shape {lengths.shape}"
        )
    if not np.issubdtype(lengths.dtype, np.integer):
        raise ValueError(f"lengths must be integers, got dtype {lengths.dtype}")
    if not is_traced(lengths):
        _check_lengths(np.asarray(lengths), t, name)
    if not is_traced(ids, lengths):
        _check_ids(np.asarray(ids), np.asarray(lengths), name)
    return ids.astype(np.int32), lengths.astype(np.int32)


def valid_positions(lengths: Int[AnyArray, " n"], t: int) -> Bool[AnyArray, "n t"]:
    """Which positions of rows of width `t` hold tokens.

    >>> valid_positions(np.array([2, 0]), 3).astype(int).tolist()
    [[1, 1, 0], [0, 0, 0]]
    """
    return np.arange(t, dtype=np.int32) < lengths[:, None]


def as_array(value, name: str):
    """Arrays pass untouched; lists become NumPy arrays."""
    if isinstance(value, jax.Array | np.ndarray):
        return value
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"{name} must be a rectangular array: pad ragged rows of ids and pass lengths; "
            f"feature vectors are all equally long ({error})"
        ) from error


def _check_lengths(lengths: np.ndarray, t: int, name: str) -> None:
    wrong = (lengths < 0) | (lengths > t)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"lengths[{row}] = {lengths[row]} is outside [0, {t}], the width of {name}; "
            "lengths count the valid tokens of each row"
        )
    if not lengths.any():
        raise ValueError(f"lengths are all 0: {name} holds no valid token; pass samples")


def _check_ids(ids: np.ndarray, lengths: np.ndarray, name: str) -> None:
    if np.all(lengths == ids.shape[1]):  # the usual case needs no mask, just two reductions
        wrong_anywhere = ids.min() < 0 or ids.max() > INT32.max
    else:
        wrong_anywhere = True
    if not wrong_anywhere:
        return
    wrong = valid_positions(lengths, ids.shape[1]) & ((ids < 0) | (ids > INT32.max))
    if wrong.any():
        row, position = np.argwhere(wrong)[0]
        raise ValueError(
            f"{name}[{row}, {position}] = {ids[row, position]} is no token id: ids must be in "
            "[0, 2**31); leave padding out with lengths"
        )


def check_integer(name: str, value, low: int, high: int | None = None) -> None:
    """`ValueError` unless the value is an integer from low to high, both included."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    if value < low or (high is not None and value > high):
        accepted = f"at least {low}" if high is None else f"in [{low}, {high}]"
        raise ValueError(f"{name} must be {accepted}, got {value}")
