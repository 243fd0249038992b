"""Sliced Wasserstein distance: optimal transport along random directions."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from .checks import check_banks
from .pairwise import center, dot, fold_rows
from .token_rows import AnyArray, check_integer


def sliced_wasserstein(
    reference: Float[AnyArray, "n d"],
    generated: Float[AnyArray, "m d"],
    *,
    seed: int = 0,
    num_projections: int = 256,
    order: int = 2,
) -> Float[Array, ""]:
    """Mean of W_p^p of the projected banks over random unit directions; lower is better.

    Not rooted: take `value ** (1 / order)` for a distance. Each W_p^p couples the two sorted
    projections by quantile, exactly also for n != m. In d dimensions a shift by v alone gives
    |v|^2 / d for order 2, so values of different widths do not compare.

    Biased up like every plug-in Wasserstein distance (two samples of one law are apart), but
    with the one-dimensional rate, about 1/n for order 2: compare banks of the same n and print
    the null band. 0 for equal banks. The same seed gives the same directions to every
    generator, in float32 and float64 alike, so that differences carry no noise of directions.

    Runs under `jax.jit`, `jax.vmap` and `jax.grad`. Cost: O(num_projections (n + m) (d + log n))
    time, memory of a copy of the banks and one block of projections.

    Args:
      reference: Float[Array, "n d"], n >= 2.
      generated: Float[Array, "m d"], m >= 2.
      seed: of the directions, in 0..2^32 - 1.
      num_projections: number of directions, >= 1.
      order: p, 1 or 2.

    Returns:
      Float[Array, ""], >= 0, in the unit of the features to the power `order`, float32
      (float64 under x64).

    Raises:
      ValueError: wrong rank, unequal widths, fewer than two rows, NaN or infinity; a seed,
        num_projections or order outside its range.

    Source: Bonneel et al. 2015; equals `ot.sliced_wasserstein_distance(...) ** p` of POT for
    the same directions.

    >>> import numpy as np
    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [2.0], [6.0]])
    >>> round(float(sliced_wasserstein(x, y)), 4)
    6.0
    >>> round(float(sliced_wasserstein(x, y, order=1)), 4)
    2.0
    """
    reference, generated = check_banks(reference, generated)
    key = _checked_key(seed, num_projections, order)
    return _sliced_wasserstein(
        reference, generated, key, num_projections=int(num_projections), order=int(order)
    )


def sliced_wasserstein_stderr(
    reference: Float[AnyArray, "n d"],
    generated: Float[AnyArray, "m d"],
    *,
    seed: int = 0,
    num_projections: int = 256,
    order: int = 2,
) -> Float[Array, ""]:
    """Standard error of `sliced_wasserstein` when both banks and the directions are drawn anew.

    The variances of three sources are added: rows of the reference, rows of the generated bank
    (each by the delete-one jackknife at the given directions, exact, in closed form from
    sorted rows: the cost is a few times that of the distance) and the directions (sample
    variance over directions / num_projections). What the jackknife at finitely many directions
    already holds of their noise is counted twice, so the value errs on the large side. Between
    generators scored with one seed the noise of the directions is shared and differences are
    more certain than this says. For banks of the same law it is only of the right order, and
    it knows nothing of the bias. Arguments and errors as for `sliced_wasserstein`, with at
    least three rows a bank and two projections.

    >>> import numpy as np
    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [2.0], [6.0]])
    >>> round(float(sliced_wasserstein_stderr(x, y)), 4)
    7.078
    """
    reference, generated = check_banks(reference, generated, min_rows=3)
    key = _checked_key(seed, num_projections, order, min_projections=2)
    return _sliced_wasserstein_stderr(
        reference, generated, key, num_projections=int(num_projections), order=int(order)
    )


def _checked_key(seed, num_projections, order, min_projections=1):
    # Keys are made of 32 bits: larger seeds would repeat the directions of smaller ones.
    check_integer("seed", seed, 0, 2**32 - 1)
    check_integer("num_projections", num_projections, min_projections)
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2, the p of W_p^p, got {order!r}")
    return jax.random.key(np.uint32(seed))


def _directions(key, num: int, d: int, dtype) -> Float[Array, "p d"]:
    # Drawn in float32 whatever the dtype, so that float64 sees the same directions.
    normal = jax.random.normal(key, (num, d), jnp.float32).astype(dtype)
    # In one dimension a draw can be exactly zero; any direction will do then.
    normal = normal.at[:, 0].set(jnp.where(jnp.all(normal == 0, axis=1), 1, normal[:, 0]))
    return normal / jnp.linalg.norm(normal, axis=1, keepdims=True)


def _coupling(
    n: int, m: int
) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " k"], Float[np.ndarray, " k"]]:
    """The pieces of [0, 1] on which both quantile functions are constant, k < n + m.

    Returns the sorted row of either bank on each piece and the length of the piece. Whole
    numbers in units of 1 / (n m), hence exact.
    """
    cuts = np.union1d(np.arange(n + 1, dtype=np.int64) * m, np.arange(m + 1, dtype=np.int64) * n)
    return cuts[:-1] // m, cuts[:-1] // n, np.diff(cuts) / (n * m)


def _cost(gap, order: int):
    # Not by `jnp.abs`, whose derivative at zero is 1 in JAX: equal banks must not be moved.
    return gap**2 if order == 2 else gap * lax.stop_gradient(jnp.sign(gap))


def _transport(x: Float[Array, "b n"], y: Float[Array, "b m"], order: int) -> Float[Array, " b"]:
    """W_p^p of sorted rows."""
    if x.shape == y.shape:
        return jnp.mean(_cost(x - y, order), axis=1)
    i, j, length = _coupling(x.shape[1], y.shape[1])
    return jnp.sum(jnp.asarray(length, x.dtype) * _cost(x[:, i] - y[:, j], order), axis=1)


def _shifted(reference, generated):
    # A common offset would cost digits of the differences of projections.
    middle = lax.stop_gradient(center(reference)[1] + center(generated)[1]) / 2
    return reference - middle, generated - middle


@functools.partial(jax.jit, static_argnames=("num_projections", "order"))
def _sliced_wasserstein(reference, generated, key, *, num_projections, order):
    x, y = _shifted(reference, generated)
    directions = _directions(key, num_projections, x.shape[1], x.dtype)

    def step(carry, block, _):
        sorted_x, sorted_y = (jnp.sort(dot(block, bank.T), axis=1) for bank in (x, y))
        return carry, _transport(sorted_x, sorted_y, order)

    _, distances = fold_rows(step, None, directions, x.shape[0] + y.shape[0])
    return jnp.mean(distances)


@functools.partial(jax.jit, static_argnames=("num_projections", "order"))
def _sliced_wasserstein_stderr(reference, generated, key, *, num_projections, order):
    x, y = _shifted(reference, generated)
    directions = _directions(key, num_projections, x.shape[1], x.dtype)

    def sort(block, bank):
        projected = dot(block, bank.T)
        ranked = jnp.argsort(projected, axis=1)
        return jnp.take_along_axis(projected, ranked, axis=1), ranked

    def step(totals, block, rows):
        counted = rows[:, None] < num_projections
        (sorted_x, rows_x), (sorted_y, rows_y) = sort(block, x), sort(block, y)
        without_x = jnp.where(counted, _left_out(sorted_x, sorted_y, order), 0)
        without_y = jnp.where(counted, _left_out(sorted_y, sorted_x, order), 0)
        totals = (totals[0].at[rows_x].add(without_x), totals[1].at[rows_y].add(without_y))
        return totals, _transport(sorted_x, sorted_y, order)

    zeros = (jnp.zeros(x.shape[0], x.dtype), jnp.zeros(y.shape[0], y.dtype))
    totals, distances = fold_rows(step, zeros, directions, x.shape[0] + y.shape[0])

    def jackknife(total):
        n, mean = total.shape[0], total / num_projections
        return (n - 1) / n * jnp.sum((mean - jnp.mean(mean)) ** 2)

    directions_part = jnp.var(distances, ddof=1) / num_projections
    return jnp.sqrt(jackknife(totals[0]) + jackknife(totals[1]) + directions_part)


def _left_out(x: Float[Array, "b n"], y: Float[Array, "b m"], order: int) -> Float[Array, "b n"]:
    """W_p^p of sorted x without its k-th entry and sorted y, minus that without its first.

    Without entry k the n - 1 slots of the quantile coupling hold entries 0..k-1 and k+1..n-1;
    without entry k + 1 only slot k changes hands, from entry k + 1 to entry k. Sums of these
    steps (the discrete Kantorovich potential) give all n values in O(n + m).
    """
    slot, j, length = _coupling(x.shape[1] - 1, y.shape[1])
    here, after, partner = x[:, slot], x[:, slot + 1], y[:, j]
    if order == 2:
        rise = (here - after) * (here + after - 2 * partner)
    else:
        rise = jnp.abs(here - partner) - jnp.abs(after - partner)
    steps = jnp.zeros((x.shape[0], x.shape[1] - 1), x.dtype)
    steps = steps.at[:, slot].add(jnp.asarray(length, x.dtype) * rise)
    return jnp.pad(jnp.cumsum(steps, axis=1), ((0, 0), (1, 0)))
