"""Matched compute: the settings at which an arm costs a given number of forwards.

NFE depends on the data for most strategies, so it is measured on a pilot, never computed: a
safeguarded bisection over the number of nominal steps finds the largest measured NFE that the
target allows, and the real run is measured again.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Int

from ... import samplers
from ..cell import MATCH_MODES
from ..errors import InputError
from .best_of import DRAWS, sample_best_of
from .network import Network, sample_from

MODES = MATCH_MODES


class ComputeMatch(NamedTuple):
    """How an arm spends a compute budget.

    Attributes:
        config: the sampler's settings; `config.num_steps` is what the search found.
        target: forwards a sample that were asked for.
        mode: how an arm that saturates below the target spends the rest, one of `MODES`.
        nfe: mean NFE of the pilot under `config`; under "best_of", of all candidates and their
            scoring.
        tolerance: how far from the target a measured NFE may be, max(1, 1 % of it).
        saturated: the arm cannot spend the budget, whatever num_steps: it stays below the target.
        num_candidates: samples drawn for each one kept; 1 but for "best_of".
    """

    config: samplers.SamplerConfig
    target: int
    mode: str
    nfe: float
    tolerance: float
    saturated: bool
    num_candidates: int = 1

    def agrees(self, nfe: float) -> bool:
        """Whether a measured mean NFE is the target, or below it and flagged as saturated."""
        if self.saturated:
            return nfe <= self.target + self.tolerance
        return abs(nfe - self.target) <= self.tolerance


def match_nfe(
    network: Network,
    config: samplers.SamplerConfig,
    target: int,
    *,
    mode: str = "cap",
    num_pilot: int = 16,
    seed: int = 0,
    prompt: Int[np.ndarray, "n p"] | None = None,
    prompt_mask: Bool[np.ndarray, "n p"] | None = None,
) -> ComputeMatch:
    """Finds num_steps so that a sample costs `target` forwards.

    Modes differ where the strategy saturates (without remasking, at gen_length forwards):
    "cap" stays there and flags it. "idle" runs the remaining steps without revealing anything: the
    same text at the target's cost, which shows that NFE buys nothing by itself. "length" gives it
    gen_length = target, one token a forward (half of it under guidance). "best_of" keeps the most
    likely of as many samples as come nearest to the target, their scoring included
    (`sample_best_of`).

    Cost: some five runs of the pilot, at most 2 log2(4 target); steps are traced, so one
    compilation each for the search and, if it changes the shape, the mode. NFE(num_steps) is taken
    as non-decreasing up to noise; where the pilot shows otherwise the result is still a measured
    one.

    Args:
        network: denoiser or oracle.
        config: the arm; its num_steps is ignored.
        target: forwards a sample, at least 1.
        mode: one of `MODES`.
        num_pilot: samples of the pilot; more narrow the mean NFE of data-dependent strategies.
        seed: root of the pilot's keys.
        prompt, prompt_mask: prompts of the pilot, left-padded; None samples unconditionally.

    Raises:
        InputError: an unknown mode, a target below 1 or below what the least number of steps
            costs, prompts that do not match num_pilot, or a mode that the config cannot take.
    """
    if mode not in MODES:
        raise InputError(f"mode={mode!r} is not one of {', '.join(MODES)}")
    if isinstance(target, bool) or not isinstance(target, int) or target < 1:
        raise InputError(f"target={target!r} must be a whole number of at least 1")
    if num_pilot < 1:
        raise InputError(f"num_pilot={num_pilot} must be at least 1")
    if prompt is None:
        prompt, prompt_mask = np.zeros((num_pilot, 0), np.int32), np.zeros((num_pilot, 0), bool)
    if prompt_mask is None or len(prompt) != num_pilot:
        raise InputError(
            f"prompt has {len(prompt)} rows for num_pilot={num_pilot}; give as many, and their mask"
        )
    keys = jax.random.split(jax.random.key(seed), num_pilot)
    config = dataclasses.replace(config, record_history=False)
    measured: dict[int, float] = {}

    def nfe(units: int) -> float:
        if units not in measured:
            trial = dataclasses.replace(config, num_steps=units * config.num_blocks)
            samples = sample_from(network, trial, prompt, prompt_mask, keys)
            measured[units] = float(np.mean(samples.nfe))
        return measured[units]

    tolerance = max(1.0, 0.01 * target)
    if nfe(1) > target + tolerance:
        raise InputError(
            f"target={target}: the least that strategy {config.strategy!r} can cost is {nfe(1):g} "
            f"forwards a sample, at num_steps={config.num_blocks}"
        )
    bound = target + tolerance
    low, high = 1, max(2, -(-target // config.num_blocks))
    most = 4 * high
    while nfe(high) <= bound and high < most:
        low, high = high, 2 * high
    if nfe(high) <= bound:  # more steps change nothing: the fewest that cost as much
        units = _first(lambda n: nfe(n) - nfe(high), low=1, high=high)
        saturated = nfe(units) < target - tolerance
    else:
        units = _first(lambda n: nfe(n) - bound, low=low, high=high, above=True) - 1
        saturated = False
    found = dataclasses.replace(config, num_steps=units * config.num_blocks)
    match = ComputeMatch(found, target, mode, nfe(units), tolerance, saturated)
    if not saturated or mode == "cap":
        return match
    return _spend(match, network, prompt, prompt_mask, keys)


def run_matched(
    network: Network,
    match: ComputeMatch,
    prompt: Int[np.ndarray, "b p"],
    prompt_mask: Bool[np.ndarray, "b p"],
    keys: Array,
) -> samplers.Samples:
    """Samples under a match. Check `match.agrees(nfe.mean())`; a pilot is not the real run."""
    if match.num_candidates > 1:
        return sample_best_of(
            network, match.config, prompt, prompt_mask, keys, match.num_candidates
        )
    return sample_from(network, match.config, prompt, prompt_mask, keys)


def _spend(
    match: ComputeMatch, network: Network, prompt: Any, prompt_mask: Any, keys: Array
) -> ComputeMatch:
    """Spends what a saturated arm leaves of its budget, as the mode says, and measures again."""
    config, target = match.config, match.target
    if match.mode == "best_of":
        match = match._replace(num_candidates=max(1, round(target / (match.nfe + DRAWS))))
    else:
        passes = target // (2 if config.cfg_scale > 0 else 1)
        steps = max(1, passes // config.num_blocks) * config.num_blocks
        changes: dict[str, Any] = {"num_steps": steps}
        changes |= {"skip_idle": False} if match.mode == "idle" else {"gen_length": passes}
        try:
            config = dataclasses.replace(config, **changes)
        except ValueError as error:
            raise InputError(f"mode={match.mode!r} at target={target}: {error}") from error
        match = match._replace(config=config)
    nfe = float(np.mean(run_matched(network, match, prompt, prompt_mask, keys).nfe))
    return match._replace(nfe=nfe, saturated=nfe < target - match.tolerance)


def _first(excess: Callable[[int], float], *, low: int, high: int, above: bool = False) -> int:
    """The first n of low..high at which a non-decreasing `excess` reaches 0, or exceeds it.

    `high` must do so. Tries where a straight line would cross, since NFE is nearly linear in the
    number of steps, and halves the range where that does not help.
    """

    def reached(value: float) -> bool:
        return value > 0 if above else value >= 0

    if reached(excess(low)):
        return low
    halve = False
    while high - low > 1:
        rise = excess(high) - excess(low)
        line = (low + high) // 2 if halve or rise <= 0 else low - excess(low) * (high - low) / rise
        middle = min(max(round(line), low + 1), high - 1)
        width = high - low
        if reached(excess(middle)):
            high = middle
        else:
            low = middle
        halve = high - low > width / 2 and not halve
    return high
