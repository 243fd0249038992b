"""PCA whitening fitted on the reference alone."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .checks import check_features
from .pairwise import dot
from .token_rows import AnyArray


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
        """
        x = check_features("x", x, min_rows=1)
        if x.shape[1] != self.mean.shape[0]:
            raise ValueError(
                f"x must have the reference's {self.mean.shape[0]} columns, got shape {x.shape}"
            )
        return _transform(x, self)


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
    """
    if not isinstance(reference, jax.Array):
        reference = np.asarray(reference)
    check_features("reference", reference)
    x = np.asarray(reference, np.float64)
    n, d = x.shape
    k = num_components
    if not 1 <= k <= d:
        raise ValueError(
            f"num_components must lie in 1..{d}, the width of reference {x.shape}, got {k}"
        )
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


@jax.jit
def _transform(x, whitening):
    mean, components, scales = (jnp.asarray(field, x.dtype) for field in whitening)
    return dot(x - mean, components) / scales
