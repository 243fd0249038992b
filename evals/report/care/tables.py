"""Tables of a grid of strategy, temperature and budget; they read scores, they compute no text."""

import math
from collections.abc import Mapping, Sequence

from ...scoring.scores import Band, Score, mean_score
from ...workdir.seed_scores import SeededArm
from ..data import STDERR, Arm, ReportData, missing
from ..tables import Entry, Head, Row, Table

# The metrics that are reported together or not at all; PPL is given the prefix where there is one.
GIVEN_PREFIX = "gen_ppl_given_prefix"
TITLES = {
    "gen_ppl": ("PPL", "perplexity under the scorer; easily gamed"),
    GIVEN_PREFIX: ("PPL | prefix", "perplexity under the scorer, given the prefix; easily gamed"),
    "mauve": ("MAUVE", "overlap of feature distributions with real text"),
    "self_bleu": ("Self-BLEU", "n-gram overlap between samples; low is diverse"),
    "distinct_3": ("Distinct-3", "share of distinct trigrams"),
    "acceptance": ("accepted", "share of samples that pass the language filter"),
}
FIELDS = {
    "strategy": ("strategy", "strategy", "remasking strategy"),
    "unmask_temp": ("t", "unmask_temp", "temperature of the token draws"),
    "num_steps": ("N", "num_steps", "nominal steps"),
    "target_nfe": ("target", "target_nfe", "forwards a sample that N is searched for"),
    "match_mode": ("mode", "match_mode", "what an arm does that saturates below the target"),
    "remask_fraction": ("f", "remask_fraction", "share of the canvas remasked a step"),
}

ARM = Head("arm", "arm", numeric=False)


def perplexity_metric(data: ReportData) -> str:
    """The perplexity of the four metrics: given the prefix where every generated arm has that."""
    arms = data.with_role("generated")
    given = bool(arms) and all(GIVEN_PREFIX in arm.scores for arm in arms)
    return GIVEN_PREFIX if given else "gen_ppl"


def four_metrics(data: ReportData) -> tuple[str, ...]:
    """Names of the four metrics as this run has them."""
    return (perplexity_metric(data), "mauve", "self_bleu", "distinct_3")


def metrics_table(
    data: ReportData,
    fields: Sequence[str] = ("strategy", "unmask_temp", "num_steps"),
    *,
    arms: Sequence[Arm] | None = None,
    name: str = "metrics",
    caption: str = "The four metrics by strategy, temperature and budget, beside counted forwards.",
) -> Table:
    """One row an arm: its setting, NFE, the four metrics, acceptance; real text and AR above.

    Args:
        fields: settings that get a column, names of `FIELDS`.
        arms: generated arms; all of them by default.
        name: of the file.
        caption: of the table.
    """
    shown = four_metrics(data)
    columns = ("nfe_mean", *shown, "acceptance")
    chosen = data.with_role("generated") if arms is None else tuple(arms)
    rows = [
        _real_row(data.null_band, fields, columns, edge)
        for edge in ("low", "high")
        if data.null_band
    ]
    for arm in (*data.with_role("reference", "autoregressive"), *chosen):
        settings = [Entry(arm.label), *(Entry(shown_setting(arm, field)) for field in fields)]
        numbers = [Entry(number=forwards(arm)), *(Entry(number=arm.score(m)) for m in columns[1:])]
        rows.append(Row((*settings, *numbers), arm.role, fixed=arm.role != "generated"))
    heads = [ARM, *map(field_head, fields)]
    heads.append(Head("NFE", "nfe_mean", "forwards a sample really took"))
    heads += [metric_head(metric, chosen) for metric in columns[1:]]
    notes = (
        "Read the four metrics together: a strategy that wins one of them and loses another has "
        "traded, not improved.",
        "Null band: other real text against the reference; a MAUVE inside it cannot be told from "
        "real text at this sample size.",
    )
    return Table(name, caption, tuple(heads), tuple(rows), notes)


def pivot_table(
    data: ReportData,
    metric: str,
    *,
    rows: Sequence[str],
    along: str,
    name: str,
    caption: str,
    notes: Sequence[str] = (),
) -> Table:
    """A metric of the generated arms: one row for each value of `rows`, one column for `along`.

    Raises:
        ValueError: two arms in one place, which only further settings tell apart.
    """
    arms = data.with_role("generated")
    values = sorted({arm.fields[along] for arm in arms}, key=_number_first)
    places: dict[str, dict[object, Arm]] = {}
    for arm in arms:
        line = places.setdefault(row_name(arm, rows), {})
        if arm.fields[along] in line:
            raise ValueError(
                f"{arm.label} and {line[arm.fields[along]].label} share a place of table {name!r}"
            )
        line[arm.fields[along]] = arm
    title, direction = FIELDS[along][0], metric_head(metric, arms)
    heads = [ARM]
    for value in values:
        text = shown_value(value)
        heads.append(
            Head(
                f"{title}={text}",
                f"{along}_{text}",
                direction.about,
                direction.unit,
                direction.direction,
            )
        )
    lines = []
    for key, line in places.items():
        numbers = [
            line[value].score(metric) if value in line else missing("the grid has no such arm")
            for value in values
        ]
        entries = (Entry(key), *(Entry(number=number) for number in numbers))
        lines.append(Row(entries, "generated"))
    return Table(name, caption, tuple(heads), tuple(lines), tuple(notes))


