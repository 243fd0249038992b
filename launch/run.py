"""Runs an experiment: samples, scores and reports, or says what that would take.

    python launch/run.py --flagfile=launch/flags/quickstart.flags --workdir=runs/quickstart

Every field of the experiment's `Config` is a flag; `--experiment=NAME --help` lists them. The same
command goes on after a crash. Exit codes: 0 done, 2 for input that has to be changed (one line on
stderr says what), 130 after Ctrl-C.
"""

import dataclasses
import functools
import sys
import typing
from collections.abc import Sequence
from typing import Any

import jax
from absl import app, flags, logging

from dlmeval import models
from dlmeval.evals import experiment as experiments
from dlmeval.evals import pipeline
from dlmeval.evals.errors import InputError, disk_full, one_line
from dlmeval.evals.loggers import parse_loggers
from dlmeval.evals.sources import Sources
from dlmeval.models.loading import DTYPES
from dlmeval.models.precision import PRECISIONS

_EXPERIMENT = flags.DEFINE_string("experiment", "quickstart", "Experiment to run.")
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of all results; made if missing.")
_STAGES = flags.DEFINE_string("stages", "sample,score,report", "Stages to run, joined by commas.")
_DRY_RUN = flags.DEFINE_bool(
    "dry_run", False, "Print the plan, the files needed, forwards, memory and time; write nothing."
)
_EXECUTOR = flags.DEFINE_enum("executor", "local", ["local"], "Where cells run.")
_LOGGERS = flags.DEFINE_string(
    "loggers", "", "Where scores are logged too, joined by commas: jsonl,tensorboard,wandb,trackio."
)
_CACHE = flags.DEFINE_string(
    "compilation_cache", None, "Folder that keeps compiled programs between runs; none by default."
)
_DTYPE = flags.DEFINE_enum("dtype", "float32", list(DTYPES), "Type of the models' parameters.")
_PRECISION = flags.DEFINE_enum(
    "matmul_precision",
    "highest",
    list(PRECISIONS),
    "Of matrix products; below highest, GPUs and TPUs round float32 factors.",
)
_FSDP = flags.DEFINE_integer(
    "fsdp", None, "Devices over which batches and parameters are spread.", lower_bound=1
)
_TENSOR = flags.DEFINE_integer(
    "tensor", None, "Devices over which heads and hidden units are spread.", lower_bound=1
)


class _TupleParser(flags.ArgumentParser):
    """Values joined by commas, each of one type."""

    def __init__(self, kind: type):
        self.kind = kind
        self.syntactic_help = f"{kind.__name__} values joined by commas"

    def parse(self, argument: str | Sequence) -> tuple:
        if not isinstance(argument, str):
            return tuple(argument)
        try:
            return tuple(self.kind(item.strip()) for item in argument.split(",") if item.strip())
        except ValueError as error:
            raise ValueError(f"expected {self.syntactic_help}") from error

    def flag_type(self) -> str:
        return self.syntactic_help


class _OptionalParser(flags.ArgumentParser):
    """A value of one type, or "none"."""

    def __init__(self, inner: flags.ArgumentParser):
        self.inner = inner
        self.syntactic_help = f"{inner.syntactic_help or 'a text'}, or none"

    def parse(self, argument: Any) -> Any:
        return None if argument == "none" else self.inner.parse(argument)

    def flag_type(self) -> str:
        return self.inner.flag_type()


class _TupleSerializer(flags.ArgumentSerializer):
    def serialize(self, value: tuple) -> str:
        return ",".join(str(item) for item in value)


def main(argv: Sequence[str]) -> int:
    """Runs the experiment that the flags describe; returns the exit code."""
    logging.set_verbosity(logging.WARNING)  # JAX logs each backend it does not find
    try:
        return _run(argv)
    except InputError as error:
        return _refuse(one_line(error))
    except OSError as error:
        if not disk_full(error):
            raise
        where = f" while writing {error.filename}" if error.filename else ""
        return _refuse(
            f"no space left on the disk of --workdir={_WORKDIR.value}{where}; free some and run"
            " the same command again, it goes on where it stopped"
        )
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it stopped", file=sys.stderr)
        return 130


