"""Texts inside records: which field holds them, and what counts as text there.

A record is one line of JSON, one entry of a JSON list or one row of a table. Its field may hold one
text, several (lists, or objects with the keys "0", "1", …) or lists of such: each is one text.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

# Fields that hold the texts where none is named; the first that a record has is taken.
#   text               JSON lines and tables of documents
#   text_samples       MDLM, ReMDM
#   generated_seqs     MDLM, Duo and their kin
#   generated_result   contrastive search, beside prefix_text and reference_text
#   resps              samples that lm-evaluation-harness logs: what the model wrote
DEFAULT_FIELDS = ("text", "text_samples", "generated_seqs", "generated_result", "resps")
_FILTERED = "filtered_resps"
_NUMBER = re.compile(r"-?(\d+(\.\d*)?(e[+-]?\d+)?|inf|nan)", re.IGNORECASE)


def default_field(record: Any) -> str | None:
    """The field of a record that holds its text; None where the record is a text itself.

    Raises:
        ValueError: neither a text nor an object, or an object without any of `DEFAULT_FIELDS`.
    """
    if isinstance(record, str):
        return None
    if not isinstance(record, dict):
        raise ValueError(f"needs an object with a field of text; it is {_short(record)}")
    found = [name for name in DEFAULT_FIELDS if name in record]
    if not found:
        known = ", ".join(DEFAULT_FIELDS)
        raise ValueError(
            f"needs an object with one of the fields {known}; it has {_names(record)}: write the"
            " field behind the file, as in FILE#FIELD"
        )
    return found[0]


def texts_of(record: Any, field: str | None) -> list[str]:
    """The texts of one record, at least one; an empty list or object counts as one empty text.

    Args:
        record: parsed JSON.
        field: name of the field; a dot enters what it holds: `doc.question`, `resps.0`,
            `generated_result.0`. None: the record is the text.

    Raises:
        ValueError: no such field, or it holds something else than text; does not say where.
    """
    if field is None:
        if not isinstance(record, str):
            raise ValueError(f"needs a text, as the first entry is one; it is {_short(record)}")
        return [record]
    return _flat(enter(record, field), field) or [""]


def enter(record: Any, field: str) -> Any:
    """What a record holds at a dotted field; in a list, a number picks and a name maps.

    Raises:
        ValueError: no such field.
    """
    head, dot, rest = field.partition(".")
    if isinstance(record, dict):
        if field in record:
            return record[field]
        if dot and head in record:
            return enter(record[head], rest)
        raise ValueError(f"needs an object with the field {field!r}; it has {_names(record)}")
    if isinstance(record, list) and head.isdecimal():
        if int(head) >= len(record):
            raise ValueError(f"needs an entry {head} in a list; it has {len(record)}, from 0")
        return enter(record[int(head)], rest) if dot else record[int(head)]
    if isinstance(record, list):
        return [enter(item, field) for item in record]
    raise ValueError(f"needs an object with the field {field!r}; it is {_short(record)}")


def rows_of_one_filter(records: Sequence[Any], field: str) -> tuple[list[int], str]:
    """Which rows of a log of lm-evaluation-harness to read, so that no answer counts twice.

    The harness writes each answer once for each of a task's filters. What the model wrote (`resps`)
    is the same in all of them, what a filter made of it (`filtered_resps`) is not.

    Args:
        records: all rows; rows without a `filter` are left as they are.
        field: `filtered_resps:NAME` chooses the rows of one filter.

    Returns:
        Indices of the rows, and the field without the filter's name.

    Raises:
        ValueError: `filtered_resps` of several filters without a choice, or an unknown choice.
    """
    every = list(range(len(records)))
    base, colon, chosen = field.partition(":")
    head = base.partition(".")[0]
    if head not in ("resps", _FILTERED) or not all(isinstance(row, dict) for row in records):
        return every, field
    filters = [str(row.get("filter", "none")) for row in records]
    names = list(dict.fromkeys(filters))
    if head == _FILTERED and colon:
        if chosen not in names:
            raise ValueError(f"has no row of the filter {chosen!r}; it has {listed(names)}")
        return [i for i in every if filters[i] == chosen], base
    if len(names) < 2:
        return every, field
    if head == _FILTERED:
        raise ValueError(
            f"has rows of {len(names)} filters ({listed(names)}); choose one, as in"
            f" FILE#{base}:{names[0]}, or read what the model wrote, FILE#resps"
        )
    return [i for i in every if filters[i] == names[0]], field


def _flat(value: Any, field: str) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict) and all(key.isdecimal() for key in value):
        return [text for key in sorted(value, key=int) for text in _flat(value[key], field)]
    if isinstance(value, list) and _is_likelihood(value):
        raise ValueError(
            f"needs text in {field!r}; it holds a log-likelihood and whether it is greedy,"
            f" {_short(value)}: the task compares answers and writes none"
        )
    if isinstance(value, list):
        return [text for item in value for text in _flat(item, field)]
    raise ValueError(
        f"needs an object whose {field!r} is a text or a list of texts; it holds {_short(value)}"
    )


def _is_likelihood(value: list[Any]) -> bool:
    # The harness turns numbers into strings when it logs them.
    number, greedy = map(str, value) if len(value) == 2 else ("", "")
    return greedy in ("True", "False") and _NUMBER.fullmatch(number) is not None


def _names(record: dict[str, Any]) -> str:
    return listed(record) if record else "no field"


def listed(names: Iterable[str]) -> str:
    """Names in quotes, joined by commas; the first twelve of many."""
    names = [repr(name) for name in names]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
