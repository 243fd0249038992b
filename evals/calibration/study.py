"""Runs the calibration: every metric on draws of every damaged law, one file a law."""

import dataclasses
import functools
import math
import pathlib
import time
import warnings
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from ... import metrics
from .. import storage
from ..errors import InputError
from ..sources import Sources
from .banks import Bank, Recipe, component, draw_bank, recipe_of, score_rows, stored_bank
from .damage import Avoiding, Language, Law
from .ladders import UNITS, Level, ladders, training_rows
from .language import full_rows, king_james
from .measures import MEASURES, Context
from .mixture import Atoms
from .settings import Settings
from .truth import Truth, truth

CLEAN = "clean"
REFERENCE = "reference"
GRADIENTS = "gradient_moment"
_AGAIN = "delete it and run --stages=score"
Progress = Callable[[str], None]


class Step(NamedTuple):
    """One law of the study: its place, its ladder ("clean" for the language) and its level."""

    number: int
    ladder: str
    level: Level

    @property
    def file(self) -> str:
        return f"{self.number:02d}-{self.ladder.replace(' ', '-')}.json"


class Calibration:
    """A calibration in a workdir: `pools/*.safetensors`, `laws/*.json`.

    Both stages make what is not yet there; the same settings give the same numbers.
    """

    def __init__(self, workdir: pathlib.Path, settings: Settings, sources: Sources):
        self.settings = settings
        self.pools = workdir / "pools"
        self.laws = workdir / "laws"
        self.scorer = sources.scorer(settings.scorer)
        oracle, self.documents = king_james(sources)
        self.language = Language(oracle, settings.length)

    @functools.cached_property
    def steps(self) -> list[Step]:
        """All laws, the language first."""
        found = [(CLEAN, Level(0.0, self.language))]
        for name, levels in ladders(self.language, self.documents, seed=self.settings.seed).items():
            found += [(name, level) for level in levels]
        return [Step(number, *entry) for number, entry in enumerate(found)]

    @functools.cached_property
    def drawn_laws(self) -> dict[str, Law]:
        """The law behind every pool, by the pool's name."""
        own = {name: law for name, law in map(self._own, self.steps) if law is not None}
        return {CLEAN: self.language, REFERENCE: self.language} | own

    def num_rows(self, name: str) -> int:
        """Rows of a pool: all its strings, each once, for a list of strings."""
        law = self.drawn_laws[name]
        if isinstance(law, Atoms):
            return len(law.ids)
        sizes = {CLEAN: self.settings.clean_rows, REFERENCE: self.settings.reference_rows}
        return sizes.get(name, self.settings.pool_rows)

    def draws(self, step: Step) -> dict[int, int]:
        """Banks drawn of a law, by size."""
        settings = self.settings
        if step.ladder != CLEAN:
            return dict(zip(settings.sizes, settings.draws))
        found = dict.fromkeys(settings.bias_sizes, settings.bias_draws)
        return found | dict(zip(settings.sizes, settings.clean_draws))

    def draw(self, progress: Progress) -> int:
        """Draws and scores the rows of all pools; returns how many pools it made."""
        missing = [name for name in self.drawn_laws if not self._path(name).exists()]
        for place, name in enumerate(missing):
            start = time.perf_counter()
            self.pool(name)
            progress(
                f"pool {place + 1}/{len(missing)} {name}: {self.num_rows(name)} rows, "
                f"{time.perf_counter() - start:.0f} s"
            )
        return len(missing)

    def measure(self, progress: Progress) -> int:
        """Scores banks out of the pools; returns how many laws it measured."""
        missing = [step for step in self.steps if not (self.laws / step.file).exists()]
        if not missing:
            return 0
        self.laws.mkdir(exist_ok=True)
        learnt = training_rows(self.language, self.settings.seed)
        shared = _Shared(
            reference=self.pool(REFERENCE),
            clean=self.pool(CLEAN),
            context=Context(metrics.fit_training_index(learnt)),
        )
        for step in missing:
            start = time.perf_counter()
            name, law = self._own(step)
            own = None if law is None else self.pool(name)
            record = _measured(step, self.draws(step), own, shared, self.language, self.settings)
            storage.write_json(self.laws / step.file, record)
            progress(
                f"law {step.number + 1}/{len(self.steps)} {step.ladder} {step.level.size:.3g}: "
                f"{time.perf_counter() - start:.0f} s"
            )
        return len(missing)

    def records(self) -> list[dict[str, Any]]:
        """One record a law, the language first.

        Each holds ladder, level, truth, and by size of bank the values of every number at each
        draw (None where the metric refuses the bank) and the median seconds of every measure.

        Raises:
            InputError: laws that are not measured yet.
        """
        missing = [s.file for s in self.steps if not (self.laws / s.file).exists()]
        if missing:
            raise InputError(
                f"{self.laws} lacks {len(missing)} of {len(self.steps)} laws, {missing[0]} first; "
                "run --stages=score"
            )
        return [self._record(step) for step in self.steps]

    def _record(self, step: Step) -> dict[str, Any]:
        path = self.laws / step.file
        record = storage.read_json(path)
        sizes = {str(size): count for size, count in self.draws(step).items()}
        names = {name for m in self.settings.chosen for name in MEASURES[m].directions}
        try:
            values = record["values"].items()
            shapes = {size: {n: len(v) for n, v in found.items()} for size, found in values}
            law = record["ladder"], record["level"], *record["seconds"], *record["truth"]
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is no law of this study ({error!r}); {_AGAIN}") from error
        expected = step.ladder, step.level.size, *sorted(sizes), *sorted(Truth._fields)
        if law != expected or shapes != {s: dict.fromkeys(names, k) for s, k in sizes.items()}:
            raise InputError(f"{path} is not law {step.number} of this study; {_AGAIN}")
        return record

    def check(self) -> None:
        """Refuses pools that are too small for the banks to be drawn from them.

        Raises:
            InputError: too few clean rows are left where some are dropped.
        """
        largest = max(size for step in self.steps for size in self.draws(step))
        for step in self.steps:
            if isinstance(step.level.law, Avoiding):
                kept = step.level.law.kept_mass
                least = math.ceil((largest + 4 * math.sqrt(largest)) / kept)
                if self.settings.clean_rows < least:
                    raise InputError(
                        f"--clean_rows={self.settings.clean_rows} leaves too few for banks of "
                        f"{largest} where {1 - kept:.0%} of the language is dropped; give at "
                        f"least {least}"
                    )

    def pool(self, name: str) -> Bank:
        """The scored rows of a law, made where they are not stored yet."""
        return stored_bank(self._path(name), functools.partial(self._scored, name))

    def _scored(self, name: str) -> Bank:
        law, rng = self.drawn_laws[name], _rng(self.settings.seed, f"pool {name}")
        atoms = isinstance(law, Atoms)
        rows = full_rows(law.ids) if atoms else law.draw(self.num_rows(name), rng)
        gradients = GRADIENTS in self.settings.chosen
        return score_rows(rows, self.language.oracle, self.scorer, gradients=gradients)

    def _path(self, name: str) -> pathlib.Path:
        return self.pools / f"{name.replace(' ', '-')}.safetensors"

    def _own(self, step: Step) -> tuple[str, Law | None]:
        """The pool behind one law, None where the clean one serves; a mixture's levels share it."""
        law = component(step.level.law)
        if law is None or law is self.language:
            return step.ladder, None
        shared = law is not step.level.law
        return (step.ladder if shared else f"{step.ladder}-{step.level.size:.4g}"), law


