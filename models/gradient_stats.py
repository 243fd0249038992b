"""Sums of parameter gradients over a bank, streamed batch by batch through one compiled step."""

import functools
import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..metrics import CountSketch, GradientStats, SketchedGradients

Reduction = Literal["sample", "token"]
RowNll = Callable[..., Float[Array, "b"]]

# Parameters below this name are stacked over layers on their first axis.
_STACK = "blocks"


class _Tensor(NamedTuple):
    """A part of the parameters that has a sum of its own.

    Attributes:
        name: path in the parameters, joined by dots.
        leaf: index among the leaves of the parameters.
        layer: the one layer of a stacked leaf that is meant, or None for the whole leaf.
        stacked: whether it is a whole leaf stacked over layers.
    """

    name: str
    leaf: int
    layer: int | None
    stacked: bool


class _Choice(NamedTuple):
    """The parameters that count as trained: all of them, or those a pattern selects."""

    tensors: tuple[_Tensor, ...]
    whole: bool

    def arrange(self, params: Any, values: list) -> Any:
        """One value a tensor, as a tree like the parameters or by name."""
        if self.whole:
            return jax.tree.structure(params).unflatten(values)
        return {tensor.name: value for tensor, value in zip(self.tensors, values, strict=True)}


def stream_gradients(
    row_nll: RowNll,
    params: Any,
    ids: Int[np.ndarray, "n t"],
    token_mask: Bool[np.ndarray, "n t"],
    targets: Bool[np.ndarray, "n t"],
    *,
    batch_size: int = 1,
    reduction: Reduction = "sample",
    sketch: int | CountSketch | None = None,
    parameters: str | None = None,
) -> GradientStats:
    """Gradient sums under any model that gives the negative log-likelihood of rows.

    Memory: the parameters, one gradient and its running sum, three times the parameters, beside
    the activations of one batch, whatever the size of the bank; sketches take a row a batch
    more. One compilation for a model, shape and set of options.

    Args:
        row_nll: pure (params, ids Int["b t"], token_mask Bool["b t"], targets Bool["b t"]) ->
            sums over the targets of -log p in nats, Float["b"]; the same object for the same
            model, so that it is traced once.
        params: pytree of floating-point arrays.
        ids, token_mask, targets: rows, their real tokens, and the tokens to score.
        batch_size, reduction, sketch, parameters: as in `Scorer.gradient_stats`.

    Raises:
        ValueError: a batch size below 1, an unknown reduction, a sketch of another type, a row
            (or, by token, a batch) without targets, a pattern that is no regular expression or
            fits no parameter, a batch whose gradient is not finite.
    """
    if isinstance(sketch, int | np.integer):
        sketch = CountSketch(num_buckets=int(sketch))
    if not (sketch is None or isinstance(sketch, CountSketch)):
        raise ValueError(f"sketch must be None, a width or a CountSketch, got {sketch!r}")
    weights = _row_weights(np.asarray(targets).sum(axis=1), batch_size, reduction)
    choice = _choose(params, parameters)
    leaves = jax.tree.leaves(params)
    total = [jnp.zeros(_of(t, leaves).shape, _wide(leaves[t.leaf])) for t in choice.tensors]
    norms, rows = [], []
    for start in range(0, len(ids), batch_size):
        # A last batch that is short is filled up with copies of the last row, of no weight.
        part = np.arange(start, start + batch_size)
        weight = np.where(part < len(ids), weights[np.minimum(part, len(ids) - 1)], 0)
        part = np.minimum(part, len(ids) - 1)
        batch = ids[part], token_mask[part], targets[part], weight
        total, norm, row = _step(row_nll, choice, sketch, total, params, *batch)
        norms.append(norm)
        rows.append(row)
    # Norms of a batch are small: their sum over batches is taken in float64 on the host.
    per_batch = np.stack([np.asarray(norm, np.float64) for norm in norms])
    finite = np.isfinite(per_batch).all(axis=1)
    if not finite.all():
        first = int(np.argmin(finite)) * batch_size
        raise ValueError(
            f"the gradient of rows {first}..{min(first + batch_size, len(ids)) - 1} is not finite"
        )
    shapes = [x.shape[:1] if t.stacked else () for t, x in zip(choice.tensors, total)]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    squares = [x.reshape(s) for x, s in zip(np.split(per_batch.sum(axis=0), ends), shapes)]
    sketches = None
    if sketch is not None:
        sketches = SketchedGradients(np.stack([np.asarray(row) for row in rows]), sketch.seed)
    return GradientStats(
        choice.arrange(params, total),
        per_batch.sum(),
        len(norms),
        choice.arrange(params, squares),
        sketches,
    )


