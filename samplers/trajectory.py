"""What happened on the way: churn, stability and event classes of recorded canvases."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt8

from .types import History

CELL_CLASSES = ("masked", "unmasked", "stable", "replaced")


def replacement_rate(history: History) -> Float[Array, "b"]:
    """Share of positions that a step puts back or changes, averaged over the transitions.

    Per sample: positions decided in canvas s - 1 that canvas s masks or holds another token in,
    over l, averaged over the num_steps - 1 transitions (CaRE, arXiv 2607.24763, "replacement
    rate per step"). 0 for strategies that never remask. Steps that were not run count as
    transitions without change.

    Raises:
      ValueError: fewer than two canvases, so that there is no transition.
    """
    before, after = _transitions(history)
    if len(after) == 0:
        raise ValueError("history has one canvas; a replacement rate needs at least two")
    return _replaced(before, after, history).mean(axis=(0, 2), dtype=jnp.float32)


def stable_cells(history: History) -> Int[Array, "b"]:
    """Number of (step, position) cells that hold the token they held a step before, per sample.

    The first canvas has no predecessor; its decided cells count as stable. That convention gives
    the CaRE paper's 8,129 for 128 tokens revealed one by one over 128 steps.
    """
    return jnp.sum(classify_cells(history) == CELL_CLASSES.index("stable"), axis=(0, 2))


def classify_cells(history: History) -> UInt8[Array, "s b l"]:
    """Class of every cell as an index into `CELL_CLASSES`, for the heat map of a trajectory.

    masked: undecided now and before. unmasked: decided in this step. stable: the same token as
    before (or decided in the first canvas). replaced: was decided, and is now masked or holds
    another token.
    """
    before, after = _transitions(history)
    decided = after != history.mask_id
    rest = jnp.where(
        _replaced(before, after, history),
        CELL_CLASSES.index("replaced"),
        jnp.where(
            decided,
            jnp.where(
                before == history.mask_id,
                CELL_CLASSES.index("unmasked"),
                CELL_CLASSES.index("stable"),
            ),
            CELL_CLASSES.index("masked"),
        ),
    )
    first = jnp.where(
        history.canvas[:1] == history.mask_id,
        CELL_CLASSES.index("masked"),
        CELL_CLASSES.index("stable"),
    )
    return jnp.concatenate([first, rest]).astype(jnp.uint8)


def _transitions(history: History) -> tuple[Int[Array, "r b l"], Int[Array, "r b l"]]:
    """Each canvas but the last, and its successor."""
    if not isinstance(history, History):
        raise ValueError(
            f"history must be a History, got {type(history).__name__}; sample with "
            "SamplerConfig(record_history=True)"
        )
    if jnp.ndim(history.canvas) != 3 or len(history.canvas) == 0:
        shape = list(jnp.shape(history.canvas))
        raise ValueError(f"history.canvas has shape {shape}; expected [steps, batch, length]")
    return history.canvas[:-1], history.canvas[1:]


def _replaced(
    before: Int[Array, "r b l"], after: Int[Array, "r b l"], history: History
) -> Bool[Array, "r b l"]:
    return (before != history.mask_id) & (after != before)
