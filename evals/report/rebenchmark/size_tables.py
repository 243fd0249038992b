"""How a score moves with the number of samples: values, spreads and orders at nested sizes."""

import math
from collections.abc import Sequence

from ...scoring.scores import Score
from ...statistics import spearman
from ..data import ROLE_NAMES, Arm, ReportData, missing
from ..rounding import plain_text
from ..tables import Entry, Head, Row, Table
from .tables import GENERATED, TRAINED

# The distances that are taken at nested sizes.
SIZED = (
    ("mauve", "MAUVE"),
    ("energy_distance", "energy"),
    ("mmd", "MMD"),
    ("frechet_distance", "Fréchet"),
)


def sized(metric: str, size: int) -> str:
    """Name of a metric at a nested size."""
    return f"{metric}#{size}"


def size_table(
    data: ReportData, sizes: Sequence[int], metric: str = "mauve", *, name: str = "sample_size"
) -> Table:
    """A metric of every arm at every size, real text against real text on top."""
    title = dict(SIZED)[metric]
    columns = [sized(metric, size) for size in sizes]
    rows = []
    if any(column in data.null_band for column in columns):
        numbers = [Entry(number=_null(data, column)) for column in columns]
        rows.append(Row((Entry("null band, mean"), Entry("real vs real"), *numbers), "null", True))
    for arm in data.with_role(*GENERATED):
        numbers = [Entry(number=arm.score(column)) for column in columns]
        rows.append(Row((Entry(arm.label), Entry(ROLE_NAMES[arm.role]), *numbers), arm.role))
    way = {"mauve": "up"}.get(metric, "down")
    return Table(
        name,
        f"{title} between the first n accepted samples of an arm and the first n of real text.",
        (
            Head("arm", "arm", numeric=False),
            Head("kind", "kind", numeric=False),
            *(Head(f"n = {size}", sized(metric, size), "", "", way) for size in sizes),
        ),
        tuple(rows),
        (
            "Smaller sizes are parts of larger ones, so that columns differ by n alone. MAUVE has"
            " a tenth as many clusters as samples at each size.",
        ),
    )


def order_table(data: ReportData, sizes: Sequence[int], *, name: str = "size_orders") -> Table:
    """Spread and order of the arms at each size, for all arms and for trained ones."""
    rows = []
    for metric, title in SIZED:
        for roles, kind in ((GENERATED, "all arms"), (TRAINED, "trained arms")):
            arms = data.with_role(*roles)
            for size in sizes:
                numbers = (_spread(arms, metric, size), _agreement(arms, metric, size, sizes[-1]))
                entries = (Entry(title), Entry(kind), Entry(str(size)))
                rows.append(Row((*entries, *(Entry(number=number) for number in numbers))))
    return Table(
        name,
        "How far apart the arms are at each size, and whether they stand in the same order.",
        (
            Head("column", "column", numeric=False),
            Head("arms", "arms", numeric=False),
            Head("n", "size", numeric=False),
            Head("spread", "spread", "largest less smallest value"),
            Head("Spearman with the largest n", "spearman", "correlation of the arms' order"),
        ),
        tuple(rows),
    )


def size_finding(data: ReportData, sizes: Sequence[int], metric: str = "mauve") -> str:
    """Whether small samples flatter, and whether they keep the order of the arms."""
    title = dict(SIZED)[metric]
    small, large = (sized(metric, size) for size in (sizes[0], sizes[-1]))
    pairs = [
        (a, b)
        for arm in data.with_role(*GENERATED)
        if (a := arm.score(small).value) is not None and (b := arm.score(large).value) is not None
    ]
    if not pairs:
        return ""
    higher = sum(a > b for a, b in pairs)
    arms = data.with_role(*GENERATED)
    first, last = (_spread(arms, metric, size) for size in (sizes[0], sizes[-1]))
    order = _agreement(arms, metric, sizes[0], sizes[-1])
    text = (
        f"{title} is higher at n = {sizes[0]} than at n = {sizes[-1]} for {higher} of"
        f" {len(pairs)} arms; the spread between arms goes from {plain_text(first)} to"
        f" {plain_text(last)}"
    )
    if order.value is not None:
        text += f", and the two orders correlate at {plain_text(order)} (Spearman)"
    return text + "."


def _values(arms: Sequence[Arm], column: str) -> list[float] | None:
    values = [arm.score(column).value for arm in arms]
    found = [value for value in values if value is not None]
    return found if len(found) == len(values) and found else None


def _spread(arms: Sequence[Arm], metric: str, size: int) -> Score:
    column = sized(metric, size)
    values = _values(arms, column)
    if values is None:
        return missing(f"an arm has no {column}")
    signature = f"spread|of:{column}|arms:{len(arms)}"
    return Score(max(values) - min(values), None, size, "", None, signature)


def _agreement(arms: Sequence[Arm], metric: str, size: int, largest: int) -> Score:
    column, other = sized(metric, size), sized(metric, largest)
    values, others = _values(arms, column), _values(arms, other)
    if values is None or others is None:
        return missing(f"an arm has no {column} or {other}")
    rho = spearman(values, others)
    if math.isnan(rho):
        return missing("fewer than three arms, or all of one value")
    signature = f"spearman|of:{column},{other}|arms:{len(arms)}"
    return Score(rho, None, len(arms), "correlation", None, signature)


def _null(data: ReportData, column: str) -> Score:
    band = data.null_band.get(column)
    if band is None:
        return missing("not measured on the null draws")
    stderr = band.deviation / band.num_banks**0.5 if band.num_banks > 1 else None
    signature = f"{band.signature}|null_band:mean|draws:{band.num_banks}"
    return Score(band.mean, stderr, band.num_banks, band.unit, None, signature)
