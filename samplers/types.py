"""Arrays that cross the borders of the samplers, and the signature of a strategy."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from jaxtyping import Array, Bool, Float, Int, Key

LogitsFn = Callable[[Any, Int[Array, "b t"], Bool[Array, "b t"], slice], Float[Array, "b l v"]]
Memory = Any  # a pytree whose leaves are arrays with leading axis b


class History(NamedTuple):
    """Canvases of the generated region after each nominal step.

    Attributes:
      canvas: canvas i is the region after nominal step i + 1, remasking included. Steps that were
        not run repeat the canvas before them. A final fill shows in `Samples.tokens` alone.
      mask_id: the id of an undecided position.
    """

    canvas: Int[Array, "s b l"]
    mask_id: int


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


class Obs(NamedTuple):
    """What a strategy sees: one forward and the canvas of the generated region.

    Attributes:
      logits: float32 logits of the commit pass; ids that may not be emitted are -inf.
      tokens: the region. For `order`, undecided positions hold the token just drawn for them; for
        `select`, the canvas after this step's commits (mask id where undecided).
      decided: positions that hold a token. For `order` before, for `select` after the commits.
      new: positions committed in this step (all False for `order`).
      confidence: temperature-free softmax probability of the token held, or drawn if undecided.
      pool: positions that compete to be remasked: the current block, by `SamplerConfig.pool`.
      num_remask: positions to remask this step, int(remask_fraction * block_length).
      step: nominal step within the block, from 0.
      num_steps: nominal steps per block.
      unmask_temp: temperature of the token draws.
    """

    logits: Float[Array, "b l v"]
    tokens: Int[Array, "b l"]
    decided: Bool[Array, "b l"]
    new: Bool[Array, "b l"]
    confidence: Float[Array, "b l"]
    pool: Bool[Array, "b l"]
    num_remask: Int[Array, ""]
    step: Int[Array, ""]
    num_steps: Int[Array, ""]
    unmask_temp: Float[Array, ""]


class InitFn(Protocol):
    """Makes the memory a strategy carries between steps: arrays with leading axis b."""

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


class Strategy(NamedTuple):
    """A remasking strategy or unmasking order: four pure functions of traced arrays.

    None stands for the default: no memory, no remasking, the quota of `SamplerConfig.pace`, and
    the order of falling confidence.
    """

    init: InitFn | None = None
    select: SelectFn | None = None
    quota: QuotaFn | None = None
    order: OrderFn | None = None
