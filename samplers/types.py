"""Arrays that cross the borders of the samplers, and the signature of a strategy."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

# Returns logits [b, l, v] of the region, or a pair (logits, {"quality": Float["b l"]}) for
# networks with a trained head that judges the tokens held (PRISM, RemeDi). A stateful network is
# given its carry too, as the keyword `carry`, and returns (either of these, the new carry).
LogitsFn = Callable[..., Any]
Memory = Any  # a pytree whose leaves are arrays with leading axis b
Carry = Any  # a pytree whose leaves are arrays with leading axis b, or None for no state


class StepNotes(NamedTuple):
    """What the network thought at each nominal step, per sample; 0 where no step was run.

    Attributes:
      ran: the step had a commit pass for this sample.
      entropy: mean entropy in nats, temperature-free, over the positions it could reveal.
      confidence: mean confidence in the tokens that it revealed.
      tied: equal scores decided, by their index, which position was revealed. Always False for
        strategies without an order of reveals.
    """

    ran: Bool[Array, "*s b"]
    entropy: Float[Array, "*s b"]
    confidence: Float[Array, "*s b"]
    tied: Bool[Array, "*s b"]


class History(NamedTuple):
    """Canvases of the generated region after each nominal step.

    Attributes:
      canvas: canvas i is the region after nominal step i + 1, remasking included. Steps that were
        not run repeat the canvas before them. A final fill shows in `Samples.tokens` alone.
      mask_id: the id of an undecided position.
      notes: one entry a step; None for ancestral samplers.
    """

    canvas: Int[Array, "s b l"]
    mask_id: int
    notes: StepNotes | None = None


class Samples(NamedTuple):
    """What a sampling run produced and what it cost.

    Attributes:
      tokens: int32, prompt and generated region.
      nfe: int32, network evaluations charged to each sample, counted where the forward happens.
      launches: int32, forward calls of the whole batch. At least max(nfe) without guidance.
      history: None unless recorded.
    """

    tokens: Int[Array, "b t"]
    nfe: Int[Array, "b"]
    launches: Int[Array, ""]
    history: History | None


class Settings(NamedTuple):
    """Traced settings of `SamplerConfig` that strategies read, one scalar each.

    Attributes:
      unmask_temp, remask_fraction, threshold, t_on, t_off, alpha_on: as in `SamplerConfig`.
      token_temp: the temperature that tokens are drawn at; it is unmask_temp but for strategies
        with `Traits.draw_temp="token_temp"`.
      alg_temp: the temperature of the order, for those strategies.
      eta: `SamplerConfig.eta`, or the strategy's published value where that is None.
    """

    unmask_temp: Float[Array, ""]
    token_temp: Float[Array, ""]
    alg_temp: Float[Array, ""]
    remask_fraction: Float[Array, ""]
    threshold: Float[Array, ""]
    eta: Float[Array, ""]
    t_on: Float[Array, ""]
    t_off: Float[Array, ""]
    alpha_on: Float[Array, ""]


class Obs(NamedTuple):
    """What a strategy sees: one forward and the canvas of the generated region.

    Attributes:
      logits: float32 logits of the commit pass; ids that may not be emitted are -inf.
      draw_logits: logits of the law that tokens are drawn from: divided by the temperature (if it
        is above 0) and cut by top_k, top_p. Costs nothing where it is not read.
      tokens: the region. For `order` and `transition`, undecided positions hold the token just
        drawn for them; for `select`, the canvas after this step's commits (mask id where
        undecided).
      drawn: the token just drawn, at undecided positions up to the end of the block; at decided
        ones of the block too under `Traits.redraw`. Elsewhere without meaning.
      decided: positions that hold a token: before the commits, for `select` after them.
      new: positions committed in this step (all False but for `select`).
      confidence: confidence in `tokens`, by `SamplerConfig.confidence`: by default the
        temperature-free softmax probability of the token held, or drawn if undecided. For
        strategies that only rank undecided positions it may be 0 at the others.
      pool: positions that compete. For `order`: the undecided ones. For `select`, to be remasked:
        the current block, by `SamplerConfig.pool`. For `transition`: those it may change.
      quality: the network's own judgement of the tokens held, None for networks without one.
      planned: this step's entry of the strategy's `plan`; 0 without one.
      num_remask: positions to remask this step, int(remask_fraction * block_length).
      step: nominal step within the block, from 0.
      num_steps: nominal steps per block.
      settings: further settings.
    """

    logits: Float[Array, "b l v"]
    draw_logits: Float[Array, "b l v"]
    tokens: Int[Array, "b l"]
    drawn: Int[Array, "b l"]
    decided: Bool[Array, "b l"]
    new: Bool[Array, "b l"]
    confidence: Float[Array, "b l"]
    pool: Bool[Array, "b l"]
    quality: Float[Array, "b l"] | None
    planned: Int[Array, ""]
    num_remask: Int[Array, ""]
    step: Int[Array, ""]
    num_steps: Int[Array, ""]
    settings: Settings


class InitFn(Protocol):
    """Makes the memory a strategy carries between steps: arrays with leading axis b.

    The numbers of `config` are traced scalars here, but for gen_length and block_length; counts
    that depend on them belong to `plan`, which sees Python numbers.
    """

    def __call__(self, config: Any, b: int, l: int, /) -> Memory: ...


class SelectFn(Protocol):
    """Picks the positions to remask after the commits of a step.

    The sampler intersects the result with the decided positions of the current block.
    """

    def __call__(
        self, memory: Memory, obs: Obs, keys: Key[Array, "b"], /
    ) -> tuple[Bool[Array, "b l"], Memory]: ...


class QuotaFn(Protocol):
    """How many masks to reveal: `masked` per sample now, `left` steps in the block, this included.

    A quota of 0 makes the step idle for that sample.
    """

    def __call__(
        self,
        masked: Int[Array, "b"],
        left: Int[Array, ""],
        step: Int[Array, ""],
        num_steps: Int[Array, ""],
        /,
    ) -> Int[Array, "b"]: ...


class OrderFn(Protocol):
    """Scores undecided positions: the highest are revealed first, -inf not in this step."""

    def __call__(self, obs: Obs, keys: Key[Array, "b"], /) -> Float[Array, "b l"]: ...


class TransitionFn(Protocol):
    """Replaces commit and select: the region after a step, from one forward.

    Returns the tokens to hold, the positions to mask (whatever token was given for them), and the
    memory. Where `obs.pool` is False the canvas is kept.
    """

    def __call__(
        self, memory: Memory, obs: Obs, keys: Key[Array, "b"], /
    ) -> tuple[Int[Array, "b l"], Bool[Array, "b l"], Memory]: ...


class PlanFn(Protocol):
    """Counts for the steps of a block, worked out on the host in NumPy: int32 [steps per block].

    For schedules whose published rounding float32 cannot follow, or that need a sort over steps.
    """

    def __call__(self, config: Any, /) -> np.ndarray: ...


class Rates(NamedTuple):
    """What one step of an ancestral sampler does to a position. Both broadcast to [b, l].

    Attributes:
      reveal: total mass on tokens at an undecided position; 1 - reveal stays masked. May exceed 1
        where the published law has a negative entry for the mask; such a position is revealed.
      remask: probability that a decided position goes back to the mask.
    """

    reveal: Float[Array, "..."]
    remask: Float[Array, "..."]


class RatesFn(Protocol):
    """The law of an ancestral step from time t to t - dt (1 is all masked, 0 all decided).

    `committed` holds minus the probability of each token when it was revealed, -inf where masked.
    """

    def __call__(
        self,
        t: Float[Array, ""],
        dt: Float[Array, ""],
        settings: Settings,
        committed: Float[Array, "b l"],
        /,
    ) -> Rates: ...


class Traits(NamedTuple):
    """Static properties of a strategy.

    Attributes:
      draw_temp: the field of `SamplerConfig` that is the temperature of token draws.
      tempered: `Obs.confidence` is taken under the tempered law of the draws, not under the
        temperature-free one.
      redraw: tokens are drawn at decided positions too.
      reach: a transition may change the current block, or all positions up to its end.
      needs_quality: the network must give `Obs.quality`.
      reuse_forward: an ancestral sampler without time input: a forward serves until the canvas
        changes.
      fill: what decides masks left at the end: a draw like any other, or the argmax.
      eta: the published default of `SamplerConfig.eta`.
    """

    draw_temp: Literal["unmask_temp", "token_temp"] = "unmask_temp"
    tempered: bool = False
    redraw: bool = False
    reach: Literal["block", "sequence"] = "block"
    needs_quality: bool = False
    reuse_forward: bool = True
    fill: Literal["draw", "argmax"] = "draw"
    eta: float = 0.0


class Strategy(NamedTuple):
    """A remasking strategy, unmasking order or ancestral law: pure functions of traced arrays.

    None stands for the default: no memory, no remasking, the quota of `SamplerConfig.pace`, and
    the order of falling confidence. `transition` replaces order and select by one single-pass
    step; `rates` alone makes an ancestral sampler.
    """

    init: InitFn | None = None
    select: SelectFn | None = None
    quota: QuotaFn | None = None
    order: OrderFn | None = None
    transition: TransitionFn | None = None
    plan: PlanFn | None = None
    rates: RatesFn | None = None
    traits: Traits = Traits()
