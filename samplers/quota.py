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


def paced_quota(config: SamplerConfig, kind: Kind) -> QuotaFn:
    """The quota function that `config.pace` names, for a strategy of that kind."""
    pace = config.pace
    if pace == "auto":
        pace = "floor" if kind == "remask" else "ceil"
    if pace == "table":
        return table_quota(config.tokens_per_block)
    return floor_quota if pace == "floor" else ceil_quota
