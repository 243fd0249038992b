"""The table of gaps between arms that are paired over seeds."""

from collections.abc import Sequence

from ...scoring.scores import Score
from ...signature import merged
from ..data import missing
from ..tables import Entry, Head, Row, Table
from .gaps import Gap
from .tables import ARM, TITLES


def gaps_table(gaps: Sequence[Gap], name: str = "gaps") -> Table:
    """One row a gap: baseline minus strategy, paired over seeds."""
    rows = []
    for one in gaps:
        texts = [one.second, one.first or "–"]
        numbers = _gap_numbers(one)
        notes = one.reason or ("separated" if one.separated else "not separated")
        if one.warning and one.reason is None:
            notes += "; interval is the range of the seeds"
        entries = (*map(Entry, texts), *(Entry(number=n) for n in numbers), Entry(notes))
        rows.append(Row(entries, "generated"))
    metric = TITLES[gaps[0].metric][0] if gaps else "the metric"
    heads = (
        ARM,
        Head("baseline", "baseline", "arm that it is subtracted from", numeric=False),
        Head("of baseline", "first", "mean over the seeds"),
        Head("of arm", "second", "mean over the seeds"),
        Head("gap", "gap", "baseline minus strategy ± standard error of the paired differences"),
        Head("t test", "t", "gap over its standard error"),
        Head("p", "p", "two-sided, of the paired t-test"),
        Head("p Holm", "p_holm", "corrected for all rows of this table"),
        Head("low", "low", "lower bound of the 95 % bootstrap interval"),
        Head("high", "high", "upper bound of the 95 % bootstrap interval"),
        Head("verdict", "verdict", "separated: p Holm is at most 5 %", numeric=False),
    )
    notes = [
        f"{metric}; a gap above 0 means that remasking does worse than no remasking at the same "
        "temperature, budget and seeds. The rows are one family of tests.",
    ]
    warnings = list(dict.fromkeys(one.warning for one in gaps if one.warning))
    notes += [text[0].upper() + text[1:] + "." for text in warnings]
    return Table(
        name,
        f"Interaction gaps in {metric}: no remasking minus each strategy, at t > 0.",
        heads,
        tuple(rows),
        tuple(notes),
    )


def _gap_numbers(one: Gap) -> list[Score]:
    n = len(one.cell_of.seeds)
    texts = [s.metrics[one.metric].signature for s in one.cell_of.seeds.values() if one.means]
    of = f"|of:{merged(texts)}" if texts else ""

    def number(name: str, value: float | None, stderr: float | None = None) -> Score:
        if value is None:
            return missing(one.reason or "there is no such number")
        return Score(value, stderr, n, "", None, f"{name}|paired:seeds{of}")

    first, second = one.means or (None, None)
    test, interval = one.test, one.interval
    return [
        number("mean", first),
        number("mean", second),
        number("gap", test and test.mean, test and test.stderr),
        number("t", test and test.t),
        number("p|test:paired_t", test and test.p),
        number("p|test:paired_t|correction:holm", one.adjusted),
        number("low|bootstrap:percentile|level:0.95", interval and interval.low),
        number("high|bootstrap:percentile|level:0.95", interval and interval.high),
    ]