@dataclasses.dataclass(frozen=True)
class _Shared:
    """What every law is measured with."""

    reference: Bank
    clean: Bank
    context: Context


def _measured(
    step: Step,
    draws: dict[int, int],
    own: Bank | None,
    shared: _Shared,
    language: Language,
    settings: Settings,
) -> dict[str, Any]:
    """The record of one law."""
    _, name, level = step
    label = f"{name} {level.size:.6g}"
    if name == CLEAN:
        recipe = Recipe(None, False, 0.0, np.arange(len(shared.clean.ids)))
    else:
        recipe = recipe_of(level.law, own, shared.clean)
    known = truth(
        level.law, language, num=settings.truth_rows, rng=_rng(settings.seed, f"truth {label}")
    )
    values, seconds = {}, {}
    for size in sorted(draws):
        rng = _rng(settings.seed, f"draws {label} {size}")
        values[str(size)], seconds[str(size)] = _drawn(
            recipe, shared, size, draws[size], settings.chosen, rng
        )
    return {
        "ladder": name,
        "level": level.size,
        "unit": UNITS.get(name, ""),
        "truth": _record(known),
        "values": values,
        "seconds": seconds,
    }


def _drawn(
    recipe: Recipe,
    shared: _Shared,
    size: int,
    num_draws: int,
    chosen: tuple[str, ...],
    rng: np.random.Generator,
) -> tuple[dict[str, list[float | None]], dict[str, float]]:
    """Values of every number and median seconds of every measure, over draws of one size."""
    values: dict[str, list[float | None]] = {}
    seconds: dict[str, list[float]] = {name: [] for name in chosen}
    for _ in range(num_draws):
        index = rng.choice(len(shared.reference.ids), size, replace=False)
        reference = shared.reference.take(index)
        generated = draw_bank(recipe, shared.clean, size, rng)
        for name in chosen:
            start = time.perf_counter()
            found = _values(name, reference, generated, shared.context)
            seconds[name].append(time.perf_counter() - start)
            for number, value in found.items():
                values.setdefault(number, []).append(value)
    return values, {name: float(np.median(times)) for name, times in seconds.items()}


def _values(
    name: str, reference: Bank, generated: Bank, context: Context
) -> dict[str, float | None]:
    """The numbers of one measure; None where it is not defined on the bank."""
    measure = MEASURES[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # small banks are the point here
            found = jax.device_get(dict(measure.compute(reference, generated, context)))
    except ValueError:
        return dict.fromkeys(measure.directions)
    numbers = {number: float(found[number]) for number in measure.directions}
    return {number: v if math.isfinite(v) else None for number, v in numbers.items()}


def _record(known: Truth) -> dict[str, Any]:
    """JSON has no infinity: such a value is None, and `how` says so."""
    return {
        name: {
            "value": None if value.how == "infinite" else value.value,
            "stderr": value.stderr,
            "how": value.how,
        }
        for name, value in known._asdict().items()
    }


def _rng(seed: int, label: str) -> np.random.Generator:
    """A stream of its own for each label, whatever else is drawn."""
    return np.random.default_rng([seed, zlib.crc32(label.encode())])
