"""The main job in small: trained arms, a causal model, naive samplers and real text, one profile.

Every arm draws the same number of texts of the same length. Each seed has its own reference bank
and its own null draws, all of them disjoint windows of held-out text; a bank is scored against
the reference of its seed, and the report averages the seeds. Scores are taken per seed rather
than on pooled seeds, so that the spread between seeds is there to be seen.

The naive samplers attack generative perplexity, so their sizes are small: a larger k or m raises
their perplexity and brings their statistics closer to those of real text.

The defaults finish in minutes on two cores with the embedded models. Larger numbers, other models
and other text make it a real run:

    python launch/run.py --experiment=quickstart --workdir=runs/owt --denoiser=DIRECTORY \\
        --scorer=DIRECTORY --reference=heldout.jsonl --training=train.jsonl \\
        --gen_length=1024 --num_samples=1024 --seeds=0,1,2 --num_steps=256,512,1024
"""

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

from ..cell import Cell
from ..collect import collect
from ..drawing import NAIVE, naive_sampler, sampler_config
from ..errors import InputError, naming
from ..experiment import option
from ..report import (
    Record,
    Section,
    compute_table,
    frontier,
    gallery,
    heat_map,
    perplexity_finding,
    profile_table,
    ranking_finding,
    replay,
    run_caveats,
    run_lead,
    sweep,
    with_mean_ranks,
    write_report,
)
from ..score_settings import ScoreSettings
from ..scored import MIN_ROWS
from ..sources import Sources, model_digest
from ..windows import cut_windows, take_windows


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of the quickstart; every field is a flag."""

    denoiser: str = option(
        "embedded:kjv-denoiser", "Model to evaluate: embedded:NAME or a local directory."
    )
    scorer: str = option(
        "embedded:kjv-scorer",
        "Causal model for likelihoods, features and the autoregressive arm.",
    )
    reference: str = option(
        "kjv:heldout", "Real text to compare with: kjv:heldout, or a .txt or .jsonl file."
    )
    training: str = option(
        "kjv:train", "Text that the naive samplers count: kjv:train, or a .txt or .jsonl file."
    )
    gen_length: int = option(40, "Tokens a sample.")
    num_samples: int = option(64, "Samples of an arm at one seed; the reference has as many.")
    seeds: tuple[int, ...] = option((0, 1), "Seeds; each has its own reference bank.")
    strategies: tuple[str, ...] = option(
        ("none", "high_entropy"), "Remasking strategies of the denoiser."
    )
    unmask_temps: tuple[float, ...] = option(
        (0.0, 0.25, 1.0), "Temperatures of the token draws; 0 takes the most likely token."
    )
    num_steps: tuple[int, ...] = option((20, 40), "Nominal step budgets.")
    remask_fraction: float = option(0.15, "Share of the canvas that a strategy may remask a step.")
    block_length: int | None = option(
        None, "Tokens of a semi-autoregressive block; none is one block of gen_length."
    )
    pace: str = option(
        "auto",
        "How many masks a step reveals.",
        choices=("auto", "ceil", "floor", "target", "table"),
    )
    noise: str = option(
        "inverse_cdf",
        "How tokens are drawn.",
        choices=("inverse_cdf", "gumbel_fp64", "gumbel_high"),
    )
    topk_iid: int = option(16, "k of the Top-k IID sampler.")
    mirror: int = option(16, "k of the Mirror sampler.")
    periodic: int = option(4, "k of the Periodic sampler.")
    phrase_bank: int = option(5, "m of the Phrase bank sampler.")
    num_null_banks: int = option(
        4, "Further draws of real text at a seed, whose scores make the null band."
    )
    num_trajectories: int = option(4, "Samples whose unmasking is recorded.")
    gradient_batches: int | None = option(
        8, "Mini-batches a bank is cut into for the gradient moment; none leaves it out."
    )
    num_mauve_seeds: int = option(5, "Clustering seeds of MAUVE; its value is their mean.")
    ascii_min: float = option(0.85, "Smallest share of ASCII characters of an accepted text.")
    cjk_max: float = option(0.02, "Largest share of CJK characters of an accepted text.")
    batch_size: int = option(64, "Samples a launch.", execution=True)
    shard_size: int = option(64, "Samples a file; what a crash can lose at most.")

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            choices = field.metadata.get("choices")
            if choices and value not in choices:
                raise InputError(f"--{field.name}={value} is unknown; accepted: {choices}")
            if isinstance(value, tuple) and not value:
                raise InputError(f"--{field.name} is empty; give at least one value")
            if isinstance(value, tuple) and len(set(value)) != len(value):
                raise InputError(f"--{field.name}={value} repeats a value; give each once")
        least_of = dict.fromkeys(("batch_size", "shard_size", "num_mauve_seeds"), 1)
        least_of |= {"gen_length": 2, "num_samples": MIN_ROWS}
        least_of |= dict.fromkeys(("num_null_banks", "num_trajectories"), 0)
        for name, least in least_of.items():
            if getattr(self, name) < least:
                raise InputError(f"--{name}={getattr(self, name)} must be at least {least}")
        if min(self.seeds) < 0:
            raise InputError(f"--seeds={self.seeds} must not be negative")
        for name in ("ascii_min", "cjk_max"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"--{name}={getattr(self, name)} must lie between 0 and 1")


def cells(config: Config, *, sources: Sources) -> list[Cell]:
    """Reference and null banks, the causal arm, the denoiser's grid, naive samplers, a trajectory.

    Raises:
        InputError: a model or corpus that does not load, a sampler setting that is refused, or
            too little text for the disjoint windows.
    """
    with naming(f"--denoiser={config.denoiser}"):
        denoiser = sources.denoiser(config.denoiser)
    with naming(f"--scorer={config.scorer}"):
        scorer = sources.scorer(config.scorer)
    for flag, model, source in (
        ("denoiser", denoiser, config.denoiser),
        ("scorer", scorer, config.scorer),
    ):
        if model.tokenizer is None:
            raise InputError(f"--{flag}={source} has no tokenizer.json; add it to the folder")
    with naming(f"--reference={config.reference}"):
        reference = sources.corpus(config.reference)
        windows = cut_windows(sources.encoded(config.reference, config.denoiser), config.gen_length)
        banks = len(config.seeds) * (1 + config.num_null_banks)
        take_windows(windows, 0, banks * config.num_samples)
    with naming(f"--training={config.training}"):
        training = sources.corpus(config.training)
        counts = sources.counts(config.training, config.denoiser)
    for strategy in NAIVE:
        size = getattr(config, strategy)
        with naming(f"--{strategy}={size}"):
            naive_sampler(strategy)(counts, size, length=1, num_samples=1, seed=0)

    shared: dict[str, Any] = {
        "gen_length": config.gen_length,
        "num_samples": config.num_samples,
        "ascii_min": config.ascii_min,
        "cjk_max": config.cjk_max,
        "model": config.denoiser,
        "model_digest": model_digest(denoiser.card),
    }
    real: dict[str, Any] = {"corpus": config.reference, "corpus_digest": reference.digest}
    counted = {"corpus": config.training, "corpus_digest": training.digest}
    causal = {"model": config.scorer, "model_digest": model_digest(scorer.card)}
    found: list[Cell] = []
    for position, seed in enumerate(config.seeds):
        for part in range(1 + config.num_null_banks):
            index = position * (1 + config.num_null_banks) + part
            fields: dict[str, Any] = (
                shared | real | {"part": part, "offset": index * config.num_samples}
            )
            found.append(Cell(role="reference", strategy="reference", seed=seed, **fields))
    for seed in config.seeds:
        fields: dict[str, Any] = (
            shared | causal | counted | {"unmask_temp": 1.0, "noise": config.noise}
        )
        found.append(Cell(role="autoregressive", strategy="autoregressive", seed=seed, **fields))
    found += _grid(config, shared)
    for strategy in NAIVE:
        for seed in config.seeds:
            fields: dict[str, Any] = shared | counted | {"size": getattr(config, strategy)}
            found.append(Cell(role="heuristic", strategy=strategy, seed=seed, **fields))
    if config.num_trajectories:
        found.append(_trajectory(config, shared))
    return found


def scoring(config: Config, *, sources: Sources) -> ScoreSettings:
    """Features and likelihoods of the scorer; as many scorer tokens as a sample has tokens."""
    return ScoreSettings(
        scorer=config.scorer,
        scorer_digest=model_digest(sources.scorer(config.scorer).card),
        max_tokens=config.gen_length,
        mauve_seeds=tuple(range(config.num_mauve_seeds)),
        training=config.training,
        training_digest=sources.corpus(config.training).digest,
        gradient_batches=config.gradient_batches,
    )


def report(workdir: pathlib.Path, *, sources: Sources) -> None:
    """Writes the page, tables and figures from what the workdir holds."""
    data = with_mean_ranks(collect(workdir, sources))
    data = dataclasses.replace(data, lead=run_lead(data), caveats=run_caveats(data))
    warm = [arm for arm in data.with_role("generated") if arm.fields["unmask_temp"]]
    findings = (
        perplexity_finding(data),
        ranking_finding(data, trained=warm, which="every diffusion arm at t > 0"),
    )
    traced = data.trajectories[:1]
    links = tuple(f"tables/{name}" for name in ("profile.csv", "compute.csv", "numbers.csv"))
    sections = (
        Section("Profile", (profile_table(data),)),
        Section("Figures", (frontier(data), sweep(data))),
        Section("Compute", (compute_table(data),)),
        Section("Unmasking", tuple(f(t) for t in traced for f in (heat_map, replay))),
        Section("Samples", (gallery(data),)),
        Section("How this was made", (Record(data.provenance, links),)),
    )
    write_report(
        workdir / "report", data, findings, [section for section in sections if section.blocks]
    )


def _grid(config: Config, shared: dict[str, Any]) -> Iterator[Cell]:
    """The denoiser's arms: strategy by temperature by steps, each at every seed."""
    for strategy in config.strategies:
        for unmask_temp in config.unmask_temps:
            for num_steps in config.num_steps:
                for seed in config.seeds:
                    yield _denoised(config, shared, strategy, unmask_temp, num_steps, seed=seed)


def _trajectory(config: Config, shared: dict[str, Any]) -> Cell:
    """A few samples with history, by the last strategy at the temperature nearest 0.25."""
    temp = min(config.unmask_temps, key=lambda t: (abs(t - 0.25), t))
    fields: dict[str, Any] = shared | {
        "num_samples": config.num_trajectories,
        "record_history": True,
    }
    strategy, num_steps = config.strategies[-1], max(config.num_steps)
    return _denoised(
        config, fields, strategy, temp, num_steps, seed=config.seeds[0], role="trajectory"
    )


def _denoised(
    config: Config,
    fields: dict[str, Any],
    strategy: str,
    unmask_temp: float,
    num_steps: int,
    *,
    seed: int,
    role: str = "generated",
) -> Cell:
    cell = Cell(
        role=role,
        strategy=strategy,
        unmask_temp=unmask_temp,
        num_steps=num_steps,
        seed=seed,
        remask_fraction=None if strategy == "none" else config.remask_fraction,
        block_length=config.block_length,
        pace=config.pace,
        noise=config.noise,
        **fields,
    )
    with naming(f"arm {cell.arm}"):
        sampler_config(cell)
    return cell
