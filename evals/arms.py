"""The arms that experiments are made of, as cells: real text, networks, naive samplers."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..samplers import get_strategy
from .cell import Cell
from .corpora.windows import cut_windows, take_windows
from .errors import InputError, naming
from .options import GridOptions, Options
from .sampling.drawing import naive_sampler, sampler_config
from .sampling.idle_remasking import why_idle
from .sampling.network import judges_tokens
from .scoring.score_settings import ScoreSettings
from .sources import Kind, Sources, model_digest


class World(NamedTuple):
    """The loaded and checked inputs of an experiment.

    Attributes:
        config: the experiment's settings.
        sources: their loaders.
        model, kind: the network whose tokenizer cuts the texts: the denoiser, or without one the
            scorer.
        shared: fields that all cells of one tokenizer share.
    """

    config: Options
    sources: Sources
    model: str
    kind: Kind
    shared: dict[str, Any]


def open_world(config: Options, sources: Sources) -> World:
    """Loads models and reference text, and checks that there is enough of it.

    Raises:
        InputError: a model or corpus that does not load, a network without tokenizer, or too
            little text for disjoint windows of all seeds and null draws.
    """
    kind: Kind = "scorer" if config.denoiser is None else "denoiser"
    model = config.scorer if config.denoiser is None else config.denoiser
    wanted: dict[str, Kind] = {"scorer": "scorer"}
    if config.denoiser is not None:
        wanted["denoiser"] = "denoiser"
    for flag, wanted_kind in wanted.items():
        source = str(getattr(config, flag))
        with naming(f"--{flag}={source}"):
            network = sources.network(source, wanted_kind)
        if network.tokenizer is None:
            raise InputError(f"--{flag}={source} has no tokenizer.json; add it to the folder")
    with naming(f"--reference={config.reference}"):
        documents = sources.encoded(config.reference, model, kind)
        windows = cut_windows(documents, config.prefix_length + config.gen_length)
        banks = len(config.seeds) * (1 + config.num_null_banks)
        take_windows(windows, 0, banks * config.num_samples)
    shared: dict[str, Any] = {
        "gen_length": config.gen_length,
        "num_samples": config.num_samples,
        "ascii_min": config.ascii_min,
        "cjk_max": config.cjk_max,
        "model": model,
        "model_digest": model_digest(sources.network(model, kind).card),
        "prefix_length": config.prefix_length or None,
    }
    return World(config, sources, model, kind, shared)


def reference_cells(world: World) -> Iterator[Cell]:
    """A bank of real text and its null draws at every seed, all of them disjoint."""
    for seed in world.config.seeds:
        for part in range(1 + world.config.num_null_banks):
            yield Cell(
                role="reference",
                strategy="reference",
                seed=seed,
                part=part,
                vocabulary=None if world.kind == "denoiser" else world.kind,
                **(world.shared | _real_text(world, seed, part)),
            )


def causal_cells(world: World, unmask_temp: float = 1.0) -> Iterator[Cell]:
    """The scorer as a generator: from a random token of the training text, or on from the prefix.

    Raises:
        InputError: prefixes that the scorer would cut otherwise than the denoiser, or no training
            text to begin from.
    """
    config, sources = world.config, world.sources
    fields: dict[str, Any] = world.shared | {
        "model": config.scorer,
        "model_digest": model_digest(sources.scorer(config.scorer).card),
        "unmask_temp": unmask_temp,
        "noise": getattr(config, "noise", "inverse_cdf"),
    }
    if config.prefix_length:
        ours = sources.encoded(config.reference, world.model, world.kind)
        theirs = sources.encoded(config.reference, config.scorer, "scorer")
        if not all(map(np.array_equal, ours, theirs)):
            raise InputError(
                f"--scorer={config.scorer} cuts the text otherwise than {world.model}, so it cannot"
                " continue the same prefixes; leave the autoregressive arm out"
            )
    for seed in config.seeds:
        text = _real_text(world, seed) if config.prefix_length else training_text(world)
        yield Cell(role="autoregressive", strategy="autoregressive", seed=seed, **(fields | text))


def denoised_cell(
    world: World,
    strategy: str,
    unmask_temp: float,
    num_steps: int | None,
    *,
    seed: int,
    role: str = "generated",
    **changes: Any,
) -> Cell:
    """One arm of the denoiser at one seed.

    Args:
        num_steps: nominal steps, or None with `target_nfe` and `match_mode` among the changes.
        changes: fields that differ from the settings of the experiment. A `remask_fraction` of 0
            among them is a control on purpose; otherwise an arm that would put nothing back is
            refused.

    Raises:
        InputError: no denoiser, settings that the sampler refuses, or a remasking strategy that
            would put nothing back (see `idle_remasking`).
    """
    config = world.config
    if not isinstance(config, GridOptions) or config.denoiser is None:
        raise InputError("--denoiser=none: this experiment samples from a denoiser; name one")
    fields: dict[str, Any] = world.shared | {
        "remask_fraction": None if strategy == "none" else config.remask_fraction,
        "block_length": config.block_length,
        "pace": config.pace,
        "noise": config.noise,
    }
    if config.prefix_length:
        fields |= _real_text(world, seed)
    cell = Cell(
        role=role,
        strategy=strategy,
        unmask_temp=unmask_temp,
        num_steps=num_steps,
        seed=seed,
        **(fields | changes),
    )
    with naming(f"arm {cell.arm}"):
        sampler = sampler_config(cell)
    if cell.num_samples > config.num_samples:
        raise InputError(
            f"arm {cell.arm}: {cell.num_samples} recorded samples are more than"
            f" --num_samples={config.num_samples}, for which there is text; lower their number"
        )
    needs_quality = get_strategy(strategy).traits.needs_quality
    if needs_quality and not judges_tokens(world.sources.denoiser(config.denoiser)):
        raise InputError(
            f"arm {cell.arm}: strategy {strategy!r} needs a network that judges its tokens, and"
            f" --denoiser={config.denoiser} gives logits alone; leave the strategy out"
        )
    idle = why_idle(sampler, steps_are_searched=num_steps is None)
    if idle and changes.get("remask_fraction") != 0:
        raise InputError(f"arm {cell.arm}: {idle}")
    return cell


def recorded_cell(
    world: World,
    strategy: str,
    unmask_temp: float,
    num_steps: int,
    *,
    num_samples: int,
    **changes: Any,
) -> Cell:
    """A few samples of an arm whose unmasking is recorded, at the first seed; nothing scores them.

    Raises:
        InputError: as `denoised_cell`.
    """
    return denoised_cell(
        world,
        strategy,
        unmask_temp,
        num_steps,
        seed=world.config.seeds[0],
        role="trajectory",
        num_samples=num_samples,
        record_history=True,
        **changes,
    )


def grid_cells(world: World) -> Iterator[Cell]:
    """The denoiser's arms: strategy by temperature by steps, each at every seed."""
    config = world.config
    assert isinstance(config, GridOptions)
    for strategy in config.strategies:
        for unmask_temp in config.unmask_temps:
            for num_steps in config.num_steps:
                for seed in config.seeds:
                    yield denoised_cell(world, strategy, unmask_temp, num_steps, seed=seed)