@functools.partial(
    jax.jit, static_argnames=("row_nll", "choice", "sketch"), donate_argnames=("total",)
)
def _step(
    row_nll: RowNll,
    choice: _Choice,
    sketch: CountSketch | None,
    total: list[Array],
    params: Any,
    ids: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    targets: Bool[Array, "b t"],
    weights: Float[Array, "b"],
):
    """Adds the gradient of one batch; also its squared norms, tensor by tensor, and its sketch."""
    leaves, tree = jax.tree.flatten(params)
    trained = {tensor.leaf: leaves[tensor.leaf] for tensor in choice.tensors}

    def loss(trained):
        merged = [trained.get(i, leaf) for i, leaf in enumerate(leaves)]
        nll = row_nll(tree.unflatten(merged), ids, token_mask, targets)
        return jnp.sum(nll * weights.astype(nll.dtype))

    by_leaf = jax.grad(loss)(trained)
    gradient = [_of(tensor, by_leaf) for tensor in choice.tensors]
    gradient = [g.astype(t.dtype) for g, t in zip(gradient, total)]
    norms = [
        jnp.sum(g * g, axis=tuple(range(int(tensor.stacked), g.ndim))).reshape(-1)
        for tensor, g in zip(choice.tensors, gradient)
    ]
    row = None if sketch is None else sketch(choice.arrange(params, gradient))
    total = [t + g for t, g in zip(total, gradient)]
    return total, jnp.concatenate(norms), row


def _choose(params: Any, pattern: str | None) -> _Choice:
    """The tensors whose names a pattern is found in; None: every leaf, as it is stored."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves]
    if pattern is None:
        stacked = [name.startswith(f"{_STACK}.") for name in names]
        return _Choice(tuple(_Tensor(n, i, None, stacked[i]) for i, n in enumerate(names)), True)
    try:
        expression = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ValueError(f"parameters={pattern!r} is no regular expression: {error}") from error
    parts = []
    for i, (name, (_, leaf)) in enumerate(zip(names, leaves)):
        if name.startswith(f"{_STACK}."):
            rest = name[len(_STACK) :]
            parts += [_Tensor(f"{_STACK}.{k}{rest}", i, k, False) for k in range(len(leaf))]
        else:
            parts.append(_Tensor(name, i, None, False))
    found = tuple(part for part in parts if expression.search(part.name))
    if not found:
        known = [part.name for part in parts]
        raise ValueError(
            f"parameters={pattern!r} fits none of the {len(known)} tensors, which are called "
            f"{known[0]!r}, {known[len(known) // 2]!r}, … {known[-1]!r}"
        )
    return _Choice(found, False)


def _row_weights(counts: Int[np.ndarray, "n"], batch_size: int, reduction: str):
    """Factors that turn the sums of -log p of a batch's rows into the loss of the batch."""
    integer = isinstance(batch_size, int | np.integer) and not isinstance(batch_size, bool)
    if not integer or batch_size < 1:
        raise ValueError(f"batch_size must be an integer of at least 1, got {batch_size!r}")
    if reduction not in ("sample", "token"):
        raise ValueError(f"reduction must be 'sample' or 'token', got {reduction!r}")
    start = np.arange(0, len(counts), batch_size)
    of_row = np.arange(len(counts)) // batch_size
    if reduction == "token":
        tokens = np.add.reduceat(counts, start)
        if not tokens.all():
            first = int(np.argmin(tokens)) * batch_size
            raise ValueError(f"the batch from row {first} has no target to take a gradient of")
        return 1 / tokens[of_row]
    if not counts.all():
        bare = np.flatnonzero(counts == 0)
        raise ValueError(
            f"{bare.size} rows have no target to take a gradient of (first: row {bare[0]}); a "
            "target is a masked-in token after the first of its row; leave such rows out and say so"
        )
    rows = np.add.reduceat(np.ones_like(counts), start)
    return 1 / (counts * rows[of_row])


def _of(tensor: _Tensor, leaves) -> Array:
    """A tensor's part of leaves, or of gradients by leaf."""
    return leaves[tensor.leaf] if tensor.layer is None else leaves[tensor.leaf][tensor.layer]


def _wide(leaf: Array):
    """Sums are kept in float32 at least."""
    return jnp.promote_types(leaf.dtype, jnp.float32)
