"""`sample`: text from a denoiser, with every network evaluation counted."""

import contextlib
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from .carry import checked_carry
from .config import SamplerConfig
from .loop import run
from .placement import auto_sharded
from .program import Inputs, Knobs, Program
from .registry import get_entry
from .strategy_checks import host_plan
from .types import Carry, History, LogitsFn, Samples, Settings

_compiled = jax.jit(run, static_argnums=0)


def sample(
    logits_fn: LogitsFn,
    params: Any,
    prompt: Int[Array, "b p"],
    prompt_mask: Bool[Array, "b p"],
    keys: Key[Array, "b"],
    config: SamplerConfig,
    *,
    mask_id: int,
    num_ids: int | None = None,
    eos_id: int | None = None,
    uniforms: Float[Array, "s b l v"] | None = None,
    carry: Carry = None,
) -> Samples:
    """Fills `config.gen_length` masked positions right of each prompt.

    Per nominal step: one forward, commit the positions the strategy orders first, let it put
    decided ones back, and if it did, one more forward. Masks left at the end of a block are
    filled by a last one. With confidence order and temperature 0 this is LLaDA's published
    sampler (ML-GSAI/LLaDA, generate.py); the step with remasking is that of CaRE
    (arXiv 2607.24763).

    A sample depends on its own prompt and key alone: not on its batch, on how far its prompt is
    padded, or on num_steps beyond the schedule it sets (up to ties that the network's rounding
    breaks differently at another batch shape). One compilation serves all num_steps, unmask_temp,
    remask_fraction, cfg_scale > 0 and keys of a shape; a recorded history fixes num_steps.

    Args:
      logits_fn: `logits_fn(params, tokens, token_mask, region)` returns logits [b, l, v] of the
        slice `region`, position i predicting token i. Pass the same function object each time:
        it keys the compilation cache.
      params: its first argument, any pytree of arrays.
      prompt: integer ids, padded on the left; the width may be 0.
      prompt_mask: True where `prompt` holds a token.
      keys: one PRNG key per sample, e.g. `jax.random.split(key, b)`.
      config: what to do.
      mask_id: id of an undecided position; it may lie outside the logits' columns.
      num_ids: ids from here on are never emitted (heads padded beyond the tokenizer).
      eos_id: id that ends a text; under eos_policy="truncate" it does not touch the canvas.
      uniforms: replays stored noise: row s replaces the random numbers of the s-th launch
        (refresh passes count); for ancestral strategies, of the s-th nominal step, whether it ran
        a forward or not. Needs noise="gumbel_fp64".
      carry: for a stateful network, what its first forward is given: a pytree of arrays with the
        batch first. `logits_fn` is then called with the keyword `carry` and returns
        (logits, carry). A sample's carry moves with the forwards charged to it alone, so a sample
        is still independent of its batch. Needs skip_idle=False, refresh_reuse=False and no
        guidance; ancestral strategies run a forward in every step.

    Returns:
      `Samples`. Blocks until the run is finished.

    Raises:
      ValueError: an argument is wrong (before compilation where that can be known), a strategy
        returned the wrong shape or dtype, or the logits were NaN or infinite.
    """
    prompt_ids, is_token = _checked_prompt(prompt, prompt_mask)
    batch = len(prompt_ids)
    keys = _checked_keys(keys, batch)
    _check_ids(prompt_ids, is_token, mask_id, num_ids, eos_id)
    if not isinstance(config, SamplerConfig):
        raise ValueError(f"config must be a SamplerConfig, got {type(config).__name__}")
    if not callable(logits_fn) or getattr(logits_fn, "__hash__", None) is None:
        raise ValueError("logits_fn must be a hashable function of params, tokens, mask, region")
    noise = None if uniforms is None else _checked_uniforms(uniforms, batch, config)
    carry = checked_carry(carry, logits_fn, batch, config)

    program = Program(
        logits_fn=logits_fn,
        config=config.canonical(),
        entry=get_entry(config.strategy),
        mask_id=operator.index(mask_id),
        num_ids=None if num_ids is None else operator.index(num_ids),
        eos_id=None if config.eos_policy == "truncate" else _needed_eos(config, eos_id),
        x64=jax.dtypes.canonicalize_dtype(np.float64) == np.float64,
    )
    generated = np.ones((batch, config.gen_length), bool)
    start = jnp.asarray(prompt_ids)
    inputs = Inputs(
        params=auto_sharded(params),
        prompt=start,
        token_mask=jnp.asarray(np.concatenate([is_token, generated], axis=1)),
        keys=auto_sharded(keys),
        knobs=_knobs(config),
        uniforms=noise,
        carry=auto_sharded(carry),
    )
    wide = config.noise == "gumbel_fp64"
    with jax.enable_x64(True) if wide else contextlib.nullcontext():
        canvas, tally, canvases, notes = _compiled(program, inputs)
        if not bool(tally.finite):
            raise ValueError(
                "logits_fn returned NaN, +inf, a position whose every id is -inf, or a quality "
                "that is not finite; the samples are void. Look for overflow in its precision and "
                "for bad weights"
            )
    by_launch = program.entry.kind != "ancestral"
    if noise is not None and by_launch and int(tally.launches) > len(noise):
        raise ValueError(
            f"uniforms holds noise for {len(noise)} forwards, the run took {tally.launches}"
        )
    tokens = jnp.concatenate([start, canvas], axis=1)
    history = None if canvases is None else History(canvases, program.mask_id, notes)
    return Samples(tokens, tally.nfe, tally.launches, history)