def nfe_table(data: ReportData) -> Table:
    """Counted forwards by strategy and budget, over all temperatures and seeds."""
    groups: dict[str, list[Arm]] = {}
    for arm in data.with_role("generated"):
        groups.setdefault(row_name(arm, ("strategy", "num_steps")), []).append(arm)
    rows = []
    for key, arms in groups.items():
        counted = [arm.compute for arm in arms if arm.compute is not None]
        mean = mean_score([arm.score("nfe_mean") for arm in arms])
        n = mean.n
        numbers = [
            mean,
            _count(min(c.nfe_min for c in counted), n, "nfe|counted:forward|min"),
            _count(max(c.nfe_max for c in counted), n, "nfe|counted:forward|max"),
            _count(
                sum(c.launches or 0 for c in counted),
                n,
                "launches|counted:forward|total",
                "batched forwards",
            ),
        ]
        entries = (Entry(key), *(Entry(number=number) for number in numbers))
        rows.append(Row(entries, "generated"))
    heads = (
        ARM,
        Head("NFE mean", "nfe_mean", "forwards a sample really took"),
        Head("NFE min", "nfe_min", "fewest forwards of a sample"),
        Head("NFE max", "nfe_max", "most forwards of a sample"),
        Head("launches", "launches", "batched forwards that the device ran"),
    )
    return Table(
        "nfe",
        "Counted forwards by strategy and nominal budget, over all temperatures and seeds.",
        heads,
        tuple(rows),
        (
            "Equal N is not equal compute: what differs here is what strategies of one budget "
            "really cost. Experiment `matched` compares them at equal counts.",
        ),
    )


def seeds_table(arms: Sequence[SeededArm], metric: str, data: ReportData) -> Table:
    """Every seed's value of a metric, and the mean over seeds with its error (`mean_score`)."""
    drawn = [arm for arm in arms if arm.cell.role in ("generated", "autoregressive")]
    seeds = list(dict.fromkeys(seed for arm in drawn for seed in arm.seeds))
    averages = {arm.label: arm for arm in data.arms}
    rows = []
    for arm in drawn:
        numbers = [
            arm.seeds[seed].metrics.get(metric, missing("not scored"))
            if seed in arm.seeds
            else missing("the arm has no such seed")
            for seed in seeds
        ]
        numbers.append(averages[arm.label].score(metric))
        rows.append(
            Row((Entry(arm.label), *(Entry(number=n) for n in numbers)), str(arm.cell.role))
        )
    about = metric_head(metric, data.with_role("generated"))
    heads = [Head("arm", "arm", numeric=False)]
    heads += [
        Head(f"seed {seed}", f"seed_{seed}", about.about, about.unit, about.direction)
        for seed in seeds
    ]
    heads.append(Head("mean", "mean", about.about, about.unit, about.direction))
    return Table(
        f"seeds_{metric}",
        f"{about.title} seed by seed: value ± the bank's own standard error, then the mean "
        f"± {STDERR}.",
        tuple(heads),
        tuple(rows),
    )


def metric_head(metric: str, arms: Sequence[Arm]) -> Head:
    """Heading of a metric, with the unit and direction that the arms' scores have."""
    title, about = TITLES[metric]
    for arm in arms:
        number = arm.score(metric)
        if number.value is not None:
            return Head(title, metric, about, number.unit, number.direction or "")
    return Head(title, metric, about)


def field_head(field: str) -> Head:
    """Heading of a setting's column."""
    title, key, about = FIELDS[field]
    return Head(title, key, about, numeric=False)


def shown_setting(arm: Arm, field: str) -> str:
    """A setting of an arm as text."""
    return shown_value(arm.fields.get(field))


def row_name(arm: Arm, fields: Sequence[str]) -> str:
    """Settings of an arm as a name: the strategy, then "t=0.25", "N=40" and so on."""
    return " ".join(
        shown_setting(arm, field)
        if field == "strategy"
        else f"{FIELDS[field][0]}={shown_setting(arm, field)}"
        for field in fields
    )


def shown_value(value: object) -> str:
    """A setting's value as text; a dash where the arm has no such setting."""
    if value is None:
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


def forwards(arm: Arm) -> Score:
    """Mean forwards a sample of an arm."""
    if arm.compute is None:
        return missing("this arm runs no network")
    return arm.score("nfe_mean")


def _real_row(
    band: Mapping[str, Band], fields: Sequence[str], columns: Sequence[str], edge: str
) -> Row:
    entries = [Entry(f"null band, {edge}"), *(Entry("–") for _ in fields)]
    for metric in columns:
        found = band.get(metric)
        if found is None or metric == "nfe_mean":
            entries.append(Entry(number=missing("not measured on the null draws")))
            continue
        text = f"{found.signature}|null_band:{edge}|draws:{found.num_banks}"
        value = found.low if edge == "low" else found.high
        entries.append(Entry(number=Score(value, None, found.num_banks, found.unit, None, text)))
    return Row(tuple(entries), "null", fixed=True)


def _count(value: int, n: int, signature: str, unit: str = "forwards/sample") -> Score:
    return Score(value, None, n, unit, None, signature)


def _number_first(value: object) -> tuple[float, str]:
    return (value, "") if isinstance(value, (int, float)) else (math.inf, str(value))
