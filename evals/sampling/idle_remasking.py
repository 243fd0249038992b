"""Remasking that would put nothing back: such an arm is the one without remasking, renamed.

Two ways lead there. A strategy picks `int(remask_fraction * block)` positions a step, and of a
short block that is none. And a single-pass strategy with one step a block decides everything at
once, so that it never sees a token it could put back.
"""

import dataclasses
import math

from ...samplers import SamplerConfig
from ...samplers.registry import get_entry


def reads_fraction(config: SamplerConfig) -> bool:
    """Whether `remask_fraction` says how many positions the strategy puts back.

    Strategies with a plan of their own are asked for it at both ends of the range; one's own
    strategy that picks without a plan is taken to follow `Obs.num_remask`.
    """
    kind, strategy = get_entry(config.strategy)[1:]
    if kind != "remask":
        return False
    if strategy.plan is None:
        return True
    none, whole = (
        strategy.plan(dataclasses.replace(config, remask_fraction=share)) for share in (0.0, 1.0)
    )
    return list(none) != list(whole)


def why_idle(config: SamplerConfig, *, steps_are_searched: bool = False) -> str | None:
    """Why a remasking arm would never put a token back, and what to do; None where it may.

    Args:
        config: the arm; of a kind that does not remask, it may.
        steps_are_searched: `config.num_steps` stands for a number that is not known yet.
    """
    strategy, block = get_entry(config.strategy).strategy, config.tokens_per_block
    if reads_fraction(config) and config.num_remask == 0:
        least = math.ceil(1000 / block) / 1000
        return (
            f"remask_fraction={config.remask_fraction:g} of a block of {block} tokens is no"
            f" position, so strategy {config.strategy!r} would put nothing back and be 'none' under"
            f" another name; raise the fraction to {least:g} or more, lengthen the block, or run"
            " 'none'"
        )
    single = strategy.transition is not None and config.num_steps == config.num_blocks
    if single and not steps_are_searched:
        return (
            f"num_steps={config.num_steps} is one step a block, in which strategy"
            f" {config.strategy!r} decides every token and has none to put back; give at least"
            f" {2 * config.num_blocks} steps, or run 'none'"
        )
    return None
