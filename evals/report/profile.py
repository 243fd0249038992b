"""The profile table of the arms, the table of counted forwards, and the mean rank."""

import dataclasses
import math
from collections.abc import Sequence

from ..scoring.scores import Score
from ..statistics import mean_rank
from .data import ROLE_NAMES, ROLES, STDERR, Arm, ReportData, missing
from .tables import BEST, TIED, Entry, Head, Row, Table


@dataclasses.dataclass(frozen=True)
class Column:
    """A metric of the profile.

    `ranked` columns enter the mean rank. `marked` columns star their best arm; a guardrail such
    as entropy is not marked, because more of it is not always better.
    """

    metric: str
    title: str
    about: str
    ranked: bool = False
    marked: bool = True


RANK = "mean_rank"
# Perplexity never stands without the entropies: low values of all three together are repetition.
PROFILE = (
    Column("gen_ppl", "gen-PPL", "perplexity of the samples under the scorer; easily gamed"),
    Column("h_uni", "H uni", "entropy of the tokens inside a sample: a guardrail", marked=False),
    Column("h_pos", "H pos", "entropy per position across samples: a guardrail", marked=False),
    Column("mauve", "MAUVE", "overlap of feature distributions", ranked=True),
    Column("energy_distance", "energy", "energy distance of features", ranked=True),
    Column("mmd", "MMD", "squared maximum mean discrepancy of features", ranked=True),
    Column("frechet_distance", "Fréchet", "Fréchet distance of features", ranked=True),
    Column("jcd", "JCD", "Jeffreys coding divergence of the texts", ranked=True),
    Column("gradient_moment", "GM", "gradient moment under the scorer", ranked=True),
    Column(RANK, "mean rank", "mean of the ranks in the distributional columns"),
    Column("self_bleu", "Self-BLEU", "n-gram overlap between samples; low is diverse"),
    Column("distinct_3", "Distinct-3", "share of distinct trigrams"),
    Column("repetition_4", "repetition", "share of repeated 4-grams inside a sample"),
    Column("novelty_4", "novelty", "share of 4-grams new to the training text", marked=False),
    Column("copied_span", "copied span", "longest run from the training text", marked=False),
    Column("kernel_distance", "KID", "polynomial-kernel distance of features"),
    Column("sliced_wasserstein", "sliced W2", "sliced Wasserstein distance of features"),
    Column("manifold_density", "density", "samples inside the real text's neighbourhoods"),
    Column("manifold_coverage", "coverage", "real texts with a sample nearby"),
    Column("jcd_coverage", "JCD coverage", "the half of JCD that falls when real text is covered"),
    Column("jcd_fidelity", "JCD fidelity", "the half of JCD that falls when samples look real"),
    Column("gen_ppl_adjusted", "adjusted PPL", "gen-PPL over exp(H pos)", marked=False),
    Column("acceptance", "accepted", "share of samples that pass the text filter", marked=False),
)


def profile_table(
    data: ReportData, columns: Sequence[Column] = PROFILE, *, name: str = "profile"
) -> Table:
    """One row an arm, the null band above them, the mean rank over the `ranked` columns.

    Columns that no arm has are left out. Stars mark the best generated arm of a column, ≈ those
    within two combined standard errors of it; real text takes no part.
    """
    data = with_mean_ranks(data, columns)
    columns = [c for c in columns if any(c.metric in arm.scores for arm in data.arms)]
    marks = {c.metric: _marks(data, c.metric) if c.marked else {} for c in columns}
    heads = [
        Head("arm", "arm", numeric=False),
        Head("kind", "kind", numeric=False),
        *(_head(data, column) for column in columns),
    ]
    rows = []
    for edge in ("low", "high") if data.null_band else ():
        entries = [Entry(f"null band, {edge}"), Entry("real vs real")]
        entries += [Entry(number=_band_edge(data, c.metric, edge)) for c in columns]
        rows.append(Row(tuple(entries), "null", fixed=True))
    for arm in sorted(data.arms, key=lambda arm: ROLES.index(arm.role)):
        entries = [Entry(arm.label), Entry(ROLE_NAMES[arm.role])]
        for column in columns:
            mark = marks[column.metric].get(arm.label, "")
            entries.append(Entry(number=arm.score(column.metric), mark=mark))
        rows.append(Row(tuple(entries), arm.role))
    ranked = ", ".join(c.title for c in columns if c.ranked)
    return Table(
        name,
        f"Profile of every arm: value ± {STDERR}.",
        tuple(heads),
        tuple(rows),
        (
            "★ best generated arm of the column, ≈ within two combined standard errors of it. "
            "The entropies carry no star: they are guardrails, to be read against real text.",
            "Null band: lowest and highest score of other real text against the reference. "
            "A distance inside it cannot be told from sampling noise.",
            f"Mean rank: over {ranked}, among all generated arms; 1 is best.",
        ),
    )


