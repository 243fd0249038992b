"""What the rebenchmark experiments set beside each other: models, imports, naive samplers, text."""

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .arms import (
    World,
    base_scoring,
    causal_cells,
    grid_cells,
    naive_cells,
    open_world,
    reference_cells,
)
from .cell import Cell
from .corpora.windows import cut_windows, take_windows
from .errors import InputError, naming
from .experiment import option
from .options import GridOptions
from .sampling.drawing import NAIVE
from .scoring.score_settings import ScoreSettings
from .sources import Sources

# Names that an external generator may not take: tables know other arms by them.
_TAKEN = (*NAIVE, "reference", "autoregressive", "null")


@dataclasses.dataclass(frozen=True)
class ContenderOptions(GridOptions):
    """Which banks are compared; `--denoiser=none` leaves the grid out."""

    seeds: tuple[int, ...] = option((0,), "Seeds; each has its own reference bank.", least=0)
    unmask_temps: tuple[float, ...] = option((0.25, 1.0), "Temperatures of the token draws.")
    num_steps: tuple[int, ...] = option((20, 40), "Nominal step budgets.", least=1)
    external: tuple[str, ...] = option(
        (),
        "Texts drawn elsewhere, as NAME=SOURCE joined by commas; SOURCE is written as for"
        " --reference and has no comma.",
        empty=True,
    )
    autoregressive: bool = option(True, "Whether the scorer's own samples are an arm.")
    topk_iid: tuple[int, ...] = option(
        (16,), "k of Top-k IID samplers, each an arm.", least=1, empty=True
    )
    mirror: tuple[int, ...] = option(
        (16,), "k of Mirror samplers, each an arm.", least=1, empty=True
    )
    periodic: tuple[int, ...] = option(
        (4,), "k of Periodic samplers, each an arm.", least=1, empty=True
    )
    phrase_bank: tuple[int, ...] = option(
        (5,), "m of Phrase bank samplers, each an arm.", least=1, empty=True
    )
    features: str | None = option(
        None,
        "Name of the encoder whose features the distances without a name are of; none takes the"
        " scorer's last hidden states.",
    )


def contender_cells(config: ContenderOptions, sources: Sources) -> list[Cell]:
    """Reference and null banks, the causal arm, the grid, external banks and naive samplers.

    Raises:
        InputError: a model or corpus that does not load, a setting that is refused, too little
            text for disjoint windows, or nothing to compare.
    """
    external = external_texts(config.external)
    taken = [name for name in external if config.denoiser and name in config.strategies]
    if taken:
        raise InputError(
            f"--external={taken[0]}=…: {taken[0]!r} is one of --strategies too; choose another name"
        )
    world = open_world(config, sources)
    found = list(reference_cells(world))
    if config.autoregressive:
        found += causal_cells(world)
    if config.denoiser is not None:
        found += grid_cells(world)
    found += external_cells(world, external)
    found += _naive(world, config)
    if all(cell.role == "reference" for cell in found):
        raise InputError(
            "nothing to compare with real text: give a --denoiser, --external texts,"
            " --autoregressive or sizes of a naive sampler"
        )
    return found


def contender_scoring(config: ContenderOptions, sources: Sources) -> ScoreSettings:
    """The scorer's numbers, and those of the encoders, where any are named."""
    return dataclasses.replace(base_scoring(config, sources), features=config.features)


def external_texts(items: Sequence[str]) -> dict[str, str]:
    """{generator: source} of NAME=SOURCE texts; a source may hold further equals signs.

    Raises:
        InputError: no NAME or no SOURCE, a name given twice or one that another arm has, or texts
            joined to one.
    """
    found: dict[str, str] = {}
    for item in items:
        name, _, source = (part.strip() for part in item.partition("="))
        if not name or not source:
            raise InputError(f"--external={item} is not NAME=SOURCE, such as mdlm=samples.jsonl")
        if name in found or name in _TAKEN:
            why = "is given twice" if name in found else "is the name of another arm"
            raise InputError(f"--external={item}: {name!r} {why}; choose another")
        if "&join=" in source:
            raise InputError(
                f"--external={item}: &join= would cut windows across texts; leave it out"
            )
        found[name] = source
    return found


def external_cells(world: World, texts: Mapping[str, str]) -> Iterator[Cell]:
    """Texts that were drawn elsewhere: {generator: source}, cut as the reference is.

    Every seed takes windows of its own where there are enough, else all seeds are refused. Texts
    too short for a window are left out with a warning.

    Raises:
        InputError: a source that does not load, too few windows in it, or texts that are those of
            the reference or of another generator.
    """
    config = world.config
    shared: dict[str, Any] = world.shared | {"prefix_length": None}
    known = {world.sources.corpus(config.reference).digest: f"--reference={config.reference}"}
    for name, source in texts.items():
        flag = f"--external={name}={source}"
        with naming(flag):
            corpus = world.sources.corpus(source)
            if corpus.digest in known:
                raise InputError(
                    f"{flag} holds the texts of {known[corpus.digest]}, which would be compared"
                    " with themselves; leave one out"
                )
            known[corpus.digest] = flag
            documents = world.sources.encoded(source, world.model, world.kind)
            windows = cut_windows(documents, config.gen_length)
            take_windows(windows, 0, len(config.seeds) * config.num_samples)
            short = sum(len(document) < config.gen_length for document in documents)
            if short:
                warnings.warn(
                    f"{flag}: {short} of {len(documents)} texts are shorter than"
                    f" --gen_length={config.gen_length} tokens and left out, so that the generator"
                    " is judged by its longer texts alone; lower --gen_length to keep them",
                    stacklevel=2,
                )
        for position, seed in enumerate(config.seeds):
            yield Cell(
                role="external",
                strategy=name,
                seed=seed,
                corpus=source,
                corpus_digest=corpus.digest,
                offset=position * config.num_samples,
                vocabulary=None if world.kind == "denoiser" else world.kind,
                **shared,
            )


def _naive(world: World, config: ContenderOptions) -> list[Cell]:
    sizes = [(name, size) for name in NAIVE for size in getattr(config, name)]
    return list(naive_cells(world, sizes)) if sizes else []
