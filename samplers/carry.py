"""What a stateful network carries from one forward to the next, beside the canvas.

Its forward is no function of the tokens alone: the same canvas again gives other logits. So no
forward may be skipped, reused or doubled, and a sample's carry moves with the forwards that the
sample is charged for, whatever the rest of its batch does.
"""

import inspect
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from .config import SamplerConfig
from .types import Carry, LogitsFn


def checked_carry(carry: Any, logits_fn: LogitsFn, batch: int, config: SamplerConfig) -> Carry:
    """The carry as arrays; None for a network that is stateless.

    Raises:
      ValueError: a leaf is no array with a row a sample, `logits_fn` takes no carry, or a setting
        supposes that a forward depends on its tokens alone.
    """
    if carry is None:
        return None
    for path, leaf in jax.tree_util.tree_leaves_with_path(carry):
        dtype, shape = getattr(leaf, "dtype", None), jnp.shape(leaf)
        if dtype is None or shape[:1] != (batch,):
            got = type(leaf).__name__ if dtype is None else f"{dtype}{list(shape)}"
            raise ValueError(
                f"carry{jax.tree_util.keystr(path)} is {got}; every leaf of the carry must be an "
                f"array with the batch first, here {batch} rows"
            )
    if not _takes_carry(logits_fn):
        raise ValueError(
            "a carry is given, but logits_fn has no argument `carry`; pass carry=None for a "
            "network whose forward depends on the tokens alone"
        )
    # fixed_churn first: it goes with skip_idle=True, so the advice to change that would mislead.
    for field, wrong, why, remedy in (
        ("loop", config.loop == "fixed_churn", "which skips idle steps", "loop='care'"),
        (
            "skip_idle",
            config.skip_idle,
            "which leaves out forwards that the carry would go through",
            "skip_idle=False",
        ),
        (
            "refresh_reuse",
            config.refresh_reuse,
            "which takes two forwards on one canvas to be the same",
            "refresh_reuse=False",
        ),
        (
            "cfg_scale",
            config.cfg_scale > 0,
            "whose rows without the prompt would need a carry of their own",
            "cfg_scale=0",
        ),
    ):
        if wrong:
            raise ValueError(
                f"{field}={getattr(config, field)!r}, {why}, does not go with a network that "
                f"carries state between forwards (carry=…); set {remedy}"
            )
    return jax.tree.map(jnp.asarray, carry)


def check_same(given: Carry, returned: Carry) -> None:
    """Raises ValueError unless both have the same structure, shapes and dtypes."""
    if signature(given) != signature(returned):
        raise ValueError(
            "logits_fn returned a carry unlike the one it was given: "
            f"{signature(returned)} instead of {signature(given)}"
        )


def signature(tree: Any) -> tuple[Any, list]:
    """Structure of a pytree, and shape and dtype of each leaf."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(jnp.shape(x), jnp.result_type(x)) for x in leaves]


def moved(where: Bool[Array, "b"], new: Any, old: Any) -> Any:
    """Row by row of every leaf, the new one where `where` holds and the old one elsewhere."""
    return jax.tree.map(
        lambda after, before: jnp.where(where.reshape(-1, *[1] * (after.ndim - 1)), after, before),
        new,
        old,
    )


def _takes_carry(logits_fn: LogitsFn) -> bool:
    try:
        parameters = inspect.signature(logits_fn).parameters.values()
    except ValueError:  # a callable that does not tell: tracing will
        return True
    return any(p.name == "carry" or p.kind is p.VAR_KEYWORD for p in parameters)
