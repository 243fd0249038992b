"""What a scorer says about texts given the prompts that they continue, cached by content.

The unconditional likelihood in `features` reads a continuation as if it began a text; the one here
reads it behind its prompt. Prompt and text are encoded apart, so the boundary lies between tokens.
"""

import dataclasses
import pathlib
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ... import __version__
from ...metrics import target_mask
from ..banks.bank import SampleBank, bank_digest
from ..canonical import content_digest
from ..cell import Cell
from ..sampling.drawing import prompts, vocabulary
from ..sources import Sources
from .array_files import read_arrays, write_arrays
from .features import DTYPE, eos_policy, tokenise


class Continued(NamedTuple):
    """Row i belongs to text i of the bank.

    Attributes:
        nll: nats of the text given its prompt, summed over its scored tokens.
        num_tokens: scored tokens, a text's first among them.
    """

    nll: Float[np.ndarray, "n"]
    num_tokens: Int[np.ndarray, "n"]


@dataclasses.dataclass(frozen=True)
class ContinuedKey:
    """Everything that a cache entry depends on."""

    bank_digest: str
    prompts_digest: str
    model_digest: str
    max_tokens: int
    dtype: str = DTYPE
    version: str = __version__

    @property
    def name(self) -> str:
        """File name of the entry."""
        return content_digest(dataclasses.asdict(self)) + ".safetensors"


def prompt_texts(cell: Cell, sources: Sources) -> tuple[str, ...]:
    """The prompts of a cell's rows as texts; empty without a prefix."""
    if cell.prefix_length is None:
        return ()
    tokenizer = sources.network(str(cell.model), vocabulary(cell)).tokenizer
    return tuple(tokenizer.decode([int(i) for i in row]) for row in prompts(cell, sources))


def cached_continued(
    folder: pathlib.Path,
    bank: SampleBank,
    prefixes: tuple[str, ...],
    scorer: Any,
    *,
    model_digest: str,
    max_tokens: int,
    batch_size: int,
) -> Continued:
    """Likelihoods of a bank given its prompts, from the cache or computed and stored.

    Args:
        folder: of the cache.
        bank: the continuations.
        prefixes: the prompt of each.
        scorer: causal network; every prompt is read whole.
        model_digest: of the scorer.
        max_tokens: scorer tokens read of each continuation.
        batch_size: rows a launch. Cost: one forward a batch.

    Raises:
        InputError: the stored entry was edited or damaged.
        ValueError: a likelihood that is not finite.
    """
    key = ContinuedKey(bank.digest, bank_digest(prefixes), model_digest, max_tokens)
    path = folder / key.name
    if path.exists():
        return Continued(**read_arrays(path, Continued._fields))
    found = _continued(bank.texts, prefixes, scorer, max_tokens, batch_size)
    write_arrays(path, found._asdict(), dataclasses.asdict(key))
    return found


def _continued(
    texts: tuple[str, ...],
    prefixes: tuple[str, ...],
    scorer: Any,
    max_tokens: int,
    batch_size: int,
) -> Continued:
    given = [scorer.tokenizer.encode(text) for text in prefixes]
    ids, lengths = tokenise(texts, scorer.tokenizer, max_tokens)
    n, width = len(texts), max(map(len, given)) + max_tokens
    rows = np.zeros((n, width), np.int32)
    starts = np.array([len(prefix) for prefix in given])
    for row, prefix, text, length in zip(rows, given, ids, lengths):
        row[: len(prefix)] = prefix
        row[len(prefix) : len(prefix) + length] = text[:length]
    ends = np.maximum(starts + lengths, 1)
    mask = np.asarray(target_mask(rows, ends, scorer.eos_id, eos_policy(scorer)))
    mask = mask & (np.arange(width) >= starts[:, None])
    nll, num_tokens = [], []
    for start in range(0, n, batch_size):
        places = np.minimum(np.arange(start, start + batch_size), n - 1)
        batch_nll, batch_tokens = scorer.nll(rows[places], ends[places], mask[places])
        nll.append(np.asarray(batch_nll, np.float32))
        num_tokens.append(np.asarray(batch_tokens, np.int32))
    found = Continued(np.concatenate(nll)[:n], np.concatenate(num_tokens)[:n])
    if not np.isfinite(found.nll).all():
        bad = int(np.argmin(np.isfinite(found.nll)))
        raise ValueError(f"the scorer gives nll that is not finite for text {bad}")
    return found
