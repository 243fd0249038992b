"""Permutation test of MAUVE: the pooled rows are clustered once for all permutations."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .frontier import areas
from .mauve import cluster_banks
from .pairwise import dot
from .permutation import PermutationTest, deal_rows, summarise
from .token_rows import AnyArray


def mauve_permutation_test(
    reference: Float[AnyArray, "n d"],
    generated: Float[AnyArray, "m d"],
    *,
    num_clusters: int | None = None,
    scale: float = 5.0,
    seeds: Sequence[int] = (25,),
    explained_variance: float = 0.9,
    num_permutations: int = 999,
    seed: int = 0,
) -> PermutationTest:
    """`permutation_test` of `mauve`, where a smaller value is worse.

    `mauve` clusters the pooled rows in an order of their own, so that the clusters do not depend
    on which rows are the reference. Dealing the rows anew therefore only deals the labels: two
    histograms a permutation, one matrix product for all of them. The numbers are those of
    `permutation_test` with minus the value of `mauve`, up to rounding and the sign, and the
    p-value is exact: (k + 1) / (p + 1) with k permutations of a MAUVE no larger than `value`.

    Args:
      reference: Float[Array, "n d"], n >= 2.
      generated: Float[Array, "m d"], m >= 2.
      num_clusters, scale, seeds, explained_variance: as in `mauve`; the statistic is the mean
        over the clustering seeds.
      num_permutations: p >= 2.
      seed: of the deals, as in `permutation_test`.

    Returns:
      `PermutationTest`, values in [0, 1]; `null_mean` is MAUVE of two banks of one law at these
      sizes. Cost: one clustering, and p (n + m + 25 points) K a seed.

    Raises:
      ValueError: as `mauve` and `permutation_test`.

    Warns:
      UserWarning: as `mauve`.

    >>> import numpy as np
    >>> x, y = np.eye(2)[[0] * 30 + [1] * 10], np.eye(2)[[0] * 10 + [1] * 30]
    >>> test = mauve_permutation_test(x, y, num_clusters=2, num_permutations=199)
    >>> round(float(test.value), 4), round(float(test.p_value), 4)
    (0.5596, 0.005)
    """
    banks = cluster_banks(reference, generated, num_clusters, scale, seeds, explained_variance)
    dtype, total = banks.scale.dtype, banks.labels.shape[1]
    deals = deal_rows(total, num_permutations, seed)
    dealt = np.zeros((num_permutations + 1, total), bool)
    for row, deal in zip(dealt, deals):
        row[deal[: banks.n]] = True
    of_reference = jnp.asarray(dealt, dtype)
    values = []
    for labels in banks.labels:
        member = jnp.asarray(labels[:, None] == np.arange(banks.num_clusters), dtype)
        p = dot(of_reference, member)
        values.append(areas(p, jnp.sum(member, axis=0) - p, banks.scale))
    resolution = jnp.asarray(8 * jnp.finfo(dtype).eps, dtype)
    worse = summarise(-jnp.mean(jnp.stack(values), axis=0), resolution)
    return worse._replace(value=-worse.value, null_mean=-worse.null_mean, null=-worse.null)
