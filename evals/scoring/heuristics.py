"""The test that a metric of generated text must pass: naive samplers come last.

A sampler that only counts tokens should look worse than any trained model. Whatever metric places
one at or above a trained bank can be gamed by it ("Hacking Generative Perplexity", sections 4 and
6, which recommends the test for candidate metrics).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from ...samplers import CorpusCounts
from ..corpora.windows import cut_windows, take_windows
from ..errors import InputError, naming
from ..sampling.drawing import naive_sampler
from ..sources import Sources

# Sizes of `check_metric`: small ones attack likelihood, large ones diversity.
USUAL_SIZES = {
    "topk_iid": (16, 256),
    "mirror": (16, 256),
    "periodic": (4, 16),
    "phrase_bank": (5, 500),
}
# Shares of tokens that the stand-ins for trained models have wrong.
NOISE_LEVELS = (0.05, 0.15)


class Offence(NamedTuple):
    """A naive sampler that a metric does not place below a trained bank."""

    column: str
    heuristic: str
    trained: str


class MetricCheck(NamedTuple):
    """How a metric treats naive samplers.

    Attributes:
        real: its value for real text, against other real text where it takes a reference.
        trained: {bank: value} of the banks that naive samplers must stay behind.
        heuristics: {naive sampler: value}.
        fooled_by: naive samplers at least as good as some trained bank.
        above_real: naive samplers that it does not place below real text.
        offences: every pair behind `fooled_by`.
    """

    real: float
    trained: dict[str, float]
    heuristics: dict[str, float]
    fooled_by: tuple[str, ...]
    above_real: tuple[str, ...]
    offences: tuple[Offence, ...]

    @property
    def passed(self) -> bool:
        """Whether every naive sampler is strictly worse than every trained bank."""
        return not self.offences


def heuristics_last(
    table: Mapping[str, Mapping[str, float]],
    directions: Mapping[str, str],
    *,
    heuristics: Iterable[str],
    trained: Iterable[str],
) -> list[Offence]:
    """Pairs that break "every naive sampler is strictly worse than every trained bank".

    Args:
        table: {bank: {column: value}}; an absent or NaN value makes no pair.
        directions: {column: "up" | "down"}; columns not named here are not judged.
        heuristics, trained: banks of the table.

    Returns:
        Offences by column, heuristic and trained bank; empty when no column can be gamed.

    Raises:
        InputError: a direction that is neither up nor down, or a bank that the table lacks.
    """
    heuristics, trained = list(heuristics), list(trained)
    for bank in (*heuristics, *trained):
        if bank not in table:
            raise InputError(f"bank {bank!r} is not in the table; it has {', '.join(table)}")
    found = []
    for column, direction in directions.items():
        if direction not in ("up", "down"):
            raise InputError(f"directions[{column!r}] is {direction!r}; accepted: 'up', 'down'")
        sign = 1.0 if direction == "up" else -1.0
        for naive in heuristics:
            for bank in trained:
                ours, theirs = (sign * table[b].get(column, math.nan) for b in (naive, bank))
                if ours >= theirs:  # False where either is NaN
                    found.append(Offence(column, naive, bank))
    return found


def check_metric(
    metric: Callable[..., float],
    direction: str,
    *,
    takes_reference: bool = False,
    trained: Mapping[str, Sequence[str]] | None = None,
    reference: str = "kjv:heldout",
    training: str = "kjv:train",
    tokenizer: str = "embedded:kjv-scorer",
    sizes: Mapping[str, Sequence[int]] | None = None,
    gen_length: int = 40,
    num_samples: int = 64,
    seed: int = 0,
    sources: Sources | None = None,
) -> MetricCheck:
    """Puts a metric of texts through the naive samplers.

    Without trained banks of one's own, real text stands in for them in which a share of the
    tokens (`NOISE_LEVELS`) is replaced by tokens drawn from the training text's counts: any
    trained model worth the name is better than the last of them.

    Args:
        metric: texts -> number, or (reference texts, texts) -> number with `takes_reference`.
        direction: "up" or "down": where better is.
        takes_reference: whether the metric compares with real text.
        trained: {name: texts} of trained models; those given are used instead of the stand-ins.
        reference: real text: one bank to compare with, one to be scored, one behind the stand-ins.
        training: the text that the naive samplers count.
        tokenizer: source of the scorer whose tokens they count.
        sizes: {naive sampler: sizes k or m}; `USUAL_SIZES` by default.
        gen_length: tokens a text.
        num_samples: texts a bank.
        seed: of all draws.
        sources: loaders of models and corpora; the usual ones by default.

    Raises:
        InputError: a metric that gives no finite number (the bank is named), sizes that the
            counts do not allow, or too little text.
    """
    sources = sources or Sources()
    letters = sources.scorer(tokenizer).tokenizer
    if letters is None:
        raise InputError(f"tokenizer {tokenizer!r} has no tokenizer.json; add it to the folder")

    def texts_of(rows: Int[np.ndarray, "n length"]) -> tuple[str, ...]:
        return tuple(letters.decode([int(token) for token in row]) for row in rows)

    with naming(f"reference={reference}"):
        windows = cut_windows(sources.encoded(reference, tokenizer, "scorer"), gen_length)
        starts = (0, num_samples, 2 * num_samples)
        real, second, third = (take_windows(windows, start, num_samples) for start in starts)
    with naming(f"training={training}"):
        counts = sources.counts(training, tokenizer, "scorer")
    banks: dict[str, tuple[str, ...]] = {}
    for name, chosen in (USUAL_SIZES if sizes is None else sizes).items():
        for size in chosen:
            with naming(f"{name} of size {size}"):
                rows = naive_sampler(name)(
                    counts, size, length=gen_length, num_samples=num_samples, seed=seed
                )
            banks[f"{name} {size}"] = texts_of(np.asarray(rows))
    rivals = {name: tuple(texts) for name, texts in (trained or {}).items()} or {
        f"real text, {level:.0%} noise": texts_of(noised(third, counts, level, seed=seed))
        for level in NOISE_LEVELS
    }
    given = (texts_of(real),) if takes_reference else ()

    def value(name: str, texts: Sequence[str]) -> float:
        number = np.asarray(metric(*given, texts))
        if number.ndim or number.dtype.kind not in "fiub" or not np.isfinite(number):
            raise InputError(f"the metric gives {number} for {name}; it must be a finite number")
        return float(number)

    found = {name: value(name, texts) for name, texts in (banks | rivals).items()}
    found["real text"] = value("real text", texts_of(second))
    table = {name: {"metric": number} for name, number in found.items()}

    def behind(others: Iterable[str]) -> list[Offence]:
        return heuristics_last(table, {"metric": direction}, heuristics=banks, trained=others)

    offences = behind(rivals)
    return MetricCheck(
        real=found["real text"],
        trained={name: found[name] for name in rivals},
        heuristics={name: found[name] for name in banks},
        fooled_by=tuple(dict.fromkeys(offence.heuristic for offence in offences)),
        above_real=tuple(offence.heuristic for offence in behind(["real text"])),
        offences=tuple(offences),
    )


def noised(
    rows: Int[np.ndarray, "n length"], counts: CorpusCounts, level: float, *, seed: int
) -> Int[np.ndarray, "n length"]:
    """Rows in which each token is replaced, with probability `level`, by one drawn from counts.

    Raises:
        InputError: a level outside [0, 1].
    """
    if not 0 <= level <= 1:
        raise InputError(f"level={level} must be between 0 and 1")
    rng = np.random.default_rng(seed)
    share = counts.token_counts / counts.token_counts.sum()
    drawn = rng.choice(counts.tokens, size=rows.shape, p=share)
    return np.where(rng.random(rows.shape) < level, drawn, rows)
