"""Weights & Biases, and trackio, which has the same calls."""

import pathlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ..scoring.scores import Score
from .protocol import flat_numbers

PROJECT = "dlmeval"


class TrackerLogger:
    """One tracked run of the project "dlmeval", named after the workdir.

    Where it goes (offline, a server, a Space) is up to the module's own environment variables,
    such as WANDB_MODE=offline.
    """

    def __init__(self, module: ModuleType, name: str, **options: Any):
        self._module, self._name, self._options = module, name, options
        self._run: Any = None

    def log_config(self, config: Mapping[str, Any]) -> None:
        # trackio takes a configuration when the run begins and at no other time.
        self._run = self._module.init(
            project=PROJECT, name=self._name, config=dict(config), **self._options
        )

    def log_scores(self, step: int, label: str, scores: Mapping[str, Score]) -> None:
        self._run.log(flat_numbers(label, scores), step=step)

    def finish(self) -> None:
        if self._run is not None:
            self._run.finish()


def wandb_logger(module: ModuleType, folder: pathlib.Path) -> TrackerLogger:
    """Weights & Biases; its local files lie in `logs/wandb`."""
    return TrackerLogger(module, folder.parent.name, dir=str(folder))


def trackio_logger(module: ModuleType, folder: pathlib.Path) -> TrackerLogger:
    """trackio; its files lie where it keeps them, see TRACKIO_DIR."""
    return TrackerLogger(module, folder.parent.name, embed=False)
