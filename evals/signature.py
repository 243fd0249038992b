"""Signatures: one line that names everything a number depends on.

A signature is generated from dataclasses, field by field, so that no setting can be left out:
`mauve|K:13|c:5.0|seeds:0-4|…|n:64|ref:1f0c2a9b|v:0.1.0`.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any


def signature(metric: str, *settings: Any) -> str:
    """The metric's name, then every field of every dataclass as `key:value`, joined by "|".

    A field is called by its name, or by `metadata={"key": …}` where it has one.
    """
    parts = [metric]
    for group in settings:
        for field in dataclasses.fields(group):
            key = field.metadata.get("key", field.name)
            parts.append(f"{key}:{_text(getattr(group, field.name))}")
    return "|".join(parts)


def merged(signatures: Sequence[str]) -> str:
    """One signature for an average: equal parts once, differing values joined by "+".

    Raises:
        ValueError: signatures of different metrics or settings, whose numbers must not be averaged.
    """
    split = [text.split("|") for text in signatures]
    if len({len(parts) for parts in split}) != 1:
        raise ValueError(f"signatures name different settings: {sorted(set(signatures))}")
    return "|".join(_merged_part(parts) for parts in zip(*split, strict=True))


def _merged_part(parts: tuple[str, ...]) -> str:
    if len(set(parts)) == 1:
        return parts[0]
    keys = {part.partition(":")[0] for part in parts}
    if len(keys) != 1 or ":" not in parts[0]:
        raise ValueError(f"signatures name different settings: {sorted(set(parts))}")
    values = dict.fromkeys(part.partition(":")[2] for part in parts)
    return f"{keys.pop()}:{'+'.join(values)}"


def _text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        items = list(value)
        if len(items) > 1 and items == list(range(items[0], items[0] + len(items))):
            return f"{items[0]}-{items[-1]}"
        return ",".join(_text(item) for item in items)
    return "none" if value is None else str(value)
