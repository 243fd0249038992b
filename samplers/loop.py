"""The sampling loop: forward after forward until every sample is done.

          ┌──────────────────────────────────────────────────────────────┐
          ▼                                                              │
    next_turn ─► forward ─► COMMIT: reveal, then remask ─ remasked? ─► REFRESH
     (who has     (counted)     │ none                     (forward, nothing changes)
      something                 └──────────────────────────────────────► │
      to reveal)              FILL: reveal all masks the block still has ─► │

One iteration is one launch. There is one call of the network in the program, whatever the pass is
for, so it is traced and compiled once. Without a history the loop is a `lax.while_loop` over
passes; with one, a `lax.scan` over nominal steps that runs the same passes and keeps the canvas.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int

from .ancestral_loop import run_ancestral
from .forward import Tally, counted_forward, empty_tally
from .program import Inputs, Outcome, Program, bound_network
from .quota import all_quota, paced_quota
from .schedule import FILL, REFRESH, Rules, Turn, is_over, next_turn
from .step import Decision, decide
from .strategy_checks import check_quota, initial_memory
from .types import Carry, Memory, StepNotes


class _State(NamedTuple):
    canvas: Int[Array, "b l"]
    turn: Turn
    memory: Memory
    tally: Tally
    carry: Carry  # of a stateful network, else None
    notes: StepNotes | None  # of the last commit pass; None unless they are recorded


def run(program: Program, inputs: Inputs) -> Outcome:
    """Samples from a fully masked region. To be jitted with `program` static.

    Under the float64 noise the caller switches x64 on for the program as a whole; everything but
    the noise is traced under the user's own setting, `program.x64`.
    """
    with jax.enable_x64(program.x64):
        if program.entry.kind == "ancestral":
            return run_ancestral(program, inputs)
        return _run(program, inputs)


def _run(program: Program, inputs: Inputs) -> Outcome:
    config, entry, knobs = program.config, program.entry, inputs.knobs
    batch, length = inputs.prompt.shape[0], config.gen_length
    quota = paced_quota(config, entry.kind, knobs.num_remask)
    if entry.strategy.transition is not None:  # due as long as there are masks
        quota = all_quota
    rules = Rules(
        quota=entry.strategy.quota or quota,
        knobs=knobs,
        block_length=config.tokens_per_block,
        mask_id=program.mask_id,
        skip_idle=config.skip_idle,
        final_fill=config.pace != "table",
        exit_id=program.eos_id if config.eos_policy == "early_exit" else None,
    )
    check_quota(entry, rules, batch)
    network = bound_network(program, inputs)

    def one_pass(state: _State) -> _State:
        canvas, turn, memory, tally, carry, notes = state
        uniforms = None
        if inputs.uniforms is not None:
            uniforms = lax.dynamic_index_in_dim(inputs.uniforms, tally.launches, keepdims=False)
        output, tally, carry = counted_forward(network, canvas, turn.charged, tally, carry)

        def untouched():
            return Decision(canvas, memory, jnp.zeros(batch, bool), notes)

        def decided():
            return decide(program, rules, turn, canvas, memory, output, inputs.keys, uniforms)

        new = lax.cond(turn.phase == REFRESH, untouched, decided)
        stepped = turn.phase != FILL  # a fill already carries the step that follows it
        following = next_turn(rules, new.canvas, turn.step + stepped.astype(jnp.int32), stepped)
        if entry.strategy.select is not None and not config.refresh_reuse:
            again = Turn(turn.step, jnp.int32(REFRESH), new.remasked)
            following = jax.tree.map(
                lambda a, b: jnp.where(jnp.any(new.remasked), a, b), again, following
            )
        if notes is not None:  # a fill takes none
            notes = jax.tree.map(lambda a, b: jnp.where(turn.phase == FILL, a, b), notes, new.notes)
        return _State(new.canvas, following, new.memory, tally, carry, notes)

    canvas = jnp.full((batch, length), program.mask_id, jnp.int32)
    cuts = {} if config.top_k is None else {"top_k": knobs.top_k}
    cuts |= {"top_p": knobs.top_p} if config.top_p < 1 else {}
    bound = config.bind(
        num_steps=knobs.num_steps, cfg_scale=knobs.cfg_scale, **cuts, **knobs.settings._asdict()
    )
    state = _State(
        canvas=canvas,
        turn=next_turn(rules, canvas, jnp.int32(0), False),
        memory=initial_memory(entry, bound, batch, length),
        tally=empty_tally(batch),
        carry=inputs.carry,
        notes=_no_notes(batch) if config.record_history else None,
    )
    if config.record_history:

        def nominal_step(state, step):
            # Includes the fill of the block before, which carries the same step number.
            state = state._replace(notes=_no_notes(batch))
            state = lax.while_loop(
                lambda s: ~is_over(rules, s.turn) & (s.turn.step <= step), one_pass, state
            )
            return state, (state.canvas, state.notes)

        # One step more runs the last fill; its canvas is no nominal step's.
        steps = jnp.arange(config.num_steps + 1, dtype=jnp.int32)
        state, recorded = lax.scan(nominal_step, state, steps)
        canvases, notes = jax.tree.map(lambda x: x[:-1], recorded)
        return Outcome(state.canvas, state.tally, canvases, notes)
    state = lax.while_loop(lambda s: ~is_over(rules, s.turn), one_pass, state)
    return Outcome(state.canvas, state.tally, None)


def _no_notes(batch: int) -> StepNotes:
    no, zero = jnp.zeros(batch, bool), jnp.zeros(batch, jnp.float32)
    return StepNotes(ran=no, entropy=zero, confidence=zero, tied=no)
