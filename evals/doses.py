"""Whether arms that differ in `remask_fraction` alone really differ."""

from collections.abc import Sequence

from ..samplers import SamplerConfig
from .errors import InputError, naming
from .options import GridOptions
from .sampling.idle_remasking import reads_fraction


def check_doses(config: GridOptions, fractions: Sequence[float]) -> None:
    """Every strategy reads the fraction, and every fraction is another number of tokens.

    Args:
        config: one temperature and one budget; `strategies` are dosed.
        fractions: its `--fractions`, in place of `remask_fraction`.

    Raises:
        InputError: a strategy or fraction that the sampler refuses, a strategy whose dose is not
            the fraction, or two fractions that put back as many tokens.
    """
    counts: dict[int, float] = {}
    for strategy in config.strategies:
        for fraction in fractions:
            with naming(f"--strategies={strategy}, --fractions={fraction:g}"):
                sampler = SamplerConfig(
                    config.gen_length,
                    config.num_steps[0],
                    strategy,
                    config.unmask_temps[0],
                    block_length=config.block_length,
                    remask_fraction=fraction,
                )
            if not reads_fraction(sampler):
                raise InputError(
                    f"--strategies={strategy} does not read the fraction: its arms would all be the"
                    " same; leave it out"
                )
            other = counts.setdefault(sampler.num_remask, fraction)
            if other != fraction:
                raise InputError(
                    f"--fractions={other:g} and {fraction:g} are both {sampler.num_remask} of"
                    f" {sampler.tokens_per_block} tokens a block, the same arm; give one of them"
                )
