"""When the network must run next: nominal steps, blocks, idle steps, final fills.

Nominal steps 0 … N-1 are the same for all samples of a batch; block i owns the steps
[i * N / blocks, (i + 1) * N / blocks). A step is *due* for a sample that has something to reveal
in it. Steps due for nobody are skipped without a forward. A block that ends its steps with masks
left gets one more forward, the final fill.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int

from .eos import ended
from .program import Knobs
from .types import QuotaFn

COMMIT, REFRESH, FILL = 0, 1, 2


class Rules(NamedTuple):
    """Everything that decides which forward comes next, besides the canvas.

    exit_id: the token that finishes a sample early, or None.
    """

    quota: QuotaFn
    knobs: Knobs
    block_length: int
    mask_id: int
    skip_idle: bool
    final_fill: bool
    exit_id: int | None


class Turn(NamedTuple):
    """The next forward: its nominal step, what it is for, and the samples charged.

    A fill carries the step after the block it fills. The run is over when a COMMIT turn carries
    step N.
    """

    step: Int[Array, ""]
    phase: Int[Array, ""]
    charged: Bool[Array, "b"]


def block_bounds(rules: Rules, step: Int[Array, ""]) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """First position of the block that owns a step, and the one after its last."""
    # lax.div and lax.rem: steps are never negative, and // compiles to far more code.
    start = lax.div(step, rules.knobs.steps_per_block) * rules.block_length
    return start, start + rules.block_length


def reachable_masks(
    rules: Rules, canvas: Int[Array, "b l"], step: Int[Array, ""]
) -> Bool[Array, "b l"]:
    """Undecided positions up to the end of the step's block.

    Earlier blocks count: they hold masks only if the network emitted the mask token itself, and
    such positions stay candidates.
    """
    _, end = block_bounds(rules, step)
    return (canvas == rules.mask_id) & (jnp.arange(canvas.shape[1]) < end)


def reveal_count(rules: Rules, canvas: Int[Array, "b l"], step: Int[Array, ""]) -> Int[Array, "b"]:
    """How many masks each sample reveals in a step."""
    masked = reachable_masks(rules, canvas, step).sum(axis=-1, dtype=jnp.int32)
    per_block = rules.knobs.steps_per_block
    within = lax.rem(step, per_block)
    quota = rules.quota(masked, per_block - within, within, per_block)
    return jnp.minimum(quota.astype(jnp.int32), masked)


def is_over(rules: Rules, turn: Turn) -> Bool[Array, ""]:
    return (turn.step >= rules.knobs.num_steps) & (turn.phase == COMMIT)


def next_turn(
    rules: Rules, canvas: Int[Array, "b l"], step: Int[Array, ""], after_step: bool | Array
) -> Turn:
    """The first turn from `step` on that is due for some sample.

    Args:
      after_step: whether step - 1 was a step (run or skipped), so that the end of its block, if
        it is one, may need a fill; False at the start and right after a fill.
    """

    def due(step):
        if rules.skip_idle:
            return reveal_count(rules, canvas, step) > 0  # finished samples have no masks
        if rules.exit_id is None:
            return jnp.ones(canvas.shape[:1], bool)
        return ~ended(canvas, rules.exit_id, rules.mask_id)

    def unfilled(step, after_step):
        if not rules.final_fill:
            return jnp.zeros(canvas.shape[:1], bool)
        at_end = after_step & (lax.rem(step, rules.knobs.steps_per_block) == 0)
        return jnp.any(reachable_masks(rules, canvas, step - 1), axis=-1) & at_end

    def nothing_due(carry):
        step, after_step = carry
        idle = ~jnp.any(due(step)) & ~jnp.any(unfilled(step, after_step))
        return (step < rules.knobs.num_steps) & idle

    step, after = lax.while_loop(
        nothing_due, lambda carry: (carry[0] + 1, jnp.bool_(True)), (step, jnp.asarray(after_step))
    )
    fill = unfilled(step, after)
    any_fill = jnp.any(fill)
    return Turn(
        step=step,
        phase=jnp.where(any_fill, FILL, COMMIT).astype(jnp.int32),
        charged=jnp.where(any_fill, fill, due(step) & (step < rules.knobs.num_steps)),
    )
