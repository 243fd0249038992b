"""Dose and response: how much a strategy puts back at each step, and what that does to the text."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure as Canvas
from scipy import stats

from ...scoring.scores import Score
from ...statistics import spearman
from ..data import STDERR, Arm, ReportData
from ..figures import Figure, render
from ..labels import columns_that_fit
from ..points import draw_null, null_key
from ..rounding import p_text, plain_text
from ..series import look
from ..tables import Entry, Head, Row, Table
from .gaps import LEVEL
from .tables import ARM, field_head, forwards, four_metrics, metric_head, shown_setting

CHURN = "replacement_rate"


class Response(NamedTuple):
    """Rank correlation of churn and a metric over the fractions of one strategy.

    Attributes:
        strategy, metric: of what.
        rho: Spearman's correlation; None where a side is constant or there are too few fractions.
        p: two-sided, exact over all orders of up to seven fractions; None with rho.
        n: fractions.
    """

    strategy: str
    metric: str
    rho: float | None
    p: float | None
    n: int


def dose_table(data: ReportData, churn: Mapping[str, Score]) -> Table:
    """One row a strategy and fraction: NFE, churn and the four metrics.

    Args:
        data: of `collect`.
        churn: {arm label: replacement rate of its recorded samples}.
    """
    shown = four_metrics(data)
    rows = []
    for arm in data.with_role("generated"):
        numbers = [forwards(arm), churn[arm.label], *(arm.score(metric) for metric in shown)]
        settings = [shown_setting(arm, field) for field in ("strategy", "remask_fraction")]
        entries = (Entry(arm.label), *map(Entry, settings), *(Entry(number=n) for n in numbers))
        rows.append(Row(entries, arm.role))
    heads = (
        ARM,
        field_head("strategy"),
        field_head("remask_fraction"),
        Head("NFE", "nfe_mean", "forwards a sample really took"),
        Head("churn", CHURN, "share of positions put back or changed a step"),
        *(metric_head(metric, data.with_role("generated")) for metric in shown),
    )
    return Table(
        "dose",
        "What is put back at each step, and what it does to the text.",
        heads,
        tuple(rows),
        (
            "Churn is measured on recorded samples of one seed. `random` has the same nominal "
            "volume as the strategy beside it; what it really puts back is its churn.",
        ),
    )


def response(data: ReportData, churn: Mapping[str, Score], metric: str = "mauve") -> list[Response]:
    """Spearman's correlation of churn and a metric, one a strategy (CaRE, Table 9)."""
    found = []
    for strategy, arms in _by_strategy(data).items():
        pairs = [(churn[arm.label].value, arm.score(metric).value) for arm in arms]
        kept = [(x, y) for x, y in pairs if x is not None and y is not None]
        x, y = [pair[0] for pair in kept], [pair[1] for pair in kept]
        rho = spearman(x, y)
        if math.isnan(rho):
            found.append(Response(strategy, metric, None, None, len(kept)))
            continue
        found.append(Response(strategy, metric, rho, _exact_p(x, y), len(kept)))
    return found


def response_finding(found: Sequence[Response], title: str = "MAUVE") -> str:
    """The correlations in a sentence, each with whether it is separated from none."""
    parts = []
    for one in found:
        if one.rho is None or one.p is None:
            parts.append(
                f"{one.strategy}: no correlation, as a side is constant or {one.n} are few"
            )
            continue
        verdict = "separated" if one.p <= LEVEL else "not separated"
        parts.append(
            f"{one.strategy}: ρ = {f'{one.rho:.2f}'.replace('-', '−')} over {one.n} fractions, "
            f"{p_text(one.p)}, {verdict} from 0"
        )
    return f"Rank correlation of churn and {title}, fractions as points: {'; '.join(parts)}."


def dose_figure(data: ReportData, churn: Mapping[str, Score], metric: str = "mauve") -> Figure:
    """A metric against measured churn, one line a strategy along its fractions."""
    title = metric_head(metric, data.with_role("generated")).title
    series = _by_strategy(data, metric)

    def draw(width: float) -> Canvas:
        canvas = Canvas(figsize=(width, 3.6), layout="constrained")
        axes = canvas.add_subplot()
        for place, (strategy, arms) in enumerate(series.items()):
            rates = [churn[arm.label] for arm in arms]
            axes.errorbar(
                [100 * (rate.value or 0.0) for rate in rates],
                [arm.score(metric).value or 0.0 for arm in arms],
                xerr=[100 * (rate.stderr or 0.0) for rate in rates],
                yerr=[arm.score(metric).stderr or 0.0 for arm in arms],
                elinewidth=1,
                label=strategy,
                **look(place),
            )
        handles, _ = axes.get_legend_handles_labels()
        if draw_null(axes, data, metric):
            handles.append(null_key())
        axes.set_xlabel("churn (% of positions put back or changed a step)")
        axes.set_ylabel(title)
        texts = [str(handle.get_label()) for handle in handles]
        columns = columns_that_fit(texts, width, 3)
        canvas.legend(handles=handles, loc="outside lower center", ncols=columns)
        return canvas

    spots = "; ".join(
        f"{arm.label}: {plain_text(arm.score(metric))} at churn {plain_text(churn[arm.label])}"
        for arms in series.values()
        for arm in arms
    )
    return render(
        f"dose_{metric}",
        f"{title} against measured churn; points of a line are remasking fractions. Bars are one "
        f"{STDERR}, and for churn over recorded samples; the grey band is what real text "
        "scores against real text.",
        f"Line plot of {title} against churn. {spots}.",
        draw,
    )


def _by_strategy(data: ReportData, metric: str | None = None) -> dict[str, list[Arm]]:
    """Arms in the order of their fractions; only measured ones where a metric is named."""
    found: dict[str, list[Arm]] = {}
    for arm in data.with_role("generated"):
        if metric is None or arm.score(metric).value is not None:
            found.setdefault(str(arm.fields["strategy"]), []).append(arm)
    for arms in found.values():
        arms.sort(key=lambda arm: float(str(arm.fields["remask_fraction"])))
    return found


def _exact_p(x: Sequence[float], y: Sequence[float]) -> float:
    """Two-sided p of Spearman's correlation under random pairings."""
    test = stats.permutation_test(
        (np.asarray(x),),
        lambda order: spearman(order, y),
        permutation_type="pairings",
        n_resamples=9_999,
        rng=0,
    )
    return float(test.pvalue)
