"""Gradient moment: how differently two banks would train a frozen reference model."""

from __future__ import annotations

import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from .checks import check_banks
from .count_sketch import SketchedGradients
from .gradient_stats import (
    GradientStats,
    check_mean,
    check_pair,
    check_seeds,
    check_stats,
    check_tensor_norms,
)
from .token_rows import is_traced

Form = Literal["squared", "root"]


def gradient_moment(
    reference: GradientStats,
    generated: GradientStats,
    *,
    form: Form = "squared",
    unbiased: bool = True,
    relative: bool = False,
) -> Float[Array, ""]:
    """|E_G g - E_P g|^2, g the parameter gradient of a frozen model's loss; lower is better.

    The default is the mean of <d_a, d_b> with d_b = g_b(generated) - g_b(reference) over all
    pairs of different batches, U_GG + U_PP - 2 <S_G, S_P> / (B_G B_P) with
    U = (|S|^2 - s) / (B (B - 1)), S = `total`, s = `squared_norm`. It is unbiased, does not
    depend on the order of the batches, and is often negative for banks of one
    law: never clip it. It is worked out as |mean difference|^2 minus the variance of either
    mean; where the mean gradients are much longer than their scatter the variance has lost
    digits (1e-4 at 100 times, in float32), and sketches are the better source. Runs under
    `jax.jit`, `jax.vmap` and `jax.grad`. Cost: one pass over both totals, O(one tensor) memory.

    Blind spot: the moment vanishes where the model expects as much surprise as it finds. Samples
    of the reference model itself have a mean gradient of zero whatever they look like, and real
    text has nearly one once the model is trained on its like; so the model's own samples, at
    low temperature too, can score better than honest text of another generator.

    >>> import numpy as np
    >>> p = GradientStats(total=np.array([4.0, 0.0]), squared_norm=8.0, num_batches=2)
    >>> g = GradientStats(total=np.array([8.0, 2.0]), squared_norm=34.0, num_batches=2)
    >>> float(gradient_moment(p, g))
    5.0

    Args:
      reference: sums of the reference bank, at least two batches.
      generated: sums of the generated bank: the same model, loss, mask and batch size.
      form: "squared", or "root" = sign(x) sqrt(|x|), on the scale of gradients; the root of an
        unbiased square is not itself unbiased.
      unbiased: False gives |mean difference|^2 (V-statistic): never negative, biased up by
        tr Cov(g_b) / B of either bank; one batch is enough.
      relative: divide by the reference's `uncentered_moment` of the same kind (a ratio of
        squares, or of roots); dimensionless.

    Returns:
      Float[Array, ""], squared nats per squared parameter unit; float32 (float64 under x64).

    Raises:
      ValueError: trees or shapes that differ, fewer batches than needed, NaN or infinity, a
        squared norm below |total|^2 / num_batches (then it is no sum over batches), a relative
        form whose denominator is not positive, an unknown form. Values are not checked under
        `jax.jit`.

    Source: Hoogeboom et al. 2026, eq. 14, which averages over disjoint pairs; all pairs have
    the same mean and the least variance.
    """
    _check_form(form)
    check_pair(reference, generated, 2 if unbiased else 1)
    batches = reference.num_batches, generated.num_batches
    own, other, apart = _moments(reference.total, generated.total, *batches)
    check_mean("reference", reference, own)
    check_mean("generated", generated, other)
    value = apart
    if unbiased:
        value = value - _variance(own, reference.squared_norm, reference.num_batches)
        value = value - _variance(other, generated.squared_norm, generated.num_batches)
    value = _formed(value, form)
    if relative:
        scale = uncentered_moment(reference, form=form, unbiased=unbiased)
        if not is_traced(scale) and not scale > 0:
            raise ValueError(
                f"relative=True divides by the reference's uncentered moment, which is "
                f"{float(scale):.3g} and not positive; use more batches or relative=False"
            )
        value = value / scale
    return value


def uncentered_moment(
    stats: GradientStats, *, form: Form = "squared", unbiased: bool = True
) -> Float[Array, ""]:
    """|E g|^2 of one bank: what of its gradient a model at its optimum would not have.

    U = (|S|^2 - s) / (B (B - 1)), or |S / B|^2 with `unbiased=False`. Small for samples of the
    model itself and for text it is trained on. Arguments and errors as for `gradient_moment`.

    >>> import numpy as np
    >>> float(uncentered_moment(GradientStats(np.array([4.0, 0.0]), 8.0, 2)))
    4.0
    """
    _check_form(form)
    check_stats("stats", stats, 2 if unbiased else 1)
    own = _moments(stats.total, stats.total, stats.num_batches, stats.num_batches)[0]
    check_mean("stats", stats, own)
    if unbiased:
        own = own - _variance(own, stats.squared_norm, stats.num_batches)
    return _formed(own, form)


