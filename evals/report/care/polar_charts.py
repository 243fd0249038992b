"""Polar charts of strategies, cold and warm side by side, at one budget (CaRE, Fig. 9)."""

from collections.abc import Sequence

from ..data import Arm, ReportData
from ..figures import Figure
from ..polar import complete_arms, four_sectors, polar
from .frontier_figures import temp_of


def temperature_charts(
    data: ReportData, temp: float, *, num_steps: int | None = None
) -> tuple[Figure, ...]:
    """Charts of the coldest arms, then of those at a temperature; none of fewer than two arms.

    Args:
        data: its generated arms are drawn, where they have all four metrics.
        temp: the temperature to set beside the coldest.
        num_steps: nominal budget of the arms, or None where all have one.
    """
    drawn = [
        arm
        for arm in data.with_role("generated")
        if num_steps is None or arm.fields["num_steps"] == num_steps
    ]
    sectors = four_sectors(data)
    arms = complete_arms(_at(drawn, (min(map(temp_of, drawn), default=temp), temp)), sectors)
    if len(arms) < 2:
        return ()
    titles = {arm.label: f"{arm.fields['strategy']}\nt = {temp_of(arm):g}" for arm in arms}
    note = "" if num_steps is None else f"All arms have {num_steps} nominal steps."
    return (polar(arms, titles=titles, sectors=sectors, note=note),)


def _at(arms: Sequence[Arm], temps: Sequence[float]) -> list[Arm]:
    """The arms at some temperatures, in ascending order of those."""
    return [arm for t in sorted(set(temps)) for arm in arms if temp_of(arm) == t]
