"""Drawing tokens from softmax(logits / t), exact in the tails.

* `inverse_cdf` (default): 4 random words a position instead of one or two per vocabulary entry.
  Three stages, each with fresh randomness: (1) the most likely token or another one? (2) if
  another, which run of 128 ids? (3) which id of the run? Stage 1 compares a 64-bit uniform with
  the *summed* weight of the others, never with 1 minus something, so that a tail of mass 1e-6 or
  1e-12 is drawn as often as it should be even where float32 cannot tell 1 - 1e-12 from 1. Within
  stages 2 and 3 float32 prefix sums give relative errors of about 1e-6 of the tail.
* `gumbel_fp64`: argmax(l - t log(-log u)) with float64 noise for every vocabulary entry, which is
  LLaDA's exp(l) / (-log u)^t in the log domain. The oracle: same law, far dearer.
* `gumbel_high`: the same with `jax.random.gumbel(mode="high")` in float32, whose noise reaches
  about 32, enough for any vocabulary.
* `gumbel_fp32`: with `mode="low"`, JAX's default, whose noise stops near 16 and is coarse before.
  An ablation: it cuts the tail and so lowers the temperature unannounced (Zheng et al.,
  2409.02908).

At t = 0 all take the argmax, ties to the lowest id, and draw nothing.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key, UInt32

from .packing import map_needed
from .runs import RUN, largest, reduce_runs, take_run

_GUMBEL_MODES = {"gumbel_high": "high", "gumbel_fp32": "low"}
_COLDEST = 1e-30  # a smaller temperature is this one: 1/t must not overflow


class Draw(NamedTuple):
    """Tokens drawn, and what the same pass tells of their positions.

    Attributes:
      tokens: int32.
      log_norm: log sum exp(logits) of the position, at temperature 1 whatever the draw's, so that
        exp(logits[token] - log_norm) is the token's temperature-free probability.
    """

    tokens: Int[Array, "b l"]
    log_norm: Float[Array, "b l"]


def draw(
    mode: str,
    keys: Key[Array, "b"],
    logits: Float[Array, "b l v"],
    temp: Float[Array, ""],
    *,
    needed: Bool[Array, "b l"] | None = None,
    uniforms: Float[Array, "b l v"] | None = None,
) -> Draw:
    """One token per position from softmax(logits / temp), and the positions' normalisers.

    Cost: for `inverse_cdf` at temperature 1, three passes over the needed rows (max, exp, sum),
    in chunks that bound the temporaries; at other temperatures the normaliser takes one more.

    Args:
      mode: "inverse_cdf", "gumbel_fp64", "gumbel_high" or "gumbel_fp32".
      keys: one per sample. A draw depends on its sample's key, its position, its logits and v
        alone: not on the batch, on l, on `needed`, or on how rows are grouped.
      logits: float32; -inf entries are never drawn.
      temp: traced scalar >= 0.
      needed: positions whose results are used; None: all. Elsewhere they are valid numbers
        without meaning.
      uniforms: replace the random numbers of "gumbel_fp64".

    Raises:
      ValueError: while tracing, for an unknown mode or uniforms of another shape.
    """
    return Draw(*_sweep(mode, keys, logits, temp, needed, uniforms, True))


def draw_tokens(
    mode: str,
    keys: Key[Array, "b"],
    logits: Float[Array, "b l v"],
    temp: Float[Array, ""],
    *,
    needed: Bool[Array, "b l"] | None = None,
    uniforms: Float[Array, "b l v"] | None = None,
) -> Int[Array, "b l"]:
    """The tokens of `draw`, without the cost of the normalisers."""
    return _sweep(mode, keys, logits, temp, needed, uniforms, False)[0]


def _sweep(mode, keys, logits, temp, needed, uniforms, with_norm):
    """(tokens,) or (tokens, log_norm)."""
    if mode not in ("inverse_cdf", "gumbel_fp64", *_GUMBEL_MODES):
        raise ValueError(
            f"noise={mode!r} is unknown; choose inverse_cdf, gumbel_fp64, gumbel_high or "
            "gumbel_fp32"
        )
    if uniforms is not None and uniforms.shape != logits.shape:
        raise ValueError(
            f"uniforms holds {uniforms.shape[-1]} columns, the logits {logits.shape[-1]}"
        )
    exact = mode == "inverse_cdf"
    streams = _words(keys, logits.shape[1]) if exact else _position_keys(keys, logits.shape[1])
    law = functools.partial(_inverse_cdf if exact else functools.partial(_gumbel, mode), temp)
    arrays = (logits, streams) if uniforms is None else (logits, streams, uniforms)

    def rows(part):
        scores = part[0]
        best, peak = largest(scores)

        def drawn():
            return law(best, peak, *part)

        def coldest():
            return best, jnp.zeros_like(peak)

        token, others = lax.cond(temp > 0, drawn, coldest)
        if not with_norm:
            return (token,)

        def summed():
            return peak + jnp.log(jnp.sum(jnp.exp(scores - peak[:, None]), axis=-1))

        if not exact:
            return token, summed()
        # At temperature 1 the weights of the draw are those of the normaliser.
        return token, lax.cond(temp == 1, lambda: peak + jnp.log1p(others), summed)

    return map_needed(rows, arrays, needed, weight=1 if exact else 4)


def _inverse_cdf(
    temp: Float[Array, ""],
    best: Int[Array, "n"],
    peak: Float[Array, "n"],
    logits: Float[Array, "n v"],
    words: UInt32[Array, "n 4"],
) -> tuple[Int[Array, "n"], Float[Array, "n"]]:
    """Tokens, and the summed weight of all tokens but the best; see the module's text."""
    weights = jnp.exp((logits - peak[:, None]) / jnp.maximum(temp, _COLDEST))
    # The best token itself weighs exp(0) = 1 and is kept out of the sums.
    weights = weights.at[jnp.arange(len(best)), best].set(0.0, mode="promise_in_bounds")
    runs = reduce_runs(jnp.sum, weights)
    others = jnp.sum(runs, axis=-1)
    keep = uniform64(words[:, 0], words[:, 1]) * (1.0 + others) >= others
    run = _pick(runs, _uniform32(words[:, 2]))
    other = run * RUN + _pick(take_run(weights, run, 0.0), _uniform32(words[:, 3]))
    return jnp.where(keep, best, other), others