def gradient_moment_by_tensor(
    reference: GradientStats, generated: GradientStats, *, unbiased: bool = True
) -> Any:
    """The share of every tensor in `gradient_moment`: a pytree like `tensor_squared_norms`.

    The shares add up to the whole; each is the gradient moment of a model of which this tensor
    alone is trained. Both stats must hold `tensor_squared_norms`.

    >>> import numpy as np
    >>> w, b = np.array([4.0]), np.array([0.0])
    >>> p = GradientStats({"w": w, "b": b}, 8.0, 2, {"w": 8.0, "b": 0.0})
    >>> g = GradientStats({"w": w + 4, "b": b + 2}, 34.0, 2, {"w": 32.0, "b": 2.0})
    >>> {name: float(share) for name, share in gradient_moment_by_tensor(p, g).items()}
    {'b': 1.0, 'w': 4.0}

    Raises:
      ValueError: as `gradient_moment`; missing `tensor_squared_norms`.
    """
    check_pair(reference, generated, 2 if unbiased else 1)
    for name, stats in (("reference", reference), ("generated", generated)):
        if stats.tensor_squared_norms is None:
            raise ValueError(
                f"{name}.tensor_squared_norms is None: the squared norm of every tensor is needed; "
                "`Scorer.gradient_stats` gives them"
            )
        check_tensor_norms(name, stats)

    def share(p, g, p_norm, g_norm):
        moments = _tensor_moments(
            p, g, reference.num_batches, generated.num_batches, kept=np.ndim(p_norm)
        )
        if not unbiased:
            return moments[2]
        own = _variance(moments[0], p_norm, reference.num_batches)
        return moments[2] - own - _variance(moments[1], g_norm, generated.num_batches)

    shares = jax.tree.map(
        share,
        reference.total,
        generated.total,
        reference.tensor_squared_norms,
        generated.tensor_squared_norms,
    )
    for path, value in jax.tree_util.tree_leaves_with_path(shares):
        if not is_traced(value) and not np.isfinite(value).all():
            raise ValueError(
                f"reference or generated is not finite in the tensor {jax.tree_util.keystr(path)}; "
                "leave out the batch that overflowed"
            )
    return shares


def gradient_moment_from_sketches(
    reference: SketchedGradients, generated: SketchedGradients
) -> Float[Array, ""]:
    """`gradient_moment` (squared, unbiased) from one row a batch; unbiased over sketches too.

    With m columns the sketch adds an error of about sqrt(2 / m) of the value (0.6 % at
    m = 65,536), and nothing where the rows are the gradients themselves. Cost: O((b + c) m).

    >>> import numpy as np
    >>> p = SketchedGradients(np.array([[2.0, 0.0], [2.0, 0.0]]))
    >>> g = SketchedGradients(np.array([[5.0, 1.0], [3.0, 1.0]]))
    >>> float(gradient_moment_from_sketches(p, g))
    4.0

    Args:
      reference: rows Float["b m"], b >= 2.
      generated: rows Float["c m"], c >= 2, of the same `CountSketch`.

    Raises:
      ValueError: fewer than two rows, unequal widths or seeds, NaN or infinity.
    """
    reference_rows, generated_rows = _check_sketches(reference, generated, 2)
    return _from_sketches(reference_rows, generated_rows)


