"""How many masks a step reveals when the strategy leaves it to the pace."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Int

from .config import SamplerConfig
from .registry import Kind
from .types import QuotaFn


def ceil_quota(
    masked: Int[Array, "b"], left: Int[Array, ""], step: Int[Array, ""], num_steps: Int[Array, ""]
) -> Int[Array, "b"]:
    """Masks over steps left, rounded up: exactly LLaDA's table as long as nothing is remasked."""
    return lax.div(masked + left - 1, jnp.broadcast_to(left, masked.shape))


def floor_quota(
    masked: Int[Array, "b"], left: Int[Array, ""], step: Int[Array, ""], num_steps: Int[Array, ""]
) -> Int[Array, "b"]:
    """Masks over steps left, rounded down, at least 1: what remasking adds is caught up late."""
    return jnp.maximum(1, lax.div(masked, jnp.broadcast_to(left, masked.shape)))


def table_quota(length: int) -> QuotaFn:
    """The counts of LLaDA's published code: `length` spread over the steps, the first get more."""

    def quota(
        masked: Int[Array, "b"],
        left: Int[Array, ""],
        step: Int[Array, ""],
        num_steps: Int[Array, ""],
    ) -> Int[Array, "b"]:
        count = length // num_steps + (step < length % num_steps)
        return jnp.full(masked.shape, count, jnp.int32)

    return quota


def target_quota(length: int) -> QuotaFn:
    """Reveals up to a straight line: floor((s + 1) * length / num_steps) decided after step s.

    What the step before put back is caught up at once.
    """

    def quota(
        masked: Int[Array, "b"],
        left: Int[Array, ""],
        step: Int[Array, ""],
        num_steps: Int[Array, ""],
    ) -> Int[Array, "b"]:
        aim = length - lax.div((step + 1) * length, num_steps)
        return jnp.maximum(masked - aim, 0)

    return quota


def churn_quota(length: int, num_remask: Int[Array, ""]) -> QuotaFn:
    """Counts of `loop="fixed_churn"`: the straight line although `num_remask` go back each step.

    Nothing more is due once no more than that are masked.
    """
    target = target_quota(length)

    def quota(
        masked: Int[Array, "b"],
        left: Int[Array, ""],
        step: Int[Array, ""],
        num_steps: Int[Array, ""],
    ) -> Int[Array, "b"]:
        count = target(masked, left, step, num_steps) + num_remask
        return jnp.where(masked > num_remask, count, 0)

    return quota


def all_quota(
    masked: Int[Array, "b"], left: Int[Array, ""], step: Int[Array, ""], num_steps: Int[Array, ""]
) -> Int[Array, "b"]:
    """Every mask there is."""
    return masked


def paced_quota(config: SamplerConfig, kind: Kind, num_remask: Int[Array, ""]) -> QuotaFn:
    """The quota function that `config.pace` and `config.loop` name, for a strategy of that kind."""
    if config.loop == "fixed_churn":
        return churn_quota(config.tokens_per_block, num_remask)
    pace = config.pace
    if pace == "auto":
        pace = "floor" if kind == "remask" else "ceil"
    if pace == "table":
        return table_quota(config.tokens_per_block)
    if pace == "target":
        return target_quota(config.tokens_per_block)
    return floor_quota if pace == "floor" else ceil_quota
