"""Running sums of gradients over the mini-batches of a bank."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .count_sketch import SketchedGradients
from .token_rows import is_traced

# Slack of the Cauchy-Schwarz check: totals may have been summed in float32.
_SLACK = 1e-3


class GradientStats(NamedTuple):
    """Running sums over the mini-batches of one bank; g_b is the mean gradient of batch b.

    All that the gradient moment needs, in the memory of one gradient. Sums of parts of a bank
    add up to those of the bank, see `add_gradient_stats`.

    Attributes:
      total: pytree of arrays (or one array), sum over b of g_b.
      squared_norm: scalar, sum over b of |g_b|^2 over all tensors.
      num_batches: number of batches.
      tensor_squared_norms: None, or a pytree like `total` with the sums of |g_b|^2 of every
        tensor. Where a tensor is a stack over layers, its entry has the shape [layers].
      sketches: None, or a row for every batch, for standard errors.
    """

    total: Any
    squared_norm: Any
    num_batches: Any
    tensor_squared_norms: Any = None
    sketches: SketchedGradients | None = None


def add_gradient_stats(a: GradientStats, b: GradientStats) -> GradientStats:
    """Sums of the union of two disjoint sets of batches, as from two shards of one bank.

    >>> import numpy as np
    >>> part = GradientStats(np.array([4.0, 0.0]), 8.0, 2)
    >>> int(add_gradient_stats(part, part).num_batches)
    4

    Raises:
      ValueError: trees or shapes that differ; NaN or infinity; optional fields which one side
        lacks; sketches of different seeds or widths.
    """
    check_stats("a", a, 1)
    check_stats("b", b, 1)
    check_same("a", a, "b", b)
    for name in ("tensor_squared_norms", "sketches"):
        if (getattr(a, name) is None) != (getattr(b, name) is None):
            raise ValueError(f"only one of a and b has {name}; both or neither must have them")
    sketches = None
    if a.sketches is not None and b.sketches is not None:
        check_seeds("a.sketches", a.sketches, "b.sketches", b.sketches)
        if a.sketches.rows.shape[1] != b.sketches.rows.shape[1]:
            raise ValueError(
                "a.sketches and b.sketches must be equally wide, got shapes "
                f"{a.sketches.rows.shape} and {b.sketches.rows.shape}"
            )
        numeric = np if isinstance(a.sketches.rows, np.ndarray) else jnp
        rows = numeric.concatenate([a.sketches.rows, b.sketches.rows])
        sketches = SketchedGradients(rows, a.sketches.seed)
    for name, stats in (("a", a), ("b", b)):
        for path, leaf in jax.tree_util.tree_leaves_with_path(stats.total):
            if not is_traced(leaf) and not np.isfinite(leaf).all():
                label = f"{name}.total{jax.tree_util.keystr(path)}"
                raise ValueError(f"{label} must be finite; leave out the batch that overflowed")
    add = functools.partial(jax.tree.map, lambda x, y: x + y)
    norms = a.tensor_squared_norms
    return GradientStats(
        add(a.total, b.total),
        a.squared_norm + b.squared_norm,
        a.num_batches + b.num_batches,
        None if norms is None else add(norms, b.tensor_squared_norms),
        sketches,
    )


def check_pair(reference: GradientStats, generated: GradientStats, min_batches: int) -> None:
    """Both stats are well formed and belong to the same tensors.

    Raises:
      ValueError: as `check_stats`; trees or shapes that differ.
    """
    check_stats("reference", reference, min_batches)
    check_stats("generated", generated, min_batches)
    check_same("reference", reference, "generated", generated)


def check_stats(name: str, stats: GradientStats, min_batches: int) -> None:
    """Types, shapes and number of batches of one side; values only where they are concrete.

    Raises:
      ValueError: no `GradientStats`, no or empty or non-real tensors, a squared norm that is no
        finite number >= 0, fewer than `min_batches` batches or a fractional number of them.
    """
    if not isinstance(stats, GradientStats):
        raise ValueError(f"{name} must be GradientStats, got {type(stats).__name__}")
    leaves = jax.tree_util.tree_leaves_with_path(stats.total)
    if not leaves:
        raise ValueError(f"{name}.total holds no arrays; pass a pytree of gradient sums")
    for path, leaf in leaves:
        label = f"{name}.total{jax.tree_util.keystr(path)}"
        dtype = leaf.dtype if isinstance(leaf, jax.Array) else np.asarray(leaf).dtype
        if not (jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.integer)):
            raise ValueError(f"{label} must hold real numbers, got dtype {dtype}")
        if np.size(leaf) == 0:
            raise ValueError(f"{label} is empty, its shape is {np.shape(leaf)}")
    for field in ("squared_norm", "num_batches"):
        if np.shape(getattr(stats, field)):
            shape = np.shape(getattr(stats, field))
            raise ValueError(f"{name}.{field} must be one number, got shape {shape}")
    norm, batches = stats.squared_norm, stats.num_batches
    if not is_traced(norm) and not (np.isfinite(norm) and norm >= 0):
        raise ValueError(f"{name}.squared_norm must be a finite number >= 0, got {norm}")
    if not is_traced(batches) and not (batches >= min_batches and batches % 1 == 0):
        raise ValueError(
            f"{name}.num_batches is {batches}: an integer of at least {min_batches} is needed; "
            "split the bank into more batches"
        )


def check_same(name: str, stats: GradientStats, other_name: str, other: GradientStats) -> None:
    """Equal trees and shapes on both sides.

    Raises:
      ValueError: naming the tensors that only one side has, or the first of another shape.
    """
    shapes, others = (
        {
            jax.tree_util.keystr(path): np.shape(leaf)
            for path, leaf in jax.tree_util.tree_leaves_with_path(side.total)
        }
        for side in (stats, other)
    )
    if jax.tree.structure(stats.total) != jax.tree.structure(other.total):
        raise ValueError(
            f"{name}.total and {other_name}.total must be trees of the same tensors (the same "
            f"model and the same `parameters`); only in {name}: "
            f"{sorted(shapes.keys() - others.keys())[:5]}, only in {other_name}: "
            f"{sorted(others.keys() - shapes.keys())[:5]}"
        )
    for path, shape in shapes.items():
        if shape != others[path]:
            raise ValueError(
                f"{name}.total{path} has shape {shape}, {other_name}.total{path} {others[path]}; "
                "they must agree"
            )


def check_mean(name: str, stats: GradientStats, squared_mean: Float[Array, ""]) -> None:
    """|total / num_batches|^2 is finite and possible for sums over batches.

    Raises:
      ValueError: NaN, infinity or overflow in the total; |total|^2 > num_batches squared_norm,
        which the Cauchy-Schwarz inequality rules out.
    """
    if is_traced(squared_mean, stats.squared_norm, stats.num_batches):
        return
    if not np.isfinite(squared_mean):
        raise ValueError(
            f"{name}.total must be finite, and its squares too, but |total / num_batches|^2 is "
            f"{float(squared_mean)}; leave out the batch that overflowed"
        )
    mean_of_squares = float(stats.squared_norm) / float(stats.num_batches)
    if mean_of_squares < (1 - _SLACK) * float(squared_mean):
        raise ValueError(
            f"{name}: squared_norm / num_batches = {mean_of_squares:.6g} is below |total / "
            f"num_batches|^2 = {float(squared_mean):.6g}, which no batches give; total is the sum "
            "over batches of g_b, squared_norm the sum of |g_b|^2"
        )


def check_tensor_norms(name: str, stats: GradientStats) -> None:
    """`tensor_squared_norms` mirrors `total`, and its shapes are leading axes of the tensors'.

    Raises:
      ValueError: another tree, another shape, entries that do not add up to `squared_norm`.
    """
    norms = stats.tensor_squared_norms
    if jax.tree.structure(norms) != jax.tree.structure(stats.total):
        raise ValueError(f"{name}.tensor_squared_norms must be a tree like {name}.total")
    leaves = jax.tree_util.tree_leaves_with_path(stats.total)
    for (path, leaf), norm in zip(leaves, jax.tree.leaves(norms)):
        if np.shape(norm) != np.shape(leaf)[: np.ndim(norm)]:
            raise ValueError(
                f"{name}.tensor_squared_norms{jax.tree_util.keystr(path)} has shape "
                f"{np.shape(norm)}, the tensor {np.shape(leaf)}; leading axes must agree"
            )
    if not is_traced(stats.squared_norm, *jax.tree.leaves(norms)):
        whole = sum(float(np.sum(np.asarray(norm, np.float64))) for norm in jax.tree.leaves(norms))
        if not np.isclose(whole, float(stats.squared_norm), rtol=_SLACK):
            raise ValueError(
                f"{name}.tensor_squared_norms add up to {whole:.6g}, but squared_norm is "
                f"{float(stats.squared_norm):.6g}"
            )


def check_seeds(name: str, sketches, other_name: str, other) -> None:
    """Both are sketches of the same random map.

    Raises:
      ValueError: something else, or different seeds.
    """
    for label, side in ((name, sketches), (other_name, other)):
        if not isinstance(side, SketchedGradients):
            raise ValueError(f"{label} must be SketchedGradients, got {type(side).__name__}")
    if not is_traced(sketches.seed, other.seed) and sketches.seed != other.seed:
        raise ValueError(
            f"{name} and {other_name} were sketched with seeds {sketches.seed} and {other.seed}; "
            "use one `CountSketch` for both"
        )
