"""Checks of what callers hand to `transition_probabilities`."""

import operator
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

_RANGES = {
    "t": "in (0, 1]",
    "dt": "in [0, t]",
    "eta": "in [0, 1]",
    "t_on": "in [0, 1]",
    "t_off": "in [0, t_on]",
    "alpha_on": "in [0, 1)",
    "nucleus_p": "in (0, 1]",
}


def check_transition_arguments(
    p_x0: Any, tokens: Any, confidence: Any, mask_id: Any, scalars: dict[str, Any]
) -> None:
    """Raises ValueError naming the argument; traced arrays are checked by shape and dtype only."""
    shape = jnp.shape(p_x0)
    if len(shape) != 3 or not jnp.issubdtype(jnp.result_type(p_x0), jnp.floating):
        raise ValueError(
            f"p_x0 is {jnp.result_type(p_x0)}{list(shape)}; expected floating-point probabilities "
            "[batch, length, vocabulary]"
        )
    given: list[tuple[str, Any, Any]] = [("tokens", tokens, jnp.integer)]
    if confidence is not None:
        given.append(("confidence", confidence, jnp.floating))
    for name, value, kind in given:
        if jnp.shape(value) != shape[:2] or not jnp.issubdtype(jnp.result_type(value), kind):
            raise ValueError(
                f"{name} is {jnp.result_type(value)}{list(jnp.shape(value))}; expected "
                f"{kind.__name__}{list(shape[:2])}, the first two axes of p_x0"
            )
    for name, value in scalars.items():
        if jnp.shape(value) != ():
            raise ValueError(f"{name} has shape {list(jnp.shape(value))}; expected one number")
    if is_known(mask_id) and not 0 <= _index(mask_id) < shape[-1]:
        raise ValueError(
            f"mask_id={mask_id!r} is not one of the {shape[-1]} columns of p_x0; the law of a step "
            "has a column for the mask"
        )
    _check_scalars(scalars)
    if is_known(mask_id) and is_known(p_x0) and is_known(tokens):
        _check_values(np.asarray(p_x0, np.float64), np.asarray(tokens), int(mask_id))
    if confidence is not None and is_known(confidence):
        values = np.asarray(confidence, np.float64)
        if np.isnan(values).any() or np.isposinf(values).any():
            raise ValueError("confidence holds NaN or +inf; use -inf where a position is undecided")


def _index(value: Any) -> int:
    """The value as a whole number, -1 if it is none."""
    try:
        return operator.index(value)
    except TypeError:
        return -1


def _check_scalars(scalars: dict[str, Any]) -> None:
    values = {name: float(value) for name, value in scalars.items() if is_known(value)}
    for name, value in values.items():
        upper = 1.0
        if name == "dt":
            # t and dt may come from float32 arithmetic.
            upper = values.get("t", 1.0) * (1 + 1e-5)
        elif name == "t_off":
            upper = values.get("t_on", 1.0)
        inside = 0 <= value <= upper
        if name in ("t", "nucleus_p"):
            inside &= value > 0
        if name == "alpha_on":
            inside &= value < 1
        if not inside:
            raise ValueError(f"{name}={value!r} must be {_RANGES[name]}")


def _check_values(p_x0: np.ndarray, tokens: np.ndarray, mask_id: int) -> None:
    vocab = p_x0.shape[-1]
    if tokens.size and not (tokens.min() >= 0 and tokens.max() < vocab):
        raise ValueError(
            f"tokens holds ids from {tokens.min()} to {tokens.max()}; p_x0 has {vocab} columns"
        )
    rows = p_x0[tokens == mask_id]
    if not (np.isfinite(rows).all() and (rows >= 0).all()):
        raise ValueError("p_x0 holds NaN, infinite or negative values at undecided positions")
    if (np.delete(rows, mask_id, axis=-1).sum(axis=-1) <= 0).any():
        raise ValueError(
            "p_x0 has an undecided position without mass on any token but the mask; expected "
            "probabilities, not logits"
        )


def is_known(value: Any) -> bool:
    """Whether a value can be looked at now: not a tracer."""
    return not isinstance(value, Tracer)
