"""Unmasking orders: which masks are revealed next, when nothing is ever put back.

The first four are the algorithms of Dream (DreamLM/Dream, generation_utils.py). They count in
time t, which falls in equal steps from 1 to 1e-3: of m masks a step from t to s reveals
int(m (1 - s / t)), all that are left in the last. As 1e-3 is not 0 the count falls short of m
over the steps left, so that with as many steps as tokens the first step reveals nothing. The
published code takes m as the mean over the batch; here each sample counts its own. Tokens are
drawn at `token_temp`, and the order looks at that tempered and truncated law, as published.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from .ranking import confidence, probability, take_top
from .registry import register_strategy
from .types import Obs, Strategy, Traits

_DREAM = Traits(draw_temp="token_temp", tempered=True)
_END_TIME = 1e-3


def _dream_quota(
    masked: Int[Array, "b"], left: Int[Array, ""], step: Int[Array, ""], num_steps: Int[Array, ""]
) -> Int[Array, "b"]:
    """int(m (1 - s / t)) masks; all of them in the last step."""
    count = (masked.astype(jnp.float32) * _share(step, num_steps)).astype(jnp.int32)
    return jnp.where(left == 1, masked, count)


@register_strategy("origin", kind="order")
def origin() -> Strategy:
    """Reveals each mask with probability 1 - s / t, whatever the network says (Dream `origin`).

    That is the reverse of the masking process; how many are revealed is random. Masks left in the
    last step are all revealed.
    """

    def quota(masked, left, step, num_steps):
        return masked

    def order(obs, keys):
        length = obs.tokens.shape[1]
        share = jnp.where(obs.step + 1 == obs.num_steps, 1.0, _share(obs.step, obs.num_steps))
        uniform = jax.vmap(lambda key: jax.random.uniform(key, (length,), jnp.float32))(keys)
        return jnp.where(uniform < share, 0.0, -jnp.inf)

    return Strategy(quota=quota, order=order, traits=_DREAM)


@register_strategy("entropy", kind="order")
def entropy() -> Strategy:
    """Reveals where the tempered distribution has least entropy first (Dream `entropy`)."""

    def order(obs, keys):
        return _perturbed(obs, keys, confidence("entropy", obs.draw_logits, obs.drawn))

    return Strategy(quota=_dream_quota, order=order, traits=_DREAM)


@register_strategy("maskgit", kind="order")
def maskgit() -> Strategy:
    """Reveals the most probable of the drawn tokens first (Dream `maskgit_plus`)."""

    def order(obs, keys):
        return _perturbed(obs, keys, probability(obs.draw_logits, obs.drawn))

    return Strategy(quota=_dream_quota, order=order, traits=_DREAM)


@register_strategy("topk_margin", kind="order")
def topk_margin() -> Strategy:
    """Reveals where the two most likely tokens are farthest apart first (Dream `topk_margin`)."""

    def order(obs, keys):
        return _perturbed(obs, keys, confidence("margin", obs.draw_logits, obs.drawn))

    return Strategy(quota=_dream_quota, order=order, traits=_DREAM)


@register_strategy("threshold", kind="order")
def threshold() -> Strategy:
    """Reveals every mask that the network is sure of, and always the surest one.

    Sure means a confidence of at least `config.threshold`: Fast-dLLM's parallel decoding
    (NVlabs/Fast-dLLM, llada/generate.py), which runs as many steps as that takes. Here num_steps
    is the bound on them: one a token is always enough, and the final fill reveals what fewer
    leave over.
    """

    def quota(masked, left, step, num_steps):
        return masked

    def order(obs, keys):
        score = jnp.where(obs.pool, obs.confidence, -jnp.inf)
        surest = take_top(score, jnp.ones(len(score), jnp.int32))
        return jnp.where(surest | (score >= obs.settings.threshold), score, -jnp.inf)

    return Strategy(quota=quota, order=order)


def _share(step: Int[Array, ""], num_steps: Int[Array, ""]) -> Float[Array, ""]:
    """1 - s / t in float32, from times spaced as `torch.linspace` spaces them."""
    stride = (_END_TIME - 1.0) / num_steps.astype(jnp.float32)

    def time(index):
        low, high = index.astype(jnp.float32), (num_steps - index).astype(jnp.float32)
        first_half = index < (num_steps + 1) // 2
        return jnp.where(first_half, 1.0 + low * stride, _END_TIME - high * stride)

    return 1.0 - time(step + 1) / time(step)


def _perturbed(obs: Obs, keys: Key[Array, "b"], score: Float[Array, "b l"]) -> Float[Array, "b l"]:
    """The score, or at alg_temp > 0 one that draws positions from softmax(score / alg_temp).

    Adding a Gumbel variable to each and taking the highest draws them without replacement, one
    after the other, which is the law of the published multinomial draw.
    """
    temp, length = obs.settings.alg_temp, score.shape[1]
    noise = jax.vmap(lambda key: jax.random.gumbel(key, (length,), jnp.float32, mode="high"))(keys)
    return jnp.where(temp > 0, score / jnp.where(temp > 0, temp, 1.0) + noise, score)
