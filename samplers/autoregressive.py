"""Text from a causal network, one token a forward, with every forward counted."""

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from .noise import draw_tokens
from .types import LogitsFn, Samples


def sample_autoregressive(
    logits_fn: LogitsFn,
    params: Any,
    prompt: Int[Array, "b p"],
    prompt_mask: Bool[Array, "b p"],
    keys: Key[Array, "b"],
    *,
    gen_length: int,
    unmask_temp: float,
    num_ids: int | None = None,
    noise: str = "inverse_cdf",
) -> Samples:
    """Continues each prompt by `gen_length` tokens drawn from softmax(logits / unmask_temp).

    The canvas is a window that slides left by one token a forward, so that the newest token always
    stands in the last column: the network is asked for that one position alone, and its left
    padding is what `token_mask` says. No key-value cache: every forward reads the whole window,
    which keeps the count comparable with a denoiser's (nfe = gen_length).

    A sample depends on its own prompt and key alone. One compilation serves all temperatures and
    keys of a shape.

    Args:
      logits_fn: `logits_fn(params, tokens, token_mask, region)` of a causal network: the logits at
        a position are those of the token that follows it.
      params: its first argument.
      prompt: integer ids, padded on the left; at least one column, e.g. a document-start id.
      prompt_mask: True where `prompt` holds a token; the last column must be.
      keys: one PRNG key per sample.
      gen_length: tokens to draw.
      unmask_temp: temperature; 0 takes the argmax.
      num_ids: ids from here on are never drawn; None draws from all columns.
      noise: "inverse_cdf" or "gumbel_fp64", see `noise.py`.

    Returns:
      `Samples` whose history is None.

    Raises:
      ValueError: an argument is wrong, or the logits were NaN or infinite.
    """
    prompt, prompt_mask = jnp.asarray(prompt), jnp.asarray(prompt_mask)
    if prompt.ndim != 2 or prompt.shape != prompt_mask.shape or prompt.shape[1] < 1:
        raise ValueError(
            f"prompt has shape {prompt.shape} and prompt_mask {prompt_mask.shape}; both must be"
            " [b, p] with p at least 1"
        )
    if not bool(prompt_mask[:, -1].all()):
        raise ValueError("prompt_mask must be True in its last column: pad prompts on the left")
    if gen_length < 1 or not unmask_temp >= 0:
        raise ValueError(
            f"gen_length={gen_length} must be at least 1 and unmask_temp={unmask_temp} at least 0"
        )
    if keys.shape != prompt.shape[:1]:
        raise ValueError(f"keys has shape {keys.shape}; expected one key per row of the prompt")
    # As in `sample`: the oracle's noise needs float64, and nothing else does.
    with jax.enable_x64(True) if noise == "gumbel_fp64" else contextlib.nullcontext():
        tokens, nfe, launches, finite = _run(
            logits_fn,
            params,
            prompt.astype(jnp.int32),
            prompt_mask.astype(bool),
            keys,
            jnp.float32(unmask_temp),
            gen_length,
            num_ids,
            noise,
        )
    if not bool(finite):
        raise ValueError("logits_fn returned NaN or +inf; look for overflow and for bad weights")
    return Samples(tokens, nfe, launches, None)


@jax.jit(static_argnums=(0, 6, 7, 8))
def _run(
    logits_fn: LogitsFn,
    params: Any,
    prompt: Int[Array, "b p"],
    prompt_mask: Bool[Array, "b p"],
    keys: Key[Array, "b"],
    unmask_temp: Float[Array, ""],
    gen_length: int,
    num_ids: int | None,
    noise: str,
) -> tuple[Int[Array, "b t"], Int[Array, "b"], Int[Array, ""], Bool[Array, ""]]:
    batch, width = prompt.shape
    total = width + gen_length
    # The last token drawn is never read, so the window is one shorter than the text.
    blank = jnp.zeros((batch, gen_length - 1), jnp.int32)
    window = jnp.concatenate([blank, prompt], axis=1)
    mask = jnp.concatenate([blank.astype(bool), prompt_mask], axis=1)
    last = slice(total - 2, total - 1)

    def step(i, state):
        window, mask, drawn, nfe, launches, finite = state
        logits = logits_fn(params, window, mask, last).astype(jnp.float32)
        nfe, launches = nfe + 1, launches + 1
        if num_ids is not None:
            logits = jnp.where(jnp.arange(logits.shape[-1]) < num_ids, logits, -jnp.inf)
        finite &= jnp.isfinite(logits.max(axis=-1)).all() & ~jnp.isnan(logits).any()
        step_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, i)
        token = draw_tokens(noise, step_keys, logits, unmask_temp)
        window = jnp.concatenate([window[:, 1:], token], axis=1)
        mask = jnp.concatenate([mask[:, 1:], jnp.ones((batch, 1), bool)], axis=1)
        drawn = drawn.at[:, i].set(token[:, 0])
        return window, mask, drawn, nfe, launches, finite

    drawn = jnp.zeros((batch, gen_length), jnp.int32)
    counts = jnp.zeros(batch, jnp.int32), jnp.int32(0)
    state = window, mask, drawn, *counts, jnp.bool_(True)
    _, _, drawn, nfe, launches, finite = lax.fori_loop(0, gen_length, step, state)
    return jnp.concatenate([prompt, drawn], axis=1), nfe, launches, finite
