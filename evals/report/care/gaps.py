"""Gaps between arms: which two may be compared seed by seed, and what the comparison says.

Two arms are paired where they have the same seeds and, at each of them, the same reference and
the same prompts. What is not paired is refused with the reason; nothing is averaged instead.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from ...canonical import canonical_json
from ...errors import InputError, one_line
from ...protocol.arm_records import DRAW_FIELDS, STRATEGY_FIELDS
from ...statistics import (
    Interval,
    PairedTest,
    bootstrap_interval,
    holm,
    paired_test,
    paired_values,
    range_warning,
)
from ...workdir.seed_scores import SeededArm

# Arms without remasking; `origin` takes the place of `none` among Dream's orders.
BASELINES = ("none", "origin")
LEVEL = 0.05


class Gap(NamedTuple):
    """A metric of one arm minus that of another, seed by seed.

    Attributes:
        metric: its name.
        first, second: labels of the arms; `first` is None where there is no such arm.
        cell_of: the second arm, whose strategy and setting the gap is of.
        means: of both arms over the seeds; None with a reason.
        test: paired over seeds; None with a reason.
        interval: 95 % bootstrap interval of the mean difference.
        warning: what to print beside that interval.
        adjusted: Holm's p within the family; None before `adjusted_gaps`, or without a p.
        reason: why there is no test.
    """

    metric: str
    first: str | None
    second: str
    cell_of: SeededArm
    means: tuple[float, float] | None
    test: PairedTest | None
    interval: Interval | None
    warning: str | None
    adjusted: float | None
    reason: str | None

    @property
    def separated(self) -> bool:
        """Whether the adjusted p is at most 5 %."""
        return self.adjusted is not None and self.adjusted <= LEVEL


def paired_scores(
    first: SeededArm | None,
    second: SeededArm | None,
    metric: str,
    *,
    names: tuple[str, str] = ("the first arm", "the second arm"),
) -> tuple[list[float], list[float]]:
    """A metric of two arms in one order of their seeds.

    Args:
        names: what to call an arm that is missing.

    Raises:
        InputError: a missing arm, a seed that only one has, references or prompts of a seed that
            differ, or a value that could not be measured.
    """
    if first is None or second is None:
        missing = names[0] if first is None else names[1]
        raise InputError(f"there is no arm {missing}; run it or leave the comparison out")
    for seed in first.seeds:
        if seed not in second.seeds:
            continue
        for what in ("reference", "prompts"):
            digests = [getattr(arm.seeds[seed], what) for arm in (first, second)]
            if digests[0] != digests[1]:
                raise InputError(
                    f"{first.label} and {second.label} are not paired at seed {seed}: their"
                    f" {what} differ ({' and '.join(map(_short, digests))}); draw both arms in"
                    " one run, on the same text"
                )
    one: dict[Hashable, float | None] = {**first.values(metric)}
    other: dict[Hashable, float | None] = {**second.values(metric)}
    a, b = paired_values(one, other, names=(first.label, second.label))
    return a.tolist(), b.tolist()


def gap(
    first: SeededArm | None, second: SeededArm, metric: str, *, name: str = "the first arm"
) -> Gap:
    """The metric of `first` minus that of `second`; a refusal becomes the gap's reason.

    Args:
        name: what to call `first` where it is missing.
    """
    label = None if first is None else first.label
    try:
        a, b = paired_scores(first, second, metric, names=(name, second.label))
        differences = [one - other for one, other in zip(a, b, strict=True)]
        test, interval = paired_test(a, b), bootstrap_interval(differences)
    except InputError as error:
        reason = one_line(error)
        return Gap(metric, label, second.label, second, None, None, None, None, None, reason)
    means = sum(a) / len(a), sum(b) / len(b)
    warning = range_warning(interval, differences)
    return Gap(
        metric, label, second.label, second, means, test, interval, warning, None, test.reason
    )


def adjusted_gaps(gaps: Iterable[Gap]) -> list[Gap]:
    """The gaps of one family with Holm's adjusted p; those without p count as members."""
    gaps = list(gaps)
    if not gaps:
        return []
    values = [None if one.test is None else one.test.p for one in gaps]
    return [one._replace(adjusted=p) for one, p in zip(gaps, holm(values), strict=True)]


def interaction_gaps(arms: Sequence[SeededArm], metric: str) -> list[Gap]:
    """No remasking minus each strategy, at each temperature above 0 and each budget.

    The baseline of an arm has the same model, texts, temperature, budget and settings, and another
    strategy alone. Where a budget is a target that the baseline meets in several modes, there is
    a gap to each. One family for Holm's correction.

    Returns:
        Gaps in the order of the arms; empty without strategies that remask.
    """
    drawn = [arm for arm in arms if arm.cell.role == "generated"]
    strategies = {arm.cell.strategy for arm in drawn}
    name = next((name for name in BASELINES if name in strategies), BASELINES[0])
    found = []
    for arm in drawn:
        if arm.cell.strategy == name or not arm.cell.unmask_temp:
            continue
        twins = [
            other for other in drawn if other.cell.strategy == name and _twin(other) == _twin(arm)
        ]
        place = f"{name} t={arm.cell.unmask_temp:g} {budget(arm)}"
        for twin in twins or [None]:
            found.append(gap(twin, arm, metric, name=place))
    return adjusted_gaps(found)


def budget(arm: SeededArm) -> str:
    """Nominal steps or target: "N=40" or "NFE=80"."""
    cell = arm.cell
    return f"N={cell.num_steps}" if cell.target_nfe is None else f"NFE={cell.target_nfe}"


def _twin(arm: SeededArm) -> str:
    """What an arm shares with its twin of another strategy."""
    left_out = {*DRAW_FIELDS, *STRATEGY_FIELDS, "match_mode"}
    fields = {k: v for k, v in vars(arm.cell).items() if k not in left_out}
    return canonical_json(fields)


def _short(digest: str | None) -> str:
    return "none" if digest is None else digest[:12]