def gradient_moment_stderr(
    reference: GradientStats | SketchedGradients, generated: GradientStats | SketchedGradients
) -> Float[Array, ""]:
    """Standard error of `gradient_moment` (squared, unbiased) when both banks are drawn anew.

    Delete-one-batch jackknife of the sketched moment, in closed form from row sums of inner
    products: O((b + c) m). For banks of one law the moment is degenerate and not normal, and
    the value is only of the right order. Sketches narrower than the number d of directions the
    gradients vary in make it too large, by about sqrt(1 + d / m), never too small. By the delta
    rule, divide by 2 |root| for the root.

    >>> import numpy as np
    >>> p = SketchedGradients(np.zeros((3, 1)))
    >>> g = SketchedGradients(np.array([[1.0], [2.0], [3.0]]))
    >>> round(float(gradient_moment_stderr(p, g)), 4)
    2.4037

    Args:
      reference, generated: `GradientStats` with sketches, or the sketches, >= 3 rows each.

    Raises:
      ValueError: stats without sketches, fewer than three rows, unequal widths or seeds, NaN.
    """
    sides = []
    for name, side in (("reference", reference), ("generated", generated)):
        sketches = side.sketches if isinstance(side, GradientStats) else side
        if sketches is None:
            raise ValueError(
                f"{name} holds no sketches, and sums alone do not tell how batches vary; ask "
                "`Scorer.gradient_stats` for them with sketch=65536"
            )
        sides.append(sketches)
    reference_rows, generated_rows = _check_sketches(sides[0], sides[1], 3)
    return _sketches_stderr(reference_rows, generated_rows)


def _moments(a, b, a_batches, b_batches):
    """`_tensor_moments` of a whole tree, one tensor after the other so that little is copied."""
    own, other, apart = (jnp.zeros((), jnp.float32) for _ in range(3))
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)):
        parts = _tensor_moments(x, y, a_batches, b_batches, kept=0)
        own, other, apart = own + parts[0], other + parts[1], apart + parts[2]
    return own, other, apart


@functools.partial(jax.jit, static_argnames="kept")
def _tensor_moments(a, b, a_batches, b_batches, *, kept):
    """|mean a|^2, |mean b|^2 and |mean b - mean a|^2 of a tensor, over all but `kept` axes."""
    dtype = functools.reduce(jnp.promote_types, (a.dtype, b.dtype, jnp.float32))
    a, b = a.astype(dtype), b.astype(dtype)
    ratio = jnp.asarray(b_batches, dtype) / a_batches
    # In this order equal banks are at distance 0 exactly, also with fused multiply-adds.
    sums = ((a, a_batches), (b, b_batches), (b - ratio * a, b_batches))
    return tuple(jnp.sum((x / n) ** 2, axis=tuple(range(kept, x.ndim))) for x, n in sums)


def _variance(moment, squared_norm, num_batches):
    """Unbiased squared error of a mean gradient: tr Cov(g_b) / B, with |mean|^2 = `moment`."""
    return (jnp.asarray(squared_norm, moment.dtype) / num_batches - moment) / (num_batches - 1)


def _formed(value, form):
    if form != "root":
        return value
    # Two wheres: the square root has no finite derivative at zero.
    size = jnp.where(value == 0, 1, jnp.abs(value))
    return jnp.where(value == 0, 0, jnp.sign(value) * jnp.sqrt(size))


@jax.jit
def _from_sketches(reference, generated):
    within, across = _inner_sums(reference, generated)
    b, c = reference.shape[0], generated.shape[0]
    own, other = within[0].sum() / (b * (b - 1)), within[1].sum() / (c * (c - 1))
    return own + other - 2 * across[0].sum() / (b * c)


@jax.jit
def _sketches_stderr(reference, generated):
    def variance(within, across, n, m):
        dropped = 2 * across / ((n - 1) * m) - 2 * within / ((n - 1) * (n - 2))
        return (n - 1) / n * jnp.sum((dropped - dropped.mean()) ** 2)

    within, across = _inner_sums(reference, generated)
    b, c = reference.shape[0], generated.shape[0]
    return jnp.sqrt(variance(within[0], across[0], b, c) + variance(within[1], across[1], c, b))


def _inner_sums(reference, generated):
    """Sums of <g_i, g_j> over the other batches j of the same bank, and over the other bank."""
    # The moment does not see a common shift, and centred rows have small products.
    middle = (reference.mean(axis=0) + generated.mean(axis=0)) / 2
    p, g = reference - middle, generated - middle
    product = functools.partial(jnp.dot, precision=lax.Precision.HIGHEST)
    p_sum, g_sum = p.sum(axis=0), g.sum(axis=0)
    within = tuple(product(x, s) - jnp.sum(x * x, axis=1) for x, s in ((p, p_sum), (g, g_sum)))
    return within, (product(p, g_sum), product(g, p_sum))


def _check_form(form: str) -> None:
    if form not in ("squared", "root"):
        raise ValueError(f"form must be 'squared' or 'root', got {form!r}")


def _check_sketches(reference, generated, min_rows):
    check_seeds("reference", reference, "generated", generated)
    return check_banks(reference.rows, generated.rows, min_rows=min_rows)
