"""What must be equal for two numbers to be compared.

Rows are comparable when everything but strategy, budget and seeds is equal (CaRE, point 7): the
same weights, text, lengths, filter, noise, temperatures and versions. Weights and texts are
compared by digest, so the same files in another folder are the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...samplers import SamplerConfig
from ..canonical import canonical_json
from ..errors import InputError, naming
from .arm_records import DRAW_FIELDS, STRATEGY_FIELDS
from .records import BankRecord, RunRecord

# Of a cell: the strategy's own fields, the budget, the draw, and names that digests stand for.
_LEFT_OUT = (
    *STRATEGY_FIELDS,
    *DRAW_FIELDS,
    "num_steps",
    "target_nfe",
    "match_mode",
    "role",
    "record_history",
    "model",
    "corpus",
    "size",
    "vocabulary",
)
# What matching may change about an arm that saturates: "idle" the first, "length" the second.
_MATCHED = ("skip_idle", "gen_length")


class Difference(NamedTuple):
    """A field in which two runs are unlike, with its values in either."""

    field: str
    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.field}: {self.first} and {self.second}"


class UnlikeRunsError(InputError):
    """Two runs whose numbers must not be compared; `differences` says in what they differ."""

    def __init__(self, message: str, differences: Sequence[Difference]):
        super().__init__(message)
        self.differences = tuple(differences)


def comparability_key(run: RunRecord, record: BankRecord) -> dict[str, Any]:
    """The facts of a generated bank that must be equal for its numbers to be compared.

    All fields of the cell and of the sampler but those of the strategy, the budget (N, target and
    how it was met) and the draw (seed); digests of model, prompts' text and reference text;
    numerics; versions. As the sampler's defaults are filled in, a setting left at its default
    equals the same value written out. Source: care.md, appendix D.

    Raises:
        InputError: the manifest lacks one of these.
    """
    cell, sampler = record.fact("cell", "record"), record.fact("sampler", "record")
    facts = {k: v for k, v in (cell | sampler).items() if k not in _LEFT_OUT}
    if cell.get("target_nfe") is not None:
        defaults = SamplerConfig.__dataclass_fields__
        for name in _MATCHED:
            given = cell.get(name)
            facts[name] = defaults[name].default if given is None else given
    facts["block_length"] = facts.get("block_length") or facts.get("gen_length")
    reference = run.reference_of(record)
    facts["reference_digest"] = reference.cell("corpus_digest", "digest")
    for name in ("dtype", "precision"):
        facts[name] = record.fact(f"model.{name}", "text")
    for name in ("dlmeval", "jax_enable_x64"):
        facts[name] = record.fact(f"environment.{name}", "text")
    for name, value in facts.items():
        with naming(f"{record.manifest_file}: {name} is {value!r}"):
            canonical_json(value)
    return facts


def unlike_fields(
    first: Mapping[str, Sequence[str]], second: Mapping[str, Sequence[str]]
) -> list[Difference]:
    """Fields whose sets of values differ."""
    return [
        Difference(name, _shown(first.get(name, ())), _shown(second.get(name, ())))
        for name in sorted(set(first) | set(second))
        if first.get(name, ()) != second.get(name, ())
    ]


def key_values(keys: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """{field: its distinct values, as canonical JSON, sorted} over keys of banks."""
    values: dict[str, set[str]] = {}
    for key in keys:
        for name, value in key.items():
            values.setdefault(name, set()).add(canonical_json(value))
    return {name: sorted(found) for name, found in values.items()}


def _shown(values: Sequence[str]) -> str:
    return ", ".join(text[1:13] + "…" if len(text) == 66 else text for text in values) or "nothing"
