"""The points of the protocol that are judged bank by bank: forwards, metrics, language filter."""

import math
from collections.abc import Iterator, Sequence

from ..errors import InputError
from .findings import Finding, counted, listed
from .records import ASCII_MIN, CJK_MAX, BankRecord, RunRecord, problems_of

# The four metrics that are reported together or not at all.
FOUR_METRICS = ("gen_ppl", "mauve", "self_bleu", "distinct_3")
# Of the text by itself, and given the prefix that it continues; a run has one of them or both.
PERPLEXITIES = ("gen_ppl", "gen_ppl_given_prefix")
# Parts of a signature that say how many rows and which bank, not how a number is measured.
_DATA_PARTS = ("K", "n", "ref")
# Where the numbers of any text lie, and what rounding may add.
_RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(PERPLEXITIES, (1.0, math.inf)),
    **dict.fromkeys(FOUR_METRICS[1:], (0.0, 1.0)),
}
_SLACK = 1e-6
# Acceptance rates of arms that differ by more than this make their metrics hard to compare.
_ACCEPTANCE_GAP = 0.05


def judge_compute(run: RunRecord) -> Finding:
    """Point 1: forwards are counted in every row and, where a target is set, they meet it."""
    generated = run.with_role("generated")
    problems = problems_of(generated, _compute_problems)
    if problems:
        return Finding(problems, "")
    nfe = [count for record in generated for count in record.rows.nfe]
    span = f"{min(nfe)} to {max(nfe)}" if min(nfe) < max(nfe) else f"{min(nfe)}"
    summary = f"{span} forwards a sample, counted in every row of {counted(generated)}"
    matched = [record for record in generated if "match" in record.manifest and _target(record)]
    if not matched:
        return Finding(
            [],
            summary,
            ["no arm has a target_nfe, so arms of equal num_steps may differ in what they cost"],
        )
    saturated = [record for record in matched if record.fact("match.saturated", "flag")]
    summary += f"; {counted(matched)} matched to within max(1, 1 %) of their target"
    if saturated:
        names = listed(sorted({record.arm for record in saturated}))
        summary += f" or below it and flagged as saturated ({names})"
    warnings = []
    if len(matched) < len(generated):
        warnings.append(f"{len(generated) - len(matched)} of the banks have no target_nfe")
    return Finding([], summary, warnings)


def judge_metrics(run: RunRecord) -> Finding:
    """Point 2: the four metrics of every generated bank, measured the same way everywhere."""
    generated = run.with_role("generated")
    problems = problems_of(generated, _metric_problems)
    if problems:
        return Finding(problems, "")
    ways: dict[str, dict[str, list[str]]] = {}
    for record in generated:
        names = metric_names(record)
        ways.setdefault("perplexity", {}).setdefault(" and ".join(names[:-3]), []).append(
            record.label
        )
        for name in names:
            text = settings_text(record.score_fact(f"{name}.signature", "text"))
            ways.setdefault(name, {}).setdefault(text, []).append(record.label)
    for name, found in ways.items():
        if len(found) > 1:
            shown = "; ".join(f"{text} in {listed(labels, 2)}" for text, labels in found.items())
            problems.append(f"{name} is measured in different ways: {shown}")
    names = ", ".join(metric_names(generated[0]))
    return Finding(problems, f"{names} in {counted(generated)}, each with n and signature")


def judge_filter(run: RunRecord) -> Finding:
    """Point 5: one language filter for all texts, its verdicts true, its acceptance stored."""
    scored = [record for record in run.banks if record.planned.get("role") != "trajectory"]
    generated = run.with_role("generated")
    problems = problems_of(scored, _bound_problems)
    problems += problems_of(generated, _acceptance_problems)
    if problems:
        return Finding(problems, "")
    counts: dict[str, list[tuple[int, int]]] = {}
    for record in generated:
        rows = record.rows.accepted
        counts.setdefault(record.arm, []).append((sum(rows), len(rows)))
    rates = {
        arm: sum(accepted for accepted, _ in pairs) / sum(n for _, n in pairs)
        for arm, pairs in counts.items()
    }
    low, high = min(rates, key=lambda arm: rates[arm]), max(rates, key=lambda arm: rates[arm])
    shares = [f"{100 * share:.1f} %" for share in (rates[low], rates[high])]
    summary = (
        f"bounds {ASCII_MIN:g} and {CJK_MAX:g} everywhere; arms accept"
        f" {' to '.join(dict.fromkeys(shares))} of their texts"
    )
    warnings = []
    if rates[high] - rates[low] > _ACCEPTANCE_GAP:
        warnings.append(
            f"acceptance differs by {100 * (rates[high] - rates[low]):.1f} percentage points"
            f" between {high} and {low}"
        )
    return Finding([], summary, warnings)


def metric_names(record: BankRecord) -> tuple[str, ...]:
    """`FOUR_METRICS` as a bank's scores name them: given prefixes, the perplexity has two forms."""
    found = tuple(name for name in PERPLEXITIES if name in record.scores)
    return (found or PERPLEXITIES[:1]) + FOUR_METRICS[1:]


def settings_text(signature: str) -> str:
    """A signature without the parts that name rows and reference: how a number is measured."""
    parts = signature.split("|")
    return "|".join(part for part in parts if part.partition(":")[0] not in _DATA_PARTS)


