"""Settings of one sampling run, checked before anything is compiled."""

import dataclasses
import math
import operator
from typing import Any, Literal, get_args

from .registry import get_strategy

EosPolicy = Literal["truncate"]
Noise = Literal["inverse_cdf", "gumbel_fp64"]
Pace = Literal["auto", "ceil", "floor", "table"]
Pool = Literal["all", "decided"]


@dataclasses.dataclass(frozen=True)
class SamplerConfig:
    """What a sampler does, apart from the network, the prompt and the seed.

    Attributes:
      gen_length: generated tokens per sample, L.
      num_steps: nominal steps N over all blocks. What a run really costs is `Samples.nfe`.
      strategy: a name of `strategy_names()`.
      unmask_temp: temperature of the token draws; 0 takes the argmax. Without a default on
        purpose: it is a controlled variable of every experiment.
      block_length: tokens per semi-autoregressive block; None means one block of gen_length.
        It must divide gen_length, and num_steps must be a multiple of the number of blocks.
      remask_fraction: share of a block that a remasking strategy picks per step,
        `int(remask_fraction * block_length)` positions.
      pace: how many masks a step reveals. "ceil": masks over steps left, rounded up. "floor": the
        same rounded down, at least 1. "table": the block length spread over the steps beforehand
        as LLaDA's published code does, without catching up and without a final fill, so masks may
        survive to the end. "auto": "floor" for remasking strategies, else "ceil".
      pool: which positions of the block compete to be remasked. "all": masked ones compete too
        and take up places, as in the CaRE paper; "decided": decided ones only.
      noise: how tokens are drawn at unmask_temp > 0, see `noise.py`.
      cfg_scale: classifier-free guidance weight w, logits = un + (w + 1)(cond - un); 0 is off.
        Guidance doubles the cost: 2 NFE per pass, one launch with twice the rows.
      suppress_mask_token: forbid the network to emit the mask token.
      refresh_reuse: let the forward after a remask serve the next step as well (the canvas is the
        same, and so are the tokens); at most N + 1 instead of 2N + 1 forwards.
      skip_idle: skip steps that reveal nothing for any sample; False runs and charges them for
        every sample, as LLaDA's published code does.
      eos_policy: "truncate" leaves the canvas alone; text ends at the first end-of-sequence id.
      record_history: keep the canvas after every nominal step (num_steps becomes static).

    Raises:
      ValueError: a value is out of range; the message names the field and what is accepted.
    """

    gen_length: int
    num_steps: int
    strategy: str
    unmask_temp: float
    _: dataclasses.KW_ONLY
    block_length: int | None = None
    remask_fraction: float = 0.15
    pace: Pace = "auto"
    pool: Pool = "all"
    noise: Noise = "inverse_cdf"
    cfg_scale: float = 0.0
    suppress_mask_token: bool = True
    refresh_reuse: bool = False
    skip_idle: bool = True
    eos_policy: EosPolicy = "truncate"
    record_history: bool = False

    def __post_init__(self) -> None:
        gen_length = _whole("gen_length", self.gen_length)
        num_steps = _whole("num_steps", self.num_steps)
        get_strategy(self.strategy)
        _within("unmask_temp", self.unmask_temp, math.inf)
        _within("remask_fraction", self.remask_fraction, 1.0)
        _within("cfg_scale", self.cfg_scale, math.inf)
        if self.block_length is not None:
            block_length = _whole("block_length", self.block_length)
            if gen_length % block_length:
                raise ValueError(
                    f"block_length={block_length} does not divide gen_length={gen_length}; "
                    "choose a divisor, or None for one block"
                )
        if num_steps % self.num_blocks:
            raise ValueError(
                f"num_steps={num_steps} is not a multiple of the {self.num_blocks} blocks of "
                f"{self.block_length} tokens; every block takes the same number of steps"
            )
        for field, accepted in (
            ("pace", Pace),
            ("pool", Pool),
            ("noise", Noise),
            ("eos_policy", EosPolicy),
        ):
            _one_of(field, getattr(self, field), get_args(accepted))
        for field in ("suppress_mask_token", "refresh_reuse", "skip_idle", "record_history"):
            if not isinstance(getattr(self, field), bool):
                raise ValueError(f"{field}={getattr(self, field)!r} must be True or False")

    @property
    def num_blocks(self) -> int:
        return 1 if self.block_length is None else self.gen_length // self.block_length

    @property
    def tokens_per_block(self) -> int:
        return self.gen_length if self.block_length is None else self.block_length

    @property
    def num_remask(self) -> int:
        """Positions picked per step: int() of the float64 product, as the reference rounds."""
        return int(self.remask_fraction * self.tokens_per_block)

    def canonical(self) -> "SamplerConfig":
        """The config with one representative per compiled program.

        Two configs that differ in traced values alone (steps, temperature, fraction, guidance
        weight) map to the same result, so it can key a compilation cache. A recorded history has
        a static number of steps.
        """
        return dataclasses.replace(
            self,
            num_steps=self.num_steps if self.record_history else self.num_blocks,
            unmask_temp=0.0,
            remask_fraction=0.0,
            cfg_scale=1.0 if self.cfg_scale > 0 else 0.0,
        )

    def bind(self, **values: Any) -> "SamplerConfig":
        """A copy with traced arrays in some fields (not checked again: tracers have no value)."""
        bound = object.__new__(type(self))
        for field in dataclasses.fields(self):
            value = values.get(field.name, getattr(self, field.name))
            object.__setattr__(bound, field.name, value)
        return bound


def _whole(name: str, value: object) -> int:
    """Returns value as an int if it is a whole number of at least 1."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if isinstance(value, bool) or number < 1:
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1")
    return number


def _within(name: str, value: object, upper: float) -> None:
    """Checks 0 <= value <= upper and that it is finite."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not (math.isfinite(number) and 0 <= number <= upper):
        accepted = "finite and at least 0" if upper == math.inf else f"between 0 and {upper:g}"
        raise ValueError(f"{name}={value!r} must be {accepted}")


def _one_of(name: str, value: object, accepted: tuple[str, ...]) -> None:
    if value not in accepted:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(accepted)}")
