"""Settings that experiments share: every field of an experiment's `Config` is a flag.

A `Config` takes them over by inheriting `Options`, `GridOptions` or `PromptedOptions`, and gives
other defaults by naming a field again.
"""

import dataclasses
import math
from typing import Any

from .errors import InputError
from .experiment import option
from .scoring.scored import MIN_ROWS


@dataclasses.dataclass(frozen=True)
class Options:
    """Models, texts, sizes and metrics of any experiment of cells."""

    denoiser: str | None = option(
        "embedded:kjv-denoiser",
        "Model to evaluate: embedded:NAME, a local directory or hf:OWNER/REPO@REVISION.",
    )
    scorer: str = option(
        "embedded:kjv-scorer",
        "Causal model for likelihoods, features and the autoregressive arm.",
    )
    reference: str = option(
        "kjv:heldout", "Real text to compare with: kjv:heldout, or a file of texts."
    )
    training: str | None = option(
        "kjv:train", "Text that the naive samplers count: kjv:train, or a file of texts."
    )
    gen_length: int = option(40, "Tokens a sample.", least=2)
    prefix_length: int = option(
        0, "Tokens of real text that every sample continues; 0 generates without any.", least=0
    )
    num_samples: int = option(
        64, "Samples of an arm at one seed; the reference has as many.", least=MIN_ROWS
    )
    seeds: tuple[int, ...] = option(
        (1, 2, 3), "Seeds; each has its own reference bank and prefixes.", least=0
    )
    num_null_banks: int = option(
        1, "Further draws of real text at a seed, whose scores make the null band.", least=0
    )
    gradient_batches: int | None = option(
        None,
        "Mini-batches a bank is cut into for the gradient moment; none leaves it out.",
        least=2,
    )
    num_mauve_seeds: int = option(5, "Clustering seeds of MAUVE; its value is their mean.", least=1)
    encoders: tuple[str, ...] = option(
        (), "Encoders whose features give further distances; none by default.", empty=True
    )
    whiten: int | None = option(
        None, "Components to which features of encoders are whitened; none leaves them.", least=1
    )
    ascii_min: float = option(
        0.85, "Smallest share of ASCII characters of an accepted text.", least=0, most=1
    )
    cjk_max: float = option(
        0.02, "Largest share of CJK characters of an accepted text.", least=0, most=1
    )
    batch_size: int = option(64, "Samples a launch.", execution=True, least=1)
    shard_size: int = option(64, "Samples a file; what a crash can lose at most.", least=1)

    def __post_init__(self):
        check_options(self)
        if self.gradient_batches is not None and self.gradient_batches > self.num_samples:
            raise InputError(
                f"--gradient_batches={self.gradient_batches} exceeds"
                f" --num_samples={self.num_samples}; a mini-batch holds at least one sample"
            )
        if self.whiten is not None and not self.encoders:
            raise InputError(
                f"--whiten={self.whiten} is for features of encoders and --encoders is empty; name"
                " some or leave it out"
            )


@dataclasses.dataclass(frozen=True)
class GridOptions(Options):
    """The sampler's grid: strategy by temperature by budget."""

    strategies: tuple[str, ...] = option(
        ("none", "high_entropy"), "Remasking strategies of the denoiser."
    )
    unmask_temps: tuple[float, ...] = option(
        (0.0, 0.1, 0.25, 0.5), "Temperatures of the token draws; 0 takes the most likely token."
    )
    num_steps: tuple[int, ...] = option((20, 40, 80), "Nominal step budgets.", least=1)
    remask_fraction: float = option(
        0.15, "Share of a block (without --block_length, of the canvas) remasked a step at most."
    )
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


@dataclasses.dataclass(frozen=True)
class PromptedOptions(GridOptions):
    """A grid whose samples continue real text, as the CaRE paper's do."""

    prefix_length: int = option(
        16, "Tokens of real text that every sample continues; 0 generates without any.", least=0
    )


def check_options(config: Any) -> None:
    """Holds every field of a `Config` against its `choices`, `least`, `most`, `empty` metadata.

    Raises:
        InputError: a value that is not accepted, a number that is not finite, an empty or
            repeating tuple.
    """
    for field in dataclasses.fields(config):
        value: Any = getattr(config, field.name)
        choices, least = field.metadata.get("choices"), field.metadata.get("least")
        numbers = [n for n in _items(value) if isinstance(n, float)]
        if not all(map(math.isfinite, numbers)):
            raise InputError(f"--{field.name}={value} must be finite")
        if choices and value not in choices:
            raise InputError(f"--{field.name}={value} is unknown; accepted: {choices}")
        if isinstance(value, tuple):
            if not value and not field.metadata.get("empty"):
                raise InputError(f"--{field.name} is empty; give at least one value")
            if len(set(value)) != len(value):
                raise InputError(f"--{field.name}={value} repeats a value; give each once")
        smallest = min(value, default=None) if isinstance(value, tuple) else value
        if least is not None and smallest is not None and smallest < least:
            raise InputError(f"--{field.name}={value} must be at least {least}")
        most = field.metadata.get("most")
        largest = max(value, default=None) if isinstance(value, tuple) else value
        if most is not None and largest is not None and largest > most:
            raise InputError(f"--{field.name}={value} must be at most {most}")


def _items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
