"""Which columns of a profile agree, over generators of one or several workdirs."""

import math
from collections.abc import Mapping, Sequence

from ...errors import InputError
from ...statistics.correlations import Correlations, correlation_matrix
from ...workdir.joined import JoinedArm
from ..data import ROLE_NAMES
from ..profile import PROFILE
from ..rounding import plain_text
from ..tables import Entry, Head, Row, Table
from .encoder_tables import rho_score

TITLES = {column.metric: column.title for column in PROFILE}
# Entropies are guardrails without a direction; for correlations more is taken as better.
_ASSUMED = {"h_uni": "up", "h_pos": "up"}


def column_directions(arms: Sequence[JoinedArm], columns: Sequence[str]) -> dict[str, str]:
    """{column: "up" | "down"} of the columns that some generator has, in the order given.

    Raises:
        InputError: a column that no generator has, or one without a better direction.
    """
    found = {}
    for column in columns:
        scores = [arm.metrics[column] for arm in arms if column in arm.metrics]
        ways = [s.direction or _ASSUMED.get(column) for s in scores if s.value is not None]
        if not ways:
            continue
        if ways[0] is None:
            raise InputError(
                f"--columns: {column} has no better direction, so that it cannot be correlated"
                " by preference; leave it out"
            )
        found[column] = ways[0]
    if len(found) < 2:
        raise InputError(
            f"--columns={','.join(columns)}: the workdirs hold {', '.join(found) or 'none'} of"
            " them; correlations need two"
        )
    return found


def agreement(
    arms: Sequence[JoinedArm], directions: Mapping[str, str], *, naive: bool
) -> Correlations | None:
    """Correlations over generators, with or without naive samplers; None where there are none."""
    table = {
        arm.label: {
            name: math.nan
            if (score := arm.metrics.get(name)) is None or score.value is None
            else score.value
            for name in directions
        }
        for arm in arms
        if naive or arm.role != "heuristic"
    }
    return correlation_matrix(table, directions) if table else None


def titled(matrix: Correlations) -> Correlations:
    """The same matrix with columns named as in tables."""
    return matrix._replace(columns=tuple(TITLES.get(name, name) for name in matrix.columns))


def agreement_table(
    every: Correlations, trained: Correlations | None, *, name: str = "agreement"
) -> Table:
    """One row a pair of columns: its correlation with and without naive samplers."""
    without = {} if trained is None else {pair[:2]: pair[2:] for pair in trained.pairs()}
    rows = []
    for one, other, rho, count in every.pairs():
        entries = [Entry(TITLES.get(one, one)), Entry(TITLES.get(other, other))]
        entries.append(Entry(number=rho_score(rho, one, other, count)))
        second = without.get((one, other), (math.nan, 0))
        entries.append(Entry(number=rho_score(*(second[0], one, other, second[1]))))
        rows.append(Row(tuple(entries)))
    return Table(
        name,
        "Spearman correlations of columns over generators, turned so that higher is better.",
        (
            Head("column", "column", numeric=False),
            Head("and column", "other", numeric=False),
            Head("with naive samplers", "with_naive", "all generators"),
            Head("without", "without_naive", "trained models and imports only"),
        ),
        tuple(rows),
        (
            "Each pair takes the generators that have both numbers. More entropy is taken as"
            " better. Naive samplers come last in every sound column, so that they alone can make"
            " columns agree: read both matrices.",
        ),
    )


def generators_table(arms: Sequence[JoinedArm], *, name: str = "generators") -> Table:
    """Which generators were joined, from where, and which banks."""
    return Table(
        name,
        "Generators, joined exactly by corpus, name and bank digest.",
        (
            Head("arm", "arm", numeric=False),
            Head("kind", "kind", numeric=False),
            Head("corpus", "corpus", numeric=False),
            Head("banks", "banks", "first digits of the digest of each seed's bank", numeric=False),
            Head("from", "workdirs", numeric=False),
        ),
        tuple(
            Row(
                (
                    Entry(arm.label),
                    Entry(ROLE_NAMES[arm.role]),
                    Entry(arm.corpus),
                    Entry(", ".join(f"seed {s}: {d[:8]}" for s, d in arm.digests.items())),
                    Entry(", ".join(arm.workdirs)),
                ),
                arm.role,
            )
            for arm in arms
        ),
    )


def agreement_finding(
    every: Correlations, trained: Correlations | None, column: str = "gen_ppl"
) -> str:
    """What happens to the agreement with gen-PPL once naive samplers are left out."""
    if trained is None or column not in every.columns:
        return ""
    parts = []
    for one, other, rho, count in every.pairs():
        if column not in (one, other):
            continue
        partner = other if one == column else one
        second = dict((pair[:2], pair[2]) for pair in trained.pairs())[one, other]
        if math.isnan(rho) or math.isnan(second):
            continue
        shown = [plain_text(rho_score(round(r, 2), one, other, count)) for r in (rho, second)]
        parts.append(f"{TITLES.get(partner, partner)} {shown[0]} → {shown[1]}")
    if not parts:
        return ""
    return (
        f"Agreement of {TITLES[column]} with other columns, with naive samplers → without:"
        f" {'; '.join(parts)} (Spearman, higher is better in each)."
    )
