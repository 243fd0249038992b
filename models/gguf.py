"""GGUF files: a header of typed metadata, a table of tensors, and their aligned bytes.

The format is that of github.com/ggml-org/ggml, docs/gguf.md, versions 2 and 3, little-endian.
"""

import functools
import itertools
import math
import mmap
import pathlib
import struct
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from . import quantized, stored
from .stored import Stored

# What ggml calls its types of tensors, to name those that are not read.
TYPE_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1",
    10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS",
    17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S",
    23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16",
    34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0",
}  # fmt: skip
# Metadata: the kinds of numbers, then bool, string and array.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
_BOOL, _STRING, _ARRAY = 7, 8, 9
_VERSIONS = (2, 3)
_MAX_AXES = 4


class Span(NamedTuple):
    """Where a tensor lies in its file, and what it is; the shape with the outermost axis first."""

    type_name: str
    shape: tuple[int, ...]
    start: int
    end: int


class Header(NamedTuple):
    """What a file says before its weights.

    Attributes:
        metadata: numbers, booleans, strings and lists of them by key.
        tensors: by the names of the file.
    """

    metadata: dict[str, Any]
    tensors: dict[str, Span]


def read_header(path: pathlib.Path) -> Header:
    """Reads metadata and tensor table; of the weights nothing but their place is looked at.

    Raises:
        ValueError: names the file and what is wrong: no GGUF file, a version, byte order or type
            of tensor that is not read, a key or tensor stored twice, tensors that overlap or lie
            beyond the end, a file that is cut short.
    """
    try:
        with (
            path.open("rb") as handle,
            mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return _parse(_Cursor(data))
    except (OSError, ValueError) as error:  # mmap refuses an empty file with a ValueError
        raise ValueError(f"cannot read {path}: {error}") from error


def tensor(path: pathlib.Path, span: Span, order: np.ndarray | None = None) -> Stored:
    """A tensor as loaders take it: floats as they are, quantised weights as float32.

    Args:
        path: the file.
        span: its entry in the header.
        order: Int["rows"], the stored row that each row is; default: as they are stored.

    Reading costs the bytes of the tensor in memory if it is quantised, twice that if its rows are
    reordered (which is done first: a row consists of whole blocks).
    """
    dtype = quantized.FORMATS[span.type_name].dtype
    read = functools.partial(_read, path, span, order)
    return Stored(path, span.type_name, dtype, span.shape, read)


class _Cursor:
    """Reads values one after another; ValueError where the file ends before."""

    def __init__(self, data: mmap.mmap):
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        self.reserve(count)
        self.at += count
        return self.data[self.at - count : self.at]

    def reserve(self, count: int) -> None:
        if count > len(self.data) - self.at:
            raise ValueError(
                f"it ends inside its header: {count} bytes needed at {self.at} of"
                f" {len(self.data)}; a download that broke off is the usual cause: fetch it again"
            )

    def numbers(self, code: str, count: int) -> tuple:
        form = f"<{count}{code}"
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def number(self, code: str) -> Any:
        return self.numbers(code, 1)[0]

    def string(self) -> str:
        raw = self.take(self.number("Q"))
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"the string {raw[:40]!r} before {self.at} is no UTF-8") from error

    def value(self, kind: int, key: str) -> Any:
        if kind == _ARRAY:
            kind, count = self.numbers("I", 1)[0], self.number("Q")
            if kind == _ARRAY:
                raise ValueError(f"{key} is an array of arrays, which is not read")
        else:
            return self.values(kind, 1, key)[0]
        return self.values(kind, count, key)

    def values(self, kind: int, count: int, key: str) -> list:
        if kind == _STRING:
            self.reserve(8 * count)  # before a list of a length that cannot be
            return [self.string() for _ in range(count)]
        if kind == _BOOL:
            raw = self.take(count)
            if raw.strip(b"\0\1"):
                raise ValueError(f"{key} holds a boolean that is neither 0 nor 1")
            return [byte == 1 for byte in raw]
        if kind not in _NUMBERS:
            raise ValueError(f"{key} has the unknown kind {kind} of metadata")
        self.reserve(count)
        return list(self.numbers(_NUMBERS[kind], count))


