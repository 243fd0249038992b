"""Token-to-mask detectors: put back what looks wrong, and nothing while nothing does.

Where the strategies of `remasking.py` put a fixed share back in every step, these test each
decided token against a threshold, so that most steps cost one forward. The idea and the three
signals are those of token-to-mask remasking (arXiv 2604.18738 and 2605.26436), known to us by
their abstracts alone: thresholds, the cap of `num_remask` tokens a step (worst first), and sparing
tokens revealed in the same step, which would be put back before they were any use, are our choice.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .ranking import probability, remask_top
from .registry import register_strategy
from .types import Obs, Strategy

_IMPROBABLE = 0.1  # probability below which a token is put back
_CONVINCED = 0.9  # probability of another token above which it is put back
_DROP = 2.0  # fall of the log-probability between steps, in nats, above which it is put back


@register_strategy("t2m_lowprob", kind="remask")
def t2m_lowprob() -> Strategy:
    """Remasks tokens whose probability under the current canvas is below 0.1, lowest first."""

    def select(memory, obs, keys):
        held = probability(obs.logits, obs.tokens)
        return _remask_suspects(obs, _IMPROBABLE - held), memory

    return Strategy(select=select)


@register_strategy("t2m_trigger", kind="remask")
def t2m_trigger() -> Strategy:
    """Remasks tokens where another one has a probability above 0.9, the surest first.

    A network that edits tokens would swap them at once; here they are decided anew.
    """

    def select(memory, obs, keys):
        best = jnp.argmax(obs.logits, axis=-1)
        other = jnp.where(best == obs.tokens, 0.0, probability(obs.logits, best))
        return _remask_suspects(obs, other - _CONVINCED), memory

    return Strategy(select=select)


@register_strategy("t2m_diff", kind="remask")
def t2m_diff() -> Strategy:
    """Remasks tokens whose log-probability fell by more than 2 nats since the last step.

    The memory holds the log-probability of each token at the last step that was run, -inf where
    none was held: a token put back has no past when it is revealed again.
    """

    def init(config, b, l):
        return jnp.full((b, l), -jnp.inf, jnp.float32)

    def select(memory, obs, keys):
        smallest = jnp.finfo(jnp.float32).tiny  # a token may have underflowed, not vanished
        now = jnp.log(jnp.maximum(probability(obs.logits, obs.tokens), smallest))
        remask = _remask_suspects(obs, memory - now - _DROP)
        return remask, jnp.where(obs.decided & ~remask, now, -jnp.inf)

    return Strategy(init=init, select=select)


def _remask_suspects(obs: Obs, excess: Float[Array, "b l"]) -> Bool[Array, "b l"]:
    """Marks at most `num_remask` decided tokens beyond their threshold, the farthest first."""
    suspect = obs.decided & ~obs.new & (excess > 0)
    return remask_top(obs, jnp.where(suspect, excess, -jnp.inf))
