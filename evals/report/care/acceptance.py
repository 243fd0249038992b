"""Acceptance rates by arm and corpus (CaRE, Tables 19 and 20)."""

import dataclasses
import math
from collections.abc import Sequence

from .... import __version__
from ...scoring.scores import Score
from ...workdir.across import CorpusArms
from ...workdir.plan import StudyPlan
from ..collect import command_line
from ..data import Bank, Provenance, ReportData
from ..page import Record, Section
from ..rounding import plain_text
from ..tables import Entry, Head, Row, Table
from .tables import ARM, TITLES

_TITLE, _ABOUT = TITLES["acceptance"]


def acceptance_data(plan: StudyPlan, found: Sequence[CorpusArms]) -> ReportData:
    """Title, lead, caveats and provenance of the study; its arms are no rows of a profile."""
    return ReportData(
        title="dlmeval acceptance",
        arms=(),
        lead=(f"{len(found[0].arms)} arms on {len(found)} corpora.",),
        caveats=(
            "The language filter counts characters: it sees other alphabets, not bad English.",
        ),
        provenance=Provenance(
            command=command_line(plan),
            config=plan.config,
            banks=tuple(
                Bank(f"{label} seed {seed}, {one.corpus}", digest[:16], digest, _rate(one, label).n)
                for one in found
                for label, seeds in one.banks.items()
                for seed, digest in seeds.items()
            ),
            versions={"dlmeval": __version__},
        ),
    )


def acceptance_page(
    data: ReportData, found: Sequence[CorpusArms]
) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """Findings and sections, of two corpora or more."""
    table = acceptance_table(found)
    sections = (
        Section("Acceptance", (table,)),
        Section("How this was made", (Record(data.provenance, (f"tables/{table.name}.csv",)),)),
    )
    return tuple(acceptance_finding(one) for one in found), sections


def acceptance_table(found: Sequence[CorpusArms]) -> Table:
    """One row an arm, one column a corpus; of two corpora also the difference."""
    heads = [
        Head(one.corpus, f"acceptance_{i}", f"{_ABOUT}, on {one.corpus}", direction="up")
        for i, one in enumerate(found, start=1)
    ]
    two = len(found) == 2
    if two:
        heads.append(Head("difference", "difference", "first corpus less second"))
    rows = []
    for label in found[0].arms:
        rates = [_rate(one, label) for one in found]
        numbers = [*rates, difference(*rates)] if two else rates
        role = "reference" if label == "reference" else ""
        entries = (Entry(label), *(Entry(number=number) for number in numbers))
        rows.append(Row(entries, role, fixed=bool(role)))
    return Table(
        "acceptance",
        "Share of samples that pass the language filter, by arm and corpus.",
        (ARM, *heads),
        tuple(rows),
        (
            "Scores are of accepted samples alone: where rates differ between corpora, so does "
            "what was thrown away.",
        ),
    )


def acceptance_finding(one: CorpusArms) -> str:
    """The range of the arms' rates on a corpus."""
    rates = {label: _rate(one, label) for label in one.arms if label != "reference"}
    known = {label: rate for label, rate in rates.items() if rate.value is not None}
    if not known:
        return f"{one.corpus}: no arm has an acceptance rate."
    low = min(known, key=lambda label: known[label].value or 0)
    high = max(known, key=lambda label: known[label].value or 0)
    return (
        f"{one.corpus}: from {plain_text(known[low])} ({low}) to {plain_text(known[high])} ({high})"
        f" of the samples pass, over {len(known)} arms."
    )


def difference(a: Score, b: Score) -> Score:
    """`a` less `b`, of independent banks; missing where either is."""
    for score in (a, b):
        if score.value is None:
            return dataclasses.replace(score, direction=None)
    assert a.value is not None
    assert b.value is not None
    known = a.stderr is not None and b.stderr is not None
    stderr = math.hypot(a.stderr or 0.0, b.stderr or 0.0) if known else None
    return Score(a.value - b.value, stderr, a.n + b.n, a.unit, None, f"difference of {a.signature}")


def _rate(one: CorpusArms, label: str) -> Score:
    return one.arms[label]["acceptance"]
