"""Truncated laws: which ids of a distribution may be drawn at all.

They exist to reproduce published runs. A truncated law is another law, not a better draw from the
same one, so protocol runs leave them off.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def keep_top_k(logits: Float[Array, "*b v"], top_k: Int[Array, ""]) -> Bool[Array, "*b v"]:
    """The `top_k` largest, and whatever ties with the last of them (Dream, `top_k_logits`)."""
    falling = -jnp.sort(-logits, axis=-1)
    last = jnp.clip(top_k - 1, 0, logits.shape[-1] - 1)
    return logits >= jnp.take(falling, last, axis=-1)[..., None]


def keep_top_p(logits: Float[Array, "*b v"], top_p: Float[Array, ""]) -> Bool[Array, "*b v"]:
    """The most likely until their mass exceeds top_p, the one that crosses it included (Dream)."""
    return _keep_sorted(logits, lambda above, own: above <= top_p)


def keep_nucleus(logits: Float[Array, "*b v"], p: Float[Array, ""]) -> Bool[Array, "*b v"]:
    """The most likely whose mass together is at most p: the one that crosses it is dropped.

    The most likely one is always kept. As in kuleshov-group/remdm, diffusion.py.
    """
    return _keep_sorted(logits, lambda above, own: (above + own <= p) | (above == 0))


def truncate(
    logits: Float[Array, "*b v"],
    *,
    top_k: Int[Array, ""] | None = None,
    top_p: Float[Array, ""] | None = None,
    nucleus_p: Float[Array, ""] | None = None,
) -> Float[Array, "*b v"]:
    """Tempered logits with -inf where a truncation forbids the id; None leaves one out.

    top_p comes before top_k, as in Dream. Cost: a sort of the vocabulary for each.
    """
    if top_p is not None:
        logits = jnp.where(keep_top_p(logits, top_p), logits, -jnp.inf)
    if top_k is not None:
        logits = jnp.where(keep_top_k(logits, top_k), logits, -jnp.inf)
    if nucleus_p is not None:
        logits = jnp.where(keep_nucleus(logits, nucleus_p), logits, -jnp.inf)
    return logits


def _keep_sorted(logits: Float[Array, "*b v"], keep) -> Bool[Array, "*b v"]:
    """Marks ids by `keep(mass above, own mass)`, in the order of falling probability.

    Equal ids fall in the order of their index.
    """
    order = jnp.argsort(-logits, axis=-1, stable=True)
    own = jnp.take_along_axis(jax.nn.softmax(logits, axis=-1), order, axis=-1)
    total = jnp.cumsum(own, axis=-1)
    above = jnp.concatenate([jnp.zeros_like(total[..., :1]), total[..., :-1]], axis=-1)
    kept = keep(above, own)
    rank = jnp.argsort(order, axis=-1)
    return jnp.take_along_axis(kept, rank, axis=-1)
