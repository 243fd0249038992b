"""Tables of unmasking: churn of every strategy, the profile along NFE, the collapse flags."""

import dataclasses
from collections.abc import Mapping

from ...scoring.scores import Score
from ..data import ReportData, missing
from ..profile import PROFILE, Column, profile_table
from ..rounding import plain_text
from ..tables import Entry, Head, Row, Table
from .collapse import Collapse, Trend, collapse_flags
from .trajectory_figures import nfe_of, nfe_series

_CHURN = (
    Head(
        "replacement rate",
        "replacement_rate",
        "positions that a step puts back or changes, averaged over the steps",
        "of positions per step",
    ),
    Head(
        "other token",
        "recommit_change",
        "of the tokens decided again, those that became another token",
        "of re-commits",
    ),
    Head("stable cells", "stable_cells", "cells that hold the token of the step before", "cells"),
    Head(
        "never settled",
        "never_settled",
        "positions still masked or changing at the last step",
        "positions",
    ),
    Head("ties", "tie_rate", "steps whose choice the index decided, not the score", "of steps"),
)
# Fields of `Collapse`: trends with their titles, flags with title and meaning.
_TRENDS = (
    ("gen_ppl", "gen-PPL"),
    ("self_bleu", "Self-BLEU"),
    ("h_uni", "H uni"),
    ("repetition", "repetition"),
)
_FLAGS = (
    ("alike", "PPL down, Self-BLEU up", "samples grow alike"),
    ("narrows", "H uni down", "samples use fewer words"),
    ("loops", "PPL down, repetition up", "samples repeat themselves"),
)
_RAISED = {
    "alike": "Self-BLEU rises while gen-PPL falls",
    "narrows": "the entropy inside a sample falls",
    "loops": "repetition inside a sample rises while gen-PPL falls",
}
NFE = Column("nfe_mean", "NFE", "forwards a sample really took", marked=False)


def churn_table(churn: Mapping[str, Mapping[str, Score]], *, about: str = "") -> Table:
    """One row a strategy: what it takes back, what comes of it, what never settles.

    Args:
        churn: {strategy: `churn.churn_scores`}.
        about: what was recorded, for the caption.
    """
    rows = tuple(
        Row((Entry(label), *(Entry(number=scores[head.key]) for head in _CHURN)), "generated")
        for label, scores in churn.items()
    )
    return Table(
        "churn",
        f"Churn of recorded unmaskings: mean ± standard error over samples. {about}".strip(),
        (Head("strategy", "strategy", numeric=False), *_CHURN),
        rows,
        (
            "A strategy whose second thoughts rarely give another token pays for forwards that "
            "change nothing. The first canvas has no predecessor: its decided cells count as "
            "stable, and the token of the last step as unsettled.",
        ),
    )


def nfe_table(data: ReportData) -> Table:
    """The profile with its arms in order of strategy and counted forwards."""
    arms = [arm for found in nfe_series(data).values() for arm in found]
    others = data.with_role("reference", "autoregressive")
    table = profile_table(
        dataclasses.replace(data, arms=(*others, *arms)), (NFE, *PROFILE), name="nfe_profile"
    )
    return dataclasses.replace(
        table, caption=f"Profile along compute, by strategy and counted forwards. {table.caption}"
    )


def collapses(data: ReportData) -> dict[str, Collapse]:
    """{series of `nfe_series`: its flags}."""
    return {
        label: collapse_flags(
            [nfe_of(arm) for arm in arms],
            gen_ppl=[arm.score("gen_ppl") for arm in arms],
            self_bleu=[arm.score("self_bleu") for arm in arms],
            h_uni=[arm.score("h_uni") for arm in arms],
            repetition=[arm.score("repetition_4") for arm in arms],
        )
        for label, arms in nfe_series(data).items()
    }


