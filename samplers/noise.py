"""Drawing tokens from softmax(logits / t), exact in the tails.

* `inverse_cdf` (default): about 4 random words a position instead of one per vocabulary entry.
  Three stages, each with fresh randomness: (1) the most likely token or another one? (2) if
  another, which run of 128 ids? (3) which id of the run? Stage 1 compares a 64-bit uniform with
  the *summed* weight of the others, never with 1 minus something, so that a tail of mass 1e-6 or
  1e-12 is drawn as often as it should be even where float32 cannot tell 1 - 1e-12 from 1. Within
  stages 2 and 3 float32 prefix sums give relative errors of about 1e-6 of the tail.
* `gumbel_fp64`: argmax(l - t log(-log u)) with float64 noise for every vocabulary entry, which is
  LLaDA's exp(l) / (-log u)^t in the log domain. The oracle: same law, far dearer. Float32 noise
  would cut the upper tail and so lower the temperature unannounced (Zheng et al., 2409.02908).

At t = 0 both take the argmax, ties to the lowest id, and draw nothing.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Key, UInt32

_RUN = 128  # ids per run: about the square root of usual vocabularies


def draw_tokens(
    mode: str,
    keys: Key[Array, "b"],
    logits: Float[Array, "b l v"],
    temp: Float[Array, ""],
    uniforms: Float[Array, "b l v"] | None = None,
) -> Int[Array, "b l"]:
    """One int32 token per position from softmax(logits / temp); the argmax at temp = 0.

    Args:
      mode: "inverse_cdf" or "gumbel_fp64".
      keys: one key per sample; a sample's draws depend on its own key and on l and v alone.
      logits: float32; -inf entries are never drawn.
      temp: traced scalar >= 0.
      uniforms: replace the random numbers of "gumbel_fp64".
    """
    if uniforms is not None and uniforms.shape != logits.shape:
        raise ValueError(
            f"uniforms holds {uniforms.shape[-1]} columns, the logits {logits.shape[-1]}"
        )
    best = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    if mode == "gumbel_fp64":
        return lax.cond(temp > 0, lambda: _gumbel(keys, logits, temp, uniforms), lambda: best)
    safe = jnp.where(temp > 0, temp, 1.0)  # never divide by 0, even in a branch not taken
    return lax.cond(temp > 0, lambda: _inverse_cdf(keys, logits, best, safe), lambda: best)


def _inverse_cdf(
    keys: Key[Array, "b"],
    logits: Float[Array, "b l v"],
    best: Int[Array, "b l"],
    temp: Float[Array, ""],
) -> Int[Array, "b l"]:
    """See the module's text; `temp` > 0."""
    length, vocab = logits.shape[1:]
    words = jax.vmap(lambda key: jax.random.bits(key, (length, 4), jnp.uint32))(keys)
    peak = jnp.take_along_axis(logits, best[..., None], axis=-1)
    ids = lax.broadcasted_iota(jnp.int32, (1, 1, vocab), 2)
    weights = jnp.where(ids == best[..., None], 0.0, jnp.exp((logits - peak) / temp))
    whole = vocab - vocab % _RUN
    runs = weights[..., :whole].reshape(*best.shape, whole // _RUN, _RUN).sum(-1)
    if whole < vocab:  # the last, shorter run
        runs = jnp.concatenate([runs, weights[..., whole:].sum(-1, keepdims=True)], axis=-1)
    others = runs.sum(-1)  # the best token itself weighs exp(0) = 1
    keep = _uniform64(words[..., 0], words[..., 1]) * (1.0 + others) >= others

    run = _pick(runs, _uniform32(words[..., 2]))
    members = run[..., None] * _RUN + jnp.arange(_RUN, dtype=jnp.int32)
    near = jnp.take_along_axis(logits, members, axis=-1, mode="fill", fill_value=-jnp.inf)
    inside = jnp.where(members == best[..., None], 0.0, jnp.exp((near - peak) / temp))
    other = run * _RUN + _pick(inside, _uniform32(words[..., 3]))
    return jnp.where(keep, best, other).astype(jnp.int32)


def _pick(weights: Float[Array, "b l n"], u: Float[Array, "b l"]) -> Int[Array, "b l"]:
    """Index drawn in proportion to the weights; never one of weight 0 unless all are 0."""
    cumulative = jnp.cumsum(weights, axis=-1)
    total = cumulative[..., -1]
    # u * total may round up to the total; stay below it, so that the index exists.
    target = jnp.minimum(u * total, jnp.nextafter(total, jnp.zeros_like(total)))
    index = jnp.sum(cumulative <= target[..., None], axis=-1, dtype=jnp.int32)
    return jnp.minimum(index, weights.shape[-1] - 1)


def _uniform64(high: UInt32[Array, "..."], low: UInt32[Array, "..."]) -> Float[Array, "..."]:
    """Uniform in (0, 1] from 64 bits: near 0 it resolves 24 significant digits down to 2^-64."""
    return high.astype(jnp.float32) * 2.0**-32 + (low.astype(jnp.float32) + 0.5) * 2.0**-64


def _uniform32(word: UInt32[Array, "..."]) -> Float[Array, "..."]:
    """Uniform in [0, 1): the upper 24 of 32 bits, a multiple of 2^-24."""
    return (word >> 8).astype(jnp.float32) * 2.0**-24


def _gumbel(
    keys: Key[Array, "b"],
    logits: Float[Array, "b l v"],
    temp: Float[Array, ""],
    uniforms: Float[Array, "b l v"] | None,
) -> Int[Array, "b l"]:
    """Gumbel-max with float64 noise, one sample at a time to bound memory.

    The caller runs the whole program under `jax.enable_x64(True)`: constants of a narrower
    program would be cast back to float32 when it is lowered.
    """

    def one(row):
        key, scores, given = row
        with jax.enable_x64(True):
            u = jax.random.uniform(key, scores.shape, jnp.float64) if given is None else given
            gumbel = -jnp.log(-jnp.log(u.astype(jnp.float64)))
            noisy = scores.astype(jnp.float64) + temp.astype(jnp.float64) * gumbel
            return jnp.argmax(noisy, axis=-1).astype(jnp.int32)

    return lax.map(one, (keys, logits, uniforms))
