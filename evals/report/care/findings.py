"""What a CaRE run shows, in sentences that hold whichever way it turns out."""

from collections.abc import Mapping, Sequence

import numpy as np

from ...errors import InputError, one_line
from ...protocol import ProtocolReport, badge
from ...statistics import holm, paired_test
from ...workdir.seed_scores import SeededArm
from ..rounding import p_text
from .factors import FACTORS, FactorEffects
from .gaps import LEVEL, Gap, paired_scores
from .tables import TITLES

# Points without which arms may not be ranked: the sweep, seeds and pairing, the baseline.
RANKING_POINTS = (3, 4, 6)


def protocol_finding(report: ProtocolReport) -> str:
    """The badge, and the points that are not met."""
    failed = [point for point in report.points if not point.passed]
    if not failed:
        return f"Protocol: {badge(report)}; all seven points are met."
    named = ", ".join(f"{point.number} ({point.name})" for point in failed)
    return f"Protocol: {badge(report)}. Not met: point {named}; the table has the reasons."


def gap_finding(gaps: Sequence[Gap]) -> str:
    """The gap nearest t = 0.25 at the largest budget, and how many of the family are separated."""
    tested = [one for one in gaps if one.test is not None and one.test.p is not None]
    if not gaps:
        return ""
    title = TITLES[gaps[0].metric][0]
    if not tested:
        return f"No interaction gap in {title} could be tested: {gaps[0].reason}."
    chosen = min(tested, key=_headline)
    test, interval = chosen.test, chosen.interval
    assert test is not None
    assert interval is not None
    assert test.t is not None
    assert test.p is not None
    verdict = "separated from 0" if chosen.separated else "not separated from 0"
    text = (
        f"{chosen.first} minus {chosen.second} in {title}: {_signed(test.mean)} ± "
        f"{test.stderr:.3f} (paired over {test.df + 1} seeds, t({test.df}) = {_signed(test.t, 2)}, "
        f"{p_text(test.p)}, bootstrap interval {_signed(interval.low)} to "
        f"{_signed(interval.high)}"
    )
    if len(gaps) > 1:
        text += f"; {p_text(chosen.adjusted)} after Holm's correction for {len(gaps)} gaps"
    text += f"): {verdict} at the 5 % level."
    if chosen.warning:
        text += f" {chosen.warning[0].upper()}{chosen.warning[1:]}."
    if len(gaps) > 1:
        worse = sum(one.test.mean > 0 for one in tested if one.test is not None)
        apart = sum(one.separated for one in tested)
        text += (
            f" Remasking has the lower mean in {worse} of {len(tested)} gaps tested; {apart} of "
            f"them are separated after correction."
        )
    return text


def effects_finding(effects: FactorEffects) -> str:
    """Effects of the grid's factors and of strategy by temperature, largest first."""
    title = TITLES[effects.metric][0]
    wanted = {name for name, _ in FACTORS} | {"strategy:temperature"}
    named = [row for row in effects.rows if row.factor in wanted]
    sized = [row for row in named if row.partial_eta2 is not None and row.f is not None]
    if not sized:
        return f"{title} does not vary between seeds, so no effect on it can be tested."
    sized.sort(key=lambda row: -(row.partial_eta2 or 0.0))
    listed = "; ".join(_effect(effects, row.factor) for row in sized)
    return f"Effects on {title}, largest first: {listed}."


def ranking_claim(
    arms: Sequence[SeededArm], metric: str, report: ProtocolReport, *, direction: str = "up"
) -> str:
    """Which strategy is best over the whole grid, and which are not separated from it.

    Each strategy's value at a seed is its mean over temperatures and budgets; strategies are
    compared with the best one in pairs, Holm-corrected. Nothing is claimed where the protocol
    points 3, 4 or 6 are not met.
    """
    title = TITLES[metric][0]
    failed = [p for p in report.points if p.number in RANKING_POINTS and not p.passed]
    if failed:
        numbers = ", ".join(str(point.number) for point in failed)
        return f"No ranking of strategies in {title} is claimed: protocol point {numbers} not met."
    try:
        values = _strategy_means(arms, metric)
    except InputError as error:
        return f"No ranking of strategies in {title} is claimed: {one_line(error)}."
    if len(values) < 2:
        return ""
    sign = 1.0 if direction == "up" else -1.0
    best = max(values, key=lambda name: sign * sum(values[name]))
    others = [name for name in values if name != best]
    tests = [paired_test(values[best], values[name]) for name in others]
    adjusted = holm([test.p for test in tests])
    apart = [n for n, p in zip(others, adjusted, strict=True) if p is not None and p <= LEVEL]
    tied = [name for name in others if name not in apart]
    text = (
        f"Averaged over all temperatures and budgets, {best} has the best mean {title} "
        f"({sum(values[best]) / len(values[best]):.3f})"
    )
    if apart:
        text += f", separated from {', '.join(apart)}"
    if tied:
        text += f", not separated from {', '.join(tied)}"
    closing = "budgets are nominal, so costs differ" if apart else "so no order is claimed"
    return f"{text}; {closing}."


def _strategy_means(arms: Sequence[SeededArm], metric: str) -> Mapping[str, list[float]]:
    """{strategy: mean over its arms at each seed}, on the seeds and texts that all share."""
    members: dict[str, dict[tuple, SeededArm]] = {}
    for arm in arms:
        place = (arm.cell.unmask_temp, arm.cell.num_steps)
        members.setdefault(arm.cell.strategy, {})[place] = arm
    first = next(iter(members.values()), {})
    found = {}
    for strategy, grid in members.items():
        if set(grid) != set(first):
            raise InputError(f"{strategy} was not run at the settings of the others")
        rows = [paired_scores(first[place], grid[place], metric)[1] for place in first]
        found[strategy] = np.mean(rows, axis=0).tolist()
    return found


def _headline(one: Gap) -> tuple[float, float]:
    cell = one.cell_of.cell
    return abs((cell.unmask_temp or 0.0) - 0.25), -float(cell.num_steps or cell.target_nfe or 0)


def _effect(effects: FactorEffects, name: str) -> str:
    row, permuted = effects.row(name), effects.permuted[name]
    held = permuted.p <= LEVEL and row.p is not None and row.p <= LEVEL
    verdict = "separated" if held else "not separated"
    return (
        f"{name.replace(':', ' by ')} (partial η² = {row.partial_eta2:.2f}, F({row.df}, "
        f"{effects.rows[-1].df}) = {_f(row.f)}, {p_text(row.p)}, permuted {p_text(permuted.p)}; "
        f"{verdict} from noise between seeds)"
    )


def _signed(value: float, decimals: int = 3) -> str:
    return f"{value:.{decimals}f}".replace("-", "−")


def _f(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
