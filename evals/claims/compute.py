"""Claims about compute and stability: our samplers run on a network that returns fixed logits.

How many forwards a strategy takes, and how many cells stay as they were, depends for the claims
here on lengths and steps alone, so any logits serve.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ... import samplers
from ..reported import Reported
from .finding import Finding, agreement, outcome

_NUM_IDS = 9  # of the network's vocabulary; the mask comes after them


def nfe(claim: Reported, *, strategy: str, loop: str = "care") -> Finding:
    """The NFE of a strategy at the claim's length and nominal steps, counted in the forward."""
    options: dict[str, Any] = {"loop": loop}
    if "fraction" in claim.values:
        options["remask_fraction"] = claim.number("fraction").value
    length, steps = _whole(claim, "length"), _whole(claim, "nominal_steps")
    samples = _sampled(strategy, length, steps, **options)
    note = "" if loop == "care" else f"in the {loop} loop"
    return agreement(claim, {"nfe": int(samples.nfe[0])}, note)


def saturation(claim: Reported) -> Finding:
    """No remasking costs one forward a token, however many steps are named."""
    length = _whole(claim, "length")
    steps = [_whole(claim, "nominal_steps") * factor for factor in (1, 2, 4)]
    found = [int(_sampled("none", length, n).nfe[0]) for n in steps]
    same = len(set(found)) == 1
    result = agreement(claim, {"nfe": found[0]}, f"the same at {steps} nominal steps")
    return result if same else outcome(False, {"nfe": found})


def unreachable_targets(claim: Reported) -> Finding:
    """Matched budgets listed for `none`, against the budgets that it can spend."""
    targets = [int(number.value) for number in claim.numbers("nfe")]
    length = _whole(claim, "length")
    found = [int(_sampled("none", length, target).nfe[0]) for target in targets]
    return outcome(
        found == targets,
        {"nfe": found},
        "counted, when that many steps are asked for",
        otherwise="contradictory",
    )


def stable_cells(claim: Reported) -> Finding:
    """Stable (step, position) cells when tokens are revealed one by one."""
    length = _whole(claim, "length")
    history = _history(length)
    return agreement(claim, {"cells": int(samplers.stable_cells(history)[0])})


def replacement(claim: Reported) -> Finding:
    """Tokens replaced a step, in per cent, when nothing is remasked."""
    rate = samplers.replacement_rate(_history(_whole(claim, "length")))
    return agreement(claim, {"rate": 100 * float(rate[0])})


def deterministic_seeds(claim: Reported) -> Finding:
    """Whether seeds change what `none` writes at temperature 0."""
    length, seeds = _whole(claim, "length"), _whole(claim, "seeds")
    temperature = claim.number("temperature").value
    texts = [
        _sampled("none", length, length, temperature=temperature, seed=seed).tokens
        for seed in range(seeds)
    ]
    distinct = len(np.unique(np.concatenate(texts), axis=0))
    return outcome(
        distinct == seeds,
        {"distinct": distinct},
        "texts that the seeds give",
        otherwise="contradictory",
    )


def _whole(claim: Reported, name: str) -> int:
    return int(claim.number(name).value)


def _sampled(
    strategy: str,
    length: int,
    num_steps: int,
    *,
    temperature: float = 0.5,
    seed: int = 0,
    **options: Any,
) -> samplers.Samples:
    """One sample of a strategy."""
    config = samplers.SamplerConfig(length, num_steps, strategy, temperature, **options)
    params = jax.random.normal(jax.random.key(3), (length, _NUM_IDS))
    keys = jax.random.split(jax.random.key(seed), 1)
    empty = jnp.zeros((1, 0), jnp.int32)
    return samplers.sample(
        _positional, params, empty, empty.astype(bool), keys, config, mask_id=_NUM_IDS
    )


def _positional(
    params: Float[Array, "l v"], tokens: Int[Array, "b t"], token_mask: Array, region: slice
) -> Float[Array, "b l v"]:
    """Logits that depend on the position alone."""
    return jnp.broadcast_to(params, (tokens.shape[0], *params.shape))


def _history(length: int) -> samplers.History:
    """Of one text written token by token."""
    history = _sampled("none", length, length, record_history=True).history
    assert history is not None
    return history