def _knobs(config: SamplerConfig) -> Knobs:
    steps = operator.index(config.num_steps)
    return Knobs(
        num_steps=jnp.int32(steps),
        steps_per_block=jnp.int32(steps // config.num_blocks),
        num_remask=jnp.int32(config.num_remask),
        cfg_scale=jnp.float32(config.cfg_scale),
        top_p=jnp.float32(config.top_p),
        top_k=jnp.int32(1 if config.top_k is None else config.top_k),
        nucleus_p=jnp.float32(config.nucleus_p),
        plan=jnp.asarray(host_plan(get_entry(config.strategy), config)),
        settings=Settings(**{k: jnp.float32(v) for k, v in config.settings().items()}),
    )


def _needed_eos(config: SamplerConfig, eos_id: int | None) -> int:
    if eos_id is None:
        raise ValueError(f"eos_policy={config.eos_policy!r} needs eos_id, which is None")
    return operator.index(eos_id)


def _checked_prompt(prompt: Any, prompt_mask: Any) -> tuple[np.ndarray, np.ndarray]:
    try:
        prompt, mask = np.asarray(prompt), np.asarray(prompt_mask)
    except ValueError as error:
        raise ValueError(
            "prompt and prompt_mask must be rectangular [batch, width]; pad shorter prompts on the "
            f"left ({error})"
        ) from error
    if prompt.ndim != 2 or not (np.issubdtype(prompt.dtype, np.integer) or prompt.size == 0):
        raise ValueError(
            f"prompt is {prompt.dtype}{list(prompt.shape)}; expected integer ids [batch, width] "
            "(width 0 for unconditional samples)"
        )
    if prompt.shape[0] == 0:
        raise ValueError("prompt has no rows; expected [batch, width] with batch of at least 1")
    if mask.shape != prompt.shape or not (mask.dtype == bool or mask.size == 0):
        raise ValueError(
            f"prompt_mask is {mask.dtype}{list(mask.shape)}; expected bool{list(prompt.shape)}, "
            "the shape of prompt, True where it holds a token"
        )
    mask = mask.astype(bool)
    gaps = np.any(mask[:, :-1] & ~mask[:, 1:], axis=1)
    if gaps.any():
        raise ValueError(
            f"prompt_mask of row {int(np.argmax(gaps))} has padding right of a token; pad prompts "
            "on the left, so that the generated region follows the prompt directly"
        )
    if prompt.size and (prompt.min() < -(2**31) or prompt.max() >= 2**31):
        raise ValueError(
            f"prompt holds ids from {prompt.min()} to {prompt.max()}; they must fit in int32"
        )
    return prompt.astype(np.int32), mask


def _checked_keys(keys: Any, batch: int) -> Array:
    dtype = getattr(keys, "dtype", None)
    if dtype == np.uint32 and jnp.ndim(keys) == 2:
        try:
            keys = jax.random.wrap_key_data(jnp.asarray(keys))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"keys is uint32{list(jnp.shape(keys))}, which is no key of the default PRNG; pass "
                "jax.random.split(key, batch)"
            ) from error
        dtype = keys.dtype
    if dtype is None or not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        raise ValueError("keys must be PRNG keys, one per sample: jax.random.split(key, batch)")
    if keys.shape != (batch,):
        raise ValueError(
            f"keys has shape {list(keys.shape)} for {batch} samples; pass one key per sample: "
            "jax.random.split(key, batch)"
        )
    return keys


def _check_ids(
    prompt: np.ndarray, mask: np.ndarray, mask_id: Any, num_ids: Any, eos_id: Any
) -> None:
    optional = (("num_ids", num_ids, 1), ("eos_id", eos_id, 0))
    given = [limit for limit in optional if limit[1] is not None]
    for name, value, least in (("mask_id", mask_id, 0), *given):
        try:
            number = operator.index(value)
        except TypeError:
            number = -1
        if not least <= number < 2**31:
            raise ValueError(f"{name}={value!r} must be a whole number of at least {least}")
    if eos_id == mask_id:
        raise ValueError(f"eos_id={eos_id} must differ from {mask_id=}")
    real = prompt[mask]
    if (real < 0).any():
        raise ValueError(f"prompt holds the id {int(real.min())}; ids are at least 0")
    if (real == mask_id).any():
        raise ValueError(f"prompt holds the mask id {mask_id} at a position that is not padding")


def _checked_uniforms(uniforms: Any, batch: int, config: SamplerConfig) -> Array:
    """As float64: float32 would round numbers just below 1 up to it."""
    if config.noise != "gumbel_fp64":
        raise ValueError(
            f"uniforms replay the noise of noise='gumbel_fp64', not of {config.noise!r}"
        )
    shape = jnp.shape(uniforms)
    if len(shape) != 4 or shape[1:3] != (batch, config.gen_length):
        raise ValueError(
            f"uniforms has shape {list(shape)}; expected [launches, {batch}, "
            f"{config.gen_length}, vocabulary]"
        )
    entry = get_entry(config.strategy)
    if entry.kind == "ancestral":
        fills = config.num_blocks if entry.strategy.traits.fill == "draw" else 0
        if shape[0] < config.num_steps + fills:
            raise ValueError(
                f"uniforms holds {shape[0]} rows; strategy {entry.name!r} draws {config.num_steps} "
                f"times and {fills} times more to fill: one row a nominal step"
            )
    values = np.asarray(uniforms, np.float64)
    if not (np.all(values >= 0) and np.all(values < 1)):
        raise ValueError("uniforms must lie in [0, 1)")
    with jax.enable_x64(True):
        return jnp.asarray(values)
