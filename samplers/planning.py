"""Single-pass strategies: one forward decides what to reveal and what to put back at once.

They cost at most one forward a step where those of `remasking.py` take two. How many positions
end a step undecided is planned beforehand, on the host, with the rounding of the published code.
"""

import jax.numpy as jnp
import numpy as np

from .ranking import probability, take_top
from .registry import register_strategy
from .types import Strategy, Traits


@register_strategy("rcr_mdpo", kind="remask")
def rcr_mdpo() -> Strategy:
    """MDPO's running confidence remasking (RCR), as published.

    Each step reveals every mask up to the end of the block, records the confidence in the tokens
    revealed, and puts back as many as the schedule leaves undecided: those of lowest confidence on
    record, in finished blocks too. A record stays until the position is revealed again. After
    step i of n there are floor(L r) masks, r = 1 - (i + 1) / n or cos(pi / 2 (i + 1) / n), at
    least 1e-6, in float64, by `config.schedule`; the confidence is of kind `config.confidence`
    under the tempered law. Source: autonomousvision/mdpo, mdlm_generation_utils.py, which also
    reads a record of exactly 0 as 1, i.e. as never revealed.
    """

    def init(config, b, l):
        return jnp.zeros((b, l), jnp.float32)

    def plan(config):
        steps = config.num_steps // config.num_blocks
        passed = np.arange(1, steps + 1) / steps
        ratio = 1 - passed if config.schedule == "linear" else np.cos(np.pi / 2 * passed)
        left = np.floor(config.tokens_per_block * np.clip(ratio, 1e-6, 1.0)).astype(np.int32)
        left[-1] = 0
        return left

    def transition(memory, obs, keys):
        recorded = jnp.where(obs.decided | ~obs.pool, memory, obs.confidence)
        score = jnp.where(recorded == 0, -1.0, -recorded)
        score = jnp.where(obs.pool, score, -jnp.inf)
        remask = take_top(score, jnp.full(len(score), obs.planned))
        return obs.tokens, remask, recorded

    traits = Traits(reach="sequence", tempered=True)
    return Strategy(init=init, plan=plan, transition=transition, traits=traits)


@register_strategy("p2", kind="remask")
def p2() -> Strategy:
    """Path planning (P2) by the network's own confidence.

    Each step draws a token everywhere in the block, at decided positions too, and the
    floor(L (1 - (i + 1) / n)) positions whose draw is least probable end it masked. Other masks
    take their draw, other decided positions keep the token they hold. Confidence is therefore
    that in the draw, not in the token held. Source: pengzhangzhi/Open-dLLM, generation_utils.py,
    algorithm `p2` (Peng et al., arXiv 2502.03540), whose product is rounded in float32.
    """

    def plan(config):
        steps = config.num_steps // config.num_blocks
        rest = 1 - np.arange(1, steps + 1) / steps
        return (np.float32(config.tokens_per_block) * rest.astype(np.float32)).astype(np.int32)

    def transition(memory, obs, keys):
        score = -probability(obs.draw_logits, obs.drawn)
        score = jnp.where(obs.pool, score, -jnp.inf)
        remask = take_top(score, jnp.full(len(score), obs.planned))
        return obs.tokens, remask, memory

    return Strategy(plan=plan, transition=transition, traits=Traits(redraw=True))


@register_strategy("prism", kind="remask")
def prism() -> Strategy:
    """PRISM: the network's own judgement picks what goes back, confidence what is revealed.

    Of a budget of `num_remask` tokens a block, K_i go back in step i, spread evenly with the
    remainder on the steps nearest the middle. Step i puts back the K_i decided tokens of lowest
    `obs.quality` (fewer where fewer are decided) and reveals, from the same logits, the most
    confident of the positions masked before: K_i more than an even spread of the block, whose
    remainder is on the first steps. What goes back in the last step is left to the final fill.
    Source: SeunggeunKimkr/PRISM, PRISM_llada/sampling.py, where the budget is an argument.
    """

    def plan(config):
        steps = config.num_steps // config.num_blocks
        nearest = np.argsort(np.abs(np.arange(steps) - (steps - 1) / 2), kind="stable")
        counts = np.full(steps, config.num_remask // steps, np.int32)
        counts[nearest[: config.num_remask % steps]] += 1
        return counts

    def transition(memory, obs, keys):
        length = jnp.sum(obs.pool, axis=-1)
        share = length // obs.num_steps + (obs.step < length % obs.num_steps)
        judged = jnp.where(obs.pool & obs.decided, -obs.quality, -jnp.inf)
        remask = take_top(judged, jnp.full(len(length), obs.planned))
        score = jnp.where(obs.pool & ~obs.decided, obs.confidence, -jnp.inf)
        reveal = take_top(score, share + obs.planned)
        return obs.tokens, remask | ~(obs.decided | reveal), memory

    return Strategy(plan=plan, transition=transition, traits=Traits(needs_quality=True))


@register_strategy("remedi", kind="remask")
def remedi() -> Strategy:
    """RemeDi: only the positions that the network judges best are held after each step.

    Step i holds the n_0 + ... + n_i positions of the block of highest `obs.quality`, with the
    token drawn for them where they were masked; all others end it masked. The n_i spread the
    block over the steps, the remainder on the last ones. Source: maple-research-lab/RemeDi,
    inference.py, where the judgement is of the token drawn or held and steps are as many as
    tokens.
    """

    def plan(config):
        length, steps = config.tokens_per_block, config.num_steps // config.num_blocks
        counts = np.full(steps, length // steps, np.int32)
        counts[steps - length % steps :] += 1
        return np.cumsum(counts, dtype=np.int32)

    def transition(memory, obs, keys):
        quality = jnp.where(obs.pool, obs.quality, -jnp.inf)
        keep = take_top(quality, jnp.full(len(quality), obs.planned))
        return obs.tokens, ~keep, memory

    return Strategy(plan=plan, transition=transition, traits=Traits(needs_quality=True))
