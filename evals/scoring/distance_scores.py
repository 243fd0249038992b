"""Numbers that compare a bank with the reference: features, texts and gradients."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ... import metrics
from ..errors import InputError
from ..signature import signature
from .encoded import Encoded
from .features import DTYPE, POOLING
from .gradients import BankGradients
from .score_settings import (
    Coding,
    EncodedPair,
    Estimator,
    Gradients,
    Mauve,
    Mmd,
    Neighbors,
    Pair,
    Polynomial,
    Projections,
    ScoreSettings,
    encoder_name,
)
from .scored import MIN_ROWS, Numbers, Scored, score_maker
from .scores import Score


class Compared(NamedTuple):
    """Features of two banks in one space.

    Attributes:
        rows: gives those of the reference and of the bank, as many on either side; its ValueError
            is the reason why there is no number.
        context: what names them in signatures.
    """

    rows: Callable[[], tuple[Any, Any]]
    context: Pair | EncodedPair


def distance_numbers(
    real: Scored,
    generated: Scored,
    reference_digest: str,
    settings: ScoreSettings,
    encoded: Sequence[Encoded] = (),
) -> Numbers:
    """Distances of features and of texts; both sides hold the same number of rows.

    The four that encoders are compared by come once for each of them, as `mauve@NAME`, and once
    for each of `settings.nested_sizes`, as `mauve#n`.
    """
    digest = reference_digest[:8]
    n = generated.n
    make = score_maker(min(real.n, n), n)
    spaces = {
        encoder_name(one.source): _compared(one, real, generated, digest, settings)
        for one in encoded
    }
    if settings.features is None:
        features = f"{settings.scorer}:{POOLING}:{DTYPE}@{settings.scorer_digest[:8]}"
        pooled = real.pooled, generated.pooled
        space = Compared(lambda: pooled, Pair(features, n, digest))
    elif settings.features in spaces:
        space = spaces[settings.features]
    else:
        raise InputError(
            f"features={settings.features!r} names an encoder whose features are not given; given:"
            f" {', '.join(spaces) or 'none'}"
        )
    yield from _four_distances("", space, n, settings, make)
    for size in settings.nested_sizes:
        sized = score_maker(min(real.n, n, size), size)
        yield from _four_distances(f"#{size}", _nested(space, size), size, settings, sized)
    yield from _more_distances(space, settings, make)
    yield from _coding_numbers(real, generated, digest, settings, make)
    for name, space in spaces.items():
        yield from _four_distances(f"@{name}", space, n, settings, make)


def _compared(
    one: Encoded, real: Scored, generated: Scored, digest: str, settings: ScoreSettings
) -> Compared:
    @functools.cache
    def rows() -> tuple[Any, Any]:
        return one.space(one.reference[real.rows]), one.space(one.generated[generated.rows])

    context = EncodedPair(
        encoder=f"{one.source}@{one.digest[:8]}",
        pooling=one.recipe["pooling"],
        normalize=one.recipe["normalize"],
        prefix=one.recipe["prefix"] or None,
        max_length=one.recipe["max_length"],
        whiten=None if settings.whiten is None else f"unit+pca{settings.whiten}",
        n=generated.n,
        reference=digest,
    )
    return Compared(rows, context)


def _nested(space: Compared, size: int) -> Compared:
    """The first rows of both banks, so that smaller sizes are parts of larger ones."""

    def rows() -> tuple[Any, Any]:
        x, y = space.rows()
        if len(x) < size:
            raise ValueError(f"{len(x)} usable texts; {size} are needed")
        return x[:size], y[:size]

    return Compared(rows, dataclasses.replace(space.context, n=size))


def _four_distances(
    suffix: str,
    space: Compared,
    n: int,
    settings: ScoreSettings,
    make: Callable[..., tuple[str, Score]],
) -> Numbers:
    clusters = settings.mauve_clusters or max(2, round(n / 10))
    mauve = Mauve(clusters, settings.mauve_scale, settings.mauve_seeds, settings.mauve_variance)
    gaussian = Mmd("gaussian", "reference median", "V")
    for name, unit, direction, compute, estimator in (
        ("mauve", "score", "up", lambda x, y: _mauve(x, y, clusters, settings), mauve),
        ("energy_distance", "distance", "down", _energy_distance, Estimator("V")),
        ("mmd", "squared distance", "down", _mmd, gaussian),
        ("frechet_distance", "squared distance", "down", _frechet, Estimator("ddof=1")),
    ):
        name += suffix
        yield make(
            name,
            unit,
            direction,
            lambda compute=compute: compute(*space.rows()),
            signature(name, estimator, space.context),
        )


def _more_distances(
    space: Compared, settings: ScoreSettings, make: Callable[..., tuple[str, Score]]
) -> Numbers:
    degree, count = settings.kernel_degree, settings.num_projections

    def kernel_distance(x: Any, y: Any) -> tuple[Any, Any]:
        value = metrics.kernel_distance(x, y, degree=degree)
        return value, metrics.kernel_distance_stderr(x, y, degree=degree)

    def sliced_wasserstein(x: Any, y: Any) -> tuple[Any, Any]:
        value = metrics.sliced_wasserstein(x, y, num_projections=count)
        return value, metrics.sliced_wasserstein_stderr(x, y, num_projections=count)

    yield make(
        "kernel_distance",
        "squared distance",
        "down",
        lambda: kernel_distance(*space.rows()),
        signature("kernel_distance", Polynomial("polynomial", degree, "U"), space.context),
    )
    yield make(
        "sliced_wasserstein",
        "squared distance",
        "down",
        lambda: sliced_wasserstein(*space.rows()),
        signature("sliced_wasserstein", Projections(2, count, 0), space.context),
    )
    yield from _manifold_numbers(space, settings, make)


def gradient_number(
    real: BankGradients, generated: BankGradients, reference_digest: str, settings: ScoreSettings
) -> tuple[str, Score]:
    """The gradient moment from the sums over either bank; unbiased, so their sizes may differ."""
    n = generated.num_rows

    def moment() -> tuple[Any, Any]:
        if real.stats is None or generated.stats is None:
            raise ValueError(
                f"{min(real.num_rows, n)} texts with a target cannot be cut into"
                f" {settings.gradient_batches} mini-batches"
            )
        return (
            metrics.gradient_moment(real.stats, generated.stats),
            metrics.gradient_moment_stderr(real.stats, generated.stats),
        )

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
        moment,
        signature("gradient_moment", context),
    )


def _manifold_numbers(
    space: Compared, settings: ScoreSettings, make: Callable[..., tuple[str, Score]]
) -> Numbers:
    k = settings.num_neighbors

    @functools.cache
    def scores() -> tuple[metrics.ManifoldScores, metrics.ManifoldScores]:
        x, y = space.rows()
        values = metrics.precision_recall(x, y, num_neighbors=k)
        return values, metrics.precision_recall_stderr(x, y, num_neighbors=k)

    for field in ("precision", "recall", "density", "coverage"):
        name = f"manifold_{field}"
        yield make(
            name,
            "fraction",
            "up",
            lambda field=field: tuple(getattr(part, field) for part in scores()),
            signature(name, Neighbors(k), space.context),
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


def _energy_distance(x: Any, y: Any) -> tuple[Any, Any]:
    return metrics.energy_distance(x, y), metrics.energy_distance_stderr(x, y)


def _mmd(x: Any, y: Any) -> tuple[Any, Any]:
    return metrics.mmd(x, y), metrics.mmd_stderr(x, y)


def _frechet(x: Any, y: Any) -> tuple[Any, Any]:
    return metrics.frechet_distance(x, y), metrics.frechet_distance_stderr(x, y)


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
