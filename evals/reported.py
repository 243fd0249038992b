"""What the two papers print, read from `reported.json`: shown beside our numbers, never mixed in.

This file is the only place for a paper's number. Numbers are stored as they are printed, so that
"0.080" says that it was rounded to three decimals; `Printed` carries that rounding.
"""

import dataclasses
import decimal
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .errors import InputError

REPORTED = pathlib.Path(__file__).with_name("reported.json")
PAPERS = {
    "care": "Compute-aware Remasking Evaluation Protocol (arXiv 2607.24763)",
    "genppl": "Hacking Generative Perplexity",
}
# What it takes to decide a claim.
TAGS = {
    "exact": "mathematics, arithmetic or a sampler without a network",
    "gpt2-large+owt": "GPT-2-large (or another open encoder) and OpenWebText or LM1B",
    "checkpoints": "trained diffusion models, their banks, judges or people",
    "ratings": "rating rules",
}
CORPORA = ("owt", "lm1b")


class Printed(NamedTuple):
    """A number as printed.

    Attributes:
        text: its digits, such as "0.080".
        value: the number.
        half_unit: half a unit of its last digit; anything closer would print the same.
    """

    text: str
    value: float
    half_unit: float

    @property
    def low(self) -> float:
        """The smallest number that prints like this."""
        return self.value - self.half_unit

    @property
    def high(self) -> float:
        """The largest number that prints like this."""
        return self.value + self.half_unit

    def admits(self, number: float) -> bool:
        """Whether `number` would print like this; a number on the edge does."""
        return abs(number - self.value) <= self.half_unit * (1 + 1e-9) + 1e-12


class Measured(NamedTuple):
    """What a claim's "value" is a measurement of.

    Attributes:
        metric: our name of the metric, such as "gen_ppl".
        subject: what was measured, such as "Periodic-400".
        corpus: "owt", "lm1b" or None.
    """

    metric: str
    subject: str
    corpus: str | None = None


@dataclasses.dataclass(frozen=True)
class Reported:
    """One claim of a paper.

    Attributes:
        id: unique, "paper.topic…".
        paper: a key of `PAPERS`.
        where: section, table or figure.
        statement: what is claimed, in our words.
        values: the printed numbers by name; several where the paper lists several.
        unit: of the values, such as "nats/token"; None for counts and mixed ones.
        tag: a key of `TAGS`.
        comment: what a reader must know before comparing, such as a contradiction; or None.
        measured: what "value" measures; None for claims that are no measurement.
    """

    id: str
    paper: str
    where: str
    statement: str
    values: Mapping[str, tuple[Printed, ...]]
    unit: str | None
    tag: str
    comment: str | None
    measured: Measured | None = None

    def numbers(self, name: str) -> tuple[Printed, ...]:
        """The printed numbers of one name.

        Raises:
            InputError: the claim prints none of that name.
        """
        if name not in self.values:
            raise InputError(
                f"claim {self.id} has no number {name!r}; it has {sorted(self.values)}"
            )
        return self.values[name]

    def number(self, name: str) -> Printed:
        """The printed number of one name.

        Raises:
            InputError: the claim prints none of that name, or several.
        """
        found = self.numbers(name)
        if len(found) != 1:
            raise InputError(f"claim {self.id} has {len(found)} numbers {name!r}; one is needed")
        return found[0]


def read_reported(path: pathlib.Path | None = None) -> tuple[Reported, ...]:
    """All claims of both papers, in the order of the file.

    Raises:
        InputError: the file is missing or no JSON, a claim has unknown, missing or misshapen
            fields, an unknown paper, tag or corpus, or an id that occurs twice.
    """
    path = path or REPORTED
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error})") from error
    if not isinstance(record, list):
        raise InputError(f"{path} holds {type(record).__name__}; it must be a list of claims")
    claims = tuple(parse_reported(entry, f"{path.name}[{i}]") for i, entry in enumerate(record))
    ids = [claim.id for claim in claims]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise InputError(f"{path.name} has two claims each of the ids {twice}; ids are unique")
    return claims


