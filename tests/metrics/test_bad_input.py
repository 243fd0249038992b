"""Every public metric has met the faults that users bring, in one of the `test_bad_*` tables."""

import inspect
import pathlib
import re

from dlmeval import metrics


def test_every_public_function_is_in_a_table():
    """A new metric fails here until it has met every fault that its arguments can have."""
    tables = set(pathlib.Path(__file__).parent.glob("test_bad_*.py")) - {pathlib.Path(__file__)}
    source = "".join(path.read_text(encoding="utf-8") for path in tables)
    functions = {name for name in metrics.__all__ if inspect.isfunction(getattr(metrics, name))}
    assert not {name for name in functions if not re.search(rf"\b{name}\b", source)}
