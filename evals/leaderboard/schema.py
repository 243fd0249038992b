"""Checks JSON against a schema and says in plain words what is wrong.

The part of JSON Schema (draft 2020-12) that `submission.schema.json` uses, so that any validator
of the standard agrees with this one.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "object": (lambda value: isinstance(value, dict), "an object"),
    "array": (lambda value: isinstance(value, list), "a list"),
    "string": (lambda value: isinstance(value, str), "a text"),
    "integer": (
        lambda value: _is_number(value) and float(value).is_integer(),
        "a whole number",
    ),
    "number": (lambda value: _is_number(value), "a number"),
    "null": (lambda value: value is None, "null"),
}
# Keywords that explain and do not constrain.
_SILENT = {"$schema", "$defs", "title", "description"}


def problems(
    value: Any, schema: Mapping[str, Any], place: str, root: Mapping[str, Any] | None = None
) -> Iterator[str]:
    """Everything in which a value breaks a schema, each with its place.

    Args:
        value: parsed JSON.
        schema: what it should be.
        place: what to call the value, such as "rows[0].settings".
        root: the schema that `$ref` points into; `schema` itself by default.

    Raises:
        ValueError: a keyword of the schema that this does not know.
    """
    root = schema if root is None else root
    for keyword in schema:
        if keyword not in _SILENT and keyword not in _CHECKS:
            raise ValueError(f"schema of {place} uses {keyword!r}, which is not known here")
    if "$ref" in schema:
        yield from problems(value, _resolved(schema["$ref"], root), place, root)
    if "type" in schema:
        names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not any(_TYPES[name][0](value) for name in names):
            wanted = " or ".join(_TYPES[name][1] for name in names)
            yield f"{place} is {shown(value)}; it must be {wanted}"
            return
    for keyword, limit in schema.items():
        check = _CHECKS.get(keyword)
        if check is not None:
            yield from check(value, limit, place, schema, root)


def shown(value: Any) -> str:
    """A value in a message: short, and by its kind where it is long."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = "null" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _is_number(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max


def _resolved(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    for name in reference.removeprefix("#/").split("/"):
        found = found[name]
    return found


def _const(value, limit, place, schema, root):
    if value != limit:
        yield f"{place} is {shown(value)}; it must be {limit!r}"


def _required(value, limit, place, schema, root):
    lacking = [name for name in limit if isinstance(value, dict) and name not in value]
    if lacking:
        yield f"{place} lacks {', '.join(lacking)}"


def _properties(value, limit, place, schema, root):
    for name, inner in limit.items():
        if isinstance(value, dict) and name in value:
            yield from problems(value[name], inner, f"{place}.{name}", root)


def _additional(value, limit, place, schema, root):
    known = schema.get("properties", {})
    unknown = [name for name in value if name not in known] if isinstance(value, dict) else []
    if unknown and limit is False:
        yield f"{place} has unknown fields {', '.join(unknown)}; accepted: {', '.join(known)}"


def _items(value, limit, place, schema, root):
    for index, item in enumerate(value if isinstance(value, list) else ()):
        yield from problems(item, limit, f"{place}[{index}]", root)


def _min_items(value, limit, place, schema, root):
    if isinstance(value, list) and len(value) < limit:
        yield f"{place} has {len(value)} items; it must have at least {limit}"


def _unique_items(value, limit, place, schema, root):
    if limit and isinstance(value, list):
        twice = [item for index, item in enumerate(value) if item in value[:index]]
        if twice:
            yield f"{place} repeats {shown(twice[0])}; give each once"


def _minimum(value, limit, place, schema, root):
    if _is_number(value) and value < limit:
        yield f"{place} is {value}; it must be at least {limit}"


def _maximum(value, limit, place, schema, root):
    if _is_number(value) and value > limit:
        yield f"{place} is {value}; it must be at most {limit}"


def _min_length(value, limit, place, schema, root):
    if isinstance(value, str) and len(value) < limit:
        yield f"{place} is {shown(value)}; it must have at least {limit} characters"


def _max_length(value, limit, place, schema, root):
    if isinstance(value, str) and len(value) > limit:
        yield f"{place} has {len(value)} characters; it must have at most {limit}"


def _pattern(value, limit, place, schema, root):
    # Python's "$" also matches before a line's end, which the standard's does not.
    if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", limit), value):
        wanted = schema.get("description", f"like {limit}")
        yield f"{place} is {shown(value)}; it must be {wanted} ({limit})"


_CHECKS: dict[str, Callable[..., Iterator[str]]] = {
    "$ref": lambda *_: iter(()),
    "type": lambda *_: iter(()),
    "const": _const,
    "required": _required,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
    "minItems": _min_items,
    "uniqueItems": _unique_items,
    "minimum": _minimum,
    "maximum": _maximum,
    "minLength": _min_length,
    "maxLength": _max_length,
    "pattern": _pattern,
}
