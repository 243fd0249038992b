"""Text to ids and back through `tokenizers`; no remote code, no special tokens unless asked for."""

import pathlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import tokenizers

from . import vocabularies

END_OF_TEXT = vocabularies.END_OF_TEXT


class Tokenizer(NamedTuple):
    """A tokenizer behind pure functions of text and ids."""

    backend: tokenizers.Tokenizer

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without special tokens.

        Raises:
            ValueError: it holds a lone surrogate.
        """
        try:
            return self.backend.encode(text, add_special_tokens=False).ids
        except TypeError:
            _refuse_surrogates([text])
            raise

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of many texts, without special tokens.

        Raises:
            ValueError: a text holds a lone surrogate; names its index.
        """
        return [encoding.ids for encoding in self._encodings(texts)]

    def encode_special(
        self, texts: Sequence[str], max_length: int | None = None
    ) -> list[list[int]]:
        """Ids of many texts between the special tokens of the model's post-processor.

        BERT's [CLS] and [SEP], say; a tokenizer whose files ask for none adds none.

        Args:
            texts: what to encode.
            max_length: most ids a text may have, special ones included; longer texts lose their
                end, not the special tokens. Default: texts are not cut.

        Raises:
            ValueError: `max_length` has no room for the special tokens; a text holds a lone
                surrogate.
        """
        encodings = self._encodings(texts)
        if max_length is not None:
            room = max_length - self.backend.num_special_tokens_to_add(False)
            if room < 0:
                raise ValueError(f"max_length={max_length} has no room for the special tokens")
            for encoding in encodings:
                encoding.truncate(room)
        return [self.backend.post_process(encoding).ids for encoding in encodings]

    def _encodings(self, texts: Sequence[str]) -> list[tokenizers.Encoding]:
        try:
            return self.backend.encode_batch(list(texts), add_special_tokens=False)
        except TypeError:  # what the Rust side says of a surrogate, and names no text
            _refuse_surrogates(texts)
            raise

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids; special tokens stay as they are, stray bytes become U+FFFD."""
        return self.backend.decode([int(i) for i in ids], skip_special_tokens=False)

    def token_id(self, name: str) -> int | None:
        """The id of one token by its exact name, such as "[MASK]"; None if there is none."""
        return self.backend.token_to_id(name)

    @property
    def vocab_size(self) -> int:
        """The highest id and one more, added tokens included: ids may have holes below it."""
        return max(self.backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def save(self, path: pathlib.Path) -> None:
        """Writes the one-file form that `load` reads."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.backend.save(str(path))


def _refuse_surrogates(texts: Sequence[str]) -> None:
    """Names the first text that UTF-8 cannot hold, if one is there.

    Raises:
        ValueError: its index and what stands where.
    """
    for i, text in enumerate(texts):
        try:
            if isinstance(text, str):
                text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"text {i} holds the lone surrogate {text[error.start]!r}, which is half a"
                " character: read the file it comes from as UTF-8, or replace it"
            ) from error


def load(path: pathlib.Path) -> Tokenizer:
    """Reads `tokenizer.json`; cutting and padding that it asks for are switched off.

    Raises:
        ValueError: no such file, or not a tokenizer file.
    """
    if not path.is_file():
        raise ValueError(f"tokenizer file {str(path)!r} does not exist")
    try:
        backend = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the Rust side raises bare Exception
        raise ValueError(f"tokenizer file {str(path)!r} cannot be read: {error}") from error
    backend.no_truncation()
    backend.no_padding()
    return Tokenizer(backend)


def load_folder(folder: pathlib.Path) -> Tokenizer | None:
    """The tokenizer of a model's folder, from data alone; None where it has no tokenizer file.

    Taken in this order: tokenizer.json; vocab.json with merges.txt (byte-level BPE of GPT-2,
    RoBERTa, Qwen2 and Dream); vocab.txt (WordPiece of BERT and MPNet); tokenizer.model
    (sentencepiece's BPE, as of Llama 2). Special and added tokens come from tokenizer_config.json
    and added_tokens.json. Code that a repository names for its tokenizer is never run.

    Raises:
        ValueError: a file that cannot be read, or that asks for what is not implemented; names
            the file and the remedy.
    """
    if (folder / "tokenizer.json").is_file():
        return load(folder / "tokenizer.json")
    backend = vocabularies.read_folder(folder)
    return None if backend is None else Tokenizer(backend)


def mask_id(folder: pathlib.Path, tokenizer: Tokenizer) -> int | None:
    """The id of the mask that tokenizer_config.json or special_tokens_map.json names, if any.

    Raises:
        ValueError: they name a mask that the tokenizer does not have.
    """
    name = vocabularies.mask_token(folder)
    if name is None:
        return None
    found = tokenizer.token_id(name)
    if found is None:
        raise ValueError(f"{folder}: mask_token {name!r} is not in the tokenizer's vocabulary")
    return found


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
