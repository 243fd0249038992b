"""Remasking strategies: after each step, which decided tokens go back to the mask?

All follow the CaRE paper (arXiv 2607.24763, section 3 and appendix C.2): the `remask_fraction`
of the block that scores highest competes, masked positions included (they take up places but have
nothing to put back), unless `pool="decided"`. Two rank decided tokens alone whatever the pool:
`running_confidence`, which sets its own counts, and `agreement`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .ranking import entropy, probability, remask_top, take_top
from .registry import register_strategy
from .types import Obs, Strategy


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
        return remask_top(obs, -_belief(obs)), memory

    return Strategy(select=select)


@register_strategy("running_confidence", kind="remask")
def running_confidence() -> Strategy:
    """Remasks the decided tokens that were least probable when they were revealed.

    Each step reveals every mask of the block, records the confidence in the tokens revealed, and
    puts back the max(1, L - floor((s + 1) L / n)) lowest on record, L positions and n steps a
    block; remask_fraction is not read. A token put back loses its record until it is revealed
    again. That is the running confidence of MDPO (autonomousvision/mdpo,
    mdlm_generation_utils.py) under the loop of the CaRE paper, whose text leaves the counts open:
    the one token put back even after the last step is what its 2 N + 1 forwards imply. `rcr_mdpo`
    is the published single-pass form.
    """

    def init(config, b, l):
        return jnp.full((b, l), jnp.inf, jnp.float32)

    def plan(config):
        length, steps = config.tokens_per_block, config.num_steps // config.num_blocks
        revealed = np.array([(step + 1) * length // steps for step in range(steps)])
        return np.maximum(1, length - revealed).astype(np.int32)

    def quota(masked, left, step, num_steps):
        return masked

    def select(memory, obs, keys):
        recorded = jnp.where(obs.new, obs.confidence, memory)
        score = jnp.where(obs.decided & obs.pool, -recorded, -jnp.inf)
        remask = take_top(score, jnp.full(len(score), obs.planned))
        return remask, jnp.where(remask, jnp.inf, recorded)

    return Strategy(init=init, select=select, quota=quota, plan=plan)


@register_strategy("high_entropy", kind="remask")
def high_entropy() -> Strategy:
    """Remasks where the network's distribution has most entropy, whatever token is held there."""

    def select(memory, obs, keys):
        return remask_top(obs, entropy(obs.logits)), memory

    return Strategy(select=select)


@register_strategy("conf_entropy", kind="remask")
def conf_entropy() -> Strategy:
    """Remasks by the mean of relative entropy and disbelief in the token held.

    The score is H / (2 ln V) + (1 - p) / 2, both terms in [0, 1]: H the entropy in nats, V the
    number of ids that may be emitted, p the probability of the token held (of the most likely one
    where undecided). The CaRE paper names the strategy without a formula; this one is our choice.
    """

    def select(memory, obs, keys):
        choices = jnp.sum(obs.logits > -jnp.inf, axis=-1)
        most = jnp.log(jnp.maximum(choices, 2).astype(jnp.float32))  # of one id the entropy is 0
        score = 0.5 * entropy(obs.logits) / most + 0.5 * (1 - _belief(obs))
        return remask_top(obs, score), memory

    return Strategy(select=select)


@register_strategy("agreement", kind="remask")
def agreement() -> Strategy:
    """Remasks decided tokens that the network would now replace, the widest margin first.

    The margin is the probability of the most likely token less that of the token held; at most
    `num_remask` tokens go back, and none where the network agrees with all it holds. The CaRE
    paper names the strategy without a formula; this one is our choice.
    """

    def select(memory, obs, keys):
        best = jnp.argmax(obs.logits, axis=-1)
        margin = probability(obs.logits, best) - probability(obs.logits, obs.tokens)
        score = jnp.where(obs.decided & (margin > 0), margin, -jnp.inf)
        return remask_top(obs, score), memory

    return Strategy(select=select)


def _belief(obs: Obs) -> Float[Array, "b l"]:
    """Probability of the token held; of the most likely one where none is."""
    best = jnp.argmax(obs.logits, axis=-1)
    return probability(obs.logits, jnp.where(obs.decided, obs.tokens, best))
