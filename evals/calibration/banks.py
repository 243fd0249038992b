"""Rows of a law with all that the metrics look at, scored once and drawn from many times.

Scoring text by a network is what costs, so each law gets one pool of rows and a bank of n rows is a
random subset of it. Such a bank has the law's distribution; banks of one pool share rows, which
makes the spread between them a little smaller than between fresh ones. Mixtures take rows from two
pools and need none of their own.
"""

import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
from jaxtyping import Float, Int

from ...models import MarkovOracle
from .. import storage
from ..errors import naming
from ..scoring.features import compute_features
from .damage import Avoiding, Law
from .language import Rows, decode
from .mixture import Atoms, Mixture

_SHORT = 32  # most tokens of a row in the cheaper of two shapes
_BATCH, _SMALL_BATCH = 128, 32  # rows a launch: few rows are not filled up to many
_PROJECTED = 64
_BUCKETS = 2048  # of the sketch of a row's gradient: lengths within 3%, where all weights are 9 MB


class Bank(NamedTuple):
    """Rows and what scorers and encoders say of them.

    Attributes:
        ids, lengths: characters.
        tokens, token_lengths: ids of the network's tokenizer for the decoded text.
        pooled: mean of the network's last hidden states.
        bigrams: shares of the character pairs of a row, projected at random.
        nll, num_tokens: nats by the network, and how many of its tokens were scored.
        oracle_nll, oracle_tokens: nats by the language, and how many characters were scored.
        gradients: sketch of the gradient of each row's mean nats, zeros where no token is scored;
            no columns where nothing asks for them.
    """

    ids: Int[np.ndarray, "n t"]
    lengths: Int[np.ndarray, "n"]
    tokens: Int[np.ndarray, "n s"]
    token_lengths: Int[np.ndarray, "n"]
    pooled: Float[np.ndarray, "n d"]
    bigrams: Float[np.ndarray, "n k"]
    nll: Float[np.ndarray, "n"]
    num_tokens: Int[np.ndarray, "n"]
    oracle_nll: Float[np.ndarray, "n"]
    oracle_tokens: Int[np.ndarray, "n"]
    gradients: Float[np.ndarray, "n g"]

    @property
    def documents(self) -> list[bytes]:
        """Each row as text."""
        return [text.encode("ascii") for text in decode(Rows(self.ids, self.lengths))]

    def take(self, index: Int[np.ndarray, "m"]) -> "Bank":
        """Some of the rows."""
        return Bank(*(column[index] for column in self))


def score_rows(rows: Rows, oracle: MarkovOracle, scorer: Any, *, gradients: bool = True) -> Bank:
    """Everything about some rows; a row costs two forwards of the network, and one backward."""
    texts = decode(rows)
    width = rows.ids.shape[1]  # a token is at least one character
    batch = _BATCH if len(texts) >= _BATCH else _SMALL_BATCH
    sizes = np.array([len(scorer.tokenizer.encode(text)) for text in texts])
    tokens = np.zeros((len(texts), width), np.int32)
    found: dict[str, np.ndarray] = {}
    for most, part in (
        (min(_SHORT, width), np.flatnonzero(sizes <= _SHORT)),
        (width, np.flatnonzero(sizes > _SHORT)),
    ):
        if not len(part):
            continue
        features = compute_features(tuple(texts[i] for i in part), scorer, most, batch_size=batch)
        tokens[part, :most] = features.ids
        for name in ("lengths", "pooled", "nll", "num_tokens"):
            values = getattr(features, name)
            column = found.setdefault(name, np.zeros((len(texts), *values.shape[1:]), values.dtype))
            column[part] = values
    oracle_nll, oracle_tokens = oracle.nll(rows.ids, rows.lengths)
    return Bank(
        ids=rows.ids,
        lengths=rows.lengths.astype(np.int32),
        tokens=tokens,
        token_lengths=found["lengths"],
        pooled=found["pooled"],
        bigrams=projected_bigrams(rows, oracle.num_ids),
        nll=found["nll"],
        num_tokens=found["num_tokens"],
        oracle_nll=oracle_nll,
        oracle_tokens=oracle_tokens,
        gradients=_row_gradients(tokens, found["lengths"], scorer, _BUCKETS if gradients else 0),
    )


