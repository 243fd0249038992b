"""The loop of ancestral samplers: time runs from 1 to 0, every position moves by itself.

                  ┌─────────────────────────────────────────────┐
                  ▼                                             │
    step at t ─► forward (counted), ─► reveal and remask ───────┤
                 or the last one's     by the rates of          │
                 logits again          ancestral.py             │
                  ▲                                             ▼
                  └── next block ◄── NOISE REMOVAL ◄── last step of a block
                                     decides the masks left

A block of n steps takes n + 1 iterations, the last of them its noise removal. As in the public
code (kuleshov-group/mdlm and remdm, `_sample`) time falls linearly from 1 to 1e-5. Which
positions move is drawn before the tokens, so that steps that reveal nothing read no logits.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from .ancestral import checked_rates, reads_committed, step_law
from .eos import ended, fill_after_eos
from .forward import Tally, counted_forward, empty_tally
from .noise import draw_tokens, uniform64
from .packing import map_needed
from .program import Inputs, Outcome, Program, bound_network
from .ranking import probability
from .step import streams
from .truncation import truncate
from .types import Carry, Rates

_END = 1e-5  # time after the last step


class _State(NamedTuple):
    """What is carried between iterations.

    logits: of the last forward. stale: the canvas changed since the last forward charged to the
    sample. committed: minus the probability of each token when it was revealed, -inf where
    undecided; of width 0 for laws that do not look at it. carry: of a stateful network, else None.
    """

    index: Int[Array, ""]
    canvas: Int[Array, "b l"]
    logits: Float[Array, "b l v"]
    stale: Bool[Array, "b"]
    committed: Float[Array, "b l"]
    tally: Tally
    carry: Carry


def run_ancestral(program: Program, inputs: Inputs) -> Outcome:
    """Samples from a fully masked region by the strategy's rates; traced by `loop.run`.

    A forward is charged to samples that still have masks in the block and, if forwards are
    reused, whose canvas changed since their last one. `skip_idle=False` gives the counts of the
    public code, whose batch is one: as soon as one sample's canvas changed all are charged, with
    or without masks, and noise removal always costs a forward. Only there does nfe depend on the
    batch. Forwards of a stateful network are never reused.

    `unmask_temp` 1 is the published law and 0 the argmax of p_x0; when a position moves is up to
    time alone. `uniforms` are the numbers of the public categorical draw over all columns, the
    mask's included: row s belongs to the s-th *nominal step*, whether it ran a forward or not.
    Strategies whose noise removal draws (`mdlm_analytic`) take n + 1 rows a block, others n.

    Cost: one buffer of logits is carried, a forward makes another; a nucleus, top_p or top_k makes
    one more while tokens are drawn.
    """
    config, knobs, strategy = program.config, inputs.knobs, program.entry.strategy
    network = bound_network(program, inputs)
    # The mask's share of a row is set by the law; p_x0 has none (SUBS in the public code).
    network = network._replace(suppress_mask_token=True)
    batch, length = inputs.prompt.shape[0], config.gen_length
    steps, mask_id = knobs.steps_per_block, program.mask_id
    exit_id = program.eos_id if config.eos_policy == "early_exit" else None
    assert strategy.rates is not None
    tracks = reads_committed(strategy.rates)
    reuses = strategy.traits.reuse_forward and inputs.carry is None

    def iteration(state: _State) -> _State:
        canvas, tally, carry = state.canvas, state.tally, state.carry
        block, step = lax.div(state.index, steps + 1), lax.rem(state.index, steps + 1)
        removal = step == steps
        positions = jnp.arange(length)
        start = block * config.tokens_per_block
        in_block = (positions >= start) & (positions < start + config.tokens_per_block)
        masked = canvas == mask_id
        live = jnp.ones(batch, bool) if exit_id is None else ~ended(canvas, exit_id, mask_id)

        fresh = reuses & ~state.stale
        if config.skip_idle:
            charged = live & ~fresh & jnp.any(masked & in_block, axis=-1)
        else:
            charged = live & jnp.any(live & (~fresh | removal))
        logits, tally, carry = lax.cond(
            jnp.any(charged),
            lambda: _forward(network, canvas, charged, tally, carry),
            lambda: (state.logits, tally, carry),
        )

        t, dt = _times(step, steps)
        committed = state.committed if tracks else jnp.full(canvas.shape, -jnp.inf, jnp.float32)
        committed = jnp.where(in_block, committed, -jnp.inf)
        rates = checked_rates(program.entry, t, dt, knobs.settings, committed)
        moves = in_block & live[:, None]
        rates = Rates(
            reveal=jnp.where(moves, jnp.where(removal, 1.0, rates.reveal), 0.0),
            remask=jnp.where(moves, jnp.where(removal, 0.0, rates.remask), 0.0),
        )
        temp = knobs.settings.unmask_temp
        if strategy.traits.fill == "argmax":
            temp = jnp.where(removal, 0.0, temp)
        if inputs.uniforms is None:
            token_keys, move_keys, _ = streams(inputs.keys, state.index)
            after = _move(program, inputs, canvas, logits, rates, temp, token_keys, move_keys)
        else:
            row = state.index if strategy.traits.fill == "draw" else block * steps + step
            uniforms = lax.dynamic_index_in_dim(inputs.uniforms, row, keepdims=False)
            after = _replay(program, inputs, canvas, logits, rates, temp, uniforms)

        committed = state.committed
        if tracks:
            revealed = masked & (after != mask_id)
            probability_held = lax.cond(
                jnp.any(revealed),
                lambda: _probability(program, inputs, logits, after, temp, revealed),
                lambda: committed,
            )
            committed = jnp.where(revealed, -probability_held, committed)
            committed = jnp.where(after == mask_id, -jnp.inf, committed)
        if exit_id is not None:
            after = fill_after_eos(after, exit_id, mask_id)
        changed = jnp.any(after != canvas, axis=-1)
        stale = (state.stale & ~charged) | changed
        return _State(state.index + 1, after, logits, stale, committed, tally, carry)

    canvas = jnp.full((batch, length), mask_id, jnp.int32)
    everyone, tally = jnp.ones(batch, bool), empty_tally(batch)
    shape = jax.eval_shape(lambda: _forward(network, canvas, everyone, tally, inputs.carry)[0])
    state = _State(
        index=jnp.int32(0),
        canvas=canvas,
        logits=jnp.zeros(shape.shape, shape.dtype),
        stale=everyone,
        committed=jnp.full((batch, length if tracks else 0), -jnp.inf, jnp.float32),
        tally=tally,
        carry=inputs.carry,
    )
    if not config.record_history:
        total = config.num_blocks * (steps + 1)
        state = lax.while_loop(lambda s: s.index < total, iteration, state)
        return Outcome(state.canvas, state.tally, None)

    per_block = config.num_steps // config.num_blocks + 1

    def recorded(state, _):
        state = iteration(state)
        return state, state.canvas

    state, canvases = lax.scan(recorded, state, length=config.num_blocks * per_block)
    by_block = canvases.reshape(config.num_blocks, per_block, batch, length)
    shown = by_block[:, :-1].reshape(config.num_steps, batch, length)
    return Outcome(state.canvas, state.tally, shown)


def _forward(network, canvas, charged, tally, carry) -> tuple[Float[Array, "b l v"], Tally, Carry]:
    output, tally, carry = counted_forward(network, canvas, charged, tally, carry)
    return output.logits, tally, carry


def _times(
    step: Int[Array, ""], steps: Int[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Time before a step and its length, on a float32 line from 1 to 1e-5 that is exact there."""
    dt = jnp.float32(1 - _END) / steps
    from_end = (steps - step) * dt
    return jnp.where(2 * step < steps, 1 - step * dt, _END + from_end), dt