def naive_cells(world: World, sizes: Iterable[tuple[str, int]]) -> Iterator[Cell]:
    """Naive samplers of given sizes at every seed; sizes pair a sampler's name with its k or m.

    Raises:
        InputError: no training text, or a size that its counts do not allow.
    """
    text = training_text(world)
    counts = world.sources.counts(str(text["corpus"]), world.model, world.kind)
    fields: dict[str, Any] = world.shared | text | {"prefix_length": None}
    for strategy, size in sizes:
        with naming(f"--{strategy}={size}"):
            naive_sampler(strategy)(counts, size, length=1, num_samples=1, seed=0)
        for seed in world.config.seeds:
            yield Cell(
                role="heuristic",
                strategy=strategy,
                size=size,
                seed=seed,
                vocabulary=None if world.kind == "denoiser" else world.kind,
                **fields,
            )


def training_text(world: World) -> dict[str, Any]:
    """Fields of a cell that reads the training text.

    Raises:
        InputError: none is given, or it does not load.
    """
    source = world.config.training
    if source is None:
        raise InputError("--training is missing; name the text that naive samplers count")
    with naming(f"--training={source}"):
        return {"corpus": source, "corpus_digest": world.sources.corpus(source).digest}


def base_scoring(config: Options, sources: Sources) -> ScoreSettings:
    """Features and likelihoods of the scorer; as many scorer tokens as a sample has tokens.

    Raises:
        InputError: an encoder that does not load, or two of one name.
    """
    training = config.training
    return ScoreSettings(
        scorer=config.scorer,
        scorer_digest=model_digest(sources.scorer(config.scorer).card),
        max_tokens=config.gen_length,
        mauve_seeds=tuple(range(config.num_mauve_seeds)),
        training=training,
        training_digest="" if training is None else sources.corpus(training).digest,
        gradient_batches=config.gradient_batches,
        encoders=config.encoders,
        encoder_digests=_encoder_digests(config, sources),
        whiten=config.whiten,
    )


def _encoder_digests(config: Options, sources: Sources) -> tuple[str, ...]:
    digests = []
    for source in config.encoders:
        with naming(f"--encoders={source}"):
            digests.append(model_digest(sources.encoder(source).card))
    return tuple(digests)


def _real_text(world: World, seed: int, part: int = 0) -> dict[str, Any]:
    """Which windows of the reference text belong to a seed."""
    config = world.config
    index = config.seeds.index(seed) * (1 + config.num_null_banks) + part
    return {
        "corpus": config.reference,
        "corpus_digest": world.sources.corpus(config.reference).digest,
        "offset": index * config.num_samples,
    }