def _parse(cursor: _Cursor) -> Header:
    magic = cursor.take(4)
    if magic != b"GGUF":
        pointer = " (a Git LFS pointer; run `git lfs pull`)" if magic == b"vers" else ""
        raise ValueError(f"it starts with {magic!r}, not b'GGUF': it is no GGUF file{pointer}")
    version = cursor.number("I")
    if version and version & 0xFFFF == 0:
        raise ValueError("it is big-endian; only little-endian GGUF files are read")
    if version not in _VERSIONS:
        raise ValueError(f"GGUF version {version} is not read (accepted: 2, 3); convert it again")
    num_tensors, num_keys = cursor.numbers("Q", 2)
    metadata: dict[str, Any] = {}
    for _ in range(num_keys):
        key = cursor.string()
        if key in metadata:
            raise ValueError(f"the key {key!r} is stored twice")
        metadata[key] = cursor.value(cursor.number("I"), key)
    if metadata.get("split.count", 1) > 1:
        raise ValueError(
            f"it is one of {metadata['split.count']} parts; join them with"
            " `llama-gguf-split --merge`"
        )
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 8 or alignment % 8:
        raise ValueError(f"general.alignment={alignment!r} is no positive multiple of 8")
    table = _table(cursor, num_tensors)
    start = -(-cursor.at // alignment) * alignment
    return Header(metadata, _spans(table, start, len(cursor.data), alignment))


def _table(cursor: _Cursor, count: int) -> dict[str, tuple[str, tuple[int, ...], int]]:
    """Type, shape (outermost axis first) and offset of every tensor."""
    table = {}
    for _ in range(count):
        name = cursor.string()
        if name in table:
            raise ValueError(f"the tensor {name!r} is stored twice")
        axes = cursor.number("I")
        if not 1 <= axes <= _MAX_AXES:
            raise ValueError(f"{name} has {axes} axes (accepted: 1 to {_MAX_AXES})")
        shape = tuple(reversed(cursor.numbers("Q", axes)))
        kind, offset = cursor.number("I"), cursor.number("Q")
        table[name] = (TYPE_NAMES.get(kind, f"number {kind}"), shape, offset)
    return table


def _spans(table, base: int, size: int, alignment: int) -> dict[str, Span]:
    """Checks that every tensor can be read and has bytes of its own within the file."""
    unread = Counter(kind for kind, _, _ in table.values() if kind not in quantized.FORMATS)
    if unread:
        raise ValueError(
            "tensors of types that are not read: "
            + ", ".join(f"{kind} ({count} tensors)" for kind, count in sorted(unread.items()))
            + f"; accepted: {', '.join(quantized.FORMATS)}; quantise the model to one of these"
        )
    spans = {}
    for name, (kind, shape, offset) in table.items():
        form = quantized.FORMATS[kind]
        if 0 in shape or shape[-1] % form.weights:
            raise ValueError(
                f"{name} has shape {list(shape)}: rows of {kind} are positive multiples of"
                f" {form.weights}"
            )
        if offset % alignment:
            raise ValueError(f"{name} starts at {offset}, no multiple of alignment {alignment}")
        start = base + offset
        end = start + math.prod(shape) // form.weights * form.nbytes
        if end > size:
            raise ValueError(
                f"{name} ends at byte {end}, but the file has {size}; a download that broke off"
                " is the usual cause: fetch it again"
            )
        spans[name] = Span(kind, shape, start, end)
    for first, second in itertools.pairwise(sorted(spans, key=lambda name: spans[name].start)):
        if spans[second].start < spans[first].end:
            raise ValueError(f"the bytes of {first} and {second} overlap")
    return spans


def _read(path: pathlib.Path, span: Span, order: np.ndarray | None, out: np.ndarray) -> None:
    form = quantized.FORMATS[span.type_name]
    if form.decode is None and order is None:
        stored.read_span(path, span.start, span.end, out)
        return
    raw = np.empty(span.end - span.start, np.uint8)
    stored.read_span(path, span.start, span.end, raw)
    if order is not None:
        raw = raw.reshape(len(order), -1)[order].reshape(-1)
    if form.decode is None:
        out.reshape(-1)[:] = raw.view(form.dtype)
    else:
        quantized.dequantize(raw.reshape(-1, form.nbytes), form, out.reshape(-1, form.weights))
