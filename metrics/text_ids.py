"""Texts as rows of token ids, for the metrics that count tokens."""

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from jaxtyping import Int

Tokens = Literal["whitespace", "characters"]


def text_ids(
    texts: Sequence[str] | Sequence[Sequence[str]],
    tokens: Tokens = "whitespace",
    *,
    vocabulary: Sequence[str] = (),
) -> tuple[Int[np.ndarray, "n t"], Int[np.ndarray, " n"]]:
    """Ids and lengths of texts, numbered by the first appearance of each token.

    Deterministic and without a model; punctuation stays on its word and case is kept. Texts
    split by any other tokenizer (NLTK's, say) pass as sequences of token strings. Banks that
    are compared must share their ids: give both the same `vocabulary`. About 0.1 s a million
    tokens; NumPy on the host.

    Args:
      texts: n texts, or n sequences of token strings. An empty text is a row of length 0.
      tokens: how texts are split: "whitespace", or "characters" (Unicode code points). Token
        sequences are taken as they are.
      vocabulary: tokens with ids 0, 1, … (see `text_vocabulary`); tokens beyond it follow.

    Returns:
      (ids Int32[np.ndarray, "n t"] padded with -1, lengths Int32[np.ndarray, "n"]).

    Raises:
      ValueError: no texts or none with a token, one bare string, bytes, unknown `tokens`, a
        vocabulary that lists a token twice.

    >>> ids, lengths = text_ids(["the cat saw the dog", "the dog"])
    >>> ids.tolist(), lengths.tolist()
    ([[0, 1, 2, 0, 3], [0, 3, -1, -1, -1]], [5, 2])
    >>> text_ids([["the", "cat", "."], []])[0].tolist()
    [[0, 1, 2], [-1, -1, -1]]
    """
    rows = _split(texts, tokens)
    if isinstance(vocabulary, str | bytes):
        raise ValueError("vocabulary must be a sequence of tokens, got one string")
    known = {token: index for index, token in enumerate(vocabulary)}
    if len(known) < len(vocabulary):
        raise ValueError(
            f"vocabulary lists {len(vocabulary) - len(known)} tokens more than once; each token "
            "has one id"
        )
    flat = [known.setdefault(token, len(known)) for row in rows for token in row]
    lengths = np.array([len(row) for row in rows], np.int32)
    if not flat:
        raise ValueError(f"none of the {len(rows)} texts holds a token; pass samples")
    ids = np.full((len(rows), lengths.max()), -1, np.int32)
    ids[np.arange(ids.shape[1]) < lengths[:, None]] = flat
    return ids, lengths


def text_vocabulary(
    texts: Sequence[str] | Sequence[Sequence[str]], tokens: Tokens = "whitespace"
) -> tuple[str, ...]:
    """The different tokens of texts, by first appearance: what `text_ids` numbers 0, 1, ….

    Args:
      texts, tokens: as `text_ids`.

    Raises:
      ValueError: no texts, one bare string, bytes, unknown `tokens`.

    >>> text_vocabulary(["the cat saw the dog"])
    ('the', 'cat', 'saw', 'dog')
    >>> text_ids(["a dog", "a cat"], vocabulary=text_vocabulary(["the cat"]))[0].tolist()
    [[2, 3], [2, 1]]
    """
    return tuple(dict.fromkeys(token for row in _split(texts, tokens) for token in row))


def _split(texts: Iterable, tokens: str) -> list[Sequence[str]]:
    if tokens not in ("whitespace", "characters"):
        raise ValueError(f'tokens must be "whitespace" or "characters", got {tokens!r}')
    if isinstance(texts, str | bytes):
        raise ValueError("texts must be a sequence of texts, got one string; put it in a list")
    if not isinstance(texts, Iterable):
        raise ValueError(f"texts must be a sequence of texts, got {type(texts).__name__}")
    rows = []
    for index, text in enumerate(texts):
        if isinstance(text, str):
            rows.append(text.split() if tokens == "whitespace" else list(text))
            continue
        if isinstance(text, bytes | bytearray) or not isinstance(text, Iterable):
            raise ValueError(
                f"texts[{index}] must be a str or a sequence of str, got "
                f"{type(text).__name__}; decode bytes first"
            )
        row = list(text)
        if not all(isinstance(token, str) for token in row):
            raise ValueError(
                f"texts[{index}] holds tokens that are no strings; token ids need no text_ids"
            )
        rows.append(row)
    if not rows:
        raise ValueError("texts is empty: an empty bank has no metrics; pass samples")
    return rows
