"""Text to ids and back through a `tokenizers` file; no remote code, no special tokens added."""

import pathlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import tokenizers

END_OF_TEXT = "<|endoftext|>"


class Tokenizer(NamedTuple):
    """A tokenizer file behind two pure functions of text and ids."""

    backend: tokenizers.Tokenizer

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without special tokens."""
        return self.backend.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of many texts, without special tokens."""
        return [e.ids for e in self.backend.encode_batch(list(texts), add_special_tokens=False)]

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids; special tokens stay as they are, stray bytes become U+FFFD."""
        return self.backend.decode([int(i) for i in ids], skip_special_tokens=False)

    @property
    def vocab_size(self) -> int:
        """Number of ids, added tokens included."""
        return self.backend.get_vocab_size(with_added_tokens=True)

    def save(self, path: pathlib.Path) -> None:
        """Writes the one-file form that `load` reads."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.backend.save(str(path))


def load(path: pathlib.Path) -> Tokenizer:
    """Reads `tokenizer.json`.

    Raises:
        ValueError: no such file, or not a tokenizer file.
    """
    if not path.is_file():
        raise ValueError(f"tokenizer file {str(path)!r} does not exist")
    try:
        backend = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the Rust side raises bare Exception
        raise ValueError(f"tokenizer file {str(path)!r} cannot be read: {error}") from error
    return Tokenizer(backend)


def train_bpe(documents: Iterable[str], vocab_size: int) -> Tokenizer:
    """Trains a byte-level BPE; id 0 is end-of-text, every byte is covered."""
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(documents, trainer)
    return Tokenizer(backend)
