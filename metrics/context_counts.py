"""Byte strings as bits in their contexts, counted: all that a context tree is fitted on.

A byte under the three before it makes a 32-bit word; contexts are bit fields of words, so no
bit is ever unpacked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int

Start = Literal["zeros", "grow", "skip"]
MAX_DEPTH = 24
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class ContextCounts:
    """How often 0 and 1 follow each context; counts of document sets add up.

    Attributes:
      full: Int64[np.ndarray, "2**depth 2"], bits after a whole context; bit j of the index is
        the bit j + 1 places back.
      start: the policy for the first bits of documents, see `count_contexts`.
      cut: Int64[np.ndarray, "2**depth 2"], start "grow" only: bits after all d < depth bits
        since the start of their document, at index 2**d + context. Row 0 is unused.
    """

    full: Int[np.ndarray, "contexts 2"]
    start: Start = "zeros"
    cut: Int[np.ndarray, "contexts 2"] | None = None

    @property
    def depth(self) -> int:
        """Context length in bits."""
        return len(self.full).bit_length() - 1

    def __add__(self, other: ContextCounts) -> ContextCounts:
        """Counts of both document sets; `ValueError` unless depth and start agree."""
        if not isinstance(other, ContextCounts):
            return NotImplemented
        if (self.depth, self.start) != (other.depth, other.start):
            raise ValueError(
                f"counts of depth {self.depth}, start {self.start!r} and of depth {other.depth}, "
                f"start {other.start!r} do not add up; count both sets with the same options"
            )
        cut = None if self.cut is None or other.cut is None else self.cut + other.cut
        return ContextCounts(self.full + other.full, self.start, cut)


def count_contexts(
    documents: Sequence[bytes], depth: int = 20, *, start: Start = "zeros"
) -> ContextCounts:
    """How often 0 and 1 follow each context of `depth` bits.

    The first bits of a document have less than `depth` bits of their own before them:

    * "zeros": a document starts after zero bits, which are not counted themselves. Text has no
      NUL, so these contexts tell the start of a document from its middle.
    * "grow": a bit is counted after all bits since the start of its document, however few.
    * "skip": the first `depth` bits of a document are history only, never counted or coded.

    Counts add up with `+`, so shards and streams may be counted apart and summed before
    `context_tree_from_counts`.

    Cost: about 0.1 s a megabyte and tables of 2**(depth + 4) bytes; memory grows with the
    longest document, not with their number.

    Args:
      documents: byte strings.
      depth: context length in bits, 0 to 24.
      start: "zeros", "grow" or "skip".

    Returns:
      `ContextCounts`.

    Raises:
      ValueError: depth out of range, an unknown start, or documents that are not a sequence of
        bytes.

    >>> counts = count_contexts([b"ab"], depth=8) + count_contexts([b"b"], depth=8)
    >>> int(counts.full.sum()), counts.full[ord("a")].tolist()  # after "a" came a 0 bit
    (24, [1, 0])
    """
    check_depth(depth)
    check_start(start)
    documents = check_documents(documents)
    full = np.zeros(2 << depth, np.int64)
    cut = np.zeros_like(full) if start == "grow" else None
    for _, sizes, words in byte_words(documents):
        if start != "zeros":
            opening = list(opening_bytes(sizes, depth))
            for byte, at in opening:
                for known, shift in bits_of_byte(byte):
                    if known >= depth:
                        np.add.at(full, full_code(words[at], shift, depth), 1)
                    elif cut is not None:
                        np.add.at(cut, cut_code(words[at], shift, known), 1)
            if opening:
                words = np.delete(words, np.concatenate([at for _, at in opening]))
        for first in range(0, len(words), _CHUNK_BYTES):  # a long document is one long chunk
            part = words[first : first + _CHUNK_BYTES]
            codes = np.concatenate([full_code(part, shift, depth) for shift in range(8)])
            full += np.bincount(codes, minlength=2 << depth)
    return ContextCounts(full.reshape(-1, 2), start, None if cut is None else cut.reshape(-1, 2))


def coded_bytes(
    documents: Sequence[bytes], depth: int, start: Start
) -> Int[np.ndarray, " n"] | Float[np.ndarray, " n"]:
    """Bytes of each document that are coded: all, or with "skip" all but `depth` bits."""
    sizes = np.array([len(document) for document in documents], np.int64)
    return np.maximum(8 * sizes - depth, 0) / 8 if start == "skip" else sizes


def check_documents(documents: Sequence[bytes], name: str = "documents") -> list[bytes]:
    """A list of the documents, or `ValueError` naming the first that is not bytes."""
    if isinstance(documents, bytes | bytearray | str) or not isinstance(documents, Iterable):
        raise ValueError(
            f"{name} must be a sequence of byte strings, got one {type(documents).__name__}; "
            "pass a list"
        )
    documents = list(documents)
    for row, document in enumerate(documents):
        if not isinstance(document, bytes | bytearray):
            raise ValueError(
                f"{name}[{row}] is a {type(document).__name__}, but documents must be bytes; "
                'encode text with text.encode("utf-8")'
            )
    return documents


def check_depth(depth: int) -> None:
    """`ValueError` unless depth is an integer in [0, 24]."""
    if isinstance(depth, bool) or not isinstance(depth, int | np.integer):
        raise ValueError(f"depth must be an integer number of bits, got {depth!r}")
    if not 0 <= depth <= MAX_DEPTH:
        raise ValueError(
            f"depth must be in [0, {MAX_DEPTH}] bits (tables hold 2**depth contexts), got {depth}"
        )


def check_start(start: str) -> None:
    """`ValueError` unless start is a known policy."""
    if start not in get_args(Start):
        raise ValueError(f"start must be one of {get_args(Start)}, got {start!r}")


def byte_words(
    documents: list[bytes],
) -> Iterator[tuple[int, Int[np.ndarray, " k"], Int[np.ndarray, " m"]]]:
    """Chunks of documents: index of the first, sizes in bytes, a 32-bit word for each byte.

    Zero bytes before each document give its first bytes the history of zero bits.
    """
    first = 0
    while first < len(documents):
        end, size = first, 0
        while end < len(documents) and (end == first or size + len(documents[end]) <= _CHUNK_BYTES):
            size += len(documents[end])
            end += 1
        chunk = documents[first:end]
        sizes = np.array([len(document) for document in chunk])
        if size:
            padded = b"".join(part for document in chunk for part in (b"\0\0\0", document))
            stream = np.frombuffer(padded, np.uint8).astype(np.uint32)
            words = stream[3:].copy()
            for back in (1, 2, 3):
                words |= stream[3 - back : len(stream) - back] << np.uint32(8 * back)
            skipped = 3 * np.arange(len(chunk)).repeat(sizes)  # padding before each byte
            yield first, sizes, words[np.arange(size) + skipped]
        first = end


def opening_bytes(
    sizes: Int[np.ndarray, " k"], depth: int
) -> Iterator[tuple[int, Int[np.ndarray, " m"]]]:
    """Where the bytes lie that begin with less than `depth` bits of their document behind them.

    Yields the number of a byte in its document and its places among the words of the chunk.
    """
    starts = np.cumsum(sizes) - sizes
    for byte in range(-(-depth // 8)):
        yield byte, starts[sizes > byte] + byte


def bits_of_byte(byte: int) -> list[tuple[int, int]]:
    """For each bit of a document's byte: bits of the document before it, its shift in a word."""
    return [(8 * byte + 7 - shift, shift) for shift in range(7, -1, -1)]


def full_code(words: np.ndarray, shift: int, depth: int) -> Int[np.ndarray, " m"]:
    """(context << 1) | bit for the bit at `shift`: its most recent past lies right above it."""
    return ((words >> np.uint32(shift)) & np.uint32((2 << depth) - 1)).astype(np.intp)


def cut_code(words: np.ndarray, shift: int, known: int) -> Int[np.ndarray, " m"]:
    """The same after `known` bits only, offset so that contexts of all lengths are apart."""
    return full_code(words, shift, known) + (2 << known)
