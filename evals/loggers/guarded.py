"""A logger that may fail without taking the run with it."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import InputError, one_line
from ..scoring.scores import Score
from .protocol import Logger


class GuardedLogger:
    """Hands on to a logger of `--loggers`.

    What fails at the start, such as a tracker without its key, is refused while nothing is lost.
    Later on numbers matter more than their log: the first failure is told on stderr, and the run
    goes on without this logger.
    """

    def __init__(self, name: str, make: Callable[[], Logger]):
        self._name, self._lost = name, False
        self._logger = self._begin(make)

    @property
    def inner(self) -> Logger:
        """The logger itself."""
        return self._logger

    def log_config(self, config: Mapping[str, Any]) -> None:
        self._begin(lambda: self._logger.log_config(config))

    def log_scores(self, step: int, label: str, scores: Mapping[str, Score]) -> None:
        if not self._lost:
            self._go_on(label, lambda: self._logger.log_scores(step, label, scores))

    def finish(self) -> None:
        self._go_on("its end", self._logger.finish)

    def _begin(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except Exception as error:  # whatever a package of others may raise
            raise InputError(
                f"--loggers={self._name} cannot begin ({_shown(error)}); mend that or leave it out"
            ) from error

    def _go_on(self, what: str, step: Callable[[], Any]) -> None:
        try:
            step()
        except Exception as error:
            if not self._lost:
                print(
                    f"--loggers={self._name} failed at {what} ({_shown(error)}); the run goes on"
                    " without it",
                    file=sys.stderr,
                    flush=True,
                )
            self._lost = True


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(error)}"