def _move(
    program: Program,
    inputs: Inputs,
    canvas: Int[Array, "b l"],
    logits: Float[Array, "b l v"],
    rates: Rates,
    temp: Float[Array, ""],
    token_keys: Key[Array, "b"],
    move_keys: Key[Array, "b"],
) -> Int[Array, "b l"]:
    """Which positions move is drawn first, tokens only for those revealed."""
    masked = canvas == program.mask_id
    hit = _occurs(move_keys, jnp.where(masked, rates.reveal, rates.remask))
    revealed = masked & hit

    def draw():
        scores = logits
        if _is_truncated(program):
            scores = jnp.where(
                _tempered(program, inputs, logits, temp) > -jnp.inf, logits, -jnp.inf
            )
        return draw_tokens(program.config.noise, token_keys, scores, temp, needed=revealed)

    tokens = lax.cond(jnp.any(revealed), draw, lambda: canvas)
    return jnp.where(hit, jnp.where(masked, tokens, program.mask_id), canvas)


def _occurs(keys: Key[Array, "b"], chance: Float[Array, "b l"]) -> Bool[Array, "b l"]:
    """Independent events of the given probabilities; rare ones as rare as they should be.

    A chance of 0 or less never occurs, one of 1 or more always does.
    """
    words = jax.vmap(lambda key: jax.random.bits(key, (chance.shape[1], 2), jnp.uint32))(keys)
    return uniform64(words[..., 0], words[..., 1]) <= chance


