"""What a scorer says about a bank: negative log-likelihoods and pooled hidden states, cached.

A cache entry is named after content (texts, weights, dtype, pooling, code version), never after a
path or an arm, so nothing stale can be found under it.
"""

import dataclasses
import pathlib
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ... import __version__
from ...metrics import target_mask
from ..banks.bank import SampleBank
from ..canonical import content_digest
from .array_files import read_arrays, write_arrays

POOLING = "mean"
DTYPE = "float32"


class Features(NamedTuple):
    """Row i belongs to text i of the bank.

    Attributes:
        ids: the scorer's tokens of the text, cut at `max_tokens`, padded with 0.
        lengths: valid tokens per row; 0 for an empty text.
        nll: nats, summed over the scored tokens of a row.
        num_tokens: scored tokens per row.
        pooled: mean over valid positions of the last hidden states; zeros for an empty text.
    """

    ids: Int[np.ndarray, "n t"]
    lengths: Int[np.ndarray, "n"]
    nll: Float[np.ndarray, "n"]
    num_tokens: Int[np.ndarray, "n"]
    pooled: Float[np.ndarray, "n d"]


@dataclasses.dataclass(frozen=True)
class FeatureKey:
    """Everything that a cache entry depends on."""

    bank_digest: str
    model_digest: str
    max_tokens: int
    dtype: str = DTYPE
    pooling: str = POOLING
    version: str = __version__

    @property
    def name(self) -> str:
        """File name of the entry."""
        return content_digest(dataclasses.asdict(self)) + ".safetensors"


def cached_features(
    folder: pathlib.Path, bank: SampleBank, scorer: Any, key: FeatureKey, *, batch_size: int
) -> Features:
    """Reads the features of a bank from the cache, or computes and stores them.

    Raises:
        InputError: the stored entry was edited or damaged.
    """
    path = folder / key.name
    if path.exists():
        return Features(**read_arrays(path, Features._fields))
    features = compute_features(bank.texts, scorer, key.max_tokens, batch_size=batch_size)
    write_arrays(path, features._asdict(), dataclasses.asdict(key))
    return features


def compute_features(
    texts: tuple[str, ...], scorer: Any, max_tokens: int, *, batch_size: int
) -> Features:
    """Tokenises texts for the scorer and runs it over batches of one shape.

    Texts are re-tokenised, so that every generator is read through the same vocabulary; no special
    token is added, and neither the first token of a text nor any EOS but its first is scored.
    Cost: two forwards a batch.

    Raises:
        ValueError: a score or hidden state that is not finite.
    """
    ids, lengths = tokenise(texts, scorer.tokenizer, max_tokens)
    n = len(texts)
    nll, num_tokens, pooled = [], [], []
    for start in range(0, n, batch_size):
        rows = np.minimum(np.arange(start, start + batch_size), n - 1)
        # A row without tokens would leave attention nothing to look at: score one pad, drop it.
        batch_ids, batch_lengths = ids[rows], np.maximum(lengths[rows], 1)
        mask = target_mask(batch_ids, batch_lengths, scorer.eos_id, eos_policy(scorer))
        batch_nll, batch_tokens = scorer.nll(batch_ids, batch_lengths, np.asarray(mask))
        hidden = np.asarray(scorer.hidden(batch_ids, batch_lengths), np.float32)
        valid = (np.arange(max_tokens) < lengths[rows][:, None])[..., None]
        nll.append(np.asarray(batch_nll, np.float32))
        num_tokens.append(np.asarray(batch_tokens, np.int32))
        pooled.append((hidden * valid).sum(1) / np.maximum(valid.sum(1), 1))
    features = Features(
        ids,
        lengths,
        np.concatenate(nll)[:n],
        np.concatenate(num_tokens)[:n],
        np.concatenate(pooled)[:n].astype(np.float32),
    )
    for name in ("nll", "pooled"):
        bad = ~np.isfinite(getattr(features, name)).reshape(n, -1).all(axis=1)
        if bad.any():
            raise ValueError(f"the scorer gives {name} that is not finite for text {bad.argmax()}")
    return features


def eos_policy(scorer: Any) -> Literal["first_eos", "all"]:
    """Which targets count: every EOS but the first of a text is left out, where there is an EOS."""
    return "all" if scorer.eos_id is None else "first_eos"


def tokenise(
    texts: tuple[str, ...], tokenizer: Any, max_tokens: int
) -> tuple[Int[np.ndarray, "n t"], Int[np.ndarray, "n"]]:
    """Scorer ids of texts without special tokens, cut at `max_tokens`, and their lengths."""
    rows = [tokenizer.encode(text)[:max_tokens] for text in texts]
    ids = np.zeros((len(rows), max_tokens), np.int32)
    for row, target in zip(rows, ids):
        target[: len(row)] = row
    return ids, np.array([len(row) for row in rows], np.int32)
