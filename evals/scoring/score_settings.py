"""Settings of the metrics, as the dataclasses that signatures are generated from."""

import dataclasses
import pathlib

from ... import __version__
from ..errors import InputError


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
        encoders, encoder_digests: networks whose features are compared with the reference beside
            the scorer's, and the digests of their files, in the same order.
        whiten: PCA components that encoder features are whitened to, by a fit to the reference
            alone, once their rows have length 1; None leaves them as the encoder gives them.
        features: name of the encoder (see `encoder_name`) whose features the distances without
            a name are of; None means the scorer's mean last hidden states.
        nested_sizes: sizes n at which the four distances of those features are taken again, as
            `mauve#n`, between the first n usable rows of both banks.

    Raises:
        InputError: encoders of one name, digests of other encoders, `features` that is no
            encoder's name, no component to whiten to.
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
    encoders: tuple[str, ...] = ()
    encoder_digests: tuple[str, ...] = ()
    whiten: int | None = None
    features: str | None = None
    nested_sizes: tuple[int, ...] = ()

    def __post_init__(self):
        names = [encoder_name(source) for source in self.encoders]
        for place, name in enumerate(names):
            if name in names[:place]:
                both = f"{self.encoders[names.index(name)]!r} and {self.encoders[place]!r}"
                raise InputError(
                    f"encoders {both} are both called {name!r} in the names of metrics; rename a"
                    " folder or leave one out"
                )
        if len(self.encoder_digests) != len(names):
            raise InputError(
                f"encoder_digests has {len(self.encoder_digests)} digests for {len(names)}"
                " encoders; give one for each"
            )
        if self.features is not None and self.features not in names:
            raise InputError(
                f"features={self.features!r} is not an encoder of this run; accepted: "
                + (", ".join(names) or "None, as there are no encoders")
            )
        if min(self.nested_sizes, default=2) < 2:
            raise InputError(f"nested_sizes={self.nested_sizes} must be at least 2 rows each")
        if self.whiten is not None and self.whiten < 1:
            raise InputError(f"whiten={self.whiten} must be at least 1, or None for no whitening")


def encoder_name(source: str) -> str:
    """The short name that metrics of an encoder carry: `mauve@NAME`.

    The last part of the source without revision: "minilm-l6-v2" of "weights/minilm-l6-v2" and of
    "hf:owner/minilm-l6-v2@REVISION".

    Raises:
        InputError: a source without a last part, or with a "|" in it.
    """
    scheme, colon, rest = source.rpartition(":")
    path = rest.partition("@")[0] if (scheme, colon) == ("hf", ":") else rest
    name = pathlib.PurePath(path).name
    if not name or "|" in name:
        raise InputError(
            f"encoder {source!r} has no usable last part to name its metrics after; give a folder"
            " or OWNER/REPO, without '|' in its name"
        )
    return name


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
class EncodedPair:
    """Context of a number that compares an encoder's features with the reference."""

    encoder: str
    pooling: str
    normalize: bool
    prefix: str | None
    max_length: int = dataclasses.field(metadata={"key": "tokens"})
    whiten: str | None
    n: int
    reference: str = dataclasses.field(metadata={"key": "ref"})
    version: str = dataclasses.field(default=__version__, metadata={"key": "v"})


@dataclasses.dataclass(frozen=True)
class Perplexity:
    aggregate: str
    eos: str = "first_eos"
    bos: str = "none"


@dataclasses.dataclass(frozen=True)
class Given:
    """What a likelihood is conditional on."""

    given: str


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
