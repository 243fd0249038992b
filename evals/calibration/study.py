"""Runs the calibration: every metric on draws of every damaged law, one file a law."""

import dataclasses
import math
import pathlib
import time
import warnings
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from ... import metrics
from .. import storage
from ..errors import InputError
from ..sources import Sources
from .banks import Bank, Recipe, component, draw_bank, recipe_of, score_rows, stored_bank
from .damage import Language, Law
from .ladders import UNITS, Level, ladders, training_rows
from .language import Rows, full_rows, king_james
from .measures import MEASURES, Context, usual_measures
from .mixture import Atoms
from .truth import Truth, truth

CLEAN = "clean"


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a study measures.

    Attributes:
        length: characters a row.
        sizes: rows of a bank; power is measured at each, and the bias of clean draws.
        draws: damaged banks a level, by size.
        clean_draws: clean banks, by size; at least 39 where power is measured.
        bias_sizes: further sizes at which only clean banks are drawn, `bias_draws` each.
        pool_rows, clean_rows, reference_rows: rows scored of a damaged law, of the language for
            clean banks, and of the language for reference banks.
        truth_rows: rows a side where a divergence is sampled.
        measures: keys of `MEASURES`; None = the usual ones.
        scorer: the causal model of features and of gen-PPL.
        seed: of everything.
    """

    length: int = 64
    sizes: tuple[int, ...] = (128, 1024)
    draws: tuple[int, ...] = (16, 5)
    clean_draws: tuple[int, ...] = (39, 39)
    bias_sizes: tuple[int, ...] = (256, 512)
    bias_draws: int = 10
    pool_rows: int = 2048
    clean_rows: int = 5120
    reference_rows: int = 2048
    truth_rows: int = 1000
    measures: tuple[str, ...] | None = None
    scorer: str = "embedded:kjv-scorer"
    seed: int = 0

    def __post_init__(self):
        if not len(self.sizes) == len(self.draws) == len(self.clean_draws):
            raise InputError("sizes, draws and clean_draws must have a value for each size")
        unknown = sorted(set(self.measures or ()) - set(MEASURES))
        if unknown:
            raise InputError(f"measures {unknown} are unknown; accepted: {sorted(MEASURES)}")


SMALL = Settings(
    length=16,
    sizes=(24,),
    draws=(3,),
    clean_draws=(39,),
    bias_sizes=(),
    pool_rows=32,
    clean_rows=96,
    reference_rows=64,
    truth_rows=50,
)


def run_study(
    workdir: pathlib.Path,
    settings: Settings,
    *,
    sources: Sources | None = None,
    progress: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Measures what is not yet in the workdir; the same settings give the same numbers.

    Returns:
        One record a law, the clean one first: ladder, level, truth, and by size of bank the values
        of every number at each draw (None where the metric refuses the bank) and the median
        seconds of every measure.

    Raises:
        InputError: a workdir of other settings or in use, or the corpus or scorer cannot be loaded.
    """
    sources = sources or Sources()
    workdir.mkdir(parents=True, exist_ok=True)
    with storage.exclusive(workdir):
        _claim(workdir, settings)
        storage.remove_leftovers(workdir)
        scorer = sources.scorer(settings.scorer)
        oracle, documents = king_james(sources)
        language = Language(oracle, settings.length)
        pools = _Pools(workdir / "pools", language, scorer, settings.seed)
        clean = pools.bank(CLEAN, language, settings.clean_rows)
        shared = _Shared(
            reference=pools.bank("reference", language, settings.reference_rows),
            clean=clean,
            context=Context(
                metrics.fit_training_index(training_rows(language, settings.seed)), scorer
            ),
        )
        plan = [(CLEAN, Level(0.0, language))]
        for name, levels in ladders(language, documents, seed=settings.seed).items():
            plan += [(name, level) for level in levels]
        records = []
        for number, (name, level) in enumerate(plan):
            path = workdir / "laws" / f"{number:02d}-{name.replace(' ', '-')}.json"
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                start = time.perf_counter()
                own = pools.component(name, level, settings.pool_rows)
                record = _measured(name, level, own, shared, language, settings)
                storage.write_json(path, record)
                progress(
                    f"{number + 1}/{len(plan)} {name} {level.size:.3g}: "
                    f"{time.perf_counter() - start:.0f} s"
                )
            records.append(storage.read_json(path))
    return records


@dataclasses.dataclass(frozen=True)
class _Shared:
    """What every law is measured with."""

    reference: Bank
    clean: Bank
    context: Context


@dataclasses.dataclass(frozen=True)
class _Pools:
    """Pools of scored rows, stored by name."""

    folder: pathlib.Path
    language: Language
    scorer: Any
    seed: int

    def bank(self, name: str, law: Law, num: int) -> Bank:
        """`num` rows of a law; all its strings, each once, for a list of strings."""
        rows = full_rows(law.ids) if isinstance(law, Atoms) else law.draw(num, self.rng(name))
        return self.scored(name, rows)

    def scored(self, name: str, rows: Rows) -> Bank:
        path = self.folder / f"{name.replace(' ', '-')}.safetensors"
        return stored_bank(path, lambda: score_rows(rows, self.language.oracle, self.scorer))

    def component(self, name: str, level: Level, num: int) -> Bank | None:
        """The pool behind one level; levels of a mixture share one."""
        law = component(level.law)
        if law is None or law is self.language:
            return None
        shared = law is not level.law
        return self.bank(name if shared else f"{name}-{level.size:.4g}", law, num)

    def rng(self, name: str) -> np.random.Generator:
        return _rng(self.seed, f"pool {name}")


def _measured(
    name: str,
    level: Level,
    own: Bank | None,
    shared: _Shared,
    language: Language,
    settings: Settings,
) -> dict[str, Any]:
    """The record of one law."""
    label = f"{name} {level.size:.6g}"
    if name == CLEAN:
        recipe = Recipe(None, False, 0.0, np.arange(len(shared.clean.ids)))
        draws = dict(zip(settings.sizes, settings.clean_draws))
        draws |= dict.fromkeys(settings.bias_sizes, settings.bias_draws)
    else:
        recipe = recipe_of(level.law, own, shared.clean)
        draws = dict(zip(settings.sizes, settings.draws))
    known = truth(
        level.law, language, num=settings.truth_rows, rng=_rng(settings.seed, f"truth {label}")
    )
    values, seconds = {}, {}
    for size in sorted(draws):
        rng = _rng(settings.seed, f"draws {label} {size}")
        values[str(size)], seconds[str(size)] = _drawn(
            recipe, shared, size, draws[size], settings.measures or usual_measures(), rng
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


def _claim(workdir: pathlib.Path, settings: Settings) -> None:
    """Writes the settings, or checks that the workdir has the same."""
    record: Mapping[str, Any] = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in dataclasses.asdict(settings).items()
    }
    path = workdir / "settings.json"
    if not path.exists():
        if any(workdir.iterdir()):
            raise InputError(f"--workdir={workdir} holds other files; name an empty or new folder")
        storage.write_json(path, record)
        return
    stored = storage.read_json(path)
    differing = sorted(key for key in record if stored.get(key) != record[key])
    if differing:
        raise InputError(
            f"--workdir={workdir} belongs to a study that differs in {', '.join(differing)}; "
            "name another folder"
        )


def _rng(seed: int, label: str) -> np.random.Generator:
    """A stream of its own for each label, whatever else is drawn."""
    return np.random.default_rng([seed, zlib.crc32(label.encode())])
