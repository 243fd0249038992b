"""Dominated points: another one is at least as good in every metric and better in one."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import ArrayLike, Bool, Float

from ..errors import InputError
from .checks import plain_array

_SIGNS = {"up": 1.0, "down": -1.0}


def dominators(
    points: Float[ArrayLike, "n d"], directions: Sequence[str]
) -> Bool[np.ndarray, "n n"]:
    """Who dominates whom: [i, j] says that point j dominates point i.

    Point j dominates point i when it is nowhere worse and somewhere better. Equal points do not
    dominate each other, so both may be on the frontier.

    Args:
        points: one row an arm, one column a metric.
        directions: "up" or "down" for each column, whichever is better.

    Raises:
        InputError: another shape, NaN or infinity, or another direction.
    """
    gains = _gains(points, directions)
    ahead = gains[None, :] - gains[:, None]
    return np.all(ahead >= 0, axis=-1) & np.any(ahead > 0, axis=-1)


def clear_dominators(
    points: Float[ArrayLike, "n d"],
    stderr: Float[ArrayLike, "n d"],
    directions: Sequence[str],
    *,
    margin: float = 2.0,
) -> Bool[np.ndarray, "n n"]:
    """Who dominates whom beyond noise: better in every metric by `margin` combined errors.

    Args:
        points, directions: as in `dominators`.
        stderr: standard errors of `points`; 0 where a value carries none.
        margin: combined standard errors, sqrt(se_i^2 + se_j^2), that j must be ahead by.

    Raises:
        InputError: as in `dominators`, or errors of another shape or below 0.
    """
    gains = _gains(points, directions)
    errors = np.asarray(stderr, np.float64)
    if errors.shape != gains.shape or not (np.isfinite(errors) & (errors >= 0)).all():
        raise InputError(
            f"stderr has shape {list(errors.shape)}; it must be finite, not below 0, and of the"
            f" shape of points, {list(gains.shape)}"
        )
    ahead = gains[None, :] - gains[:, None]
    noise = np.hypot(errors[None, :], errors[:, None])
    return np.all((ahead > 0) & (ahead > margin * noise), axis=-1)


def non_dominated(
    points: Float[ArrayLike, "n d"], directions: Sequence[str]
) -> Bool[np.ndarray, "n"]:
    """The Pareto frontier: True for the points that no other dominates.

    Raises:
        InputError: as in `dominators`.
    """
    return ~np.any(dominators(points, directions), axis=1)


def _gains(points: Float[ArrayLike, "n d"], directions: Sequence[str]) -> Float[np.ndarray, "n d"]:
    """Values turned so that higher is better."""
    values = plain_array(points, "points")
    if values.ndim != 2 or values.shape[1] != len(directions) or values.shape[1] == 0:
        raise InputError(
            f"points has shape {list(values.shape)} for {len(directions)} directions; expected"
            " [points, metrics] with one direction a metric"
        )
    if not np.isfinite(values).all():
        raise InputError("points holds NaN or infinity; leave out arms that lack a metric")
    unknown = [name for name in directions if name not in _SIGNS]
    if unknown:
        raise InputError(f"directions holds {unknown[0]!r}; accepted: up, down")
    return values * np.array([_SIGNS[name] for name in directions])
