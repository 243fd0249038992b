"""The metrics that are calibrated. A new one is one line of `MEASURES`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ... import metrics
from .banks import Bank

Values = Mapping[str, Any]
_NOVEL = 8  # characters of an n-gram: few of the language's own recur in the training rows


class Context(NamedTuple):
    """What some metrics look at beside the two banks.

    Attributes:
        training: `metrics.fit_training_index` of the rows that the copying generator has learnt.
    """

    training: Any


Compute = Callable[[Bank, Bank, Context], Any]


class Measure(NamedTuple):
    """One call and the numbers that come out of it.

    Attributes:
        compute: (reference, generated, context) -> {name: number}.
        directions: {name: "down" or "up" for better, None where text should match the reference}.
    """

    compute: Callable[[Bank, Bank, Context], Values]
    directions: dict[str, str | None]


def _one(name: str, direction: str | None, compute: Compute) -> Measure:
    return Measure(lambda r, g, c: {name: compute(r, g, c)}, {name: direction})


def _entropies(_: Bank, bank: Bank, __: Context) -> Values:
    found = metrics.entropies(bank.ids, bank.lengths)
    return {f"h_{name}": getattr(found, name) for name in ("uni", "pool", "pos", "joint")}


def _coding(reference: Bank, generated: Bank, _: Context) -> Values:
    found = metrics.jeffreys_coding_divergence(reference.documents, generated.documents)
    return {"jcd": found.value, "jcd_coverage": found.coverage, "jcd_fidelity": found.fidelity}


def _manifold(reference: Bank, generated: Bank, _: Context) -> Values:
    return metrics.precision_recall(reference.pooled, generated.pooled)._asdict()


def _repeats(bank: Bank) -> Any:
    return np.mean(metrics.sequence_repetition(bank.tokens, bank.token_lengths))


def _copied_span(bank: Bank, context: Context) -> Any:
    return np.mean(metrics.longest_copied_span(bank.ids, context.training, bank.lengths))


def _novelty(bank: Bank, context: Context) -> Any:
    return np.mean(metrics.ngram_novelty(bank.ids, context.training, bank.lengths, order=_NOVEL))


def _gradients(reference: Bank, generated: Bank, _: Context) -> Any:
    sketches = [
        metrics.SketchedGradients(bank.gradients[bank.num_tokens > 0])
        for bank in (reference, generated)
    ]
    return metrics.gradient_moment_from_sketches(*sketches)


def _mauve(reference: Any, generated: Any) -> Any:
    return metrics.mauve(reference, generated).value


MEASURES: dict[str, Measure] = {
    "gen_ppl_oracle": _one(
        "gen_ppl_oracle",
        "down",
        lambda r, g, c: metrics.generative_perplexity(g.oracle_nll, g.oracle_tokens),
    ),
    "gen_ppl": _one(
        "gen_ppl", "down", lambda r, g, c: metrics.generative_perplexity(g.nll, g.num_tokens)
    ),
    "entropies": Measure(_entropies, dict.fromkeys(("h_uni", "h_pool", "h_pos", "h_joint"))),
    "mauve": _one("mauve", "up", lambda r, g, c: _mauve(r.pooled, g.pooled)),
    "energy_distance": _one(
        "energy_distance", "down", lambda r, g, c: metrics.energy_distance(r.pooled, g.pooled)
    ),
    "mmd": _one("mmd", "down", lambda r, g, c: metrics.mmd(r.pooled, g.pooled)),
    "kernel_distance": _one(
        "kernel_distance", "down", lambda r, g, c: metrics.kernel_distance(r.pooled, g.pooled)
    ),
    "frechet_distance": _one(
        "frechet_distance", "down", lambda r, g, c: metrics.frechet_distance(r.pooled, g.pooled)
    ),
    "sliced_wasserstein": _one(
        "sliced_wasserstein",
        "down",
        lambda r, g, c: metrics.sliced_wasserstein(r.pooled, g.pooled, seed=0),
    ),
    "manifold": Measure(
        _manifold, dict.fromkeys(("precision", "recall", "density", "coverage"), "up")
    ),
    "mauve@bigrams": _one("mauve@bigrams", "up", lambda r, g, c: _mauve(r.bigrams, g.bigrams)),
    "energy_distance@bigrams": _one(
        "energy_distance@bigrams",
        "down",
        lambda r, g, c: metrics.energy_distance(r.bigrams, g.bigrams),
    ),
    "mmd@bigrams": _one("mmd@bigrams", "down", lambda r, g, c: metrics.mmd(r.bigrams, g.bigrams)),
    "frechet_distance@bigrams": _one(
        "frechet_distance@bigrams",
        "down",
        lambda r, g, c: metrics.frechet_distance(r.bigrams, g.bigrams),
    ),
    "jcd": Measure(_coding, dict.fromkeys(("jcd", "jcd_coverage", "jcd_fidelity"), "down")),
    "self_bleu": _one(
        "self_bleu", "down", lambda r, g, c: np.mean(metrics.self_bleu(g.tokens, g.token_lengths))
    ),
    "distinct_3": _one(
        "distinct_3", "up", lambda r, g, c: metrics.distinct_n(g.tokens, g.token_lengths)
    ),
    "sequence_repetition": _one("sequence_repetition", None, lambda r, g, c: _repeats(g)),
    "longest_copied_span": _one("longest_copied_span", None, lambda r, g, c: _copied_span(g, c)),
    "ngram_novelty": _one("ngram_novelty", None, lambda r, g, c: _novelty(g, c)),
    "gradient_moment": _one("gradient_moment", "down", _gradients),
}


def directions() -> dict[str, str | None]:
    """{number: direction} of all measures, in order."""
    return {name: d for measure in MEASURES.values() for name, d in measure.directions.items()}
