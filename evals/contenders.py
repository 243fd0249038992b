"""What the rebenchmark experiments set beside each other: models, imports, naive samplers, text."""

import dataclasses
from collections.abc import Sequence

from .arms import (
    World,
    base_scoring,
    causal_cells,
    external_cells,
    grid_cells,
    naive_cells,
    open_world,
    reference_cells,
)
from .cell import Cell
from .errors import InputError
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
        InputError: a model or corpus that does not load, a setting that is refused, or too little
            text for disjoint windows.
    """
    external = external_texts(config.external)
    world = open_world(config, sources)
    found = list(reference_cells(world))
    if config.autoregressive:
        found += causal_cells(world)
    if config.denoiser is not None:
        found += grid_cells(world)
    found += external_cells(world, external)
    found += _naive(world, config)
    return found


def contender_scoring(config: ContenderOptions, sources: Sources) -> ScoreSettings:
    """The scorer's numbers, and those of the encoders, where any are named."""
    return dataclasses.replace(base_scoring(config, sources), features=config.features)


def external_texts(items: Sequence[str]) -> dict[str, str]:
    """{generator: source} of NAME=SOURCE texts; a source may hold further equals signs.

    Raises:
        InputError: no NAME or no SOURCE, a name given twice or one that another arm has.
    """
    found: dict[str, str] = {}
    for item in items:
        name, _, source = (part.strip() for part in item.partition("="))
        if not name or not source:
            raise InputError(f"--external={item} is not NAME=SOURCE, such as mdlm=samples.jsonl")
        if name in found or name in _TAKEN:
            why = "is given twice" if name in found else "is the name of another arm"
            raise InputError(f"--external={item}: {name!r} {why}; choose another")
        found[name] = source
    return found


def _naive(world: World, config: ContenderOptions) -> list[Cell]:
    sizes = [(name, size) for name in NAIVE for size in getattr(config, name)]
    return list(naive_cells(world, sizes)) if sizes else []
