"""Reads tokenizer.model: a sentencepiece BPE model, as Llama 2 and its relatives have it.

The file is a protocol buffer (sentencepiece_model.proto of github.com/google/sentencepiece); four
of its fields are needed, so it is read here without that library.
"""

import pathlib
import struct
from collections.abc import Iterator
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, processors

_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
_NORMAL, _UNKNOWN, _CONTROL, _USER, _BYTE = 1, 2, 3, 4, 6
_BPE = 2


def read(path: pathlib.Path) -> tokenizers.Tokenizer:
    """The tokenizer of a sentencepiece BPE model with byte fallback.

    Text gets a leading space, spaces are the piece "▁", and of all adjacent pairs that form a
    piece the one of the best score is merged first. Rows begin with the model's BOS when special
    tokens are asked for. Building the merges takes about a second for 32,000 pieces.

    Raises:
        ValueError: not such a file, or a unigram model or a normalisation, which are not
            implemented.
    """
    pieces, trainer, normalizer = _parse(path)
    problems = []
    if trainer.get(3, 1) != _BPE:
        problems.append("model_type is not BPE")
    if not trainer.get(35, 0):
        problems.append("byte_fallback is off")
    if normalizer.get(2, b""):
        problems.append("text is normalised by a character map")
    if normalizer.get(4, 1):
        problems.append("remove_extra_whitespaces is on")
    if problems:
        raise ValueError(
            f"{path}: {'; '.join(problems)}: not implemented for tokenizer.model; put a"
            " tokenizer.json, as transformers saves it, into the folder"
        )
    vocab = {piece: number for number, (piece, _, _) in enumerate(pieces)}
    unknown = next(piece for piece, _, kind in pieces if kind == _UNKNOWN)
    backend = tokenizers.Tokenizer(
        models.BPE(vocab, _merges(pieces), unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    # add_dummy_prefix is on unless the file says otherwise.
    steps = [normalizers.Prepend(_SPACE)] if normalizer.get(3, 1) else []
    backend.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", _SPACE)])
    tail = [decoders.Strip(" ", 1, 0)] if normalizer.get(3, 1) else []
    backend.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *tail]
    )
    for piece, _, kind in pieces:
        if kind in (_UNKNOWN, _CONTROL):
            backend.add_special_tokens([tokenizers.AddedToken(piece, normalized=False)])
        elif kind == _USER:
            backend.add_tokens([tokenizers.AddedToken(piece, normalized=False)])
    start = trainer.get(41, 1)
    if 0 <= start < len(pieces):
        name = pieces[start][0]
        backend.post_processor = processors.TemplateProcessing(
            single=f"{name} $A", special_tokens=[(name, start)]
        )
    return backend


def read_pieces(path: pathlib.Path) -> list[tuple[str, float, int]]:
    """The pieces of a model in the order of their ids: text, score, kind (1: ordinary).

    Raises:
        ValueError: not such a file.
    """
    return _parse(path)[0]


def _parse(path: pathlib.Path):
    """Pieces, and the numbered fields of trainer and normalizer."""
    try:
        return _fields(path.read_bytes())
    except (IndexError, struct.error, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no sentencepiece model: {error!r}") from error


def _merges(pieces: list[tuple[str, float, int]]) -> list[tuple[str, str]]:
    """All splits of a piece in two pieces, those of better pieces first."""
    usable = {
        piece: (-score, i) for i, (piece, score, kind) in enumerate(pieces) if kind == _NORMAL
    }
    found = []
    for piece, rank in usable.items():
        halves = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        known = [pair for pair in halves if pair[0] in usable and pair[1] in usable]
        known.sort(key=lambda pair: (usable[pair[0]][1], usable[pair[1]][1]))
        found += [(rank[0], position, pair) for position, pair in enumerate(known)]
    found.sort(key=lambda item: item[0])
    return [pair for _, _, pair in found]


def _fields(data: bytes):
    pieces, trainer, normalizer = [], {}, {}
    for number, value in _messages(data):
        if number == 1:
            entry = dict(_messages(value))
            score = struct.unpack("<f", entry.get(2, bytes(4)))[0]
            pieces.append((entry[1].decode("utf-8"), score, entry.get(3, _NORMAL)))
        elif number == 2:
            trainer = dict(_messages(value))
        elif number == 3:
            normalizer = dict(_messages(value))
    if not any(kind == _UNKNOWN for _, _, kind in pieces):
        raise KeyError("no unknown piece")
    return pieces, trainer, normalizer


def _messages(data: bytes) -> Iterator[tuple[int, Any]]:
    """The (field number, value) pairs of one protocol buffer message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
        elif wire in (1, 5):
            width = 8 if wire == 1 else 4
            value, at = data[at : at + width], at + width
        elif wire == 2:
            width, at = _varint(data, at)
            value, at = data[at : at + width], at + width
        else:
            raise IndexError(f"wire type {wire}")
        if at > len(data):
            raise IndexError("the file ends early")
        yield number, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if not byte & 128:
            return value, at
