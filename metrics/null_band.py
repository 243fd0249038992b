"""The null band of a distance: what it says of two banks of one and the same law."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .permutation import Statistic, check_seed, count_rows, values_of_splits
from .spread import deviation
from .token_rows import check_integer


class NullBand(NamedTuple):
    """Range of a statistic between two disjoint parts of one bank; every field is an array.

    Attributes:
      low: Float[""] quantile (1 - level) / 2 of the values.
      high: Float[""] quantile (1 + level) / 2.
      mean: Float[""] mean of the values, the floor of the statistic at this size.
      sd: Float[""] their standard deviation (ddof=1).
      values: Float["draws"].
    """

    low: Float[Array, ""]
    high: Float[Array, ""]
    mean: Float[Array, ""]
    sd: Float[Array, ""]
    values: Float[Array, " draws"]


def null_band(
    statistic: Statistic,
    rows: Any,
    *,
    size: int | None = None,
    num_draws: int = 100,
    level: float = 0.95,
    seed: int = 0,
    compiled: bool = False,
) -> NullBand:
    """Reference against reference: the range to print beside every distance.

    Every draw takes 2 size rows without replacement and gives one half to each side. Nearly all
    distances depend on n (V-statistics and Fréchet fall as it grows), so a band belongs to banks
    of `size` rows and no others: hold at least twice as many reference rows as samples a
    generator has. A generator inside the band is not told apart from real data at this n.

    The mean is unbiased for two fresh banks of `size` rows. Draws share rows, the more the
    closer 2 size is to the number of rows, and repeat none: the band describes splits of this
    bank, and is somewhat narrower than that of ever new banks. For an exact test of one
    generator use `permutation_test`.

    Args:
      statistic: (reference, generated) -> one finite number: any distance, or MAUVE as
        `lambda x, y: mauve(x, y).value`.
      rows: Array["n ..."], or a pytree of arrays with n rows each.
      size: rows of either side, 1 <= size <= n / 2; None = n // 2.
      num_draws: >= 2.
      level: share of the values inside [low, high], in (0, 1). Few draws carry no extreme
        quantile: for 0.95 take at least 40.
      seed: of NumPy's generator; it fixes the draws on every platform.
      compiled: run all draws in one traced program, see `permutation_test`.

    Returns:
      `NullBand`, in the unit of the statistic. Cost: num_draws times that of the statistic.

    Raises:
      ValueError: fewer than 2 size rows, NaN or infinity, a statistic that is not one finite
        number, an option outside its range.

    >>> import numpy as np
    >>> def gap(x, y): return x.mean() - y.mean()
    >>> band = null_band(gap, np.arange(40.0)[:, None], size=5, num_draws=50)
    >>> bool(band.low < band.mean < band.high), band.values.shape
    (True, (50,))
    """
    n = count_rows("rows", rows)
    size = n // 2 if size is None else size
    check_integer("size", size, 0)
    if not 1 <= size <= n // 2:
        raise ValueError(
            f"size must lie in 1..{n // 2}, half of the {n} rows, since the two sides share none; "
            f"got {size}: pass more rows or a smaller size"
        )
    check_integer("num_draws", num_draws, 2)
    if not isinstance(level, float | np.floating) or not 0 < level < 1:
        raise ValueError(f"level must be a number in (0, 1), got {level!r}")
    rng = np.random.default_rng(check_seed(seed))
    splits = (rng.permutation(n)[: 2 * size].astype(np.int32) for _ in range(num_draws))
    values = values_of_splits(statistic, rows, splits, size, 2 * size, compiled=compiled)
    low, high = jnp.quantile(values, jnp.asarray([(1 - level) / 2, (1 + level) / 2], values.dtype))
    return NullBand(low, high, jnp.mean(values), deviation(values), values)
