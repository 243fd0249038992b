"""Arms as planned and as the manifests say they were drawn: which banks differ by seed alone."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..errors import InputError, one_line
from .records import BankRecord, RunRecord, fact

# Fields that say which draw of its law a bank is.
DRAW_FIELDS = ("seed", "part", "offset")
# The axes of a design, with the kinds of `records.fact`; they are taken from the manifests.
_AXES = {
    "seed": "count",
    "strategy": "text",
    "unmask_temp": "number",
    "num_steps": "any",
    "target_nfe": "any",
    "match_mode": "any",
    "model_digest": "digest",
}
# Fields that belong to the strategy; all others must be equal where strategies are compared.
STRATEGY_FIELDS = (
    "strategy",
    "remask_fraction",
    "pool",
    "confidence",
    "schedule",
    "threshold",
    "token_temp",
    "alg_temp",
    "eta",
    "t_on",
    "t_off",
    "alpha_on",
)


@dataclasses.dataclass(frozen=True)
class ArmRecord:
    """Banks whose cells differ by their draw alone.

    Attributes:
        label: as planned.
        fields: of the cell, without `DRAW_FIELDS`.
        banks: (seed, bank), by seed.
    """

    label: str
    fields: Mapping[str, Any]
    banks: tuple[tuple[int, BankRecord], ...]

    @property
    def strategy(self) -> str:
        return self.fields["strategy"]

    @property
    def unmask_temp(self) -> float:
        return self.fields["unmask_temp"]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(seed for seed, _ in self.banks)

    @property
    def budget(self) -> str:
        """Nominal steps, or the target of a matched arm: "N=64" or "NFE=128"."""
        target = self.fields.get("target_nfe")
        return f"N={self.fields.get('num_steps')}" if target is None else f"NFE={target}"

    def key(self, *left_out: str) -> str:
        """The fields as one text, some left out; equal for arms that agree in all others."""
        return repr(sorted((k, v) for k, v in self.fields.items() if k not in left_out))


def generated_arms(run: RunRecord) -> tuple[list[ArmRecord], list[str]]:
    """The generated arms in the plan's order, and what could not be read of them.

    A bank stands where its manifest says on the axes of the design (strategy, temperature, budget,
    model, seed). All its other fields are the planned ones; whether it kept to them is a matter
    of disclosure. One with an unreadable manifest stands where it was planned, so that a lost file
    is one problem and not also a gap in every comparison.
    """
    problems: list[str] = []
    members: dict[str, list[tuple[int, BankRecord]]] = {}
    fields_of: dict[str, dict[str, Any]] = {}
    for record in run.with_role("generated"):
        try:
            axes = _axes(record.fact("cell", "record"), record)
        except InputError as error:
            problems.append(one_line(error))
            try:
                axes = _axes(record.planned, record)
            except InputError:
                continue  # the plan is no better; the problem is noted
        cell = {**record.planned, **axes}
        fields = {name: value for name, value in cell.items() if name not in DRAW_FIELDS}
        key = repr(sorted(fields.items()))
        fields_of[key] = fields
        members.setdefault(key, []).append((axes["seed"], record))
    arms = [
        ArmRecord(banks[0][1].arm, fields_of[key], tuple(sorted(banks, key=lambda pair: pair[0])))
        for key, banks in members.items()
    ]
    return arms, problems


def _axes(cell: Mapping[str, Any], record: BankRecord) -> dict[str, Any]:
    """The fields that say where an arm stands; those that are younger than the cell are None."""
    optional = {name: None for name, kind in _AXES.items() if kind == "any"}
    source = {"cell": optional | dict(cell)}
    file = record.manifest_file
    axes = {name: fact(source, f"cell.{name}", kind, file) for name, kind in _AXES.items()}
    return axes | {"unmask_temp": float(axes["unmask_temp"])}
