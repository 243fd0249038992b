"""One decision on fresh logits: reveal masks, then put tokens back.

logits ── draw a token for every mask ── order: commit the best ── select: remask
              (noise.py)                  quota of them            some decided ones
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from .noise import draw_tokens
from .ranking import probability, take_top
from .registry import Entry
from .schedule import FILL, Rules, Turn, block_bounds, reachable_masks, reveal_count
from .types import Memory, Obs


class Decision(NamedTuple):
    """What a commit or fill pass made of the canvas; remasked: samples that put tokens back."""

    canvas: Int[Array, "b l"]
    memory: Memory
    remasked: Bool[Array, "b"]


def decide(
    entry: Entry,
    rules: Rules,
    turn: Turn,
    canvas: Int[Array, "b l"],
    memory: Memory,
    logits: Float[Array, "b l v"],
    keys: Key[Array, "b"],
    *,
    noise: str,
    pool: str,
    uniforms: Float[Array, "b l v"] | None,
) -> Decision:
    """Commits and remasks for the samples charged by the turn; the others stay frozen.

    Randomness depends on the sample's key and the nominal step alone: not on the batch, on
    padding, or on how many forwards a step took.
    """
    strategy, name = entry.strategy, entry.name
    batch, length = canvas.shape
    is_fill = turn.phase == FILL
    step = turn.step - is_fill.astype(jnp.int32)
    event = 2 * step + is_fill.astype(jnp.int32)
    token_keys, order_keys, select_keys = _streams(keys, event)

    start, end = block_bounds(rules, step)
    positions = jnp.arange(length)
    in_block = jnp.broadcast_to((positions >= start) & (positions < end), canvas.shape)
    masked = canvas == rules.mask_id
    candidates = reachable_masks(rules, canvas, step) & turn.charged[:, None]

    drawn = draw_tokens(noise, token_keys, logits, rules.knobs.unmask_temp, uniforms)
    held = jnp.where(masked, drawn, canvas)
    obs = Obs(
        logits=logits,
        tokens=held,
        decided=~masked,
        new=jnp.zeros_like(masked),
        confidence=probability(logits, held),
        pool=in_block & ~masked if pool == "decided" else in_block,
        num_remask=rules.knobs.num_remask,
        step=lax.rem(step, rules.knobs.steps_per_block),
        num_steps=rules.knobs.steps_per_block,
        unmask_temp=rules.knobs.unmask_temp,
    )
    score = obs.confidence
    if strategy.order is not None:
        score = strategy.order(obs, order_keys)
        _check(name, "order", score, (batch, length), jnp.floating)
    best = take_top(jnp.where(candidates, score, -jnp.inf), reveal_count(rules, canvas, step))
    commit = candidates & (is_fill | best)
    canvas = jnp.where(commit, drawn, canvas)
    choose = strategy.select
    if choose is None:
        return Decision(canvas, memory, jnp.zeros(batch, bool))

    decided = canvas != rules.mask_id
    obs = obs._replace(
        tokens=canvas,
        decided=decided,
        new=commit & decided,
        pool=in_block & decided if pool == "decided" else in_block,
    )
    # Samples without a mask at the start of the step are finished; nothing of theirs may change.
    live = jnp.any(candidates, axis=-1)

    def select():
        chosen, updated = choose(memory, obs, select_keys)
        _check(name, "select", chosen, (batch, length), jnp.bool_)
        _check_memory(name, memory, updated)
        kept = jax.tree.map(
            lambda new, old: jnp.where(live.reshape(-1, *[1] * (new.ndim - 1)), new, old),
            updated,
            memory,
        )
        return chosen & decided & in_block & live[:, None], kept

    nothing = jnp.zeros(canvas.shape, bool)
    remask, memory = lax.cond(is_fill, lambda: (nothing, memory), select)
    canvas = jnp.where(remask, rules.mask_id, canvas)
    return Decision(canvas, memory, jnp.any(remask, axis=-1))


def initial_memory(entry: Entry, config, batch: int, length: int) -> Memory:
    """The strategy's memory before the first step; () for strategies without one."""
    if entry.strategy.init is None:
        return ()
    memory = jax.tree.map(jnp.asarray, entry.strategy.init(config, batch, length))
    for leaf in jax.tree.leaves(memory):
        if leaf.shape[:1] != (batch,):
            raise ValueError(
                f"strategy {entry.name!r}: init returned {leaf.dtype}{list(leaf.shape)}; every "
                f"array of the memory needs the leading axis b={batch}, one row per sample"
            )
    return memory


def checked_quota(entry: Entry, rules: Rules, batch: int) -> None:
    """Refuses a quota function of the wrong shape or dtype, naming the strategy."""
    masked = jax.ShapeDtypeStruct((batch,), jnp.int32)
    scalar = jax.ShapeDtypeStruct((), jnp.int32)
    result = jax.eval_shape(rules.quota, masked, scalar, scalar, scalar)
    _check(entry.name, "quota", result, (batch,), jnp.integer)


def _streams(keys: Key[Array, "b"], event: Int[Array, ""]) -> tuple[Key[Array, "b"], ...]:
    """Independent keys for drawing, ordering and selecting at one event of the run."""
    fold = jax.vmap(jax.random.fold_in, in_axes=(0, None))
    return fold(keys, 3 * event), fold(keys, 3 * event + 1), fold(keys, 3 * event + 2)


def _check(name: str, field: str, value, shape: tuple[int, ...], kind) -> None:
    dtype = jnp.result_type(value)
    if jnp.shape(value) != shape or not jnp.issubdtype(dtype, kind):
        raise ValueError(
            f"strategy {name!r}: {field} returned {dtype}{list(jnp.shape(value))}, expected "
            f"{kind.__name__}{list(shape)}"
        )


def _check_memory(name: str, before: Memory, after: Memory) -> None:
    def signature(memory):
        leaves, structure = jax.tree.flatten(memory)
        return structure, [(jnp.shape(x), jnp.result_type(x)) for x in leaves]

    if signature(before) != signature(after):
        raise ValueError(
            f"strategy {name!r}: select returned a memory unlike the one it was given: "
            f"{signature(after)} instead of {signature(before)}"
        )
