"""The table of matched compute: what a target costs each strategy, and what it buys."""

from collections.abc import Mapping, Sequence

from ...errors import InputError
from ...scoring.scores import Score
from ...workdir.seed_scores import SeededArm
from ..data import ReportData, missing
from ..tables import Entry, Head, Row, Table
from .gaps import Gap
from .tables import ARM, TITLES, field_head, forwards, four_metrics, metric_head, shown_setting

_MODES = {
    "cap": "stays below the target",
    "idle": "runs forwards that reveal nothing",
    "length": "generates a longer text; the scored tokens stay as many",
    "best_of": "keeps the most likely of several samples",
}


def matched_table(data: ReportData, arms: Sequence[SeededArm]) -> Table:
    """One row an arm: target, mode, N found, measured NFE, how the target is met, four metrics.

    Args:
        data: of `collect`.
        arms: the same run seed by seed, with the records of the matches.

    Raises:
        InputError: an arm with a target whose manifest has no match.
    """
    seeded = {arm.label: arm for arm in arms}
    shown = four_metrics(data)
    rows = []
    for arm in data.with_role("reference", "autoregressive", "generated"):
        metrics = [Entry(number=arm.score(metric)) for metric in shown]
        if arm.role != "generated":
            blank = [Entry("–")] * 4 + [Entry(number=forwards(arm)), Entry("–")]
            rows.append(Row((Entry(arm.label), *blank, *metrics), arm.role, fixed=True))
            continue
        matches = _matches(seeded[arm.label])
        found = [int(match["config"]["num_steps"]) for match in matches.values()]
        measured = {
            seed: scores.metrics["nfe_mean"].value
            for seed, scores in seeded[arm.label].seeds.items()
        }
        entries = [
            Entry(arm.label),
            Entry(shown_setting(arm, "unmask_temp")),
            Entry(shown_setting(arm, "target_nfe")),
            Entry(shown_setting(arm, "match_mode")),
            Entry(number=_mean_steps(found)),
            Entry(number=forwards(arm)),
            Entry(_how(matches, measured)),
        ]
        rows.append(Row((*entries, *metrics), arm.role))
    heads = (
        ARM,
        field_head("unmask_temp"),
        field_head("target_nfe"),
        field_head("match_mode"),
        Head("N found", "num_steps", "nominal steps that the search found, mean over seeds"),
        Head("NFE", "nfe_mean", "forwards a sample really took"),
        Head("outcome", "outcome", "met: every seed within max(1, 1 %)", numeric=False),
        *(metric_head(metric, data.with_role("generated")) for metric in shown),
    )
    modes = {arm.fields["match_mode"] for arm in data.with_role("generated")}
    notes = ["N is searched on a pilot at each seed; NFE is counted again in the real run."]
    notes += [
        f"{mode}: an arm that saturates {_MODES[str(mode)]}." for mode in _MODES if mode in modes
    ]
    return Table(
        "matched",
        "Strategies at equal counted compute.",
        heads,
        tuple(rows),
        tuple(notes),
    )


def matched_finding(gaps: Sequence[Gap], arms: Sequence[SeededArm]) -> str:
    """How many gaps at equal compute favour remasking, and which are separated.

    Baselines that saturate below the target are left out: they cost less.
    """
    short = {arm.label for arm in arms if _saturates(arm)}
    tested = [one for one in gaps if one.test is not None and not {one.first, one.second} & short]
    if not tested:
        return ""
    better = [one for one in tested if one.test is not None and one.test.mean < 0]
    apart = [one for one in tested if one.separated]
    names = "; ".join(f"{one.first} against {one.second}" for one in apart[:4])
    return (
        f"At equal counted forwards remasking has the higher mean {TITLES[tested[0].metric][0]} in "
        f"{len(better)} of {len(tested)} comparisons with no remasking; {len(apart)} of them are "
        f"separated after Holm's correction{f' ({names})' if names else ''}."
    )


def saturation_finding(arms: Sequence[SeededArm]) -> str:
    """Which arms cannot spend their target, whatever the number of steps."""
    stuck = [arm.label for arm in arms if _saturates(arm)]
    if not stuck:
        return "Every arm meets its target."
    return f"These arms saturate below their target and cost less: {', '.join(stuck)}."


def _saturates(arm: SeededArm) -> bool:
    if arm.cell.target_nfe is None:
        return False
    return any(match["saturated"] for match in _matches(arm).values())


def _matches(arm: SeededArm) -> dict[int, Mapping]:
    found = {}
    for seed, scores in arm.seeds.items():
        if scores.match is None:
            raise InputError(f"{arm.label} seed {seed} has a target but no record of its match")
        found[seed] = scores.match
    return found


def _mean_steps(found: Sequence[int]) -> Score:
    if not found:
        return missing("no seed was matched")
    text = f"num_steps|searched:pilot|seeds_found:{'+'.join(map(str, found))}"
    return Score(sum(found) / len(found), None, len(found), "steps", None, text)


def _how(matches: Mapping[int, Mapping], measured: Mapping[int, float | None]) -> str:
    """ "met", "saturated", or by how much the worst seed misses."""
    if any(match["saturated"] for match in matches.values()):
        return "saturated"
    misses = [
        abs(nfe - matches[seed]["target"]) - matches[seed]["tolerance"]
        for seed, nfe in measured.items()
        if nfe is not None
    ]
    worst = max(misses, default=0.0)
    return "met" if worst <= 0 else f"missed by {worst:.2g} beyond the tolerance"
