"""Checks of ragged rows of token ids, shared by every metric that counts tokens."""

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Bool, Int

AnyArray = jax.Array | np.ndarray
INT32 = np.iinfo(np.int32)


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
    """
    ids = _as_array(ids, name)
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
    lengths = _as_array(lengths, "lengths")
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
    """Which positions of rows of width `t` hold tokens."""
    return np.arange(t, dtype=np.int32) < lengths[:, None]


def _as_array(value, name: str):
    """Arrays pass untouched; lists become NumPy arrays."""
    if isinstance(value, jax.Array | np.ndarray):
        return value
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"{name} must be a rectangular array: pad ragged rows and pass lengths ({error})"
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
