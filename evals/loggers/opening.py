"""Loggers by name; optional packages are imported only where one of theirs is asked for."""

import contextlib
import functools
import importlib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from ..errors import InputError, one_line
from .guarded import GuardedLogger
from .jsonl import JsonlLogger
from .protocol import Logger
from .tensorboard import TensorBoardLogger
from .tracker import trackio_logger, wandb_logger


class _BackEnd(NamedTuple):
    """A kind of logger: the module it needs, and how one is made from module and folder."""

    module: str | None
    make: Callable[[Any, pathlib.Path], Logger]


def _jsonl(module: None, folder: pathlib.Path) -> Logger:
    return JsonlLogger(folder)


_BACK_ENDS = {
    "jsonl": _BackEnd(None, _jsonl),
    "tensorboard": _BackEnd("tensorboardX", TensorBoardLogger),
    "wandb": _BackEnd("wandb", wandb_logger),
    "trackio": _BackEnd("trackio", trackio_logger),
}


def logger_names() -> tuple[str, ...]:
    """The names that `--loggers` accepts."""
    return tuple(_BACK_ENDS)


def parse_loggers(loggers: Sequence[str] | str) -> tuple[str, ...]:
    """Names of loggers, each once; their packages are imported, so that a missing one shows now.

    Args:
        loggers: a sequence, or names joined by commas; may be empty.

    Raises:
        InputError: an unknown name, or a package that is not installed.
    """
    words = loggers.split(",") if isinstance(loggers, str) else loggers
    names = tuple(dict.fromkeys(word.strip() for word in words if word.strip()))
    unknown = [name for name in names if name not in _BACK_ENDS]
    if unknown:
        raise InputError(
            f"--loggers={','.join(names)}: {unknown[0]!r} is unknown; accepted: "
            f"{', '.join(_BACK_ENDS)}"
        )
    for name in names:
        _module(name)
    return names


@contextlib.contextmanager
def open_loggers(names: Sequence[str], workdir: pathlib.Path) -> Iterator[tuple[Logger, ...]]:
    """Opens loggers that write below `workdir/logs`, and finishes them when the body ends.

    Args:
        names: from `parse_loggers`.
        workdir: exists; its name becomes that of tracked runs.

    Raises:
        InputError: a logger that cannot begin. One that fails later is left out, with a line on
            stderr.
    """
    folder = workdir.resolve() / "logs"
    if names:
        folder.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        opened = []
        for name in names:
            back_end, module = _BACK_ENDS[name], _module(name)
            logger = GuardedLogger(name, functools.partial(back_end.make, module, folder))
            stack.callback(logger.finish)
            opened.append(logger)
        yield tuple(opened)


def _module(name: str) -> ModuleType | None:
    needed = _BACK_ENDS[name].module
    if needed is None:
        return None
    try:
        return importlib.import_module(needed)
    except ImportError as error:
        raise InputError(
            f"--loggers={name} needs the package {needed} ({error}); "
            f"run `pip install 'dlmeval[{name}]'`"
        ) from error
    except Exception as error:  # a package whose own parts do not fit together
        raise InputError(
            f"--loggers={name}: the package {needed} does not load ({type(error).__name__}: "
            f"{one_line(error)}); mend its installation or leave it out"
        ) from error
