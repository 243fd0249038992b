"""Kernel distance: squared maximum mean discrepancy with a polynomial kernel."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .checks import check_banks
from .pairwise import PairSums, center, contrast, contrast_stderr, dot, fold_rows
from .token_rows import AnyArray, check_integer, is_traced


def kernel_distance(
    reference: Float[AnyArray, "n d"],
    generated: Float[AnyArray, "m d"],
    *,
    degree: int = 3,
    scale: float | Float[Array, ""] | None = None,
    offset: float | Float[Array, ""] = 1.0,
    unbiased: bool = True,
) -> Float[Array, ""]:
    """E k(X, X') + E k(Y, Y') - 2 E k(X, Y) with k = (scale <u, v> + offset)^degree.

    Lower is better. The default is the U-statistic: no bias at any n, about 0 for banks of the
    same law and often negative there. `unbiased=False` is the V-statistic: never negative, 0 up
    to rounding for equal banks, biased up by about (E k(x, x) - E k(X, X')) / n and likewise for
    the generated bank. The cubic kernel compares means, second and third moments and nothing
    else. It is not invariant to translations: it takes raw features, as KID does.

    Float32 holds 1e-4 relative, for the U-statistic, which crosses zero, beside 1e-5 of the
    V-statistic, also for large common offsets: before it is summed the kernel is centred at the
    middle z of the two banks, k(u, v) - k(u, z) - k(v, z) + k(z, z), which changes neither form.

    Runs under `jax.jit`, `jax.vmap` and `jax.grad`. Cost: O((n + m)^2 d) time in matrix
    products, memory of a few copies of the banks and one block.

    Args:
      reference: Float[Array, "n d"], n >= 2.
      generated: Float[Array, "m d"], m >= 2.
      degree: power of the kernel, >= 1.
      scale: factor of the inner product, > 0; None = 1 / d.
      offset: added to it, >= 0.
      unbiased: U-statistic instead of V-statistic.

    Returns:
      Float[Array, ""], dimensionless for features without a unit, float32 (float64 under x64).

    Raises:
      ValueError: wrong rank, unequal widths, fewer than two rows, NaN or infinity; a degree,
        scale or offset outside its range; features so large that the kernel overflows. Under
        `jax.jit` values cannot be checked and overflow gives NaN or infinity.

    Source: Binkowski et al. 2018 (KID), here on the whole banks where public codes average over
    subsets; equals torch-fidelity's polynomial `mmd2` with the "unbiased" estimate.

    >>> import numpy as np
    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [2.0], [6.0]])
    >>> round(float(kernel_distance(x, y, degree=1, unbiased=False)), 4)
    4.0
    >>> round(float(kernel_distance(x, y, scale=0.1)), 4)
    1.1167
    """
    reference, generated = check_banks(reference, generated)
    options = checked_options(reference, degree, scale, offset)
    value = _kernel_distance(reference, generated, *options, unbiased=bool(unbiased))
    check_finite(value)
    return value


def kernel_distance_stderr(
    reference: Float[AnyArray, "n d"],
    generated: Float[AnyArray, "m d"],
    *,
    degree: int = 3,
    scale: float | Float[Array, ""] | None = None,
    offset: float | Float[Array, ""] = 1.0,
    unbiased: bool = True,
) -> Float[Array, ""]:
    """Standard error of `kernel_distance` when both banks are drawn anew.

    Delete-one jackknife over the rows of either bank in closed form from row sums; only of the
    right order for banks of the same law, where the statistic is degenerate. (The spread over
    subsets that KID codes print is not the error of their mean: subsets share rows.) Arguments
    and errors as for `kernel_distance`, with at least three rows a bank.

    >>> import numpy as np
    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [2.0], [6.0]])
    >>> round(float(kernel_distance_stderr(x, y, degree=1)), 4)
    4.1096
    """
    reference, generated = check_banks(reference, generated, min_rows=3)
    options = checked_options(reference, degree, scale, offset)
    stderr = _kernel_distance_stderr(reference, generated, *options, unbiased=bool(unbiased))
    check_finite(stderr)
    return stderr


def checked_options(reference, degree, scale, offset):
    """Scale, offset and degree of the kernel, or `ValueError`."""
    check_integer("degree", degree, 1)
    scale = jnp.asarray(1 / reference.shape[1] if scale is None else scale, reference.dtype)
    offset = jnp.asarray(offset, reference.dtype)
    for name, value, least in (("scale", scale, "> 0"), ("offset", offset, ">= 0")):
        if value.ndim:
            raise ValueError(f"{name} must be one number {least}, got shape {value.shape}")
        if is_traced(value):
            continue
        good = value > 0 if name == "scale" else value >= 0
        if not (good and np.isfinite(value)):
            raise ValueError(f"{name} must be a finite number {least}, got {float(value)}")
    return scale, offset, int(degree)


def check_finite(value: Float[Array, ""]) -> None:
    """`ValueError` unless what was made of the kernel is finite."""
    if not is_traced(value) and not bool(jnp.isfinite(value)):
        raise ValueError(
            f"the polynomial kernel of these features is beyond {value.dtype}; pass a smaller "
            "scale or degree, or rescale reference and generated by one common factor"
        )


@functools.partial(jax.jit, static_argnames=("degree", "unbiased"))
def _kernel_distance(reference, generated, scale, offset, degree, *, unbiased):
    value = -contrast(_kernel_sums(reference, generated, scale, offset, degree), unbiased=unbiased)
    # Rounding alone can make a V-statistic negative.
    return value if unbiased else jnp.maximum(value, 0)


@functools.partial(jax.jit, static_argnames=("degree", "unbiased"))
def _kernel_distance_stderr(reference, generated, scale, offset, degree, *, unbiased):
    sums = _kernel_sums(reference, generated, scale, offset, degree)
    return contrast_stderr(sums, unbiased=unbiased)


def _kernel_sums(reference, generated, scale, offset, degree) -> PairSums:
    # A constant in derivatives: the centring cancels in the contrast wherever z lies.
    z = lax.stop_gradient(center(reference)[1] + center(generated)[1]) / 2
    x, y = reference - z, generated - z
    base = offset + scale * jnp.vdot(z, z, precision=lax.Precision.HIGHEST)

    def lift(rows):
        return scale * dot(rows, z)

    def sums(a, b, *, same):
        n, columns = a.shape[0], jnp.arange(b.shape[0])

        def step(totals, block, rows):
            inner = scale * dot(block, b.T)
            values = centred_kernel(inner, lift(block)[:, None], lift(b), base, degree)
            counted = rows[:, None] < n
            if same:
                # The pair of a row with itself is added exactly, it may dwarf all others.
                counted &= rows[:, None] != columns
            values = jnp.where(counted, values, 0)
            return totals + jnp.sum(values, axis=0), jnp.sum(values, axis=1)

        totals, out = fold_rows(step, jnp.zeros(b.shape[0], b.dtype), a, b.shape[0])
        return out, totals

    def diagonal(rows):
        lifted = lift(rows)
        return centred_kernel(scale * jnp.sum(rows**2, axis=1), lifted, lifted, base, degree)

    across_reference, across_generated = sums(x, y, same=False)
    x_diagonal, y_diagonal = diagonal(x), diagonal(y)
    return PairSums(
        reference=sums(x, x, same=True)[0] + x_diagonal,
        generated=sums(y, y, same=True)[0] + y_diagonal,
        across_reference=across_reference,
        across_generated=across_generated,
        reference_diagonal=x_diagonal,
        generated_diagonal=y_diagonal,
    )


def centred_kernel(inner, lift_u, lift_v, base, degree):
    """p^D - a^D - b^D + c^D: the kernel of z + u and z + v, centred at z, without cancellation.

    c = base = k^(1/D)(z, z), a = c + lift_u, b = c + lift_v, p = c + lift_u + lift_v + inner.
    The power is raised step by step, differences a^j - c^j beside it: with e_j that difference
    for a, f_j for b and g_j the result for power j,
    g_(j+1) = p g_j + lift_v e_j + lift_u f_j + inner (e_j + f_j + c^j).
    """
    p = base + lift_u + lift_v + inner
    result, rise_u, rise_v, power = inner, lift_u, lift_v, base
    for _ in range(degree - 1):
        result = p * result + lift_v * rise_u + lift_u * rise_v + inner * (rise_u + rise_v + power)
        rise_u = (base + lift_u) * rise_u + lift_u * power
        rise_v = (base + lift_v) * rise_v + lift_v * power
        power = power * base
    return result
