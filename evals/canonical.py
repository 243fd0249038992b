"""Canonical JSON: one byte string for one value, so that digests do not depend on formatting."""

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces, plain UTF-8 and no NaN or infinity.

    Raises:
        ValueError: a number that is not finite.
        TypeError: a value that JSON does not know.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def content_digest(value: Any) -> str:
    """sha256, in hexadecimal, of the canonical JSON of a value."""
    return hashlib.sha256(canonical_json(value).encode("utf-8")).hexdigest()
