"""Scores texts that were drawn elsewhere, in memory: no workdir, no plan."""

from collections.abc import Sequence

import numpy as np

from ..banks.bank import SampleBank, bank_digest
from ..corpora.text_filter import english_filter
from ..errors import InputError
from ..sources import Sources, model_digest
from .bank_scores import score_bank
from .encoded import encode_pair
from .features import compute_features
from .gradients import bank_gradients
from .score_settings import ScoreSettings
from .scored import usable_rows
from .scores import Score


def score_texts(
    texts: Sequence[str],
    reference: Sequence[str],
    *,
    scorer: str = "embedded:kjv-scorer",
    max_tokens: int = 128,
    batch_size: int = 64,
    training: str | None = None,
    gradient_batches: int | None = 8,
    encoders: Sequence[str] = (),
    whiten: int | None = None,
    sources: Sources | None = None,
) -> dict[str, Score]:
    """The profile of one's own texts against reference texts.

    Args:
        texts: generated texts.
        reference: real texts, cut by the same rule as `texts`: lengths and sizes that differ
            show up as distance. If the sizes differ the larger side is cut to the smaller.
        scorer: causal model for likelihoods and features.
        max_tokens: scorer tokens read of each text.
        batch_size: texts a launch.
        training: the text that the generator was trained on, to see what it copies: kjv:train, or
            a file of texts; None leaves that out.
        gradient_batches: mini-batches a bank for the gradient moment; None leaves it out.
        encoders: further models, as `models.load_encoder` takes them, for distances between their
            features: `mauve@NAME`, `energy_distance@NAME`, `mmd@NAME`, `frechet_distance@NAME`.
        whiten: PCA components that their features are whitened to, fitted on the reference; None
            leaves them as they are.
        sources: loaders of models; the usual ones by default.

    Returns:
        {metric: Score}, as the pipeline writes them: gen_ppl, h_uni, mauve, energy_distance, mmd,
        frechet_distance, jcd, gradient_moment, self_bleu, distinct_3 and their kin. Numbers that
        need a forward count are not among them.

    Raises:
        ValueError: no texts on a side, an entry that is no string, an unusable scorer or encoder,
            or two encoders of one name.
    """
    sources = sources or Sources()
    model = sources.scorer(scorer)
    if model.tokenizer is None:
        raise InputError(f"scorer {scorer!r} has no tokenizer.json; add it to the folder")
    settings = ScoreSettings(
        scorer,
        model_digest(model.card),
        max_tokens,
        training=training,
        training_digest="" if training is None else sources.corpus(training).digest,
        gradient_batches=gradient_batches,
        encoders=tuple(encoders),
        encoder_digests=tuple(model_digest(sources.encoder(name).card) for name in encoders),
        whiten=whiten,
    )
    sides = []
    for name, side in (("texts", texts), ("reference", reference)):
        bank = _bank(name, side)
        sides.append((bank, compute_features(bank.texts, model, max_tokens, batch_size=batch_size)))
    (bank, features), real = sides
    scores = score_bank(
        bank,
        features,
        real,
        settings,
        training=None if training is None else sources.training_index(training, scorer),
        gradients=(
            bank_gradients(usable_rows(*real), model, settings),
            bank_gradients(usable_rows(bank, features), model, settings),
        ),
        encoded=encode_pair(bank, real[0], usable_rows(*real).rows, settings, sources),
    )
    return {name: score for name, score in scores.items() if name not in ("nfe_mean", "launches")}


def _bank(name: str, texts: Sequence[str]) -> SampleBank:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{name} must be a sequence of strings")
    if not texts:
        raise InputError(f"{name} holds no text")
    n = len(texts)
    return SampleBank(
        ids=np.zeros((n, 1), np.int32),
        lengths=np.zeros(n, np.int32),
        texts=tuple(texts),
        nfe=np.zeros(n, np.int32),
        accepted=np.array([english_filter(text).accepted for text in texts]),
        manifest={"measured": {"launches": 0}},
        digest=bank_digest(texts),
    )
