"""What an encoder says about a bank: one feature vector a text, cached by content.

Features are as the encoder's authors pool them (`models.Recipe`), most at length 1. With
whitening, every encoder's rows are first scaled to length 1, then whitened by a PCA fitted to the
reference bank alone (spec genppl §7.1): no generated text moves the space that it is judged in.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ... import __version__, metrics
from ..banks.bank import SampleBank
from ..canonical import content_digest
from ..sources import Sources
from .array_files import read_arrays, write_arrays
from .features import DTYPE
from .score_settings import ScoreSettings

_ARRAY = "encodings"

Space = Callable[[Float[np.ndarray, "n d"]], Float[Any, "n k"]]


@dataclasses.dataclass(frozen=True)
class EncoderKey:
    """Everything that a cache entry depends on.

    Attributes:
        bank_digest: of the texts.
        model_digest: of the encoder's files.
        recipe: fields of `models.Recipe`: pooling, normalize, prefix, max_length.
        dtype: of the features.
        version: of dlmeval.
    """

    bank_digest: str
    model_digest: str
    recipe: dict[str, Any]
    dtype: str = DTYPE
    version: str = __version__

    @property
    def name(self) -> str:
        """File name of the entry."""
        return content_digest(dataclasses.asdict(self)) + ".safetensors"


class Encoded(NamedTuple):
    """One encoder's features of a bank and of its reference.

    Attributes:
        source, digest: of the encoder.
        recipe: fields of `models.Recipe`.
        reference: row i belongs to text i of the reference bank.
        generated: row i belongs to text i of the bank.
        space: maps rows of either into the space in which they are compared; its ValueError is
            the reason why there is no distance.
    """

    source: str
    digest: str
    recipe: dict[str, Any]
    reference: Float[np.ndarray, "m d"]
    generated: Float[np.ndarray, "n d"]
    space: Space


def encode_pair(
    bank: SampleBank,
    reference: SampleBank,
    rows: Int[np.ndarray, "m"],
    settings: ScoreSettings,
    sources: Sources,
    *,
    folder: pathlib.Path | None = None,
    spaces: dict[tuple[str, str], Space] | None = None,
) -> list[Encoded]:
    """What every encoder of the settings says of a bank and of its reference.

    Args:
        bank, reference: the texts.
        rows: rows of the reference that count, as `usable_rows` gives them without a limit.
        settings: name the encoders and the whitening.
        sources: loads the encoders.
        folder: of cache entries; None computes without storing.
        spaces: {(reference digest, encoder): its space}, filled and read here, so that several
            banks against one reference need one fit.

    Raises:
        ValueError: as `cached_encodings`.
    """
    spaces = {} if spaces is None else spaces

    def encodings(texts: SampleBank, encoder: Any, digest: str) -> Float[np.ndarray, "n d"]:
        if folder is None:
            return compute_encodings(texts.texts, encoder)
        key = EncoderKey(texts.digest, digest, encoder.recipe._asdict())
        return cached_encodings(folder, texts, encoder, key)

    found = []
    for source, digest in zip(settings.encoders, settings.encoder_digests, strict=True):
        encoder = sources.encoder(source)
        real = encodings(reference, encoder, digest)
        place = reference.digest, source
        if place not in spaces:
            spaces[place] = fitted_space(real[rows], settings.whiten)
        found.append(
            Encoded(
                source,
                digest,
                encoder.recipe._asdict(),
                real,
                encodings(bank, encoder, digest),
                spaces[place],
            )
        )
    return found


def cached_encodings(
    folder: pathlib.Path, bank: SampleBank, encoder: Any, key: EncoderKey
) -> Float[np.ndarray, "n d"]:
    """Reads an encoder's features of a bank from the cache, or computes and stores them.

    Raises:
        InputError: the stored entry was edited or damaged.
        ValueError: as `compute_encodings`.
    """
    path = folder / key.name
    if path.exists():
        return read_arrays(path, (_ARRAY,))[_ARRAY]
    encodings = compute_encodings(bank.texts, encoder)
    write_arrays(path, {_ARRAY: encodings}, dataclasses.asdict(key))
    return encodings


def compute_encodings(texts: tuple[str, ...], encoder: Any) -> Float[np.ndarray, "n d"]:
    """The encoder's features of texts; zeros for an empty text, which is never compared.

    Not every encoder has special tokens to stand for an empty text. Batches are the encoder's own
    affair: it sorts rows by length and fills memory. Where all texts are empty the width is 0.

    Raises:
        ValueError: features of another shape, or not finite.
    """
    places = [i for i, text in enumerate(texts) if text]
    if not places:
        return np.zeros((len(texts), 0), DTYPE)
    rows = np.asarray(encoder.encode([texts[i] for i in places]), DTYPE)
    if rows.ndim != 2 or len(rows) != len(places):
        raise ValueError(
            f"the encoder gives features of shape {rows.shape} for {len(places)} texts; it must be"
            f" ({len(places)}, width)"
        )
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        raise ValueError(
            f"the encoder gives features that are not finite for text {places[bad.argmax()]}"
        )
    encodings = np.zeros((len(texts), rows.shape[1]), DTYPE)
    encodings[places] = rows
    return encodings


def fitted_space(reference: Float[np.ndarray, "m d"], whiten: int | None) -> Space:
    """The space in which features are compared, fitted to the reference alone.

    Args:
        reference: the rows of the reference bank that count, all of them: the same for every
            generator, however few of its texts can be compared.
        whiten: number of whitened components; None leaves features as they are.

    Returns:
        A map of features Float["n d"] to Float["n k"]. The fit waits for its first call and is
        kept; the call raises ValueError where the reference has too few rows or directions.
    """
    if whiten is None:
        return lambda features: features

    @functools.cache
    def whitening() -> metrics.Whitening:
        return metrics.fit_whitening(_unit(reference), whiten)

    return lambda features: whitening().transform(_unit(features))


def _unit(features: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    return features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
