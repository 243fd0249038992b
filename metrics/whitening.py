"""PCA whitening fitted on the reference alone."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from .checks import check_features
from .pairwise import dot
from .token_rows import AnyArray, as_array, check_integer, is_traced


class Whitening(NamedTuple):
    """z = (x - mean) components / scales.

    Attributes:
      mean: Float["d"] mean of the reference.
      components: Float["d k"] orthonormal principal axes, largest variance first, each signed
        so that its largest entry is positive.
      scales: Float["k"] standard deviations of the reference along the axes (ddof = 1).
    """

    mean: Float[AnyArray, " d"]
    components: Float[AnyArray, "d k"]
    scales: Float[AnyArray, " k"]

    def transform(self, x: Float[AnyArray, "n d"]) -> Float[Array, "n k"]:
        """Whitened features of any bank of the same encoder; the reference gets covariance I.

        Runs under `jax.jit` and `jax.vmap`.

        Raises:
          ValueError: not 2-D, another width than the reference's, NaN or infinity.

        >>> whitening = Whitening(np.array([1.0, 2.0]), np.eye(2), np.array([1.0, 4.0]))
        >>> whitening.transform(np.array([[3.0, 6.0]])).tolist()
        [[2.0, 1.0]]
        """
        x = check_features("x", x, min_rows=1)
        if x.shape[1] != self.mean.shape[0]:
            raise ValueError(
                f"x must have the reference's {self.mean.shape[0]} columns, got shape {x.shape}"
            )
        # On the host: a float64 constant of an inner jit does not survive a change of precision.
        return _transform(x, Whitening(*(_cast(field, x.dtype) for field in self)))


def fit_whitening(reference: Float[AnyArray, "n d"], num_components: int = 128) -> Whitening:
    """Fits PCA whitening to the reference; never fit it to generated data.

    Computed on the host in float64 (NumPy), since trailing variances decide the scales; not
    for use inside `jax.jit`. Cost: an eigendecomposition of a min(n, d)-sized matrix.

    Args:
      reference: Float[Array, "n d"], n > num_components.
      num_components: k, number of axes kept.

    Returns:
      `Whitening` with NumPy float64 fields (used in the dtype of the transformed features).

    Raises:
      ValueError: num_components not in 1..d, n <= num_components, or fewer than
        num_components directions with variance above 1e-12 of the largest; wrong rank, NaN or
        infinity in the reference.

    Source: equals scikit-learn's `PCA(k, whiten=True, svd_solver="full")` up to signs.

    >>> reference = np.random.default_rng(0).normal(size=(50, 4)) * [1.0, 2.0, 3.0, 4.0]
    >>> whitening = fit_whitening(reference, num_components=2)
    >>> np.allclose(np.cov(whitening.transform(reference).T), np.eye(2), atol=1e-4)
    True
    """
    reference = as_array(reference, "reference")
    if is_traced(reference):
        raise ValueError("reference is traced: fit_whitening needs its values, use it outside jit")
    check_features("reference", reference)
    x = np.asarray(reference, np.float64)
    n, d = x.shape
    k = num_components
    check_integer("num_components", k, 1, d)
    if n <= k:
        raise ValueError(
            f"reference has {n} rows, but num_components={k} needs more than {k}; "
            f"pass more rows or a smaller num_components"
        )
    mean = x.mean(axis=0)
    # Singular values of the rows themselves: their squares lose no digits.
    _, singular, axes = np.linalg.svd(x - mean, full_matrices=False)
    variances = singular**2 / (n - 1)
    if not variances[k - 1] > 1e-12 * variances[0]:
        rank = int(np.sum(variances > 1e-12 * variances[0]))
        raise ValueError(
            f"reference varies in {rank} directions only: variance number num_components={k} is "
            f"{variances[k - 1]:.3g}, not above 1e-12 of the largest, {variances[0]:.3g}; "
            f"pass num_components <= {rank} or a richer reference"
        )
    axes = axes[:k]
    largest = np.take_along_axis(axes, np.argmax(np.abs(axes), axis=1)[:, None], axis=1)
    return Whitening(mean, (axes * np.sign(largest)).T, np.sqrt(variances[:k]))


def _cast(field, dtype):
    return field.astype(dtype) if is_traced(field) else np.asarray(field, dtype)


@jax.jit
def _transform(x, whitening):
    mean, components, scales = whitening
    return dot(x - mean, components) / scales
