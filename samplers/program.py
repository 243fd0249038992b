"""What one run of a sampler is given and gives back: a static part, a traced part, an outcome."""

from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float, Int, Key

from .config import SamplerConfig
from .forward import Network, Tally
from .registry import Entry
from .types import Carry, LogitsFn, Settings, StepNotes


class Knobs(NamedTuple):
    """Settings of the loop that are traced, so that one compilation serves all their values.

    plan: the counts of the strategy's plan for the steps of a block, padded on the right.
    """

    num_steps: Int[Array, ""]
    steps_per_block: Int[Array, ""]
    num_remask: Int[Array, ""]
    cfg_scale: Float[Array, ""]
    top_p: Float[Array, ""]
    top_k: Int[Array, ""]
    nucleus_p: Float[Array, ""]
    plan: Int[Array, "n"]
    settings: Settings


class Program(NamedTuple):
    """The static part of a run: one compilation per value (and shapes of the inputs).

    eos_id is None unless the end-of-sequence policy needs it.
    """

    logits_fn: LogitsFn
    config: SamplerConfig
    entry: Entry
    mask_id: int
    num_ids: int | None
    eos_id: int | None
    x64: bool


class Inputs(NamedTuple):
    """The traced part of a run.

    carry: what a stateful network carries into its first forward; None for a stateless one.
    """

    params: Any
    prompt: Int[Array, "b p"]
    token_mask: Bool[Array, "b t"]
    keys: Key[Array, "b"]
    knobs: Knobs
    uniforms: Float[Array, "s b l v"] | None
    carry: Carry


class Outcome(NamedTuple):
    """Final region, costs, and the canvases and notes if they were recorded."""

    canvas: Int[Array, "b l"]
    tally: Tally
    canvases: Int[Array, "s b l"] | None
    notes: StepNotes | None = None


def bound_network(program: Program, inputs: Inputs) -> Network:
    """The network with its prompts, ready for `counted_forward`."""
    config = program.config
    return Network(
        logits_fn=program.logits_fn,
        params=inputs.params,
        prompt=inputs.prompt,
        token_mask=inputs.token_mask,
        mask_id=program.mask_id,
        num_ids=program.num_ids,
        suppress_mask_token=config.suppress_mask_token,
        forbidden_id=program.eos_id if config.eos_policy == "suppress" else None,
        guidance=inputs.knobs.cfg_scale if config.cfg_scale > 0 else None,
    )
