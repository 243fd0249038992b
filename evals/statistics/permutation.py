"""Permutation alternatives to the F tests: labels are swapped within seeds."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .anova import checked_design, effect_deviations, effect_sums
from .checks import ROUNDING, positive_count, random_seed

_BATCH = 2**20  # values permuted at once


class PermutationRow(NamedTuple):
    """p of one effect; `exact_under` says for which null the swaps leave its law unchanged."""

    factor: str
    p: float
    num_permutations: int
    exact_under: str | None


def permutation_anova(
    values: Float[np.ndarray, "a b ... r"],
    names: Sequence[str],
    *,
    num_permutations: int = 9_999,
    seed: int = 0,
) -> list[PermutationRow]:
    """p of each effect without a law of the errors (spec care.md 6.3); seeds are blocks.

    A main effect: the factor's labels are shuffled within each seed and each combination of the
    other factors. That is exact if the factor changes nothing at all, and needs no equal variances
    between those combinations (cells without any spread included).
    An interaction: residuals of the model without it are shuffled within each seed (Freedman &
    Lane 1983, Journal of Business & Economic Statistics 1), which is approximate and does lean on
    equal variances.

    The statistic is the blocked F; p = (1 + hits) / (1 + num_permutations), ties counted as hits.

    Args:
        values: one axis a factor, the last for seeds, as in `anova`.
        names: of the factors.
        num_permutations: random shuffles an effect.
        seed: of those.

    Raises:
        InputError: as `anova` does.
    """
    array, names = checked_design(values, names)
    num_permutations = positive_count(num_permutations, "num_permutations")
    rng, count = random_seed(seed), len(names)
    # Where all is equal up to rounding there is nothing to order.
    floor = array.size * (ROUNDING * np.abs(array).max()) ** 2
    parts = effect_deviations(array, count)
    centred = array - array.mean()
    blocks = centred.mean(axis=tuple(range(count)), keepdims=True)
    rows = []
    for effect in parts:
        kept = centred * 0
        if len(effect) > 1:
            others = [deviation for part, deviation in parts.items() if part != effect]
            kept = blocks + sum(others[1:], others[0])
        rest = centred - kept
        found = _statistic(centred[None], effect, count, floor)[0]
        hits, batch = 0, max(1, _BATCH // array.size)
        for start in range(0, num_permutations, batch):
            size = min(batch, num_permutations - start)
            stack = np.broadcast_to(rest, (size, *rest.shape))
            if len(effect) == 1:
                shuffled = rng.permuted(stack, axis=1 + effect[0])
            else:
                cells = stack.reshape(size, -1, array.shape[-1])
                shuffled = rng.permuted(cells, axis=1).reshape(stack.shape)
            drawn = _statistic(kept + shuffled, effect, count, floor)
            hits += int(np.count_nonzero(drawn >= found * (1 - 1e-9)))
        name = ":".join(names[axis] for axis in effect)
        null = f"{name} changes nothing" if len(effect) == 1 else None
        p = (1 + hits) / (1 + num_permutations)
        rows.append(PermutationRow(name, p, num_permutations, null))
    return rows


def _statistic(
    stack: Float[np.ndarray, "s a b ... r"], effect: tuple[int, ...], count: int, floor: float
) -> Float[np.ndarray, "s"]:
    """SS / SS_residual: F up to a constant. No effect and no residual counts as 0."""
    sums = effect_sums(stack, count, blocked=True)
    total, residual = sums.effects[effect], sums.residual
    ratio = np.full(len(stack), np.inf)
    np.divide(total, residual, out=ratio, where=residual > floor)
    ratio[total <= floor] = 0.0
    return ratio
