"""The source string of a text file: which file, which field, and how its texts are cut.

    FILE[#FIELD][&split=MARKER][&empty=RULE][&join=BETWEEN]

`#FIELD` names the field of JSON and tables (default: `text_fields.DEFAULT_FIELDS`); `&split=MARKER`
cuts every text at a marker such as <|endoftext|>, a .txt file at the marker instead of at newlines
(backslash n stands for a newline); `&empty=RULE` is `refuse` (default), `drop` or `keep`;
`&join=BETWEEN` makes one document of all texts (`&join=` puts a space between them).
"""

import os
import pathlib
import re
from typing import NamedTuple

KINDS = ".txt, .tokens, .jsonl, .json (each also with .gz) or .parquet"
EMPTY_RULES = ("refuse", "drop", "keep")
_KIND = r"\.(?:(?:txt|tokens|jsonl|json)(?:\.gz)?|parquet)"
_SOURCE = re.compile(
    rf"(?P<path>.+?{_KIND})(?:#(?P<field>.*?))?(?P<options>(?:&(?:split|empty|join)=.*)?)",
    re.IGNORECASE | re.DOTALL,
)
_OPTION = re.compile(r"&(split|empty|join)=")


class TextSource(NamedTuple):
    """A file and how its texts are read.

    Attributes:
        path: the file.
        field: where the texts are in JSON and tables; None for the usual fields.
        split_at: marker at which texts are cut into documents; None leaves them whole.
        empty: one of `EMPTY_RULES`: what happens to texts without a visible character.
        join: what is put between texts that become one document; None leaves them apart.
    """

    path: pathlib.Path
    field: str | None = None
    split_at: str | None = None
    empty: str | None = None
    join: str | None = None


def parse_source(source: str) -> TextSource:
    """Takes a source string apart.

    Raises:
        ValueError: no file of a kind that can be read, an option given twice, an empty marker or an
            unknown rule.
    """
    match = _SOURCE.fullmatch(source)
    if match is None:
        raise ValueError(f"text file {source!r} is of no known kind; accepted: {KINDS}")
    pieces = _OPTION.split(match["options"])[1:]
    names, values = pieces[::2], pieces[1::2]
    if len(set(names)) < len(names):
        raise ValueError(
            f"text file {source!r}: &split=, &empty= and &join= may be given once each"
        )
    options = {name: value.replace("\\n", "\n") for name, value in zip(names, values)}
    join = options.get("join")
    path = pathlib.Path(os.path.expanduser(match["path"]))
    between = " " if join == "" else join
    field, marker = match["field"] or None, options.get("split")
    return TextSource(path, field, marker, options.get("empty"), between)


def holds_lines(path: pathlib.Path) -> bool:
    """Whether a file is of the kind that holds one text a line."""
    return kind_of(path) in ("txt", "tokens")


def kind_of(path: pathlib.Path) -> str:
    found = re.search(rf"{_KIND}$", path.name, re.IGNORECASE)
    if found is None:
        raise ValueError(f"text file {str(path)!r} is of no known kind; accepted: {KINDS}")
    return found[0].lower().split(".")[1]
