"""The protocol's verdict and a comparison of runs as tables, for reports and the terminal."""

from ..report.tables import Entry, Head, Row, Table
from ..scoring.scores import Score
from .badge import badge
from .comparison import Compared, RunComparison
from .validate import ProtocolReport


def protocol_table(report: ProtocolReport) -> Table:
    """One row a point: number, name, verdict, reason."""
    heads = (
        Head("#", "number", numeric=False),
        Head("Point", "point", "A point of the CaRE protocol.", numeric=False),
        Head("Verdict", "verdict", "Each point stands for itself.", numeric=False),
        Head("Found", "reason", "What was found, or why the point is not met.", numeric=False),
    )
    rows = tuple(
        Row(
            tuple(
                Entry(text)
                for text in (
                    str(point.number),
                    point.name,
                    "met" if point.passed else "not met",
                    point.reason,
                )
            )
        )
        for point in report.points
    )
    return Table("protocol", badge(report), heads, rows)


def comparison_table(comparison: RunComparison) -> Table:
    """One row an arm and metric: both runs, their difference and how it was taken."""
    first, second = comparison.names
    heads = (
        Head("Arm", "arm", numeric=False),
        Head("Metric", "metric", numeric=False),
        Head("A", "a", f"{first}, mean over seeds."),
        Head("B", "b", f"{second}, mean over seeds."),
        Head("A − B", "difference"),
        Head("p", "p", "Two-sided, of the paired t-test."),
        Head("How", "how", numeric=False),
    )
    rows = tuple(Row(_entries(row)) for row in comparison.rows)
    return Table("comparison", f"A is {first}, B is {second}.", heads, rows)


def _entries(row: Compared) -> tuple[Entry, ...]:
    labels = list(dict.fromkeys(label for label in row.arms if label is not None))
    p = "" if row.test is None or row.test.p is None else f"{row.test.p:.3g}"
    return (
        Entry(" against ".join(labels)),
        Entry(row.metric),
        _number(row.scores[0]),
        _number(row.scores[1]),
        _number(row.difference),
        Entry(p),
        Entry(row.note),
    )


def _number(score: Score | None) -> Entry:
    return Entry() if score is None else Entry(number=score)
