"""Settings of one sampling run, checked before anything is compiled."""

import dataclasses
import math
import operator
from typing import Any, Literal, get_args

from .registry import get_entry, get_strategy

Confidence = Literal["probability", "entropy", "margin"]
EosPolicy = Literal["truncate", "early_exit", "suppress", "defer"]
Loop = Literal["care", "fixed_churn"]
Noise = Literal["inverse_cdf", "gumbel_fp64", "gumbel_high", "gumbel_fp32"]
Pace = Literal["auto", "ceil", "floor", "target", "table"]
Pool = Literal["all", "decided"]
Schedule = Literal["linear", "cosine"]


@dataclasses.dataclass(frozen=True)
class SamplerConfig:
    """What a sampler does, apart from the network, the prompt and the seed.

    Attributes:
      gen_length: generated tokens per sample, L.
      num_steps: nominal steps N over all blocks. What a run really costs is `Samples.nfe`.
      strategy: a name of `strategy_names()`.
      unmask_temp: stochasticity of unmasking as the strategy's family defines it, 0 for none: the
        temperature of the token draws, and for Dream orders that of the order (`alg_temp`).
        Without a default on purpose: it is a controlled variable of every experiment.
      block_length: tokens per semi-autoregressive block; None means one block of gen_length.
        It must divide gen_length, and num_steps must be a multiple of the number of blocks.
      remask_fraction: share of a block that a remasking strategy picks per step,
        `int(remask_fraction * block_length)` positions.
      pace: how many masks a step reveals. "ceil": masks over steps left, rounded up. "floor": the
        same rounded down, at least 1. "target": up to a straight line of decided tokens, catching
        up at once what was put back. "table": the block length spread over the steps beforehand
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
      eos_policy: what an end-of-sequence token does. "truncate": nothing to the canvas; text ends
        at the first one. "early_exit": a sample whose first one has nothing undecided before it
        is finished, the rest filled with it; that saves NFE. "suppress": never drawn. "defer":
        revealed only when nothing else is left (LLaDA's option against empty answers).
      loop: "care", the loop of `loop.py`, or "fixed_churn": num_remask positions go back in every
        step, two forwards a step, until no more than that are masked; another reading of the
        paper's NFE figures, for remasking strategies that rank positions.
      threshold: probability from which strategy "threshold" reveals.
      confidence: confidence in a token: its probability, the negative entropy of its position's
        distribution, or the margin between the two most likely tokens.
      schedule: how the masks of `rcr_mdpo` fall over a block.
      token_temp: temperature of token draws of Dream orders, which have `unmask_temp` elsewhere.
      alg_temp: temperature of the order of Dream orders, in place of unmask_temp; None takes that.
      eta, t_on, t_off, alpha_on: remasking of the ReMDM samplers; eta=None is the published value
        of each.
      nucleus_p: ReMDM's nucleus over the draws; the token that crosses p is dropped. 1 is off.
      top_p, top_k: the usual truncations of the draws, here to reproduce published runs. They
        narrow the law unannounced, so protocol runs refuse them. 1 and None are off.
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
    loop: Loop = "care"
    threshold: float = 0.9
    confidence: Confidence = "probability"
    schedule: Schedule = "linear"
    token_temp: float = 0.0
    alg_temp: float | None = None
    eta: float | None = None
    t_on: float = 0.55
    t_off: float = 0.05
    alpha_on: float = 0.9
    nucleus_p: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    record_history: bool = False

    def __post_init__(self) -> None:
        get_strategy(self.strategy)
        for field in ("gen_length", "num_steps", "block_length", "top_k"):
            if getattr(self, field) is not None or field in ("gen_length", "num_steps"):
                object.__setattr__(self, field, _whole(field, getattr(self, field)))
        gen_length, num_steps = self.gen_length, self.num_steps
        for field in ("unmask_temp", "cfg_scale", "token_temp"):
            _within(field, getattr(self, field), math.inf)
        for field in ("remask_fraction", "threshold", "t_on", "t_off"):
            _within(field, getattr(self, field), 1.0)
        for field, upper in (("alg_temp", math.inf), ("eta", 1.0)):
            if getattr(self, field) is not None:
                _within(field, getattr(self, field), upper)
        for field in ("nucleus_p", "top_p"):
            _within(field, getattr(self, field), 1.0, above=True)
        if self.block_length is not None:
            block_length = self.block_length
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
            ("loop", Loop),
            ("confidence", Confidence),
            ("schedule", Schedule),
        ):
            _one_of(field, getattr(self, field), get_args(accepted))
        for field in ("suppress_mask_token", "refresh_reuse", "skip_idle", "record_history"):
            if not isinstance(getattr(self, field), bool):
                raise ValueError(f"{field}={getattr(self, field)!r} must be True or False")
        self._check_fit()

    def _check_fit(self) -> None:
        """Refuses settings that the strategy would ignore or that contradict each other."""
        kind, strategy = get_entry(self.strategy)[1:]
        if strategy.traits.draw_temp != "token_temp":
            for field, default in (("token_temp", 0.0), ("alg_temp", None)):
                if getattr(self, field) != default:
                    raise ValueError(
                        f"{field}={getattr(self, field)!r} is read by Dream orders alone; tokens "
                        f"of strategy {self.strategy!r} are drawn at unmask_temp"
                    )
        if self.eos_policy == "defer" and (kind == "ancestral" or strategy.transition):
            raise ValueError(
                f"eos_policy='defer' postpones tokens in an order of reveals, which strategy "
                f"{self.strategy!r} does not have"
            )
        if kind == "ancestral":
            _within("alpha_on", self.alpha_on, 1.0)
            if self.alpha_on == 1:
                raise ValueError("alpha_on=1 leaves the loop nothing to remask; choose less")
            if self.t_off > self.t_on:
                raise ValueError(f"t_off={self.t_off} must not exceed t_on={self.t_on}")
        if self.loop == "fixed_churn":
            if kind != "remask" or strategy.select is None or strategy.quota or strategy.plan:
                raise ValueError(
                    f"loop='fixed_churn' needs a remasking strategy that ranks positions, such as "
                    f"'high_entropy'; {self.strategy!r} sets its own counts or never remasks"
                )
            for field, wanted in (("pace", "auto"), ("skip_idle", True), ("refresh_reuse", False)):
                if getattr(self, field) != wanted:
                    raise ValueError(
                        f"{field}={getattr(self, field)!r} contradicts loop='fixed_churn', which "
                        f"sets it; leave it {wanted!r}"
                    )

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
            cfg_scale=1.0 if self.cfg_scale > 0 else 0.0,
            nucleus_p=0.5 if self.nucleus_p < 1 else 1.0,
            top_p=0.5 if self.top_p < 1 else 1.0,
            top_k=None if self.top_k is None else 1,
            **_TRACED,
        )

    def settings(self) -> dict[str, float]:
        """Values of `types.Settings`, by name."""
        traits = get_strategy(self.strategy).traits
        dream = traits.draw_temp == "token_temp"
        return {
            "unmask_temp": self.unmask_temp,
            "token_temp": self.token_temp if dream else self.unmask_temp,
            "alg_temp": self.unmask_temp if self.alg_temp is None else self.alg_temp,
            "remask_fraction": self.remask_fraction,
            "threshold": self.threshold,
            "eta": traits.eta if self.eta is None else self.eta,
            "t_on": self.t_on,
            "t_off": self.t_off,
            "alpha_on": self.alpha_on,
        }

    def bind(self, **values: Any) -> "SamplerConfig":
        """A copy with traced arrays in some fields (not checked again: tracers have no value)."""
        bound = object.__new__(type(self))
        for field in dataclasses.fields(self):
            value = values.get(field.name, getattr(self, field.name))
            object.__setattr__(bound, field.name, value)
        return bound


# Fields whose values are traced, each at the value that stands for all of them.
_TRACED: dict[str, Any] = {
    "unmask_temp": 0.0,
    "remask_fraction": 0.0,
    "threshold": 0.0,
    "token_temp": 0.0,
    "alg_temp": None,
    "eta": None,
    "t_on": 0.55,
    "t_off": 0.05,
    "alpha_on": 0.9,
}


_LARGEST = 3e38  # of float32, in which settings are traced


def _whole(name: str, value: object) -> int:
    """Returns value as an int if it is a whole number of at least 1."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if isinstance(value, bool) or not 1 <= number < 2**31:
        raise ValueError(f"{name}={value!r} must be a whole number of at least 1")
    return number


def _within(name: str, value: object, upper: float, *, above: bool = False) -> None:
    """Checks 0 <= value <= upper (0 < value if `above`) and that it is finite in float32."""
    try:
        number = math.nan if isinstance(value, str) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if number > _LARGEST:
        number = math.inf
    inside = math.isfinite(number) and 0 <= number <= upper and not (above and number == 0)
    if isinstance(value, bool) or not inside:
        accepted = "finite and at least 0" if upper == math.inf else f"between 0 and {upper:g}"
        raise ValueError(f"{name}={value!r} must be {accepted}{', 0 excluded' if above else ''}")


def _one_of(name: str, value: object, accepted: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in accepted:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(accepted)}")
