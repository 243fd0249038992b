"""One decision on fresh logits: reveal masks, then put tokens back.

logits ── draw a token for every mask ── order: commit the best ── select: remask
              (noise.py)                  quota of them            some decided ones

or, for strategies that do both at once, `transition`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from .carry import moved
from .eos import deferring, ended, fill_after_eos
from .forward import Output
from .noise import draw
from .program import Program
from .ranking import confidence, entropy, take_top
from .schedule import FILL, Rules, Turn, block_bounds, reachable_masks, reveal_count
from .strategy_checks import check_array, check_memory, parts_of
from .truncation import truncate
from .types import Memory, Obs, StepNotes


class Decision(NamedTuple):
    """What a commit or fill pass made of the canvas.

    remasked marks samples that put tokens back; notes are None unless a history is recorded.
    """

    canvas: Int[Array, "b l"]
    memory: Memory
    remasked: Bool[Array, "b"]
    notes: StepNotes | None


class Scene(NamedTuple):
    """One pass: its step, what is undecided, what may change, and who takes part.

    Attributes:
      program, rules: of the run.
      step: nominal step, from 0; of a fill, the last one of its block.
      is_fill: whether everything left is revealed and nothing put back.
      masked: undecided positions of the whole region.
      in_block: the current block.
      reach: positions that the step may change.
      candidates: undecided positions that may be revealed, of the samples charged.
      live: samples that have any; nothing of the others may change.
    """

    program: Program
    rules: Rules
    step: Int[Array, ""]
    is_fill: Bool[Array, ""]
    masked: Bool[Array, "b l"]
    in_block: Bool[Array, "b l"]
    reach: Bool[Array, "b l"]
    candidates: Bool[Array, "b l"]
    live: Bool[Array, "b"]


def decide(
    program: Program,
    rules: Rules,
    turn: Turn,
    canvas: Int[Array, "b l"],
    memory: Memory,
    output: Output,
    keys: Key[Array, "b"],
    uniforms: Float[Array, "b l v"] | None,
) -> Decision:
    """Commits and remasks for the samples charged by the turn; the others stay frozen.

    Randomness depends on the sample's key and the nominal step alone: not on the batch, on
    padding, or on how many forwards a step took.
    """
    strategy = program.entry.strategy
    scene = _look(program, rules, turn, canvas)
    event = 2 * scene.step + scene.is_fill.astype(jnp.int32)
    token_keys, order_keys, select_keys = streams(keys, event)
    obs = _observe(scene, canvas, output, token_keys, uniforms)

    tied = remasked = jnp.zeros(len(canvas), bool)
    if strategy.transition is not None:
        after, memory = _transit(scene, canvas, memory, obs, select_keys)
        new = scene.masked & (after != rules.mask_id)
    else:
        after, new, tied = _reveal(scene, canvas, obs, order_keys)
        if strategy.select is not None:
            seen = obs._replace(new=new)
            after, memory, remasked = _remask(scene, after, memory, seen, select_keys)
    if rules.exit_id is not None:
        after = fill_after_eos(after, rules.exit_id, rules.mask_id)
        remasked &= ~ended(after, rules.exit_id, rules.mask_id)  # finished: no look is due
    notes = None
    if program.config.record_history:
        ran = scene.live & ~scene.is_fill
        notes = StepNotes(
            ran=ran,
            entropy=_mean(entropy(obs.logits, scene.candidates), scene.candidates & ran[:, None]),
            confidence=_mean(obs.confidence, new & ran[:, None]),
            tied=tied & ran,
        )
    return Decision(after, memory, remasked, notes)


def streams(keys: Key[Array, "b"], event: Int[Array, ""]) -> tuple[Key[Array, "b"], ...]:
    """Independent keys for drawing, ordering and selecting at one event of the run."""
    fold = jax.vmap(jax.random.fold_in, in_axes=(0, None))
    return fold(keys, 3 * event), fold(keys, 3 * event + 1), fold(keys, 3 * event + 2)


def _look(program: Program, rules: Rules, turn: Turn, canvas: Int[Array, "b l"]) -> Scene:
    is_fill = turn.phase == FILL
    step = turn.step - is_fill.astype(jnp.int32)  # a fill carries the step that follows it
    start, end = block_bounds(rules, step)
    positions = jnp.arange(canvas.shape[1])
    in_block = jnp.broadcast_to((positions >= start) & (positions < end), canvas.shape)
    whole = program.entry.strategy.traits.reach == "sequence"
    candidates = reachable_masks(rules, canvas, step) & turn.charged[:, None]
    return Scene(
        program=program,
        rules=rules,
        step=step,
        is_fill=is_fill,
        masked=canvas == rules.mask_id,
        in_block=in_block,
        reach=jnp.broadcast_to(positions < end, canvas.shape) if whole else in_block,
        candidates=candidates,
        live=jnp.any(candidates, axis=-1),
    )


def _observe(
    scene: Scene,
    canvas: Int[Array, "b l"],
    output: Output,
    keys: Key[Array, "b"],
    uniforms: Float[Array, "b l v"] | None,
) -> Obs:
    """Draws tokens and gathers what strategies may look at, before the commits."""
    config, knobs, entry = scene.program.config, scene.rules.knobs, scene.program.entry
    traits, settings = entry.strategy.traits, knobs.settings
    if traits.needs_quality and output.quality is None:
        raise ValueError(
            f"strategy {entry.name!r} needs a network that judges its tokens: logits_fn must "
            "return (logits, {'quality': Float['b l']})"
        )
    temp = settings.token_temp
    source = output.logits
    draw_logits = source / jnp.where(temp > 0, temp, 1.0)
    if config.top_p < 1 or config.top_k is not None:
        draw_logits = truncate(
            draw_logits,
            top_p=knobs.top_p if config.top_p < 1 else None,
            top_k=None if config.top_k is None else knobs.top_k,
        )
        source = jnp.where(draw_logits > -jnp.inf, source, -jnp.inf)
    # Draws are used at candidates, confidences also at tokens that may be put back.
    needed = scene.candidates
    if traits.redraw or entry.strategy.select is not None or entry.strategy.transition is not None:
        needed = needed | (scene.reach & scene.live[:, None])
    cold = scene.is_fill if traits.fill == "argmax" else jnp.bool_(False)
    drawn, log_norm = draw(
        config.noise, keys, source, jnp.where(cold, 0.0, temp), needed=needed, uniforms=uniforms
    )
    held = jnp.where(scene.candidates, drawn, canvas)
    judged = draw_logits if traits.tempered else output.logits
    norm = log_norm if judged is source else None  # else that of another law
    trust = confidence(config.confidence, judged, held, log_norm=norm, needed=needed)
    within = lax.rem(scene.step, knobs.steps_per_block)
    return Obs(
        logits=output.logits,
        draw_logits=draw_logits,
        tokens=held,
        drawn=drawn,
        decided=~scene.masked,
        new=jnp.zeros_like(scene.masked),
        confidence=jnp.where(needed, trust, 0.0),
        pool=scene.candidates,
        quality=output.quality,
        planned=knobs.plan[jnp.minimum(within, len(knobs.plan) - 1)],
        num_remask=knobs.num_remask,
        step=within,
        num_steps=knobs.steps_per_block,
        settings=settings,
    )


def _reveal(
    scene: Scene, canvas: Int[Array, "b l"], obs: Obs, keys: Key[Array, "b"]
) -> tuple[Int[Array, "b l"], Bool[Array, "b l"], Bool[Array, "b"]]:
    """The canvas after the commits, the positions that became decided, and whether a tie did it."""
    program, rules = scene.program, scene.rules
    strategy, name = program.entry.strategy, program.entry.name
    score = obs.confidence
    if strategy.order is not None:
        score = strategy.order(obs, keys)
        check_array(name, "order", score, canvas.shape, jnp.floating)
    score = jnp.where(scene.candidates, score, -jnp.inf)
    count = reveal_count(rules, canvas, scene.step)
    best = take_top(score, count)
    if program.config.eos_policy == "defer":
        best = deferring(best, scene.candidates, obs, score, count, program.eos_id)
        score = jnp.where((obs.drawn == program.eos_id) & ~best, -jnp.inf, score)
    commit = scene.candidates & (scene.is_fill | best)
    canvas = jnp.where(commit, obs.drawn, canvas)
    worst = jnp.min(jnp.where(best, score, jnp.inf), axis=-1)
    tied = jnp.max(jnp.where(best, -jnp.inf, score), axis=-1) == worst
    return canvas, commit & (canvas != rules.mask_id), tied


def _remask(
    scene: Scene, canvas: Int[Array, "b l"], memory: Memory, obs: Obs, keys: Key[Array, "b"]
) -> tuple[Int[Array, "b l"], Memory, Bool[Array, "b"]]:
    """Lets `select` put decided tokens of the block back, but for a fill; says for whom it did."""
    config, entry, mask_id = scene.program.config, scene.program.entry, scene.rules.mask_id
    name, choose = entry.name, entry.strategy.select
    assert choose is not None
    decided = canvas != mask_id
    competing = config.pool == "decided" or config.loop == "fixed_churn"
    obs = obs._replace(
        tokens=canvas,
        decided=decided,
        pool=scene.in_block & decided if competing else scene.in_block,
    )

    def select():
        chosen, updated = parts_of(name, "select", choose(memory, obs, keys), 2)
        check_array(name, "select", chosen, canvas.shape, jnp.bool_)
        check_memory(name, memory, updated)
        return chosen & decided & scene.in_block & scene.live[:, None], updated

    nothing = jnp.zeros(canvas.shape, bool)
    remask, updated = lax.cond(scene.is_fill, lambda: (nothing, memory), select)
    canvas = jnp.where(remask, mask_id, canvas)
    return canvas, moved(scene.live, updated, memory), jnp.any(remask, axis=-1)


def _transit(
    scene: Scene, canvas: Int[Array, "b l"], memory: Memory, obs: Obs, keys: Key[Array, "b"]
) -> tuple[Int[Array, "b l"], Memory]:
    """Lets `transition` make the step; a fill reveals all masks instead."""
    entry = scene.program.entry
    name, move = entry.name, entry.strategy.transition
    assert move is not None
    reach = scene.reach & scene.live[:, None]
    obs = obs._replace(pool=reach)

    def step():
        tokens, masked, updated = parts_of(name, "transition", move(memory, obs, keys), 3)
        check_array(name, "transition", tokens, canvas.shape, jnp.integer)
        check_array(name, "transition", masked, canvas.shape, jnp.bool_)
        check_memory(name, memory, updated)
        moved = jnp.where(masked, scene.rules.mask_id, tokens.astype(jnp.int32))
        return jnp.where(reach, moved, canvas), updated

    def fill():
        return jnp.where(scene.candidates, obs.drawn, canvas), memory

    canvas, updated = lax.cond(scene.is_fill, fill, step)
    return canvas, moved(scene.live, updated, memory)


def _mean(values: Float[Array, "b l"], where: Bool[Array, "b l"]) -> Float[Array, "b"]:
    """Mean over the marked positions of each row, 0 for rows without."""
    total = jnp.sum(jnp.where(where, values, 0.0), axis=-1)
    return total / jnp.maximum(jnp.sum(where, axis=-1), 1)
