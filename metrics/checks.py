"""Argument checks shared by the metrics on feature vectors."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .token_rows import as_array, is_traced


def check_features(name: str, features, *, min_rows: int = 2) -> Float[Array, "n d"]:
    """A bank of feature vectors as a float array, or a ValueError that says what is wrong.

    Rank, dtype and number of rows are always checked; that every entry is finite, and small
    enough to be squared, only where the values are concrete (not inside `jax.jit`).

    Args:
      name: how errors call the argument.
      features: Float[Array, "n d"], NumPy or JAX. Integers, bool and half precision become
        float32; float64 stays float64 under x64 and becomes float32 otherwise.
      min_rows: smallest n that is accepted.

    Raises:
      ValueError: not 2-D, not numeric, fewer than `min_rows` rows, no columns, NaN, infinity,
        or an entry beyond about 1e15 in float32 (1e150 in float64).

    >>> check_features("features", [[1, 2], [3, 4]]).dtype
    dtype('float32')
    >>> check_features("features", [[1, 2]])
    Traceback (most recent call last):
    ...
    ValueError: features has shape (1, 2): at least 2 rows and 1 column are needed
    """
    features = as_array(features, name)
    dtype = features.dtype
    real = jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.integer)
    if not (real or jnp.issubdtype(dtype, jnp.bool_)):
        raise ValueError(f"{name} must hold real numbers, got dtype {dtype}")
    if features.ndim != 2:
        raise ValueError(
            f"{name} must be 2-D, one feature vector a row (n, d), got shape {features.shape}"
        )
    n, d = features.shape
    if n < min_rows or d < 1:
        raise ValueError(
            f"{name} has shape {features.shape}: at least {min_rows} rows and 1 column are needed"
        )
    array = jnp.asarray(features)
    array = array.astype(jnp.promote_types(array.dtype, jnp.float32))
    if not is_traced(array):
        _check_values(name, array)
    return array


def check_banks(
    reference, generated, *, min_rows: int = 2
) -> tuple[Float[Array, "n d"], Float[Array, "m d"]]:
    """Both banks of a two-sample metric, checked, of equal width and of the same float type.

    Arguments and errors as for `check_features`, and ValueError for unequal widths.

    >>> x, y = check_banks([[1, 2], [3, 4]], [[5.0, 6.0], [7.0, 8.0], [9.0, 10.0]])
    >>> x.shape, y.shape
    ((2, 2), (3, 2))
    """
    reference = check_features("reference", reference, min_rows=min_rows)
    generated = check_features("generated", generated, min_rows=min_rows)
    if reference.shape[1] != generated.shape[1]:
        raise ValueError(
            f"reference and generated must have equally wide rows (the same encoder), "
            f"got shapes {reference.shape} and {generated.shape}"
        )
    dtype = jnp.promote_types(reference.dtype, generated.dtype)
    return reference.astype(dtype), generated.astype(dtype)


def _check_values(name: str, array: Float[Array, "n d"]) -> None:
    # Not by the maximum of magnitudes: XLA's maximum over a whole array may drop NaN on CPUs.
    if not bool(jnp.all(jnp.isfinite(array))):
        bad = np.flatnonzero(~np.isfinite(np.asarray(array)).all(axis=1))
        raise ValueError(
            f"{name} holds NaN or infinity in {bad.size} of {array.shape[0]} rows "
            f"(first: row {bad[0]}); encode those texts again or remove them yourself"
        )
    peak = float(jnp.max(jnp.abs(array)))
    limit = 1e150 if array.dtype == np.float64 else 1e15
    if peak > limit:
        raise ValueError(
            f"{name} holds an entry of magnitude {peak:.3g}, whose square is beyond "
            f"{array.dtype}; rescale the features below {limit:g}"
        )
