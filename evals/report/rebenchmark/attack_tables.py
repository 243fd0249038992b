"""The attack's table: which sizes of naive samplers generative perplexity prefers to real text."""

import math
from collections.abc import Sequence

from ..data import Arm, ReportData
from ..profile import PROFILE, Column
from ..rounding import plain_text, round_number
from ..tables import Entry, Head, Row, Table
from .figures import NAIVE_NAMES
from .tables import TRAINED

_SHOWN = ("gen_ppl", "h_uni", "h_pos", "self_bleu", "distinct_3", "mauve", "jcd")
COLUMNS: tuple[Column, ...] = tuple(c for name in _SHOWN for c in PROFILE if c.metric == name)


def attack_table(data: ReportData, *, name: str = "attack") -> Table:
    """One row a naive sampler and size, real text and the trained arms' ranges above them."""
    rows = []
    for arm in data.with_role("reference"):
        numbers = [Entry(number=arm.score(column.metric)) for column in COLUMNS]
        rows.append(Row((Entry(arm.label), Entry("–"), *numbers, *_blank()), "reference", True))
    for arm in sorted(data.with_role(*TRAINED), key=lambda arm: arm.role):
        numbers = [Entry(number=arm.score(column.metric)) for column in COLUMNS]
        rows.append(Row((Entry(arm.label), Entry("–"), *numbers, *_blank()), arm.role))
    below, inside = below_real_text(data), inside_range(data)
    for arm in _naive(data):
        entries = [
            Entry(NAIVE_NAMES[str(arm.fields["strategy"])]),
            Entry(str(arm.fields["size"])),
            *(Entry(number=arm.score(column.metric)) for column in COLUMNS),
            Entry("yes" if arm in below else "no"),
            Entry("yes" if arm in inside else "no"),
        ]
        rows.append(Row(tuple(entries), "heuristic"))
    return Table(
        name,
        "Naive samplers by size: k of the vocabulary's most frequent tokens, or m phrases.",
        (
            Head("bank", "bank", numeric=False),
            Head("size", "size", numeric=False),
            *(_head(data, column) for column in COLUMNS),
            Head(
                "below real text",
                "below_real",
                "by more than two standard errors in gen-PPL",
                numeric=False,
            ),
            Head("in the trained range", "in_range", "of unigram entropies", numeric=False),
        ),
        tuple(rows),
        (
            "Below real text: gen-PPL lower than the reference's by more than two combined"
            " standard errors.",
            "In the trained range: unigram entropy between the smallest and largest of the"
            " trained arms and real text.",
        ),
    )


def attack_finding(data: ReportData, strategy: str = "periodic") -> str:
    """The sizes at which a sampler beats real text in gen-PPL, and their unigram entropies."""
    real = data.with_role("reference")
    arms = [arm for arm in _naive(data) if arm.fields["strategy"] == strategy]
    if not real or not arms or real[0].score("gen_ppl").value is None:
        return ""
    title, letter = NAIVE_NAMES[strategy], "m" if strategy == "phrase_bank" else "k"
    text_of_real = (
        f"real text ({plain_text(real[0].score('gen_ppl'))} at"
        f" {plain_text(real[0].score('h_uni'))} nats)"
    )
    below = [arm for arm in below_real_text(data) if arm in arms]
    if not below:
        return f"{title} has at none of its {len(arms)} sizes a lower gen-PPL than {text_of_real}."
    sizes = [f"{arm.fields['size']}" for arm in below]
    first = arms.index(below[0])
    unbroken = len(below) > 1 and below == arms[first : first + len(below)]
    shown = f"{sizes[0]} to {sizes[-1]}" if unbroken else ", ".join(sizes)
    sentence = (
        f"{title} has a lower gen-PPL than {text_of_real} at {len(below)} of {len(arms)} sizes,"
        f" {letter} = {shown}: gen-PPL {_range(below, 'gen_ppl')} at a unigram entropy of"
        f" {_range(below, 'h_uni')} nats."
    )
    hidden = [arm for arm in below if arm in inside_range(data)]
    if hidden:
        names = ", ".join(str(arm.fields["size"]) for arm in hidden)
        sentence += (
            f" At {letter} = {names} its unigram entropy lies within the range of trained arms and"
            " real text too: there gen-PPL and H uni together do not give it away (gen-PPL"
            f" {_range(hidden, 'gen_ppl')})."
        )
    return sentence


def below_real_text(data: ReportData) -> list[Arm]:
    """Naive arms whose gen-PPL is below real text's by more than two standard errors."""
    real = data.with_role("reference")
    if not real or real[0].score("gen_ppl").value is None:
        return []
    line = real[0].score("gen_ppl")
    found = []
    for arm in _naive(data):
        score = arm.score("gen_ppl")
        if score.value is not None and line.value is not None:
            noise = math.hypot(score.stderr or 0.0, line.stderr or 0.0)
            if line.value - score.value > 2 * noise:
                found.append(arm)
    return found


def inside_range(data: ReportData) -> list[Arm]:
    """Naive arms whose unigram entropy lies in the range of trained arms and real text."""
    arms = data.with_role("reference", *TRAINED)
    values = [v for arm in arms if (v := arm.score("h_uni").value) is not None]
    if not values:
        return []
    low, high = min(values), max(values)
    return [
        arm
        for arm in _naive(data)
        if (value := arm.score("h_uni").value) is not None and low <= value <= high
    ]


def _naive(data: ReportData) -> list[Arm]:
    order = list(NAIVE_NAMES)
    return sorted(
        data.with_role("heuristic"),
        key=lambda arm: (order.index(str(arm.fields["strategy"])), int(str(arm.fields["size"]))),
    )


def _range(arms: Sequence[Arm], metric: str) -> str:
    values = [v for arm in arms if (v := arm.score(metric).value) is not None]
    low, high = (round_number(edge).value for edge in (min(values), max(values)))
    return low if low == high else f"{low}–{high}"


def _blank() -> tuple[Entry, Entry]:
    return Entry("–"), Entry("–")


def _head(data: ReportData, column: Column) -> Head:
    for arm in data.arms:
        number = arm.score(column.metric)
        if number.value is not None:
            direction = number.direction or ""
            return Head(column.title, column.metric, column.about, number.unit, direction)
    return Head(column.title, column.metric, column.about)
