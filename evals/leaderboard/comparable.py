"""Which rows may stand in one table: everything but the model and what it needs must be equal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .. import storage
from ..canonical import canonical_json
from ..errors import InputError, one_line
from ..protocol import Difference, UnlikeRunsError, comparability_key
from ..protocol.arm_records import ArmRecord
from ..protocol.bank_points import metric_names, settings_text
from ..protocol.comparability import key_values, unlike_fields
from ..protocol.records import RunRecord, fact
from ..workdir.plan import PLAN
from .rows import BoardRow

# A row's own: its weights and their type, and the temperatures that its arms were drawn at.
_ROWS_OWN = ("model_digest", "dtype", "precision", "unmask_temp")
# What a submission says of itself; its other fields cannot be known.
SUBMITTED = (
    "ascii_min",
    "cjk_max",
    "dlmeval",
    "gen_length",
    "num_samples",
    "num_steps",
    "prefix_length",
    "reference_digest",
    "scorer_digest",
)


def run_facts(
    run: RunRecord, arms: Iterable[ArmRecord]
) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Values of the comparability key over the banks of a row, and what could not be read.

    Beside the fields of `comparability_key`: the nominal budget, the scorer, and how each of the
    four metrics is measured.
    """
    keys: list[dict[str, Any]] = []
    problems = []
    for record in (record for arm in arms for _, record in arm.banks):
        try:
            key = comparability_key(run, record)
            key |= {"num_steps": record.cell("num_steps", "count"), "scorer_digest": _scorer(run)}
            for metric in metric_names(record):
                key[f"settings of {metric}"] = settings_text(record.score(metric).signature)
        except InputError as error:
            problems.append(one_line(error))
        else:
            keys.append({name: value for name, value in key.items() if name not in _ROWS_OWN})
    return key_values(keys), tuple(problems)


def submitted_facts(settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """The same of a submission's settings; it has the fields of `SUBMITTED` alone."""
    return {name: [canonical_json(settings[name])] for name in SUBMITTED}


def check_comparable(rows: Sequence[BoardRow]) -> None:
    """Refuses rows that are unlike the first one that has numbers.

    Rows of runs are compared in all fields, self-reported ones in those that they have.

    Raises:
        InputError: `UnlikeRunsError`, naming both rows and every field in which they differ.
    """
    measured = [row for row in rows if row.facts]
    for row in measured[1:]:
        first = measured[0]
        shared = set(first.facts) | set(row.facts)
        if "self-reported" in (first.status, row.status):
            shared = set(first.facts) & set(row.facts)
        differences: list[Difference] = unlike_fields(
            *({name: one.facts.get(name, ()) for name in shared} for one in (first, row))
        )
        if differences:
            raise UnlikeRunsError(
                f"{first.model.name} ({first.origin}) and {row.model.name} ({row.origin}) must not"
                " stand in one leaderboard; they differ in " + "; ".join(map(str, differences)),
                differences,
            )


def _scorer(run: RunRecord) -> str:
    file = run.workdir / PLAN
    return fact(storage.read_json(file), "scoring.scorer_digest", "digest", file)