def collapse_table(found: Mapping[str, Collapse]) -> Table:
    """One row a series: trends along NFE and the flags of collapse."""
    heads = [Head("strategy", "strategy", numeric=False)]
    heads += [Head(title, name, about, numeric=False) for name, title, about in _FLAGS]
    for name, title in _TRENDS:
        about = "rank correlation over budgets"
        heads.append(Head(f"ρ(NFE, {title})", f"rho_{name}", about))
        about = "at the most forwards less at the fewest"
        heads.append(Head(f"Δ {title}", f"change_{name}", about))
    rows = []
    for label, collapse in found.items():
        clear = _clear(collapse)
        entries = [Entry(label)]
        entries += [Entry(_flag(getattr(collapse, n), clear[n])) for n, *_ in _FLAGS]
        for name, _ in _TRENDS:
            trend = getattr(collapse, name)
            entries += [Entry(number=_rho(name, trend)), Entry(number=_change(name, trend))]
        rows.append(Row(tuple(entries), "generated"))
    return Table(
        "collapse",
        "Collapse along compute: does more compute buy perplexity with variety?",
        tuple(heads),
        tuple(rows),
        (
            "A flag is raised by the sign of Spearman's correlation over budgets of different "
            "NFE. “Clear” means that every change behind it, from the fewest forwards to the most, "
            "exceeds two combined standard errors; “within noise” that one does not.",
            "The flags on Self-BLEU and H uni are the paper's; repetition inside a sample, which "
            "neither of them need show, is ours. Fewer than three different NFE decide nothing.",
        ),
    )


def collapse_findings(found: Mapping[str, Collapse]) -> list[str]:
    """A sentence a series, whichever way it turned out."""
    return [_sentence(label, collapse) for label, collapse in found.items()]


def churn_finding(churn: Mapping[str, Mapping[str, Score]]) -> str:
    """Replacement rates in a sentence, highest first."""
    rates = {label: scores["replacement_rate"] for label, scores in churn.items()}
    known = sorted(rates.items(), key=lambda item: -(item[1].value or 0.0))
    listed = ", ".join(f"{label} {_percent(rate)}" for label, rate in known)
    return f"Share of positions that a step takes back or changes: {listed}."


def _sentence(label: str, collapse: Collapse) -> str:
    flags = {name: getattr(collapse, name) for name, *_ in _FLAGS}
    if None in flags.values():
        return f"{label}: fewer than three budgets of different NFE, so no trend is read off them."
    clear = _clear(collapse)
    raised = [f"{_RAISED[name]} ({_size(clear[name])})" for name, flag in flags.items() if flag]
    if not raised:
        return f"{label}: none of the three flags of collapse is raised along NFE."
    return f"{label}: with more forwards {', and '.join(raised)}."


def _clear(collapse: Collapse) -> dict[str, bool]:
    """Whether all changes behind a flag exceed their noise."""
    ppl = collapse.gen_ppl.clear
    return {
        "alike": ppl and collapse.self_bleu.clear,
        "narrows": collapse.h_uni.clear,
        "loops": ppl and collapse.repetition.clear,
    }


def _size(clear: bool) -> str:
    return "clear" if clear else "within noise"


def _flag(raised: bool | None, clear: bool) -> str:
    if raised is None:
        return "not decided"
    return f"yes, {_size(clear)}" if raised else "no"


def _rho(metric: str, trend: Trend) -> Score:
    if trend.rho is None:
        return missing("needs three budgets of different NFE at which the metric differs")
    signed = f"spearman|x:nfe_mean|y:{metric}|ties:average|budgets:{trend.num_budgets}"
    return Score(trend.rho, None, trend.num_budgets, "rank correlation", None, signed)


def _change(metric: str, trend: Trend) -> Score:
    if trend.change is None:
        return missing(f"{metric} is missing at an end")
    signed = f"change|of:{metric}|from:fewest NFE|to:most NFE"
    return Score(trend.change, trend.stderr, 2, "change, n = 2 budgets", None, signed)


def _percent(rate: Score) -> str:
    if not rate.value:
        return "–" if rate.value is None else "0%"
    stderr = None if rate.stderr is None else 100 * rate.stderr
    return plain_text(dataclasses.replace(rate, value=100 * rate.value, stderr=stderr)) + "%"
