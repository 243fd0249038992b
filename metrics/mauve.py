"""MAUVE: the divergence frontier of two banks, quantised by clustering."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .checks import check_banks
from .frontier import NUM_POINTS, areas, frontier, frontier_integral
from .kmeans import kmeans
from .pairwise import dot
from .spread import mean_stderr
from .token_rows import AnyArray, check_integer, is_traced

# Clustering runs at widths that are multiples of this, so that few shapes are compiled.
_WIDTH = 32


class Mauve(NamedTuple):
    """MAUVE of a bank; every number but `num_clusters` is an array.

    Attributes:
      value: Float[""] in [0, 1], mean over clustering seeds; higher is better.
      stderr: Float[""] standard error of that mean over seeds, None for one seed. It measures
        the clustering only, not the sampling of the banks.
      star: Float[""] MAUVE*, the same with half a count added to every cluster; mean over seeds.
      frontier_integral: Float[""] in [0, 1], lower is better; mean over seeds.
      curve: Float["points 2"] the frontier of the first seed, from (1, 0) to (0, 1):
        exp(-scale KL(generated | mixture)), exp(-scale KL(reference | mixture)).
      num_clusters: int, K.
      reference_histogram: Float["k"] share of the reference in every cluster, first seed.
      generated_histogram: Float["k"] share of the generated bank, first seed.
    """

    value: Float[Array, ""]
    stderr: Float[Array, ""] | None
    star: Float[Array, ""]
    frontier_integral: Float[Array, ""]
    curve: Float[Array, "points 2"]
    num_clusters: int
    reference_histogram: Float[Array, " k"]
    generated_histogram: Float[Array, " k"]


def mauve(
    reference: Float[AnyArray, "n d"],
    generated: Float[AnyArray, "m d"],
    *,
    num_clusters: int | None = None,
    scale: float = 5.0,
    seeds: Sequence[int] = (25,),
    explained_variance: float = 0.9,
) -> Mauve:
    """MAUVE from features: L2-normalised rows, joint PCA, k-means, divergence frontier.

    Rows are put in an order of their own before clustering, so the result depends neither on
    the order of rows nor on which bank is called the reference (swapping swaps the axes of the
    curve), only on the seed. Values of single seeds scatter by about 0.005 to 0.01: use
    several. Two samples of one law give about 0.96 at n = 1,024, not 1; with the default K the
    value of different laws rises as n falls; more clusters at the same n lower it; disjoint
    banks give 0.0041. Compare at equal n and K and print the null band (`null_band`) or the
    p-value (`mauve_permutation_test`).

    Only directions count: rows are divided by their length, a row of zeros stays at zero, and
    one-dimensional features are reduced to their signs. Fewer distinct rows than clusters leave
    clusters empty, which changes nothing; banks of one and the same row give 1.

    Not for use inside `jax.jit`: the number of principal components depends on the data.
    Cost: an eigendecomposition of size min(n + m, d), then k-means of all seeds at once.

    Args:
      reference: Float[Array, "n d"], n >= 2.
      generated: Float[Array, "m d"], m >= 2.
      num_clusters: K; None = max(2, round(min(n, m) / 10)).
      scale: c in exp(-c KL).
      seeds: clustering seeds in 0..2^32 - 1, all clustered in one computation.
      explained_variance: share of variance in (0, 1] that the principal components must reach.

    Returns:
      `Mauve`.

    Raises:
      ValueError: wrong rank, unequal widths, fewer than two rows, NaN or infinity, num_clusters
        not in 2..n + m, scale <= 0, no seed, explained_variance outside (0, 1], traced arrays.

    Warns:
      UserWarning: fewer than ten rows a cluster in the smaller bank.

    Source: Pillutla et al. 2021 and 2023; steps and defaults as mauve-text, whose k-means
    differs, so values agree in distribution (to 0.03) and exactly from equal histograms.

    >>> import numpy as np
    >>> x, y = np.eye(2)[[0] * 30 + [1] * 10], np.eye(2)[[0] * 10 + [1] * 30]
    >>> result = mauve(x, y, num_clusters=2, seeds=(0, 1, 2))
    >>> round(float(result.value), 4), sorted(result.reference_histogram.tolist())
    (0.5596, [0.25, 0.75])
    """
    banks = cluster_banks(reference, generated, num_clusters, scale, seeds, explained_variance)
    p, q = banks.histograms()
    laws = p / jnp.sum(p[0]), q / jnp.sum(q[0])
    values = areas(p, q, banks.scale)
    stderr = None
    if len(seeds) > 1:
        stderr = mean_stderr(values)
    return Mauve(
        value=jnp.mean(values),
        stderr=stderr,
        star=jnp.mean(areas(p + 0.5, q + 0.5, banks.scale)),
        frontier_integral=jnp.mean(jax.vmap(frontier_integral)(*laws)),
        curve=frontier(laws[0][0], laws[1][0], banks.scale, NUM_POINTS),
        num_clusters=banks.num_clusters,
        reference_histogram=laws[0][0],
        generated_histogram=laws[1][0],
    )


def mauve_stderr(
    reference: Float[AnyArray, "n d"],
    generated: Float[AnyArray, "m d"],
    *,
    num_clusters: int | None = None,
    scale: float = 5.0,
    seeds: Sequence[int] = (25,),
    explained_variance: float = 0.9,
) -> Float[Array, ""]:
    """Standard error of `mauve` when both banks are drawn anew, the clusters held fixed.

    Delete-one jackknife over the rows of either bank: dropping a row changes the histogram of
    every seed by one count. `Mauve.stderr` is another thing, the scatter of the mean over
    clustering seeds; neither holds the bias in n. For banks of one law MAUVE is not normal and
    this is only of the right order. Arguments, errors and cost as for `mauve`.

    Returns:
      Float[Array, ""], float32 (float64 under x64).

    >>> import numpy as np
    >>> x, y = np.eye(2)[[0] * 30 + [1] * 10], np.eye(2)[[0] * 10 + [1] * 30]
    >>> round(float(mauve_stderr(x, y, num_clusters=2)), 4)
    0.205
    """
    banks = cluster_banks(reference, generated, num_clusters, scale, seeds, explained_variance)
    p, q = banks.histograms()

    def variance(of_bank, counts, others):
        values = _areas_without_one(counts, others, banks.scale)
        of_rows = jnp.take_along_axis(values, jnp.asarray(banks.labels[:, of_bank]), axis=1)
        dropped = jnp.mean(of_rows, axis=0)
        n = dropped.shape[0]
        return (n - 1) / n * jnp.sum((dropped - jnp.mean(dropped)) ** 2)

    both = variance(slice(None, banks.n), p, q) + variance(slice(banks.n, None), q, p)
    return jnp.sqrt(both)


@jax.jit
def _areas_without_one(counts, others, scale) -> Float[Array, "s k"]:
    """`areas` with one count less in every cluster in turn; of empty clusters without meaning."""

    def drop(cluster):
        less = jnp.arange(counts.shape[1]) == cluster
        return areas(jnp.maximum(counts - less, 0), others, scale)

    return jax.lax.map(drop, jnp.arange(counts.shape[1])).T


class ClusteredBanks(NamedTuple):
    """Cluster labels of the pooled rows, reference first; they depend on no bank's name.

    Attributes:
      labels: Int["s n+m"] a clustering for every seed.
      n: rows of the reference.
      num_clusters: K.
      scale: Float[""] c, in the type of the features.
    """

    labels: Int[np.ndarray, "s r"]
    n: int
    num_clusters: int
    scale: Float[Array, ""]

    def histograms(self) -> tuple[Float[Array, "s k"], Float[Array, "s k"]]:
        """Counts of the reference and of the generated bank in every cluster."""

        def counts(labels):
            rows = [np.bincount(row, minlength=self.num_clusters) for row in labels]
            return jnp.asarray(np.stack(rows), self.scale.dtype)

        return counts(self.labels[:, : self.n]), counts(self.labels[:, self.n :])


def cluster_banks(
    reference, generated, num_clusters, scale, seeds, explained_variance
) -> ClusteredBanks:
    """Steps of `mauve` before its histograms."""
    if is_traced(reference, generated):
        raise ValueError(
            "MAUVE cannot run inside jax.jit or jax.vmap, since its number of principal components "
            "depends on the data; call it outside, or use mauve_from_histograms"
        )
    reference, generated = check_banks(reference, generated)
    n, m = reference.shape[0], generated.shape[0]
    smaller = min(n, m)
    if num_clusters is None:
        num_clusters = max(2, round(smaller / 10))
    _check_options(num_clusters, n + m, scale, seeds, explained_variance)
    if num_clusters > round(smaller / 10):
        warnings.warn(
            f"MAUVE with {num_clusters} clusters wants at least {10 * num_clusters} rows in each "
            f"bank, the smaller one has {smaller}: the value will be noisy and biased low",
            UserWarning,
            stacklevel=3,
        )
    rows, order = _canonical_rows(np.asarray(reference), np.asarray(generated))
    projected = _principal_components(jnp.asarray(rows), explained_variance)
    keys = jax.vmap(jax.random.key)(jnp.asarray(np.asarray(seeds, np.uint32)))
    labels = np.empty((len(seeds), n + m), np.int32)
    labels[:, order] = np.asarray(kmeans(projected, num_clusters, keys).labels)
    return ClusteredBanks(labels, n, num_clusters, jnp.asarray(scale, reference.dtype))


def _check_options(num_clusters, num_rows, scale, seeds, explained_variance):
    check_integer("num_clusters", num_clusters, 2, num_rows)
    if not scale > 0:
        raise ValueError(f"scale must be positive, got {scale}")
    if np.ndim(seeds) != 1 or not len(seeds):
        raise ValueError(f"seeds must be one or more integers in 0..2^32 - 1, got {seeds}")
    for seed in seeds:
        check_integer("every one of seeds", seed, 0, 2**32 - 1)
    if not 0 < explained_variance <= 1:
        raise ValueError(f"explained_variance must lie in (0, 1], got {explained_variance}")


def _canonical_rows(reference: np.ndarray, generated: np.ndarray):
    """Normalised rows of both banks, sorted by their bytes, and their places before that."""
    rows = np.concatenate([reference, generated])
    norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    rows = np.ascontiguousarray(rows / np.where(norms > 0, norms, 1), reference.dtype)
    text = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    order = np.argsort(text, kind="stable")
    return rows[order], order


def _principal_components(rows: Float[Array, "n d"], explained_variance: float):
    """Coordinates along the leading axes, zero-padded to one of few widths."""
    centred, axes, variances = _principal_axes(rows)
    shares = np.cumsum(np.maximum(np.asarray(variances, np.float64), 0))
    count = 1 + int(np.sum(shares < explained_variance * shares[-1]))
    width = min(-(-count // _WIDTH) * _WIDTH, axes.shape[1])
    return _project(centred, axes[:, :width], jnp.arange(width) < count)


@jax.jit
def _principal_axes(rows):
    centred = rows - jnp.mean(rows, axis=0)
    n, d = rows.shape
    gram = dot(centred, centred.T) if n < d else dot(centred.T, centred)
    variances, axes = jnp.linalg.eigh(gram)
    variances, axes = variances[::-1], axes[:, ::-1]
    if n < d:
        # Left singular vectors of the rows: their coordinates are the vectors times deviations.
        return None, axes * jnp.sqrt(jnp.maximum(variances, 0)), variances
    return centred, axes, variances


@jax.jit
def _project(centred, axes, keep):
    coordinates = axes if centred is None else dot(centred, axes)
    return jnp.where(keep, coordinates, 0)
