"""Texts of files: lines, JSON lines, JSON and parquet, read whole or refused with the place."""

import contextlib
import gzip
import importlib
import io
import json
import pathlib
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .. import storage
from .text_fields import default_field, enter, listed, rows_of_one_filter, texts_of
from .text_source import EMPTY_RULES, TextSource, holds_lines, kind_of


class TextRows(NamedTuple):
    """What a file held.

    Attributes:
        texts: in order, at least one.
        field: the field that was read; None where entries are texts themselves.
        num_dropped: empty texts left out.
        sha256, num_bytes: of the file as it lies, compressed or not.
    """

    texts: tuple[str, ...]
    field: str | None
    num_dropped: int
    sha256: str
    num_bytes: int


def read_texts(
    path: str | pathlib.Path,
    field: str | None = None,
    *,
    split_at: str | None = None,
    empty: str = "refuse",
) -> tuple[str, ...]:
    """The texts of a file, in order; the kind is told by its name.

    .txt and .tokens hold one text a line, without the white space around it; .jsonl one object a
    line; .json a list of texts or objects, or one object whose field lists the texts; .parquet a
    table (needs pyarrow). Every text of a record counts: ten generations for one prompt are ten.

    Args:
        path: the file, without `#FIELD`.
        field: as in `text_fields.texts_of`; `filtered_resps:NAME` reads one filter of
            lm-evaluation-harness.
        split_at: cuts texts into documents here; blank pieces vanish, white space around a piece
            goes.
        empty: refuse, drop or keep texts without a visible character.

    Raises:
        ValueError: a missing, damaged or empty file, another kind, bytes that are not UTF-8, no
            such field, an entry that is no text, empty texts; names the line, entry or row.
    """
    return read_source(TextSource(pathlib.Path(path), field, split_at, empty)).texts


def read_source(source: TextSource) -> TextRows:
    """The texts of a source and what is to be known of their origin; see `read_texts`."""
    path = source.path
    rule = source.empty or "refuse"
    if rule not in EMPTY_RULES:
        raise ValueError(f"empty={rule!r} is not one of {', '.join(EMPTY_RULES)}")
    if source.split_at is not None and not source.split_at.strip(" "):
        raise ValueError(f"split={source.split_at!r} must hold more than spaces")
    kind = kind_of(path)
    if holds_lines(path) and source.field is not None:
        raise ValueError(f"text file {str(path)!r} has no field {source.field!r}: it holds lines")
    if not path.is_file():
        raise ValueError(f"text file {str(path)!r} does not exist, or is no file")
    data = path.read_bytes()
    with _naming(path):
        plain = _unzipped(data) if path.name.lower().endswith(".gz") else data
        if kind == "parquet":
            rows, field = _parquet_rows(plain, source.field)
        else:
            rows, field = _text_rows(_decoded(plain), kind, source)
        texts, num_dropped = _documents(rows, source.split_at, rule)
    if source.join is not None:
        texts = (source.join.join(texts),)
    return TextRows(texts, field, num_dropped, storage.sha256_hex(data), len(data))