def parse_reported(record: Any, place: str) -> Reported:
    """One claim from its JSON form.

    Args:
        record: an object with the fields of `Reported`; numbers are strings or lists of strings.
        place: where it stands, for error messages.

    Raises:
        InputError: as `read_reported`.
    """
    names = [field.name for field in dataclasses.fields(Reported)]
    needed = set(names) - {"measured"}
    found = set(record) if isinstance(record, dict) else set()
    if not needed <= found <= set(names):
        raise InputError(
            f"{place}: unknown fields {sorted(found - set(names))}, missing fields "
            f"{sorted(needed - found)}; a claim has {names}, of which measured may be left out"
        )
    _check_texts(record, place)
    place = f"{place} {record['id']!r}"
    if record["paper"] not in PAPERS or not record["id"].startswith(record["paper"] + "."):
        raise InputError(
            f"{place}: paper is {record['paper']!r}; accepted: {', '.join(PAPERS)}, and the id "
            "starts with it"
        )
    if record["tag"] not in TAGS:
        raise InputError(f"{place}: tag is {record['tag']!r}; accepted: {', '.join(TAGS)}")
    if not isinstance(record["values"], dict):
        raise InputError(f"{place}: values must be an object of named numbers")
    values = {
        name: tuple(_printed(text, f"{place}: {name}") for text in _listed(texts))
        for name, texts in record["values"].items()
    }
    measured = _measured(record.get("measured"), place)
    if measured is not None and len(values.get("value", ())) != 1:
        raise InputError(f"{place}: a measurement needs one number named 'value'")
    return Reported(**{**record, "values": values, "measured": measured})


def reported_claim(claims: Iterable[Reported], name: str) -> Reported:
    """The claim of an id.

    Raises:
        InputError: none has it.
    """
    for claim in claims:
        if claim.id == name:
            return claim
    raise InputError(f"no claim has the id {name!r}; `python launch/claims.py` lists them")


def reported_column(
    claims: Iterable[Reported], metric: str, *, corpus: str | None = None, paper: str | None = None
) -> dict[str, Printed]:
    """What the papers measured, for the separate "reported" column of a table of ours.

    Args:
        claims: from `read_reported`.
        metric: our name of the metric, such as "gen_ppl".
        corpus, paper: only measurements of these; None takes all.

    Returns:
        {subject: number as printed}; empty where the papers print none.

    Raises:
        InputError: an unknown corpus or paper, or a subject with two numbers (name a corpus or a
            paper then).
    """
    for name, value, known in (("corpus", corpus, CORPORA), ("paper", paper, PAPERS)):
        if value is not None and value not in known:
            raise InputError(f"{name} is {value!r}; accepted: {', '.join(known)}")
    column: dict[str, Printed] = {}
    for claim in claims:
        measured = claim.measured
        if measured is None or measured.metric != metric or paper not in (None, claim.paper):
            continue
        if corpus not in (None, measured.corpus):
            continue
        if measured.subject in column:
            raise InputError(
                f"{metric} of {measured.subject!r} is reported twice; name a corpus or a paper"
            )
        column[measured.subject] = claim.number("value")
    return column


def shown(numbers: Sequence[Printed]) -> str:
    """Printed numbers as one text, several joined by commas."""
    return ", ".join(number.text for number in numbers)


def _check_texts(record: Mapping[str, Any], place: str) -> None:
    for name in ("id", "paper", "where", "statement", "tag"):
        if not isinstance(record[name], str) or not record[name].strip():
            raise InputError(f"{place}: {name} is {record[name]!r}; it must be a text")
    for name in ("unit", "comment"):
        if record[name] is not None and not isinstance(record[name], str):
            raise InputError(f"{place}: {name} is {record[name]!r}; it must be a text or null")


def _listed(texts: Any) -> list[Any]:
    return texts if isinstance(texts, list) and texts else [texts]


def _printed(text: Any, place: str) -> Printed:
    try:
        number = decimal.Decimal(text) if isinstance(text, str) else decimal.Decimal("NaN")
    except decimal.InvalidOperation:
        number = decimal.Decimal("NaN")
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):  # NaN and infinities have a letter there
        raise InputError(
            f'{place} is {text!r}; a number is a string of its printed digits, such as "0.080"'
        )
    return Printed(str(text), float(number), 0.5 * 10.0**exponent)


def _measured(record: Any, place: str) -> Measured | None:
    if record is None:
        return None
    try:
        measured = Measured(**record)
    except TypeError as error:
        raise InputError(
            f"{place}: measured has the fields {', '.join(Measured._fields)} ({error})"
        ) from error
    if measured.corpus not in (None, *CORPORA):
        raise InputError(
            f"{place}: corpus is {measured.corpus!r}; accepted: {', '.join(CORPORA)} or null"
        )
    return measured
