"""What strategy, temperature and budget do to a metric: the three-way analysis of variance."""

from collections.abc import Sequence
from typing import NamedTuple

from ...errors import InputError
from ...scoring.scores import Score
from ...signature import merged
from ...statistics import (
    AnovaRow,
    EtaInterval,
    PermutationRow,
    anova,
    factorial_table,
    partial_eta2_intervals,
    permutation_anova,
    zero_variance_cells,
)
from ...workdir.seed_scores import SeededArm
from ..data import missing
from ..tables import Entry, Head, Row, Table

FACTORS = (("strategy", "strategy"), ("temperature", "unmask_temp"), ("steps", "num_steps"))
BLOCK = "seed"


class FactorEffects(NamedTuple):
    """Effects of the grid's factors on one metric.

    Attributes:
        metric: its name.
        rows: of `anova` with seeds as blocks.
        plain: of `anova` without blocks, as the paper has them.
        intervals: of partial eta squared, from `rows`.
        permuted: {effect: row} of the permutation test.
        still: (levels) of cells whose seeds are all equal.
        dropped: factors of a single level, which have no effect to test.
        num_values: cells times seeds.
        signature: of the values.
    """

    metric: str
    rows: tuple[AnovaRow, ...]
    plain: tuple[AnovaRow, ...]
    intervals: dict[str, EtaInterval | None]
    permuted: dict[str, PermutationRow]
    still: tuple[tuple, ...]
    dropped: tuple[str, ...]
    num_values: int
    signature: str

    def row(self, effect: str) -> AnovaRow:
        """The row of an effect in the blocked analysis."""
        return next(row for row in self.rows if row.factor == effect)


def factor_effects(
    arms: Sequence[SeededArm], metric: str, *, num_permutations: int = 9_999
) -> FactorEffects:
    """Analyses a metric of a full grid (care.md, 6.3).

    Seeds are blocks: every cell of the grid has the same ones, on the same prefixes and
    references. A factor of one level is left out.

    Args:
        arms: the generated arms of the grid.
        metric: name of a score.
        num_permutations: shuffles an effect.

    Raises:
        InputError: a cell of the grid or a value that is missing, two arms of one cell, no factor
            with two levels, or one seed.
    """
    cells: dict[tuple, float] = {}
    texts = []
    for arm in arms:
        levels = tuple(getattr(arm.cell, field) for _, field in FACTORS)
        for seed, value in arm.values(metric).items():
            if (*levels, seed) in cells:
                raise InputError(
                    f"{arm.label} seed {seed} shares its cell of the grid with another"
                )
            cells[(*levels, seed)] = value
            texts.append(arm.seeds[seed].metrics[metric].signature)
    sizes = [len({key[place] for key in cells}) for place in range(len(FACTORS))]
    kept = [place for place, size in enumerate(sizes) if size > 1]
    if not kept:
        raise InputError("the grid has one strategy, one temperature and one budget: no effect")
    reduced = {(*(key[place] for place in kept), key[-1]): value for key, value in cells.items()}
    names = [FACTORS[place][0] for place in kept]
    table = factorial_table(reduced, names)
    rows = anova(table.values, names, block=BLOCK, levels=table.levels)
    permuted = permutation_anova(table.values, names, num_permutations=num_permutations)
    return FactorEffects(
        metric,
        tuple(rows),
        tuple(anova(table.values, names, levels=table.levels)),
        partial_eta2_intervals(rows),
        {row.factor: row for row in permuted},
        tuple(zero_variance_cells(table.values, levels=table.levels)),
        tuple(name for place, (name, _) in enumerate(FACTORS) if place not in kept),
        table.values.size,
        merged(texts),
    )


def effects_table(effects: FactorEffects, title: str) -> Table:
    """One row an effect, then the block and the residual.

    Args:
        title: of the metric.
    """
    heads = (
        Head("effect", "effect", numeric=False),
        Head("df", "df", "degrees of freedom"),
        Head("SS", "sum_squares", "sum of squares"),
        Head("F", "f", "mean square over the residual's, seeds as blocks"),
        Head("p", "p", "of F under the central F distribution"),
        Head("partial η²", "partial_eta2", "SS / (SS + SS of the residual)"),
        Head("low", "partial_eta2_low", "lower bound of the 95 % interval of partial η²"),
        Head("high", "partial_eta2_high", "upper bound of the 95 % interval of partial η²"),
        Head("generalised η²", "generalized_eta2", "SS / (SS + SS of seed and residual)"),
        Head("p permuted", "p_permuted", "labels shuffled within seeds"),
        Head("F unblocked", "f_unblocked", "seeds left in the residual, as in the paper"),
        Head("p unblocked", "p_unblocked", "of the unblocked F"),
    )
    plain = {row.factor: row for row in effects.plain}
    rows = [
        Row((Entry(row.factor), *(Entry(number=n) for n in _numbers(effects, row, plain))))
        for row in effects.rows
    ]
    notes = [
        f"{effects.num_values} values, seeds as blocks; partial η² of several effects may add up "
        "to more than 1.",
        "p permuted needs no law of the errors: main effects are exact, interactions approximate.",
    ]
    if effects.dropped:
        notes.append(f"One level only, so not tested: {', '.join(effects.dropped)}.")
    if effects.still:
        shown = "; ".join(", ".join(map(str, levels)) for levels in effects.still[:4])
        more = f" and {len(effects.still) - 4} more" if len(effects.still) > 4 else ""
        notes.append(
            f"Warning: all seeds are equal in {len(effects.still)} cells ({shown}{more}), which no "
            "F distribution describes; read the permuted p there."
        )
    return Table(
        f"anova_{effects.metric}",
        f"Analysis of variance of {title}: what each factor of the grid does.",
        heads,
        tuple(rows),
        tuple(notes),
    )


def _numbers(effects: FactorEffects, row: AnovaRow, plain: dict[str, AnovaRow]) -> list[Score]:
    interval, other = effects.intervals.get(row.factor), plain.get(row.factor)
    permuted = effects.permuted.get(row.factor)
    values: tuple[tuple[str, float | None], ...] = (
        ("df", row.df),
        ("sum_squares", row.sum_squares),
        ("f", row.f),
        ("p", row.p),
        ("partial_eta2", row.partial_eta2),
        ("partial_eta2_low", None if interval is None else interval.low),
        ("partial_eta2_high", None if interval is None else interval.high),
        ("generalized_eta2", row.generalized_eta2),
        ("p_permuted", None if permuted is None else permuted.p),
        ("f_unblocked", None if other is None else other.f),
        ("p_unblocked", None if other is None else other.p),
    )
    found = []
    for name, value in values:
        setting = "|block:none" if name.endswith("unblocked") else f"|block:{BLOCK}"
        if name == "p_permuted" and permuted is not None:
            setting += f"|permutations:{permuted.num_permutations}"
        text = f"anova_{name}{setting}|of:{effects.signature}"
        if value is None:
            found.append(missing("there is no such number for this line"))
        else:
            found.append(Score(value, None, effects.num_values, "", None, text))
    return found
