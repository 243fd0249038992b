"""The built-in logger: one JSON object a line."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from ..scoring.scores import Score


class JsonlLogger:
    """Appends to `logs/scores.jsonl`; each run of a workdir starts with its "config" line.

    Lines of event "scores" hold whole leaves: value, stderr, n, unit, direction and signature.
    """

    def __init__(self, folder: pathlib.Path):
        self.path = folder / "scores.jsonl"

    def log_config(self, config: Mapping[str, Any]) -> None:
        self._write({"event": "config", "config": dict(config)})

    def log_scores(self, step: int, label: str, scores: Mapping[str, Score]) -> None:
        leaves = {name: score.leaf() for name, score in scores.items()}
        self._write({"event": "scores", "step": step, "label": label, "scores": leaves})

    def finish(self) -> None:
        self._write({"event": "finish"})

    def _write(self, record: dict[str, Any]) -> None:
        # Opened for each line, so that a killed run loses none and leaves no handle behind.
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
