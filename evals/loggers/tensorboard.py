"""TensorBoard: event files, written by tensorboardX (no TensorFlow, no TensorBoard needed)."""

import json
import pathlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ..scoring.scores import Score
from .protocol import flat_numbers


class TensorBoardLogger:
    """Scalars "label/metric" in `logs/tensorboard`; the configuration as text."""

    def __init__(self, module: ModuleType, folder: pathlib.Path):
        self._writer = module.SummaryWriter(logdir=str(folder / "tensorboard"))

    def log_config(self, config: Mapping[str, Any]) -> None:
        # Four blanks make a code block of it in TensorBoard's Markdown.
        lines = json.dumps(config, indent=1, ensure_ascii=False).splitlines()
        self._writer.add_text("config", "\n".join("    " + line for line in lines), 0)

    def log_scores(self, step: int, label: str, scores: Mapping[str, Score]) -> None:
        for name, number in flat_numbers(label, scores).items():
            self._writer.add_scalar(name, number, step)
        self._writer.flush()

    def finish(self) -> None:
        self._writer.close()