def _compute_problems(record: BankRecord) -> Iterator[str]:
    rows, file = record.rows, record.manifest_file
    if min(rows.nfe) < 1:
        yield f"{record.folder}: a sample of {record.label} has NFE 0, so nothing was counted"
    totals: Sequence[tuple[str, float]] = (
        ("nfe_mean", math.fsum(rows.nfe) / len(rows.nfe)),
        ("nfe_min", min(rows.nfe)),
        ("nfe_max", max(rows.nfe)),
        ("launches", rows.launches),
    )
    for name, value in totals:
        stored = record.fact(f"measured.{name}", "number")
        if not math.isclose(stored, value, rel_tol=1e-9):
            yield f"{file}: measured.{name} is {stored:g} and its rows give {value:g}"
        if name in ("nfe_mean", "launches") and not _scored_as(record, name, value):
            yield f"{record.score_file}: {name} is not the {value:g} that the rows give"
    passes = max(rows.nfe) / (2 if record.fact("cell", "record").get("cfg_scale") else 1)
    if rows.launches < passes:
        yield (
            f"{file}: {rows.launches} launches cannot give a sample {max(rows.nfe)} forwards"
            f" ({record.label})"
        )
    yield from _match_problems(record)


def _match_problems(record: BankRecord) -> Iterator[str]:
    target = _target(record)
    if target is None:
        return
    match, file = record.fact("match", "record"), record.manifest_file
    for name, expected in (("target", target), ("mode", record.cell("match_mode", "text"))):
        if match.get(name) != expected:
            yield f"{file}: match.{name} is {match.get(name)!r} and its cell says {expected!r}"
    saturated = record.fact("match.saturated", "flag")
    mean = record.fact("measured.nfe_mean", "number")
    tolerance = max(1.0, 0.01 * target)
    if mean > target + tolerance or (mean < target - tolerance and not saturated):
        flag = "flagged" if saturated else "not flagged"
        yield (
            f"{record.label}: NFE {mean:g} is off its target {target} ± {tolerance:g} and it is"
            f" {flag} as saturated ({file})"
        )


def _target(record: BankRecord) -> int | None:
    if record.fact("cell", "record").get("target_nfe") is None:
        return None
    return record.cell("target_nfe", "count")


def _scored_as(record: BankRecord, name: str, value: float) -> bool:
    """Whether a score file says the same; one that cannot be read is another point's problem."""
    try:
        return math.isclose(record.score_fact(f"{name}.value", "number"), value, rel_tol=1e-9)
    except InputError:
        return True


def _metric_problems(record: BankRecord) -> Iterator[str]:
    file = record.score_file
    for name in metric_names(record):
        leaf = record.score_fact(name, "record")
        if leaf.get("value") is None:
            yield f"{file}: {name} has no value ({leaf.get('reason', 'no reason given')})"
            continue
        value, (low, high) = record.score_fact(f"{name}.value", "number"), _RANGES[name]
        if not low - _SLACK <= value <= high + _SLACK:
            yield f"{file}: {name} is {value:g}, which no text has; it lies in [{low:g}, {high:g}]"
        n = record.score_fact(f"{name}.n", "count")
        parts = record.score_fact(f"{name}.signature", "text").split("|")
        if parts[0] != name or f"n:{n}" not in parts:
            yield f"{file}: the signature of {name} does not name it and its n of {n}"
    if record.score_fact("bank_digest", "digest") != record.fact("bank_digest", "digest"):
        yield f"{file} holds scores of other texts than {record.folder}"


def _bound_problems(record: BankRecord) -> Iterator[str]:
    for name, bound in (("ascii_min", ASCII_MIN), ("cjk_max", CJK_MAX)):
        value = record.cell(name, "number")
        if value != bound:
            yield f"{record.manifest_file}: {name} is {value:g}; the protocol's bound is {bound:g}"


def _acceptance_problems(record: BankRecord) -> Iterator[str]:
    rows, file = record.rows, record.manifest_file
    accepted = record.fact("measured.accepted", "count")
    if accepted != sum(rows.accepted):
        yield f"{file}: measured.accepted is {accepted}; {sum(rows.accepted)} rows are accepted"
    wrong = sum(stored != found for stored, found in zip(rows.accepted, rows.passing, strict=True))
    bounds = record.cell("ascii_min", "number"), record.cell("cjk_max", "number")
    if wrong and bounds == (ASCII_MIN, CJK_MAX):
        yield f"{record.folder}: {wrong} of its verdicts are not those of the language filter"
    for name in metric_names(record):
        leaf = record.scores.get(name)
        n = leaf.get("n") if isinstance(leaf, dict) else None  # what else it is is for point 2
        if isinstance(n, int) and n > accepted:
            yield f"{record.score_file}: {name} is of {n} texts and the filter accepts {accepted}"
    stored = record.score_fact("acceptance.value", "number")
    if not math.isclose(stored, accepted / len(rows.accepted), abs_tol=1e-9):
        yield (
            f"{record.score_file}: acceptance is {stored:g} and its bank has"
            f" {accepted} of {len(rows.accepted)}"
        )