def with_mean_ranks(data: ReportData, columns: Sequence[Column] = PROFILE) -> ReportData:
    """The data with `mean_rank` among the scores of each generated arm.

    An arm that lacks a ranked column has no mean rank; real text takes no part.
    """
    arms = [arm for arm in data.arms if arm.role != "reference"]
    directions = {}
    for column in columns:
        found = [arm.score(column.metric).direction for arm in arms]
        directed = [direction for direction in found if direction is not None]
        if column.ranked and directed:
            directions[column.metric] = directed[0]
    if not directions:
        return data
    table = {
        arm.label: {
            metric: math.nan if (value := arm.score(metric).value) is None else value
            for metric in directions
        }
        for arm in arms
    }
    signature = f"{RANK}|columns:{','.join(directions)}|ties:average|arms:{len(arms)}"
    ranks = mean_rank(table, directions)

    def score(arm: Arm) -> Score:
        if arm.label not in ranks:
            return missing("only generated arms are ranked")
        rank, n = ranks[arm.label], len(directions)
        if math.isnan(rank):
            return missing("a ranked column is missing for this arm")
        return Score(rank, None, n, "mean of n ranks", "down", signature)

    ranked = (dataclasses.replace(a, scores={**a.scores, RANK: score(a)}) for a in data.arms)
    return dataclasses.replace(data, arms=tuple(ranked))


def compute_table(data: ReportData, *, name: str = "compute") -> Table:
    """Counted network forwards per sample beside the nominal number of steps."""
    heads = (
        Head("arm", "arm", numeric=False),
        Head("kind", "kind", numeric=False),
        Head("nominal steps", "nominal_steps", "steps asked for", "steps"),
        Head("NFE mean", "nfe_mean", "forwards a sample really took", "forwards"),
        Head("NFE min", "nfe_min", "fewest forwards of a sample", "forwards"),
        Head("NFE max", "nfe_max", "most forwards of a sample", "forwards"),
        Head("launches", "launches", "batched forwards that the device ran", "launches"),
    )
    rows = []
    for arm in sorted(data.arms, key=lambda arm: ROLES.index(arm.role)):
        if arm.role == "reference":
            continue
        numbers = _compute_numbers(arm)
        entries = [Entry(arm.label), Entry(ROLE_NAMES[arm.role])]
        rows.append(Row((*entries, *(Entry(number=n) for n in numbers)), arm.role))
    return Table(
        name,
        "Network forwards, counted where they happen, beside the nominal steps.",
        heads,
        tuple(rows),
        ("NFE counts the forwards of one sample; a launch is one batched forward of the device.",),
    )


def _compute_numbers(arm: Arm) -> list[Score]:
    compute = arm.compute
    if compute is None:
        return [missing("this arm runs no network")] * 5
    n = compute.n

    def count(value: float | None, unit: str, signature: str) -> Score:
        if value is None:
            return missing("not recorded for this arm")
        return Score(value, None, n, unit, None, signature)

    return [
        count(compute.nominal_steps, "steps", "nominal_steps|from:cell"),
        count(compute.nfe_mean, "forwards per sample", "nfe|counted:forward|mean"),
        count(compute.nfe_min, "forwards per sample", "nfe|counted:forward|min"),
        count(compute.nfe_max, "forwards per sample", "nfe|counted:forward|max"),
        count(compute.launches, "batched forwards", "launches|counted:forward|total"),
    ]


def _band_edge(data: ReportData, metric: str, edge: str) -> Score:
    band = data.null_band.get(metric)
    if band is None:
        return missing("not measured on the null draws")
    signature = f"{band.signature}|null_band:{edge}|draws:{band.num_banks}"
    value = band.low if edge == "low" else band.high
    return Score(value, None, band.num_banks, band.unit, None, signature)


def _head(data: ReportData, column: Column) -> Head:
    for arm in data.arms:
        number = arm.score(column.metric)
        if number.value is not None:
            direction = (number.direction or "") if column.marked else ""
            return Head(column.title, column.metric, column.about, number.unit, direction)
    return Head(column.title, column.metric, column.about)


def _marks(data: ReportData, metric: str) -> dict[str, str]:
    """{label: BEST or TIED} among generated arms; none where no direction is better."""
    # Gains are values turned so that higher is better.
    gains = {}
    for arm in data.arms:
        number = arm.score(metric)
        if arm.role != "reference" and number.value is not None and number.direction is not None:
            sign = 1.0 if number.direction == "up" else -1.0
            gains[arm.label] = (sign * number.value, number.stderr or 0.0)
    if len(gains) < 2:
        return {}
    best = max(gain for gain, _ in gains.values())
    spread = max(stderr for gain, stderr in gains.values() if gain == best)
    marks = {}
    for label, (gain, stderr) in gains.items():
        if gain == best:
            marks[label] = BEST
        elif best - gain <= 2 * math.hypot(spread, stderr):
            marks[label] = TIED
    return marks
