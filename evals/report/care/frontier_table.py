"""The points of a frontier: every arm's metrics, and who dominates it."""

from collections.abc import Sequence

import numpy as np

from ...statistics.pareto import clear_dominators, dominators, non_dominated
from ..data import STDERR, Arm, ReportData
from ..points import having, spot_of
from ..tables import Entry, Head, Row, Table
from .tables import four_metrics, metric_head, perplexity_metric

DIRECTIONS = ("down", "up")  # of perplexity, and of what it is set against


def dominance(arms: Sequence[Arm], x: str, y: str) -> dict[str, str]:
    """Which arm dominates each in two metrics, of which less `x` and more `y` is better.

    Of several the one with most `y` is named, with "clearly" where it is ahead in both metrics by
    two combined standard errors.

    Returns:
        {arm label: label, "label, clearly" or "none"}; arms that lack a metric are left out.
    """
    kept = having(arms, x, y)
    if not kept:
        return {}
    points = np.array([[a.score(m).value for m in (x, y)] for a in kept], np.float64)
    errors = np.array([[a.score(m).stderr or 0.0 for m in (x, y)] for a in kept])
    above = dominators(points, DIRECTIONS)
    clear = clear_dominators(points, errors, DIRECTIONS)
    found = {}
    for i, arm in enumerate(kept):
        apart = bool(clear[i].any())
        pool = np.flatnonzero(clear[i] if apart else above[i])
        if len(pool) == 0:
            found[arm.label] = "none"
        else:
            best = kept[int(pool[np.argmax(points[pool, 1])])]
            found[arm.label] = best.label + (", clearly" if apart else "")
    return found


def frontier_table(data: ReportData, *, about: str = "") -> Table:
    """One row an arm: the four metrics, entropy, and who dominates it in either plane.

    Args:
        data: arms of one budget.
        about: which, for the caption.
    """
    arms, ppl = data.with_role("generated"), perplexity_metric(data)
    metrics = ("nfe_mean", *four_metrics(data), "h_uni")
    heads = [
        Head("arm", "arm", numeric=False),
        Head("t", "unmask_temp", "temperature of the token draws", numeric=False),
        Head("NFE", "nfe_mean", "forwards a sample really took"),
        *(metric_head(metric, arms) for metric in four_metrics(data)),
        Head("H uni", "h_uni", "entropy inside a sample: a guardrail"),
        Head("PPL–MAUVE", "dominated_mauve", "the arm that dominates it", numeric=False),
        Head("PPL–entropy", "dominated_entropy", "the arm that dominates it", numeric=False),
    ]
    planes = [dominance(arms, ppl, y) for y in ("mauve", "h_uni")]
    rows = []
    for arm in data.with_role("reference", "autoregressive", "generated"):
        temp = arm.fields.get("unmask_temp")
        entries = [Entry(arm.label), Entry("–" if temp is None else f"{temp:g}")]
        entries += [Entry(number=arm.score(metric)) for metric in metrics]
        entries += [Entry(plane.get(arm.label, "–")) for plane in planes]
        rows.append(Row(tuple(entries), arm.role, fixed=arm.role != "generated"))
    return Table(
        "frontier",
        f"Points of the frontiers, and which arm dominates each: value ± {STDERR}. {about}".strip(),
        tuple(heads),
        tuple(rows),
        (
            "An arm is dominated when another arm of the denoiser is nowhere worse and somewhere "
            "better in the two metrics; “clearly” means by two combined standard errors in both. "
            "Real text and the AR model take no part.",
            "In the last column more entropy counts as better, which holds only up to that of "
            "real text.",
        ),
    )


def non_dominated_arms(arms: Sequence[Arm], x: str, y: str) -> list[Arm]:
    """The arms that no other dominates, of which less `x` and more `y` is better."""
    if not arms:
        return []
    kept = non_dominated(np.array([spot_of(arm, x, y) for arm in arms]), DIRECTIONS)
    return [arm for arm, on_edge in zip(arms, kept, strict=True) if on_edge]


def frontier_finding(data: ReportData) -> str:
    """Which arms no other dominates in perplexity and MAUVE, and how many are stochastic."""
    arms = {arm.label: arm for arm in data.with_role("generated")}
    verdicts = dominance(list(arms.values()), perplexity_metric(data), "mauve")
    edge = [label for label, verdict in verdicts.items() if verdict == "none"]
    if not edge:
        return ""
    warm = sum(1 for label in edge if arms[label].fields["unmask_temp"])
    clear = sum(verdict.endswith("clearly") for verdict in verdicts.values())
    return (
        f"{len(edge)} of {len(verdicts)} arms are dominated by no other in perplexity and MAUVE "
        f"({', '.join(edge)}); {warm} of them at t > 0. Dominated by more than noise: {clear}."
    )