def _run(argv: Sequence[str]) -> int:
    if len(argv) > 1:
        raise InputError(f"unknown argument {argv[1]!r}; flags are written --name=value")
    if not _WORKDIR.value and not _DRY_RUN.value:
        raise InputError("--workdir is missing; name a folder for the results")
    pipeline.parse_stages(_STAGES.value)
    parse_loggers(_LOGGERS.value)
    name = _EXPERIMENT.value
    fields = dataclasses.fields(experiments.load_experiment(name).Config)
    config = {field.name: flags.FLAGS[field.name].value for field in fields}
    if _CACHE.value:
        jax.config.update("jax_compilation_cache_dir", _CACHE.value)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
    workdir = _WORKDIR.value or f"runs/{name}"
    if _DRY_RUN.value:
        print(pipeline.dry_run(name, config, workdir, sources=_sources()))
    else:
        pipeline.run_experiment(
            name, config, workdir, _STAGES.value, sources=_sources(), loggers=_LOGGERS.value
        )
    return 0


def _sources() -> Sources:
    """Loaders that follow the flags on types, precision and devices."""
    mesh = None
    if _FSDP.value is not None or _TENSOR.value is not None:
        try:
            mesh = models.make_mesh(_FSDP.value or 1, _TENSOR.value or 1)
        except ValueError as error:
            raise InputError(f"--fsdp, --tensor: {error}") from error
    options: dict[str, Any] = {
        "dtype": _DTYPE.value,
        "matmul_precision": _PRECISION.value,
        "mesh": mesh,
    }
    return Sources(
        load_denoiser=functools.partial(models.load_denoiser, **options),
        load_scorer=functools.partial(models.load_scorer, **options),
        load_encoder=functools.partial(models.load_encoder, **options),
    )


def parse_flags(argv: Sequence[str]) -> list[str]:
    """Parses flags; those of the chosen experiment are defined first, from its `Config`.

    Exits with code 2 and one line on stderr when a flag is unknown or its value is refused.
    """
    try:
        words = flags.FLAGS.read_flags_from_files(list(argv), force_gnu=False)
        define_config_flags(experiments.load_experiment(_chosen(words)).Config)
        return flags.FLAGS(list(argv))
    except (flags.Error, InputError) as error:
        sys.exit(_refuse(one_line(error)))


def define_config_flags(config: type) -> None:
    """Defines one flag for every field of a `Config`, with the field's default and help text."""
    types = typing.get_type_hints(config)
    for field in dataclasses.fields(config):
        text, choices = field.metadata["help"], field.metadata.get("choices")
        kind = types[field.name]
        if choices:
            flags.DEFINE_enum(field.name, str(field.default), list(choices), text)
        elif typing.get_origin(kind) is tuple:
            parser = _TupleParser(typing.get_args(kind)[0])
            flags.DEFINE(parser, field.name, field.default, text, serializer=_TupleSerializer())
        elif type(None) in typing.get_args(kind):
            scalar = next(t for t in typing.get_args(kind) if t is not type(None))
            inner = {int: flags.IntegerParser, float: flags.FloatParser, str: flags.ArgumentParser}
            optional = _OptionalParser(inner[scalar]())
            flags.DEFINE(
                optional, field.name, field.default, text, serializer=flags.ArgumentSerializer()
            )
        else:
            define = {
                bool: flags.DEFINE_bool,
                int: flags.DEFINE_integer,
                float: flags.DEFINE_float,
                str: flags.DEFINE_string,
            }[kind]
            define(field.name, field.default, text)


def _chosen(words: Sequence[str]) -> str:
    """The experiment that a command line names; the last mention counts, as for any flag."""
    name = str(_EXPERIMENT.default)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        flag, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and flag == "experiment":
            name = value if equals else following
    return name


def _refuse(message: str) -> int:
    print(f"run.py: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    app.run(main, flags_parser=parse_flags)
