"""What happened on the way: churn, stability, ties and event classes of recorded canvases."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt8

from .types import History, StepNotes

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


def never_settled(history: History) -> Int[Array, "b"]:
    """Positions that were still changing at the end, per sample.

    Those that are not stable in the last canvas: masked there, or decided, replaced or put back
    in its step. 1 for tokens revealed one by one. "Settled" is not defined in the CaRE paper; this
    reading is ours.
    """
    return jnp.sum(classify_cells(history)[-1] != CELL_CLASSES.index("stable"), axis=-1)


def recommit_change(history: History) -> Float[Array, "b"]:
    """Share of second thoughts that changed something, per sample; 0 without any.

    Of the times a position was decided again (after a mask, or in place), those that gave it
    another token than the one it held last. A remasking strategy with a share near 0 pays two
    forwards a step to write the same text again.
    """
    _transitions(history)

    def step(last, canvas):
        decided = canvas != history.mask_id
        held = last["token"] != history.mask_id
        # A token that was not interrupted is no decision.
        again = decided & held & (last["masked"] | (canvas != last["token"]))
        changed = again & (canvas != last["token"])
        token = jnp.where(decided, canvas, last["token"])
        return {"token": token, "masked": ~decided}, (again.sum(-1), changed.sum(-1))

    empty = jnp.full(jnp.shape(history.canvas)[1:], history.mask_id, jnp.int32)
    start = {"token": empty, "masked": jnp.ones_like(empty, bool)}
    _, (again, changed) = lax.scan(step, start, jnp.asarray(history.canvas))
    return changed.sum(0) / jnp.maximum(again.sum(0), 1)


def tie_rate(history: History) -> Float[Array, "b"]:
    """Share of the steps run in which the index, not the score, chose what to reveal, per sample.

    Near-greedy temperatures saturate confidences, and ties then reveal from left to right
    whatever the order is called (DreamLM/Dream#56).

    Raises:
      ValueError: the history carries no notes, as those of ancestral samplers.
    """
    notes = step_notes(history)
    ran = jnp.maximum(jnp.sum(notes.ran, axis=0), 1)
    return jnp.sum(notes.tied, axis=0) / ran


def step_notes(history: History) -> StepNotes:
    """The notes of a history: per-step entropy, confidence and ties.

    Raises:
      ValueError: the history carries none, as those of ancestral samplers.
    """
    _transitions(history)
    if history.notes is None:
        raise ValueError("history has no notes of its steps; ancestral samplers record none")
    return history.notes


class EosUse(NamedTuple):
    """End-of-sequence tokens of generated rows.

    Attributes:
      empty: the first token is one, so the text is empty.
      length: tokens before the first one, l without any.
      share: share of positions that hold one.
    """

    empty: Bool[Array, "b"]
    length: Int[Array, "b"]
    share: Float[Array, "b"]


def eos_use(generated: Int[Array, "b l"], eos_id: int) -> EosUse:
    """Counts end-of-sequence tokens in the generated region of samples (no prompt)."""
    if jnp.ndim(generated) != 2 or jnp.shape(generated)[1] == 0:
        shape = list(jnp.shape(generated))
        raise ValueError(f"generated has shape {shape}; expected [batch, length] of token ids")
    found = jnp.asarray(generated) == eos_id
    places = jnp.where(found, jnp.arange(found.shape[1]), found.shape[1])
    return EosUse(found[:, 0], places.min(axis=1), found.mean(axis=1, dtype=jnp.float32))


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
