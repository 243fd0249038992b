"""The rows of a bank that count, and how a number of them becomes a `Score`."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ...metrics.spread import mean_stderr
from ..banks.bank import SampleBank
from ..errors import one_line
from .features import Features
from .scores import Score

# Fewer rows than this cannot be split, clustered or jackknifed.
MIN_ROWS = 8

Numbers = Iterator[tuple[str, Score]]


class Scored(NamedTuple):
    """Usable rows of a bank beside their features.

    Attributes:
        rows: their places in the bank.
        ids, lengths, nll, num_tokens, pooled: of `Features`, these rows only.
        documents: their texts as UTF-8.
    """

    rows: Int[np.ndarray, "n"]
    ids: Int[np.ndarray, "n t"]
    lengths: Int[np.ndarray, "n"]
    nll: Float[np.ndarray, "n"]
    num_tokens: Int[np.ndarray, "n"]
    pooled: Float[np.ndarray, "n d"]
    documents: list[bytes]

    @property
    def n(self) -> int:
        return len(self.rows)


def usable_rows(bank: SampleBank, features: Features, limit: int | None = None) -> Scored:
    """The accepted rows with tokens, in the bank's order, at most `limit` of them."""
    rows = np.flatnonzero(bank.accepted & (features.lengths > 0))[:limit]
    ids, lengths, nll, num_tokens, pooled = (array[rows] for array in features)
    documents = [bank.texts[row].encode("utf-8") for row in rows]
    return Scored(rows, ids, lengths, nll, num_tokens, pooled, documents)


def score_maker(usable: int, n: int) -> Callable[..., tuple[str, Score]]:
    """Builds Scores of n rows; with too few usable rows, ones that say so and compute nothing."""

    def make(
        name: str,
        unit: str,
        direction: str | None,
        compute: Callable[[], tuple[Any, Any]],
        text: str,
    ) -> tuple[str, Score]:
        if usable < MIN_ROWS:
            reason = f"{usable} usable texts; at least {MIN_ROWS} are needed"
            return name, Score(None, None, n, unit, direction, text, reason)
        try:
            value, stderr = compute()
        except ValueError as error:  # texts the metric is not defined on; the reason is stored
            return name, Score(None, None, n, unit, direction, text, one_line(error))
        stderr = None if stderr is None else float(stderr)
        return name, Score(float(value), stderr, n, unit, direction, text)

    return make


def mean_of_rows(values: Float[np.ndarray, "n"]) -> tuple[float, float | None]:
    """Mean over rows and its standard error, None for one row."""
    values = np.asarray(values, np.float64)
    if len(values) < 2:
        return float(values.mean()), None
    return float(values.mean()), float(mean_stderr(values))
