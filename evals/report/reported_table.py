"""What a paper prints, in a table of its own: never beside our numbers in one column."""

from collections.abc import Sequence

from ..reported import PAPERS, read_reported
from .tables import Entry, Head, Row, Table


def reported_table(paper: str, metrics: Sequence[str]) -> Table:
    """The paper's measurements of some metrics, as printed, with where they stand.

    Args:
        paper: a key of `reported.PAPERS`.
        metrics: our names of the metrics.
    """
    rows = []
    for claim in read_reported():
        measured = claim.measured
        if claim.paper != paper or measured is None or measured.metric not in metrics:
            continue
        spread = claim.values.get("stderr")
        printed = claim.number("value").text + (f" ± {spread[0].text}" if spread else "")
        texts = (measured.subject, measured.metric, printed, measured.corpus or "–", claim.where)
        rows.append(Row((*map(Entry, texts), Entry(claim.comment or "–"))))
    heads = (
        Head("subject", "subject", numeric=False),
        Head("metric", "metric", numeric=False),
        Head("reported", "reported", "as printed in the paper", numeric=False),
        Head("text", "corpus", "corpus of the reference", numeric=False),
        Head("where", "where", "section, table or figure", numeric=False),
        Head("before comparing", "comment", "what a reader must know", numeric=False),
    )
    return Table(
        "reported",
        f"Reported in {PAPERS[paper]}; none of these numbers is ours.",
        heads,
        tuple(rows),
        (
            "Other models, text, lengths, scorer and sample sizes: compare directions of effects, "
            "not values.",
        ),
    )
