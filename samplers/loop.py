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

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from .config import SamplerConfig
from .forward import Network, Tally, counted_forward, empty_tally
from .quota import paced_quota
from .registry import Entry
from .schedule import FILL, REFRESH, Knobs, Rules, Turn, is_over, next_turn
from .step import Decision, checked_quota, decide, initial_memory
from .types import LogitsFn, Memory


class Program(NamedTuple):
    """The static part of a run: one compilation per value (and shapes of the inputs)."""

    logits_fn: LogitsFn
    config: SamplerConfig
    entry: Entry
    mask_id: int
    num_ids: int | None
    x64: bool


class Inputs(NamedTuple):
    """The traced part of a run."""

    params: Any
    prompt: Int[Array, "b p"]
    token_mask: Bool[Array, "b t"]
    keys: Key[Array, "b"]
    knobs: Knobs
    uniforms: Float[Array, "s b l v"] | None


class Outcome(NamedTuple):
    """Final region, costs, and the canvases if they were recorded."""

    canvas: Int[Array, "b l"]
    tally: Tally
    canvases: Int[Array, "s b l"] | None


class _State(NamedTuple):
    canvas: Int[Array, "b l"]
    turn: Turn
    memory: Memory
    tally: Tally


def run(program: Program, inputs: Inputs) -> Outcome:
    """Samples from a fully masked region. To be jitted with `program` static.

    Under the float64 noise the caller switches x64 on for the program as a whole; everything but
    the noise is traced under the user's own setting, `program.x64`.
    """
    with jax.enable_x64(program.x64):
        return _run(program, inputs)


def _run(program: Program, inputs: Inputs) -> Outcome:
    config, entry, knobs = program.config, program.entry, inputs.knobs
    batch, length = inputs.prompt.shape[0], config.gen_length
    rules = Rules(
        quota=entry.strategy.quota or paced_quota(config, entry.kind),
        knobs=knobs,
        block_length=config.tokens_per_block,
        mask_id=program.mask_id,
        skip_idle=config.skip_idle,
        final_fill=config.pace != "table",
    )
    checked_quota(entry, rules, batch)
    network = Network(
        logits_fn=program.logits_fn,
        params=inputs.params,
        prompt=inputs.prompt,
        token_mask=inputs.token_mask,
        mask_id=program.mask_id,
        num_ids=program.num_ids,
        suppress_mask_token=config.suppress_mask_token,
        guidance=knobs.cfg_scale if config.cfg_scale > 0 else None,
    )

    def one_pass(state: _State) -> _State:
        canvas, turn, memory, tally = state
        uniforms = None
        if inputs.uniforms is not None:
            uniforms = lax.dynamic_index_in_dim(inputs.uniforms, tally.launches, keepdims=False)
        logits, tally = counted_forward(network, canvas, turn.charged, tally)

        def untouched():
            return Decision(canvas, memory, jnp.zeros(batch, bool))

        def decided():
            return decide(
                entry,
                rules,
                turn,
                canvas,
                memory,
                logits,
                inputs.keys,
                noise=config.noise,
                pool=config.pool,
                uniforms=uniforms,
            )

        new = lax.cond(turn.phase == REFRESH, untouched, decided)
        stepped = turn.phase != FILL  # a fill already carries the step that follows it
        following = next_turn(rules, new.canvas, turn.step + stepped.astype(jnp.int32), stepped)
        if entry.strategy.select is not None and not config.refresh_reuse:
            again = Turn(turn.step, jnp.int32(REFRESH), new.remasked)
            following = jax.tree.map(
                lambda a, b: jnp.where(jnp.any(new.remasked), a, b), again, following
            )
        return _State(new.canvas, following, new.memory, tally)

    canvas = jnp.full((batch, length), program.mask_id, jnp.int32)
    bound = config.bind(
        num_steps=knobs.num_steps,
        unmask_temp=knobs.unmask_temp,
        remask_fraction=knobs.remask_fraction,
        cfg_scale=knobs.cfg_scale,
    )
    state = _State(
        canvas=canvas,
        turn=next_turn(rules, canvas, jnp.int32(0), False),
        memory=initial_memory(entry, bound, batch, length),
        tally=empty_tally(batch),
    )
    canvases = None
    if config.record_history:

        def nominal_step(state, step):
            # Includes the fill of the block before, which carries the same step number.
            state = lax.while_loop(
                lambda s: ~is_over(rules, s.turn) & (s.turn.step <= step), one_pass, state
            )
            return state, state.canvas

        steps = jnp.arange(config.num_steps, dtype=jnp.int32)
        state, canvases = lax.scan(nominal_step, state, steps)
    state = lax.while_loop(lambda s: ~is_over(rules, s.turn), one_pass, state)
    return Outcome(state.canvas, state.tally, canvases)