@contextlib.contextmanager
def _naming(path: pathlib.Path) -> Iterator[None]:
    """Puts the file in front of what a reader finds wrong with it."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"text file {str(path)!r}: {error}") from error


def _unzipped(data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"is not a whole gzip file ({error})") from error


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")  # a byte-order mark is no text
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 (byte {error.start}); convert it first") from error


def _text_rows(
    text: str, kind: str, source: TextSource
) -> tuple[Iterator[tuple[str, str]], str | None]:
    """(place, text) of every text, and the field that they are read from."""
    if kind in ("txt", "tokens"):
        if source.split_at is not None:
            text = text.replace("\r\n", "\n")  # where &split=\n\n finds blank lines too
            if source.split_at not in text:
                raise ValueError(f"has no {source.split_at!r} to split at; it would be one text")
            return iter([("the file", text)]), None
        return ((place, line.strip()) for place, line in _lines(text)), None
    if kind == "jsonl":
        lines = [(place, line) for place, line in _lines(text) if line.strip()]
        return _records([(place, _parsed(line, place)) for place, line in lines], source.field)
    value = _parsed(text, "")
    if not isinstance(value, dict):
        return _records(_entries(value if isinstance(value, list) else [value]), source.field)
    field = source.field or str(default_field(value))
    held = enter(value, field)
    items = _entries(held) if isinstance(held, list) else [("the object", held)]
    return _located([(place, {field: item}) for place, item in items], field), field


def _lines(text: str) -> list[tuple[str, str]]:
    # Only newlines end a text: str.splitlines would also break at U+2028 and form feeds.
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()  # what follows the last newline is no line
    return [(f"line {i}", line) for i, line in enumerate(lines, start=1)]


def _entries(values: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(f"entry {i}", value) for i, value in enumerate(values, start=1)]


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = "" if place else "; one object a line is .jsonl"
        raise ValueError(f"{place}: not JSON ({error}){hint}".removeprefix(": ")) from error


def _records(
    records: list[tuple[str, Any]], field: str | None
) -> tuple[Iterator[tuple[str, str]], str | None]:
    if not records:
        raise ValueError("holds no text")
    if field is None:
        place, first = records[0]
        try:
            field = default_field(first)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
    read = field
    if field is not None:
        kept, read = rows_of_one_filter([record for _, record in records], field)
        records = [records[i] for i in kept]
    return _located(records, read), field


def _located(records: list[tuple[str, Any]], field: str | None) -> Iterator[tuple[str, str]]:
    for place, record in records:
        try:
            texts = texts_of(record, field)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        yield from ((place, text) for text in texts)


def _parquet_rows(data: bytes, field: str | None) -> tuple[Iterator[tuple[str, str]], str | None]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        missing = "reading .parquet needs the package pyarrow: pip install pyarrow"
        raise ValueError(missing) from error
    try:
        names = parquet.read_schema(io.BytesIO(data)).names
        field = field or str(default_field(dict.fromkeys(names)))
        base = field.partition(":")[0]
        column = next((name for name in (base, base.partition(".")[0]) if name in names), None)
        if column is None:
            raise ValueError(f"has no column {base!r}; it has {listed(names)}")
        wanted = {column, "filter"} & set(names)
        table = parquet.read_table(io.BytesIO(data), columns=sorted(wanted))
    except (OSError, NotImplementedError) as error:  # damaged pages, unknown kinds of columns
        raise ValueError(f"is no parquet file that can be read ({error})") from error
    rows = [(f"row {i}", row) for i, row in enumerate(table.to_pylist(), start=1)]
    return _records(rows, field)


def _documents(
    rows: Iterator[tuple[str, str]], split_at: str | None, rule: str
) -> tuple[tuple[str, ...], int]:
    """The texts, cut and sifted, and how many empty ones were left out."""
    texts, blank = [], []
    for place, text in rows:
        pieces = [text]
        if split_at is not None:
            pieces = [piece.strip() for piece in text.split(split_at) if piece.strip()]
        for piece in pieces or [""]:
            _check_unicode(place, piece)
            if piece.strip() or rule == "keep":
                texts.append(piece)
            else:
                blank.append(place)
    if blank and rule == "refuse":
        shown = ", ".join(blank[:8]) + (f" and {len(blank) - 8} more" if blank[8:] else "")
        raise ValueError(
            f"empty texts: {len(blank)} ({shown}); write &empty=drop behind the source to leave"
            " them out or, in a bank, &empty=keep to count them"
        )
    if not texts:
        raise ValueError("holds no text")
    return tuple(texts), len(blank)


def _check_unicode(place: str, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{place}: a text holds half a character (a lone surrogate) at character {error.start};"
            " write the file again from bytes decoded with errors='replace'"
        ) from error
