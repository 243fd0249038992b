"""The profile of one bank: every metric with its standard error and signature.

Rows that the language filter rejected are left out, and the reference is cut to as many rows,
since most of these numbers move with n.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from .. import metrics
from .bank import SampleBank
from .errors import one_line
from .features import DTYPE, POOLING, Features
from .score_settings import (
    Coding,
    Count,
    Estimator,
    Mauve,
    Mmd,
    Ngrams,
    Pair,
    Perplexity,
    ScoreSettings,
    Tokens,
)
from .scores import Score
from .signature import signature

# Fewer rows than this cannot be split, clustered or jackknifed.
MIN_ROWS = 8
_JACKKNIFE_GROUPS = 8

Aggregate = Literal["token", "sample", "macro"]
Numbers = Iterator[tuple[str, Score]]


class Scored:
    """A bank beside its features, restricted to the rows that count."""

    def __init__(self, bank: SampleBank, features: Features, limit: int | None = None):
        usable = bank.accepted & (features.lengths > 0)
        self.rows = np.flatnonzero(usable)[:limit]
        self.bank = bank
        self.ids, self.lengths = features.ids[self.rows], features.lengths[self.rows]
        self.nll, self.num_tokens = features.nll[self.rows], features.num_tokens[self.rows]
        self.pooled = features.pooled[self.rows]
        self.documents = [bank.texts[row].encode("utf-8") for row in self.rows]

    @property
    def n(self) -> int:
        return len(self.rows)


def score_bank(
    bank: SampleBank,
    features: Features,
    reference: tuple[SampleBank, Features] | None,
    settings: ScoreSettings,
) -> dict[str, Score]:
    """All numbers of a bank; distances only where a reference is given.

    With fewer than `MIN_ROWS` usable rows on either side the text metrics carry no value but the
    reason.

    Returns:
        {metric: Score}: gen_ppl and its variants, entropies, mauve, energy_distance, mmd,
        frechet_distance, jcd with its two directions, self_bleu, distinct_3, acceptance,
        nfe_mean, launches.
    """
    generated = Scored(bank, features)
    found = dict(_bank_numbers(bank))
    if reference is not None:
        real = Scored(*reference, limit=generated.n)
        # A short reference shortens the bank as well: both sides always have the same n.
        generated = Scored(bank, features, limit=real.n)
        found |= dict(_distances(real, generated, reference[0].digest, settings))
    found |= dict(_text_numbers(Scored(bank, features), settings))
    return found


def _text_numbers(bank: Scored, settings: ScoreSettings) -> Numbers:
    label = f"{settings.scorer}@{settings.scorer_digest[:8]}"
    context = Tokens(label, settings.max_tokens, bank.n)
    make = _maker(bank.n, bank.n)

    def perplexity(name: str, aggregate: Aggregate) -> tuple[str, Score]:
        return make(
            name,
            "perplexity/token",
            "down",
            lambda: (
                metrics.generative_perplexity(bank.nll, bank.num_tokens, aggregate),
                metrics.generative_perplexity_stderr(bank.nll, bank.num_tokens, aggregate),
            ),
            signature(name, Perplexity(aggregate), context),
        )

    yield perplexity("gen_ppl", "token")
    yield perplexity("gen_ppl_sample", "sample")
    yield perplexity("gen_ppl_macro", "macro")
    yield make(
        "gen_ppl_adjusted",
        "perplexity/token",
        "down",
        lambda: (
            metrics.adjusted_perplexity(
                metrics.generative_perplexity(bank.nll, bank.num_tokens),
                metrics.entropies(bank.ids, bank.lengths).pos,
            ),
            None,
        ),
        signature("gen_ppl_adjusted", Perplexity("token"), context),
    )

    if bank.n >= MIN_ROWS:
        values, errors = _entropies(bank.ids, bank.lengths)
    else:
        values, errors = {}, {}
    for name in ("uni", "pool", "pos", "pos_mm", "joint"):
        yield make(
            f"h_{name}",
            "nats/token",
            None,
            lambda name=name: (values[name], errors[name]),
            signature(f"h_{name}", context),
        )

    order = settings.bleu_order
    yield make(
        "self_bleu",
        "bleu",
        "down",
        lambda: _mean_of_rows(metrics.self_bleu(bank.ids, bank.lengths, order=order)),
        signature("self_bleu", Ngrams(order, "method1", "all others"), context),
    )
    order = settings.distinct_order
    yield make(
        f"distinct_{order}",
        "fraction",
        "up",
        lambda: (
            metrics.distinct_n(bank.ids, bank.lengths, order=order),
            metrics.distinct_n_stderr(bank.ids, bank.lengths, order=order),
        ),
        signature(f"distinct_{order}", Ngrams(order, "none", "none"), context),
    )


def _distances(
    real: Scored, generated: Scored, reference_digest: str, settings: ScoreSettings
) -> Numbers:
    features = f"{settings.scorer}:{POOLING}:{DTYPE}@{settings.scorer_digest[:8]}"
    digest = reference_digest[:8]
    n = generated.n
    context = Pair(features, n, digest)
    make = _maker(min(real.n, n), n)
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
    yield make(
        "frechet_distance",
        "squared distance",
        "down",
        lambda: (metrics.frechet_distance(x, y), metrics.frechet_distance_stderr(x, y)),
        signature("frechet_distance", Estimator("ddof=1"), context),
    )
    yield from _coding_numbers(real, generated, digest, settings, make)


def _coding_numbers(
    real: Scored, generated: Scored, digest: str, settings: ScoreSettings, make: Any
) -> Numbers:
    values = errors = None
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


def _bank_numbers(bank: SampleBank) -> Numbers:
    n = len(bank.texts)
    context = Count(n)
    make = _maker(MIN_ROWS, n)
    share = float(np.mean(bank.accepted))
    yield make(
        "acceptance",
        "fraction",
        "up",
        lambda: (share, math.sqrt(share * (1 - share) / n)),
        signature("acceptance", context),
    )
    yield make(
        "nfe_mean",
        "forwards/sample",
        None,
        lambda: _mean_of_rows(bank.nfe.astype(np.float64)),
        signature("nfe_mean", context),
    )
    launches = bank.manifest["measured"]["launches"]
    yield make(
        "launches", "forwards", None, lambda: (launches, None), signature("launches", context)
    )


def _maker(usable: int, n: int) -> Callable[..., tuple[str, Score]]:
    """Builds Scores of n rows; with too few usable rows, ones that say so and compute nothing."""

    def make(
        name: str,
        unit: str,
        direction: str | None,
        compute: Callable[[], tuple[Any, Any]],
        text: str,
    ) -> tuple[str, Score]:
        if usable < MIN_ROWS:
            reason = f"{usable} usable texts; at least {MIN_ROWS} are needed"
            return name, Score(None, None, n, unit, direction, text, reason)
        try:
            value, stderr = compute()
        except ValueError as error:  # texts the metric is not defined on; the reason is stored
            return name, Score(None, None, n, unit, direction, text, one_line(error))
        stderr = None if stderr is None else float(stderr)
        return name, Score(float(value), stderr, n, unit, direction, text)

    return make


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


def _entropies(
    ids: Int[np.ndarray, "n t"], lengths: Int[np.ndarray, "n"]
) -> tuple[dict[str, float], dict[str, float | None]]:
    """Entropies and their standard errors.

    `uni` is a mean over rows; the others, functions of pooled counts, take a jackknife that leaves
    out a group of rows at a time.
    """
    whole = metrics.entropies(ids, lengths)
    n = len(ids)
    size = n // _JACKKNIFE_GROUPS
    values = {
        name: float(getattr(whole, name)) for name in ("uni", "pool", "pos", "pos_mm", "joint")
    }
    _, uni_error = _mean_of_rows(np.asarray(whole.uni_rows))
    errors: dict[str, float | None] = {"uni": uni_error}
    without = []
    for group in range(_JACKKNIFE_GROUPS):
        # Equal groups keep one array shape; rows that do not fill a group are left in.
        kept = np.r_[0 : group * size, (group + 1) * size : n]
        without.append(metrics.entropies(ids[kept], lengths[kept]))
    for name in ("pool", "pos", "pos_mm", "joint"):
        parts = np.array([float(getattr(part, name)) for part in without])
        spread = float(((parts - parts.mean()) ** 2).sum())
        errors[name] = math.sqrt((_JACKKNIFE_GROUPS - 1) / _JACKKNIFE_GROUPS * spread)
    return values, errors


def _mean_of_rows(values: Float[np.ndarray, "n"]) -> tuple[float, float | None]:
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        return float(values.mean()), None
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))
