"""Numbers that compare a bank with the reference: features, texts and gradients."""

import functools
from collections.abc import Callable
from typing import Any

from .. import metrics
from .features import DTYPE, POOLING
from .gradients import BankGradients
from .score_settings import (
    Coding,
    Estimator,
    Gradients,
    Mauve,
    Mmd,
    Neighbors,
    Pair,
    Polynomial,
    Projections,
    ScoreSettings,
)
from .scored import MIN_ROWS, Numbers, Scored, score_maker
from .scores import Score
from .signature import signature


def distance_numbers(
    real: Scored, generated: Scored, reference_digest: str, settings: ScoreSettings
) -> Numbers:
    """Distances of features and of texts; both sides hold the same number of rows."""
    features = f"{settings.scorer}:{POOLING}:{DTYPE}@{settings.scorer_digest[:8]}"
    digest = reference_digest[:8]
    n = generated.n
    context = Pair(features, n, digest)
    make = score_maker(min(real.n, n), n)
    x: Any = real.pooled
    y: Any = generated.pooled

    clusters = settings.mauve_clusters or max(2, round(n / 10))
    yield make(
        "mauve",
        "score",
        "up",
        lambda: _mauve(x, y, clusters, settings),
        signature(
            "mauve",
            Mauve(clusters, settings.mauve_scale, settings.mauve_seeds, settings.mauve_variance),
            context,
        ),
    )
    yield make(
        "energy_distance",
        "distance",
        "down",
        lambda: (metrics.energy_distance(x, y), metrics.energy_distance_stderr(x, y)),
        signature("energy_distance", Estimator("V"), context),
    )
    yield make(
        "mmd",
        "squared distance",
        "down",
        lambda: (metrics.mmd(x, y), metrics.mmd_stderr(x, y)),
        signature("mmd", Mmd("gaussian", "reference median", "V"), context),
    )
    degree = settings.kernel_degree
    yield make(
        "kernel_distance",
        "squared distance",
        "down",
        lambda: (
            metrics.kernel_distance(x, y, degree=degree),
            metrics.kernel_distance_stderr(x, y, degree=degree),
        ),
        signature("kernel_distance", Polynomial("polynomial", degree, "U"), context),
    )
    yield make(
        "frechet_distance",
        "squared distance",
        "down",
        lambda: (metrics.frechet_distance(x, y), metrics.frechet_distance_stderr(x, y)),
        signature("frechet_distance", Estimator("ddof=1"), context),
    )
    count = settings.num_projections
    yield make(
        "sliced_wasserstein",
        "squared distance",
        "down",
        lambda: (
            metrics.sliced_wasserstein(x, y, num_projections=count),
            metrics.sliced_wasserstein_stderr(x, y, num_projections=count),
        ),
        signature("sliced_wasserstein", Projections(2, count, 0), context),
    )
    yield from _manifold_numbers(x, y, settings, context, make)
    yield from _coding_numbers(real, generated, digest, settings, make)


def gradient_number(
    real: BankGradients, generated: BankGradients, reference_digest: str, settings: ScoreSettings
) -> tuple[str, Score]:
    """The gradient moment from the sums over either bank; unbiased, so their sizes may differ."""
    n = generated.num_rows
    context = Gradients(
        f"{settings.scorer}@{settings.scorer_digest[:8]}",
        settings.max_tokens,
        settings.gradient_batches or 0,
        settings.gradient_sketch,
        n,
        reference_digest[:8],
    )
    return score_maker(min(real.num_rows, n), n)(
        "gradient_moment",
        "squared gradient",
        "down",
        lambda: (
            metrics.gradient_moment(real.stats, generated.stats),
            metrics.gradient_moment_stderr(real.stats, generated.stats),
        ),
        signature("gradient_moment", context),
    )


def _manifold_numbers(
    x: Any, y: Any, settings: ScoreSettings, context: Pair, make: Callable[..., tuple[str, Score]]
) -> Numbers:
    k = settings.num_neighbors

    @functools.cache
    def scores() -> tuple[metrics.ManifoldScores, metrics.ManifoldScores]:
        values = metrics.precision_recall(x, y, num_neighbors=k)
        return values, metrics.precision_recall_stderr(x, y, num_neighbors=k)

    for field in ("precision", "recall", "density", "coverage"):
        name = f"manifold_{field}"
        yield make(
            name,
            "fraction",
            "up",
            lambda field=field: tuple(getattr(part, field) for part in scores()),
            signature(name, Neighbors(k), context),
        )


def _coding_numbers(
    real: Scored,
    generated: Scored,
    digest: str,
    settings: ScoreSettings,
    make: Callable[..., tuple[str, Score]],
) -> Numbers:
    values: Any = None
    errors: Any = None
    if min(real.n, generated.n) >= MIN_ROWS:
        codes = metrics.code_held_out(real.documents, generated.documents, depth=settings.jcd_depth)
        values = metrics.coding_divergence_from_codes(codes)
        errors = metrics.coding_divergence_stderr(codes)
    context = Coding(settings.jcd_depth, generated.n // 2, "utf-8", generated.n, digest)
    for name, field in (
        ("jcd", "value"),
        ("jcd_coverage", "coverage"),
        ("jcd_fidelity", "fidelity"),
    ):
        yield make(
            name,
            "bits/byte",
            "down",
            lambda field=field: (getattr(values, field), getattr(errors, field)),
            signature(name, context),
        )


def _mauve(x: Any, y: Any, clusters: int, settings: ScoreSettings) -> tuple[Any, Any]:
    result = metrics.mauve(
        x,
        y,
        num_clusters=clusters,
        scale=settings.mauve_scale,
        seeds=settings.mauve_seeds,
        explained_variance=settings.mauve_variance,
    )
    return result.value, result.stderr
