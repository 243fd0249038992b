"""Remasking strategies: after each step, which decided tokens go back to the mask?

All follow the CaRE paper (arXiv 2607.24763, section 3 and appendix C.2): the `remask_fraction`
of the block that scores highest competes, masked positions included (they take up places but have
nothing to put back), unless `pool="decided"`.
"""

import jax
import jax.numpy as jnp

from .ranking import entropy, probability, remask_top
from .registry import register_strategy
from .types import Strategy


@register_strategy("none", kind="none")
def none() -> Strategy:
    """Reveals by confidence and never puts back: LLaDA's `remasking="low_confidence"`."""
    return Strategy()


@register_strategy("random", kind="remask")
def random() -> Strategy:
    """Remasks positions drawn uniformly, the control for strategies that look at the network."""

    def select(memory, obs, keys):
        length = obs.tokens.shape[1]
        score = jax.vmap(lambda key: jax.random.uniform(key, (length,), jnp.float32))(keys)
        return remask_top(obs, score), memory

    return Strategy(select=select)


@register_strategy("low_confidence", kind="remask")
def low_confidence() -> Strategy:
    """Remasks the tokens the network now finds least probable.

    Masked positions compete with the probability of their most likely token. The competition of
    the two is our reading; the paper does not spell the score out.
    """

    def select(memory, obs, keys):
        best = jnp.argmax(obs.logits, axis=-1)
        tokens = jnp.where(obs.decided, obs.tokens, best)
        return remask_top(obs, -probability(obs.logits, tokens)), memory

    return Strategy(select=select)


@register_strategy("high_entropy", kind="remask")
def high_entropy() -> Strategy:
    """Remasks where the network's distribution has most entropy, whatever token is held there."""

    def select(memory, obs, keys):
        return remask_top(obs, entropy(obs.logits)), memory

    return Strategy(select=select)