def _replay(
    program: Program,
    inputs: Inputs,
    canvas: Int[Array, "b l"],
    logits: Float[Array, "b l v"],
    rates: Rates,
    temp: Float[Array, ""],
    uniforms: Float[Array, "b l v"],
) -> Int[Array, "b l"]:
    """The public code's categorical draw over all columns, with given random numbers."""
    if uniforms.shape != logits.shape or program.mask_id >= logits.shape[-1]:
        raise ValueError(
            f"uniforms holds {uniforms.shape[-1]} columns, the logits {logits.shape[-1]}; the draw "
            f"of an ancestral step needs one column an id, that of mask_id={program.mask_id} "
            "included"
        )
    best = jax.nn.one_hot(jnp.argmax(logits, axis=-1), logits.shape[-1], dtype=jnp.float32)
    law = jax.nn.softmax(_tempered(program, inputs, logits, temp), axis=-1)
    law = step_law(rates, jnp.where(temp > 0, law, best), canvas, program.mask_id)
    with jax.enable_x64(True):
        wide, u = law.astype(jnp.float64), uniforms.astype(jnp.float64)
        score = jnp.log(jnp.maximum(wide, 0.0)) - jnp.log(1e-10 - jnp.log(u + 1e-10))
        return jnp.argmax(score, axis=-1).astype(jnp.int32)


def _probability(
    program: Program,
    inputs: Inputs,
    logits: Float[Array, "b l v"],
    tokens: Int[Array, "b l"],
    temp: Float[Array, ""],
    needed: Bool[Array, "b l"],
) -> Float[Array, "b l"]:
    """Probability of tokens under the law they are drawn from, where needed."""

    def rows(part):
        scores, ids = part
        return probability(_tempered(program, inputs, scores, temp), ids)

    return jnp.where(temp > 0, map_needed(rows, (logits, tokens), needed), 1.0)


def _tempered(
    program: Program, inputs: Inputs, logits: Float[Array, "*n v"], temp: Float[Array, ""]
) -> Float[Array, "*n v"]:
    """Logits of the law that tokens are drawn from, for a temperature above 0."""
    config, knobs = program.config, inputs.knobs
    tempered = logits / jnp.where(temp > 0, temp, 1.0)
    if not _is_truncated(program):
        return tempered
    return truncate(
        tempered,
        top_p=knobs.top_p if config.top_p < 1 else None,
        top_k=None if config.top_k is None else knobs.top_k,
        nucleus_p=knobs.nucleus_p if config.nucleus_p < 1 else None,
    )


def _is_truncated(program: Program) -> bool:
    config = program.config
    return config.top_p < 1 or config.top_k is not None or config.nucleus_p < 1
