"""Models and corpora of a run, loaded once each, and the digests that name their content."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from .. import metrics, models, samplers
from . import corpora
from .canonical import content_digest

Kind = Literal["denoiser", "scorer"]
_USUAL = {"dtype": "float32", "precision": "highest"}


class Sources:
    """Loads denoisers, scorers, encoders and corpora on first use and keeps them.

    The loaders can be given, which is how one's own model objects enter a run (and tests theirs).
    """

    def __init__(
        self,
        *,
        load_denoiser: Callable[[str], Any] | None = None,
        load_scorer: Callable[[str], Any] | None = None,
        load_encoder: Callable[[str], Any] | None = None,
        load_corpus: Callable[[str], corpora.Corpus] = corpora.load_corpus,
    ):
        self._load_denoiser = load_denoiser or models.load_denoiser
        self._load_scorer = load_scorer or models.load_scorer
        self._load_encoder = load_encoder or models.load_encoder
        self._load_corpus = load_corpus
        self._loaded: dict[tuple[str, str], Any] = {}

    def denoiser(self, source: str) -> Any:
        """The denoiser of a source, as `models.load_denoiser` gives it."""
        return self._once("denoiser", source, self._load_denoiser)

    def scorer(self, source: str) -> Any:
        """The scorer of a source, as `models.load_scorer` gives it."""
        return self._once("scorer", source, self._load_scorer)

    def encoder(self, source: str) -> Any:
        """The encoder of a source, as `models.load_encoder` gives it."""
        return self._once("encoder", source, self._load_encoder)

    def corpus(self, source: str) -> corpora.Corpus:
        """The documents of a source, as `corpora.load_corpus` gives them."""
        return self._once("corpus", source, self._load_corpus)

    def network(self, source: str, kind: Kind) -> Any:
        """The denoiser or the scorer of a source."""
        return self.denoiser(source) if kind == "denoiser" else self.scorer(source)

    def encoded(self, corpus: str, model: str, kind: Kind = "denoiser") -> tuple[np.ndarray, ...]:
        """The documents of a corpus as ids of a model's tokenizer, without special tokens."""

        def encode(_: str) -> tuple[np.ndarray, ...]:
            loaded = self.network(model, kind)
            documents = self.corpus(corpus).documents
            return tuple(np.asarray(loaded.tokenizer.encode(text), np.int32) for text in documents)

        return self._once(f"ids of {kind} {model}", corpus, encode)

    def counts(self, corpus: str, model: str, kind: Kind = "denoiser") -> samplers.CorpusCounts:
        """Token and phrase counts of a corpus in a model's vocabulary."""

        def count(_: str) -> samplers.CorpusCounts:
            return samplers.corpus_counts(self.encoded(corpus, model, kind))

        return self._once(f"counts of {kind} {model}", corpus, count)

    def training_index(self, corpus: str, scorer: str) -> metrics.TrainingIndex:
        """Index of a corpus in a scorer's vocabulary, for what is copied from it."""

        def fit(_: str) -> metrics.TrainingIndex:
            return metrics.fit_training_index(list(self.encoded(corpus, scorer, "scorer")))

        return self._once(f"index of {scorer}", corpus, fit)

    def _once(self, kind: str, source: str, load: Callable[[str], Any]) -> Any:
        if (kind, source) not in self._loaded:
            self._loaded[kind, source] = load(source)
        return self._loaded[kind, source]


def model_digest(card: Any) -> str:
    """One digest of a model: sha256 over the digests of its files, by their place in its folder.

    A card names files by their path below the folder, so that the digest is the same wherever the
    folder lies. A model that computes in another type than float32, or less exactly than
    "highest", is another model.
    """
    content: dict[str, str] = dict(card.digests)
    content |= {name: value for name, value in numerics(card).items() if value != _USUAL[name]}
    return content_digest(content)


def numerics(card: Any) -> dict[str, str]:
    """Type of a model's parameters and precision of its products; the usual ones if it is silent.

    One's own model objects need no more than digests on their card.
    """
    return {name: getattr(card, name, usual) for name, usual in _USUAL.items()}
