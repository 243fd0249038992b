"""The plan of a run: every cell and setting, written to plan.json before any work starts."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from ... import __version__
from .. import storage
from ..cell import Cell, cell_from_dict
from ..errors import InputError
from ..experiment import load_experiment, make_config
from ..scoring.score_settings import ScoreSettings
from ..sources import Sources

PLAN = "plan.json"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a workdir is for.

    Attributes:
        experiment: its name.
        config: fields of its `Config`.
        cells: all cells, in the order in which they are sampled and reported.
        scoring: settings of the metrics.
        version: of dlmeval.
    """

    experiment: str
    config: dict[str, Any]
    cells: tuple[Cell, ...]
    scoring: ScoreSettings
    version: str = __version__

    def reference_of(self, cell: Cell) -> Cell | None:
        """The bank that a cell is scored against: part 0 of the reference at the cell's seed.

        None for that bank itself and for trajectories.
        """
        if cell.role == "trajectory" or (cell.role == "reference" and not cell.part):
            return None
        for other in self.cells:
            if other.role == "reference" and not other.part and other.seed == cell.seed:
                return other
        raise InputError(f"the plan has no reference bank for seed {cell.seed}")

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        cells = []
        for cell in self.cells:
            reference = self.reference_of(cell)
            cells.append(
                {
                    "fingerprint": cell.fingerprint,
                    "arm": cell.arm,
                    "reference": reference.fingerprint if reference else None,
                    "cell": dataclasses.asdict(cell),
                }
            )
        record = {
            "version": self.version,
            "experiment": self.experiment,
            "config": self.config,
            "scoring": dataclasses.asdict(self.scoring),
            "cells": cells,
        }
        return json.loads(json.dumps(record, allow_nan=False))


@dataclasses.dataclass(frozen=True)
class StudyPlan:
    """What the workdir of a study is for.

    Attributes:
        experiment: its name.
        config: fields of its `Config`.
        inputs: digests of what it reads, by name.
        version: of dlmeval.
    """

    experiment: str
    config: dict[str, Any]
    inputs: dict[str, str]
    version: str = __version__

    def record(self) -> dict[str, Any]:
        """The JSON form."""
        return json.loads(json.dumps(dataclasses.asdict(self), allow_nan=False))


def make_study_plan(name: str, config: Mapping[str, Any] | Any, sources: Sources) -> StudyPlan:
    """Digests what a study reads; writes nothing.

    Raises:
        InputError: unknown experiment or field, or unusable input.
    """
    study = load_experiment(name)
    settings: Any = make_config(study, config)
    inputs = dict(study.inputs(settings, sources=sources))
    return StudyPlan(name, dataclasses.asdict(settings), inputs)


def make_plan(name: str, config: Mapping[str, Any] | Any, sources: Sources) -> Plan:
    """Lists the cells of an experiment; loads models and corpora to digest them, writes nothing.

    Raises:
        InputError: unknown experiment or field, unusable input, or two equal cells.
    """
    experiment = load_experiment(name)
    settings: Any = make_config(experiment, config)
    cells = tuple(experiment.cells(settings, sources=sources))
    seen: dict[str, Cell] = {}
    for cell in cells:
        if cell.fingerprint in seen:
            raise InputError(f"arm {cell.arm!r} at seed {cell.seed} is planned twice")
        seen[cell.fingerprint] = cell
    scoring = experiment.scoring(settings, sources=sources)
    return Plan(name, dataclasses.asdict(settings), cells, scoring)


def read_plan(workdir: pathlib.Path) -> Plan:
    """Reads the plan of a workdir.

    Raises:
        InputError: no plan, or one of another version.
    """
    if not (workdir / PLAN).exists():
        raise InputError(
            f"{workdir} holds no plan.json, so it is no workdir of a run; run its experiment first"
            " or name another folder"
        )
    record = storage.read_json(workdir / PLAN)
    try:
        settings = record["scoring"]
        scoring = ScoreSettings(**{k: _tupled(v) for k, v in settings.items()})
        cells = tuple(cell_from_dict(entry["cell"]) for entry in record["cells"])
        config = {key: _tupled(value) for key, value in record["config"].items()}
        return Plan(record["experiment"], config, cells, scoring, record["version"])
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{workdir / PLAN} is not a plan of this version ({error})") from error


def check_workdir(workdir: pathlib.Path, plan: Plan | StudyPlan) -> None:
    """Refuses a folder that is not this plan's; writes nothing.

    Raises:
        InputError: not a folder, files without a plan, or another plan (its differences named).
    """
    if workdir.exists() and not workdir.is_dir():
        raise InputError(f"--workdir={workdir} is a file; name a folder")
    if not workdir.exists():
        return
    if not (workdir / PLAN).exists():
        if any(workdir.iterdir()):
            raise InputError(
                f"--workdir={workdir} holds files but no {PLAN}; name an empty or new folder"
            )
        return
    stored = storage.read_json(workdir / PLAN)
    try:
        differing = plan_differences(stored, plan.record(), execution_fields(plan.experiment))
    except (TypeError, AttributeError) as error:
        raise InputError(
            f"{workdir / PLAN} is no plan ({error}); it was edited, name another folder"
        ) from error
    if differing:
        raise InputError(
            f"--workdir={workdir} belongs to another plan, which differs in"
            f" {', '.join(differing)}; name another folder or give that plan's flags"
        )


def plan_differences(
    stored: Mapping[str, Any], planned: Mapping[str, Any], ignored: frozenset[str] = frozenset()
) -> list[str]:
    """Names of what differs between two plan records: flags first, else inputs, score and cell."""
    for key in ("experiment", "version"):
        if stored.get(key) != planned[key]:
            return [f"{key} ({stored.get(key)}, now {planned[key]})"]
    before, now = stored.get("config", {}), planned["config"]
    named = [
        f"--{key} ({_shown(before.get(key))}, now {_shown(now.get(key))})"
        for key in _differing_keys(before, now)
        if key not in ignored
    ]
    if named:
        return named
    fields = set()
    for key in ("inputs", "scoring"):
        fields.update(_differing_keys(stored.get(key, {}), planned.get(key, {})))
    old, new = stored.get("cells", []), planned.get("cells", [])
    if len(old) != len(new):
        fields.add(f"number of cells ({len(old)}, now {len(new)})")
    for one, other in zip(old, new):
        fields.update(_differing_keys(one.get("cell", {}), other["cell"]))
        if one.get("fingerprint") != other["fingerprint"] and not fields:
            fields.add("fingerprint")
    return sorted(fields)


def execution_fields(name: str) -> frozenset[str]:
    """Fields of an experiment's `Config` that change how a run proceeds, not what it measures."""
    fields = dataclasses.fields(load_experiment(name).Config)
    return frozenset(field.name for field in fields if field.metadata.get("execution"))


def _differing_keys(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return sorted(key for key in set(one) | set(other) if one.get(key) != other.get(key))


def _shown(value: Any) -> str:
    return ",".join(str(item) for item in value) if isinstance(value, list) else str(value)


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
