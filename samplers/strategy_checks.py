"""Refusing what a strategy's functions return in the wrong shape, naming the strategy."""

import jax
import jax.numpy as jnp
import numpy as np

from .carry import signature
from .config import SamplerConfig
from .registry import Entry
from .schedule import Rules
from .types import Memory


def parts_of(name: str, field: str, value, count: int) -> tuple:
    """The value if it is a tuple of that many parts; ValueError naming the strategy if not."""
    if isinstance(value, tuple) and len(value) == count:
        return value
    got = f"{len(value)} parts" if isinstance(value, tuple) else type(value).__name__
    raise ValueError(f"strategy {name!r}: {field} returned {got}, expected a tuple of {count}")


def check_array(name: str, field: str, value, shape: tuple[int, ...], kind) -> None:
    """Raises ValueError unless value has that shape and a dtype of that kind."""
    if not hasattr(value, "dtype"):
        raise ValueError(
            f"strategy {name!r}: {field} returned {type(value).__name__}, expected an array "
            f"{kind.__name__}{list(shape)}"
        )
    dtype = jnp.result_type(value)
    if jnp.shape(value) != shape or not jnp.issubdtype(dtype, kind):
        raise ValueError(
            f"strategy {name!r}: {field} returned {dtype}{list(jnp.shape(value))}, expected "
            f"{kind.__name__}{list(shape)}"
        )


def check_memory(name: str, before: Memory, after: Memory) -> None:
    """Raises ValueError unless both memories have the same structure, shapes and dtypes."""
    if signature(before) != signature(after):
        raise ValueError(
            f"strategy {name!r}: a step returned a memory unlike the one it was given: "
            f"{signature(after)} instead of {signature(before)}"
        )


def initial_memory(entry: Entry, config, batch: int, length: int) -> Memory:
    """The strategy's memory before the first step; () for strategies without one."""
    if entry.strategy.init is None:
        return ()
    memory = jax.tree.map(jnp.asarray, entry.strategy.init(config, batch, length))
    for leaf in jax.tree.leaves(memory):
        if leaf.shape[:1] != (batch,):
            raise ValueError(
                f"strategy {entry.name!r}: init returned {leaf.dtype}{list(leaf.shape)}; every "
                f"array of the memory needs the leading axis b={batch}, one row per sample"
            )
    return memory


def check_quota(entry: Entry, rules: Rules, batch: int) -> None:
    """Raises ValueError if the quota function returns another shape or dtype than it should."""
    masked = jax.ShapeDtypeStruct((batch,), jnp.int32)
    scalar = jax.ShapeDtypeStruct((), jnp.int32)
    result = jax.eval_shape(rules.quota, masked, scalar, scalar, scalar)
    check_array(entry.name, "quota", result, (batch,), jnp.integer)


def host_plan(entry: Entry, config: SamplerConfig) -> np.ndarray:
    """The strategy's counts for the steps of a block, padded so that few shapes occur."""
    if entry.strategy.plan is None:
        return np.zeros(1, np.int32)
    steps = config.num_steps // config.num_blocks
    plan = np.zeros(1 << max(14, (steps - 1).bit_length()), np.int32)
    counts = np.asarray(entry.strategy.plan(config))
    if counts.shape != (steps,) or not np.issubdtype(counts.dtype, np.integer):
        raise ValueError(
            f"strategy {entry.name!r}: plan returned {counts.dtype}{list(counts.shape)}, "
            f"expected whole numbers [{steps}], one a step of a block"
        )
    plan[:steps] = counts
    return plan
