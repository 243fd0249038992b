"""What an experiment is, and how one is found by name: a module in `evals/experiments/`.

Most are a list of cells, whose banks and scores are made for them. A study makes its own.
"""

import dataclasses
import importlib
import pathlib
import pkgutil
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from . import experiments
from .cell import Cell
from .errors import InputError
from .scoring.score_settings import ScoreSettings
from .sources import Sources


class Experiment(Protocol):
    """A module with these names.

    `Config` is a frozen dataclass of plain values; every field has a default and
    `metadata={"help": …}`, and becomes a flag. It must have the fields `batch_size` (samples a
    launch) and `shard_size` (samples a file). Fields with `metadata={"execution": True}` change
    how a run proceeds and not what it measures, so they may differ when a run is resumed.
    """

    Config: type

    def cells(self, config: Any, *, sources: Sources) -> Sequence[Cell]:
        """Every cell of the experiment; all inputs are checked here, before anything is written."""
        ...

    def scoring(self, config: Any, *, sources: Sources) -> ScoreSettings:
        """How the banks are scored."""
        ...

    def report(self, workdir: pathlib.Path, *, sources: Sources) -> None:
        """Writes `workdir/report` from the plan, the banks and the scores; samples nothing."""
        ...


class Study(Protocol):
    """An experiment whose banks are no cells: a module with these names in place of those.

    Plan, lock, events, `--stages` and `--dry_run` are shared with other experiments. A stage that
    was stopped goes on where it was when it is run again.
    """

    Config: type

    def inputs(self, config: Any, *, sources: Sources) -> Mapping[str, str]:
        """Digests of all that is read, by name; a workdir keeps to them. Checks every input."""
        ...

    def description(self, config: Any, *, sources: Sources) -> Sequence[str]:
        """Lines of a dry run: what is made, the files needed, memory, disk and time."""
        ...

    def run_stage(
        self, stage: str, config: Any, workdir: pathlib.Path, *, sources: Sources
    ) -> tuple[int, str]:
        """Runs "sample", "score" or "report": how much was made, and the line that says so."""
        ...


def is_study(experiment: Any) -> bool:
    """Whether a module is a `Study`."""
    return hasattr(experiment, "run_stage")


def option(default: Any, text: str, **metadata: Any) -> Any:
    """A field of an experiment's `Config`.

    Args:
        default: its default, of the field's type.
        text: help text of the flag.
        **metadata: `choices` (accepted strings), `least` and `most` (bounds of a number, or of the
            numbers of a tuple), `empty` (whether a tuple may be), `execution` (see `Experiment`).
    """
    return dataclasses.field(default=default, metadata={"help": text, **metadata})


def experiment_names() -> list[str]:
    """Names of all experiments, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(experiments.__path__))


def load_experiment(name: str) -> Any:
    """The module of an experiment.

    Raises:
        InputError: unknown name.
    """
    if name not in experiment_names():
        raise InputError(
            f"--experiment={name} is unknown; accepted: {', '.join(experiment_names())}"
        )
    return importlib.import_module(f"{experiments.__name__}.{name}")


def make_config(experiment: Any, values: Mapping[str, Any] | Any) -> Any:
    """An experiment's `Config` from a mapping of fields, or the given `Config` itself.

    Raises:
        InputError: unknown fields.
    """
    if isinstance(values, experiment.Config):
        return values
    known = {field.name for field in dataclasses.fields(experiment.Config)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise InputError(f"config has unknown fields {unknown}; accepted: {sorted(known)}")
    return experiment.Config(**values)
