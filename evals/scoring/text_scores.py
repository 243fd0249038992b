"""Numbers that read a bank's own texts: perplexities, entropies, overlap, copying."""

from typing import Any, Literal

from ... import metrics
from ..signature import signature
from .prefixed import Continued
from .score_settings import Copied, Given, Ngrams, Perplexity, ScoreSettings, Tokens
from .scored import MIN_ROWS, Numbers, Scored, mean_of_rows, score_maker
from .scores import Score

Aggregate = Literal["token", "sample", "macro"]


def text_numbers(bank: Scored, settings: ScoreSettings) -> Numbers:
    """Perplexities, entropies, Self-BLEU, Distinct-n and repetition of scorer ids."""
    context = _context(bank, settings)
    make = score_maker(bank.n, bank.n)
    values: Any = None
    errors: Any = None
    if bank.n >= MIN_ROWS:
        values = metrics.entropies(bank.ids, bank.lengths)
        errors = metrics.entropies_stderr(bank.ids, bank.lengths)
    yield from _perplexities(bank, values, context)
    for name in ("uni", "pool", "pos", "pos_mm", "joint"):
        yield make(
            f"h_{name}",
            "nats/token",
            None,
            lambda name=name: (getattr(values, name), getattr(errors, name)),
            signature(f"h_{name}", context),
        )
    yield make(
        "h_ceiling",
        "nats",
        None,
        lambda: (metrics.entropy_ceiling(bank.n), 0.0),  # a constant of n, without error
        signature("h_ceiling", context),
    )

    order = settings.bleu_order
    yield make(
        "self_bleu",
        "bleu",
        "down",
        lambda: (
            metrics.self_bleu(bank.ids, bank.lengths, order=order).mean(),
            metrics.self_bleu_stderr(bank.ids, bank.lengths, order=order),
        ),
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
    order = settings.repetition_order
    yield make(
        f"repetition_{order}",
        "fraction",
        "down",
        lambda: mean_of_rows(metrics.sequence_repetition(bank.ids, bank.lengths, order=order)),
        signature(f"repetition_{order}", Ngrams(order, "none", "none"), context),
    )


def continued_number(
    bank: Scored, continued: Continued, settings: ScoreSettings
) -> tuple[str, Score]:
    """Perplexity of the texts given their prompts, over all their tokens (spec care §4.3)."""
    name = "gen_ppl_given_prefix"
    nll, num_tokens = continued.nll[bank.rows], continued.num_tokens[bank.rows]
    return score_maker(bank.n, bank.n)(
        name,
        "perplexity/token",
        "down",
        lambda: (
            metrics.generative_perplexity(nll, num_tokens),
            metrics.generative_perplexity_stderr(nll, num_tokens),
        ),
        signature(name, Perplexity("token"), Given("prefix"), _context(bank, settings)),
    )


def copying_numbers(
    bank: Scored, training: metrics.TrainingIndex, settings: ScoreSettings
) -> Numbers:
    """How much of a bank stands verbatim in the training text, in scorer ids.

    Neither number has a better direction by itself: read them beside those of real text.
    """
    context = _context(bank, settings)
    make = score_maker(bank.n, bank.n)
    source = Copied(settings.training or "none", settings.training_digest[:8])
    order = settings.novelty_order
    yield make(
        f"novelty_{order}",
        "fraction",
        None,
        lambda: mean_of_rows(metrics.ngram_novelty(bank.ids, training, bank.lengths, order=order)),
        signature(f"novelty_{order}", Ngrams(order, "none", "none"), source, context),
    )
    yield make(
        "copied_span",
        "tokens",
        None,
        lambda: mean_of_rows(metrics.longest_copied_span(bank.ids, training, bank.lengths)),
        signature("copied_span", source, context),
    )


def _perplexities(bank: Scored, entropies: Any, context: Tokens) -> Numbers:
    make = score_maker(bank.n, bank.n)

    def perplexity(name: str, aggregate: Aggregate) -> tuple[str, Any]:
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
                metrics.generative_perplexity(bank.nll, bank.num_tokens), entropies.pos
            ),
            None,
        ),
        signature("gen_ppl_adjusted", Perplexity("token"), context),
    )


def _context(bank: Scored, settings: ScoreSettings) -> Tokens:
    label = f"{settings.scorer}@{settings.scorer_digest[:8]}"
    return Tokens(label, settings.max_tokens, bank.n)