def _pick(weights: Float[Array, "... n"], u: Float[Array, "..."]) -> Int[Array, "..."]:
    """Index drawn in proportion to the weights; never one of weight 0 unless all are 0."""
    cumulative = jnp.cumsum(weights, axis=-1)
    total = cumulative[..., -1]
    # u * total may round up to the total; stay below it, so that the index exists.
    target = jnp.minimum(u * total, jnp.nextafter(total, jnp.zeros_like(total)))
    index = jnp.sum(cumulative <= target[..., None], axis=-1, dtype=jnp.int32)
    return jnp.minimum(index, weights.shape[-1] - 1)


def uniform64(high: UInt32[Array, "..."], low: UInt32[Array, "..."]) -> Float[Array, "..."]:
    """Uniform in (0, 1] from 64 bits: near 0 it resolves 24 significant digits down to 2^-64."""
    return high.astype(jnp.float32) * 2.0**-32 + (low.astype(jnp.float32) + 0.5) * 2.0**-64


def _uniform32(word: UInt32[Array, "..."]) -> Float[Array, "..."]:
    """Uniform in [0, 1): the upper 24 of 32 bits, a multiple of 2^-24."""
    return (word >> 8).astype(jnp.float32) * 2.0**-24


def _position_keys(keys: Key[Array, "b"], count: int) -> Key[Array, "b n"]:
    """Independent keys for positions 0 … count-1, the same whatever the count."""
    fold = jax.vmap(jax.vmap(jax.random.fold_in, in_axes=(None, 0)), in_axes=(0, None))
    return fold(keys, jnp.arange(count))


def _words(keys: Key[Array, "b"], length: int) -> UInt32[Array, "b l 4"]:
    """Four random words a position.

    A folded key is itself the block of random words that `jax.random.bits` would start from; to
    take it directly saves a second of compilation in every sampler.
    """
    folded = jax.random.key_data(_position_keys(keys, 2 * length))
    return folded[..., :2].reshape(len(keys), length, 4)


def _gumbel(
    mode: str,
    temp: Float[Array, ""],
    best: Int[Array, "n"],
    peak: Float[Array, "n"],
    logits: Float[Array, "n v"],
    keys: Key[Array, "n"],
    uniforms: Float[Array, "n v"] | None = None,
) -> tuple[Int[Array, "n"], Float[Array, "n"]]:
    """Gumbel-max: tokens, and zeros in place of the weights it does not need.

    For "gumbel_fp64" the caller runs the whole program under `jax.enable_x64(True)`: constants of
    a narrower program would be cast back to float32 when it is lowered.
    """
    shape, nothing = logits.shape[1:], jnp.zeros_like(peak)
    if mode != "gumbel_fp64":
        kind = _GUMBEL_MODES[mode]
        noise = jax.vmap(lambda key: jax.random.gumbel(key, shape, jnp.float32, kind))(keys)
        return largest(logits + temp.astype(jnp.float32) * noise)[0], nothing
    with jax.enable_x64(True):
        u = uniforms
        if u is None:
            u = jax.vmap(lambda key: jax.random.uniform(key, shape, jnp.float64))(keys)
        noise = -jnp.log(-jnp.log(u.astype(jnp.float64)))
        noisy = logits.astype(jnp.float64) + temp.astype(jnp.float64) * noise
        return largest(noisy)[0], nothing