def _row_gradients(tokens, lengths, scorer: Any, buckets: int) -> Float[np.ndarray, "n g"]:
    """One sketch a row, in the cheaper of two shapes; rows of less than two tokens stay zero."""
    found = np.zeros((len(tokens), buckets), np.float32)
    short = lengths <= _SHORT
    for part in (short, ~short) if buckets else ():
        index = np.flatnonzero(part & (lengths > 1))
        if len(index):
            ids = tokens[index, : _SHORT if part is short else None]
            stats = scorer.gradient_stats(ids, lengths[index], batch_size=1, sketch=buckets)
            found[index] = stats.sketches.rows
    return found


def projected_bigrams(rows: Rows, num_ids: int) -> Float[np.ndarray, "n k"]:
    """Shares of adjacent pairs in each row, by a fixed Gaussian projection; no network."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(num_ids * num_ids, _PROJECTED)).astype(np.float32)
    pairs = rows.ids[:, :-1] * num_ids + rows.ids[:, 1:]
    inside = np.arange(1, rows.ids.shape[1]) < rows.lengths[:, None]
    total = np.einsum("ntk,nt->nk", directions[pairs], inside.astype(np.float32))
    return total / np.maximum(inside.sum(axis=1), 1)[:, None]


def stored_bank(path: pathlib.Path, make: Callable[[], Bank]) -> Bank:
    """Reads a pool, or makes and stores it with the digest of its rows.

    Raises:
        InputError: a stored pool that is not what was written under that name.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        bank = Bank(*(np.ascontiguousarray(column) for column in make()))
        seal = {"pool": path.stem, "digest": _digest(bank)}
        storage.write_bytes(path, safetensors.numpy.save(bank._asdict(), seal))
    with naming(str(path), "delete it, the same command makes it again"):
        try:
            with safetensors.safe_open(path, framework="np") as file:
                bank = Bank(**{name: file.get_tensor(name) for name in Bank._fields})
                seal = file.metadata()
        except (safetensors.SafetensorError, TypeError) as error:
            raise ValueError(f"is no pool: {error}") from error
        if seal != {"pool": path.stem, "digest": _digest(bank)}:
            raise ValueError("was changed after it was written")
    return bank


def _digest(bank: Bank) -> str:
    return storage.sha256_hex(b"".join(column.tobytes() for column in bank))


class Recipe(NamedTuple):
    """How banks of a law come out of pools: rows of `own`, and of `clean` for the rest.

    Attributes:
        own: pool of the damaged rows; None where clean rows are merely left out.
        repeats: whether rows of `own` are drawn with replacement.
        share: of the rows that come from `own`.
        clean: indices of the clean rows that may be used.
    """

    own: Bank | None
    repeats: bool
    share: float
    clean: Int[np.ndarray, "c"]


def recipe_of(law: Law, own: Bank | None, clean: Bank) -> Recipe:
    """The recipe of a law; `own` holds the rows of `component(law)`."""
    everything = np.arange(len(clean.ids))
    if isinstance(law, Mixture):
        return Recipe(own, isinstance(law.other, Atoms), law.share, everything)
    if isinstance(law, Avoiding):
        kept = law.keeps(Rows(clean.ids, clean.lengths))
        return Recipe(None, False, 0.0, np.flatnonzero(kept))
    return Recipe(own, False, 1.0, everything)


def component(law: Law) -> Law | None:
    """The law whose rows need a pool of their own; None where the clean pool serves."""
    if isinstance(law, Mixture):
        return law.other
    return None if isinstance(law, Avoiding) else law


def draw_bank(recipe: Recipe, clean: Bank, num: int, rng: np.random.Generator) -> Bank:
    """A bank of `num` rows in random order.

    Raises:
        ValueError: a pool with fewer rows than are asked for.
    """
    taken = int(rng.binomial(num, recipe.share))
    most = num if recipe.own is None or recipe.repeats else len(recipe.own.ids)
    if taken > most or num - taken > len(recipe.clean):
        raise ValueError(
            f"a bank of {num} rows needs {taken} damaged and {num - taken} clean ones, the pools "
            f"hold {most} and {len(recipe.clean)}; raise pool_rows"
        )
    parts = [clean.take(rng.choice(recipe.clean, num - taken, replace=False))]
    if recipe.own is not None and taken:
        index = rng.choice(len(recipe.own.ids), taken, replace=recipe.repeats)
        parts.append(recipe.own.take(index))
    joined = Bank(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return joined.take(rng.permutation(num))
