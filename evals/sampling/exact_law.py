"""The exact law of what a sampler writes, by enumeration over a small language.

With exact conditionals and one token per step a sampler follows the language if what it reveals
next does not depend on the token it just drew there. Revealing the most confident of freshly
drawn tokens does depend on it: a token that its position finds improbable loses against the draws
elsewhere and is thrown away, so that probable tokens are written more often than they should be.
Enumeration says by how much, without a sample being drawn.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from ...models import MarkovOracle
from ...samplers import SamplerConfig
from ...samplers.ranking import confidence

_MAX_STRINGS = 1 << 20
_MAX_OUTCOMES = 1 << 21  # canvases times draws of a step
_ROWS = 1024  # canvases a launch


def all_strings(num_ids: int, length: int) -> Int[np.ndarray, "n length"]:
    """All strings in lexicographic order, int32.

    Raises:
      ValueError: more than 2^20 of them.
    """
    if num_ids < 1 or length < 1 or num_ids**length > _MAX_STRINGS:
        raise ValueError(
            f"length={length} over {num_ids} ids is {num_ids}^{length} strings; enumeration takes "
            f"1 to {_MAX_STRINGS:,}"
        )
    strings = itertools.product(range(num_ids), repeat=length)
    return np.array(list(strings), np.int32).reshape(-1, length)


def language_law(oracle: MarkovOracle, length: int) -> Float[np.ndarray, "n"]:
    """Probability of every string of `all_strings` under the language, float64."""
    return np.exp(oracle.log_likelihood(all_strings(oracle.num_ids, length)))


def sampler_law(oracle: MarkovOracle, config: SamplerConfig) -> Float[np.ndarray, "n"]:
    """Probability of every string of `all_strings` as strategy "none" writes it, float64.

    Follows `samplers.sample` step by step: at each canvas every undecided position of the block
    draws by itself from its posterior at `unmask_temp`; the quota of highest `confidence` (ties
    to the lowest index) is revealed. The law over canvases is carried from step to step.
    Scores are computed in float32 as in the sampler, so that near-ties fall alike; languages
    whose positions tie exactly (a stationary `initial`) still fall as rounding has it.

    Cost: every reachable canvas times every draw, v^L binom(L, L / 2) in the dearest step.

    Raises:
      ValueError: another strategy, an option that changes its steps, or more than 2^21 outcomes
        in a step.
    """
    _check(config)
    v, length = oracle.num_ids, config.gen_length
    if (v + 1) ** length > 4 * _MAX_STRINGS:
        raise ValueError(
            f"gen_length={length} over {v} ids is too long to enumerate; (v + 1)^L may be at most "
            f"{4 * _MAX_STRINGS:,}"
        )
    base = (v + 1) ** np.arange(length)[::-1]
    canvases, mass = np.full((1, length), v, np.int32), np.ones(1)
    steps, size = config.num_steps // config.num_blocks, config.tokens_per_block
    for start in range(0, length, size):
        masked = size
        for left in range(steps, 0, -1):
            due = masked // left if config.pace == "floor" else -(-masked // left)
            count = min(masked, max(due, 1))
            if count == 0:
                break
            codes, weights = _step(oracle, config, canvases, mass, start, masked, count, base)
            totals = np.bincount(codes, weights)
            codes = np.flatnonzero(totals)
            canvases = (codes[:, None] // base % (v + 1)).astype(np.int32)
            mass, masked = totals[codes], masked - count
    law = np.zeros(v**length)
    law[string_index(canvases, v)] = mass
    return law


def string_index(ids: Int[np.ndarray, "n length"], num_ids: int) -> Int[np.ndarray, "n"]:
    """Where each row stands in `all_strings`."""
    ids = np.asarray(ids, np.int64)
    return ids @ (num_ids ** np.arange(ids.shape[1])[::-1])


def _step(oracle, config, canvases, mass, start, masked, count, base):
    """Codes of the canvases after a step, with repeats, and their probabilities."""
    v, n = oracle.num_ids, len(canvases)
    if n * v**masked > _MAX_OUTCOMES:
        raise ValueError(
            f"{n} canvases with {masked} undecided positions over {v} ids are more than "
            f"{_MAX_OUTCOMES:,} outcomes; use a shorter gen_length or shorter blocks"
        )
    end = start + config.tokens_per_block
    places = np.nonzero(canvases[:, start:end] == v)[1].reshape(n, masked) + start
    logits = np.take_along_axis(_logits(oracle, canvases), places[..., None], axis=1)
    draws = all_strings(v, masked)
    chance = _at_temperature(logits, config.unmask_temp)
    score = np.asarray(_scores(config.confidence, jnp.asarray(logits)))
    across = np.arange(masked)
    chance = chance[:, across, draws].prod(axis=-1)  # [n, draws]
    score = score[:, across, draws]  # [n, draws, masked]
    best = np.argsort(-score, axis=-1, kind="stable")[..., :count]
    drawn = np.take_along_axis(np.broadcast_to(draws, score.shape), best, axis=-1)
    place = np.take_along_axis(np.broadcast_to(places[:, None], score.shape), best, axis=-1)
    changed = ((drawn - v) * base[place]).sum(axis=-1)
    codes = (canvases.astype(np.int64) @ base)[:, None] + changed
    return codes.reshape(-1), (mass[:, None] * chance).reshape(-1)


@functools.partial(jax.jit, static_argnums=(0, 3))
def _forward(logits_fn, params, canvases, length):
    return logits_fn(params, canvases, jnp.ones(canvases.shape, bool), slice(0, length))


def _logits(oracle: MarkovOracle, canvases: np.ndarray) -> np.ndarray:
    """The oracle's logits of many canvases, in launches of one shape."""
    n, length = canvases.shape
    padded = np.pad(canvases, ((0, -n % _ROWS), (0, 0)))
    parts = [
        _forward(oracle.logits_fn, oracle.params, padded[i : i + _ROWS], length)
        for i in range(0, len(padded), _ROWS)
    ]
    return np.concatenate([np.asarray(part) for part in parts])[:n]


def _at_temperature(logits: np.ndarray, temp: float) -> np.ndarray:
    """softmax(logits / temp) in float64; the first most likely id alone at temp 0."""
    if temp == 0:
        return np.eye(logits.shape[-1])[logits.argmax(axis=-1)]
    scaled = logits.astype(np.float64) / temp
    weights = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@functools.partial(jax.jit, static_argnums=0)
def _scores(kind, logits):
    """Confidence in every id of every position, [n, k, v], as the sampler computes it."""
    shape = logits.shape[:2]
    ids = [jnp.full(shape, a, jnp.int32) for a in range(logits.shape[-1])]
    return jnp.stack([confidence(kind, logits, a) for a in ids], axis=-1)


def _check(config: SamplerConfig) -> None:
    if config.strategy != "none":
        raise ValueError(f"strategy={config.strategy!r}: only 'none' can be enumerated")
    plain = {"pace": ("auto", "ceil", "floor"), "cfg_scale": (0.0,), "top_p": (1.0,)}
    plain |= {"top_k": (None,), "eos_policy": ("truncate",), "loop": ("care",)}
    for field, accepted in plain.items():
        value = getattr(config, field)
        if value not in accepted:
            raise ValueError(f"{field}={value!r} cannot be enumerated; accepted: {accepted}")
