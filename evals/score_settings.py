"""Settings of the metrics, as the dataclasses that signatures are generated from."""

import dataclasses

from .. import __version__


@dataclasses.dataclass(frozen=True)
class ScoreSettings:
    """Settings of all metrics; part of the plan.

    Attributes:
        scorer, scorer_digest: the causal network that gives likelihoods and features.
        max_tokens: scorer tokens read of each text.
        mauve_seeds: clustering seeds; the value is their mean.
        mauve_clusters: clusters; None means a tenth of the rows, at least 2.
        mauve_scale, mauve_variance: scale of the frontier and variance kept by PCA.
        jcd_depth: context length of the coding trees, in bits.
        bleu_order, distinct_order, repetition_order: longest n-gram of Self-BLEU; n of Distinct-n
            and of the repetition inside a text.
        kernel_degree: degree of the polynomial kernel distance.
        num_projections: directions of the sliced Wasserstein distance.
        num_neighbors: k of precision, recall, density and coverage.
        training, training_digest: the text that models were trained on, for what is copied from
            it; None means that copying is not measured.
        novelty_order: n of the n-grams that are looked up in it.
        gradient_batches: mini-batches that a bank is cut into for the gradient moment; None means
            that it is not measured.
        gradient_sketch: width of the sketches behind its standard error.
    """

    scorer: str
    scorer_digest: str
    max_tokens: int
    mauve_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    mauve_clusters: int | None = None
    mauve_scale: float = 5.0
    mauve_variance: float = 0.9
    jcd_depth: int = 20
    bleu_order: int = 4
    distinct_order: int = 3
    repetition_order: int = 4
    kernel_degree: int = 3
    num_projections: int = 256
    num_neighbors: int = 5
    training: str | None = None
    training_digest: str = ""
    novelty_order: int = 4
    gradient_batches: int | None = None
    gradient_sketch: int = 16384


@dataclasses.dataclass(frozen=True)
class Tokens:
    """Context of a number that reads scorer ids."""

    ids: str
    max_tokens: int = dataclasses.field(metadata={"key": "tokens"})
    n: int
    version: str = dataclasses.field(default=__version__, metadata={"key": "v"})


@dataclasses.dataclass(frozen=True)
class Pair:
    """Context of a number that compares features with the reference."""

    features: str
    n: int
    reference: str = dataclasses.field(metadata={"key": "ref"})
    version: str = dataclasses.field(default=__version__, metadata={"key": "v"})


@dataclasses.dataclass(frozen=True)
class Perplexity:
    aggregate: str
    eos: str = "first_eos"
    bos: str = "none"


@dataclasses.dataclass(frozen=True)
class Mauve:
    clusters: int = dataclasses.field(metadata={"key": "K"})
    scale: float = dataclasses.field(metadata={"key": "c"})
    seeds: tuple[int, ...]
    variance: float = dataclasses.field(metadata={"key": "pca"})


@dataclasses.dataclass(frozen=True)
class Estimator:
    estimator: str


@dataclasses.dataclass(frozen=True)
class Mmd:
    kernel: str
    bandwidth: str
    estimator: str


@dataclasses.dataclass(frozen=True)
class Polynomial:
    kernel: str
    degree: int
    estimator: str


@dataclasses.dataclass(frozen=True)
class Projections:
    order: int = dataclasses.field(metadata={"key": "p"})
    projections: int
    seed: int


@dataclasses.dataclass(frozen=True)
class Neighbors:
    neighbors: int = dataclasses.field(metadata={"key": "k"})


@dataclasses.dataclass(frozen=True)
class Gradients:
    """Settings and context of the gradient moment."""

    scorer: str
    max_tokens: int = dataclasses.field(metadata={"key": "tokens"})
    batches: int
    sketch: int
    n: int
    reference: str = dataclasses.field(metadata={"key": "ref"})
    eos: str = "first_eos"
    estimator: str = "U"
    version: str = dataclasses.field(default=__version__, metadata={"key": "v"})


@dataclasses.dataclass(frozen=True)
class Copied:
    training: str
    digest: str = dataclasses.field(metadata={"key": "text"})


@dataclasses.dataclass(frozen=True)
class Coding:
    depth: int
    num_fit: int = dataclasses.field(metadata={"key": "fit"})
    bytes: str
    n: int
    reference: str = dataclasses.field(metadata={"key": "ref"})
    version: str = dataclasses.field(default=__version__, metadata={"key": "v"})


@dataclasses.dataclass(frozen=True)
class Ngrams:
    order: int
    smoothing: str
    references: str = dataclasses.field(metadata={"key": "refs"})


@dataclasses.dataclass(frozen=True)
class Count:
    """Context of a number that is read off the bank."""

    n: int
    version: str = dataclasses.field(default=__version__, metadata={"key": "v"})
