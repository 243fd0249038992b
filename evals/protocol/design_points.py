"""The points of the protocol that are judged across arms: sweep, seeds, baseline."""

from collections.abc import Sequence

from ...samplers.registry import get_entry
from ..errors import InputError, one_line
from .arm_records import STRATEGY_FIELDS, ArmRecord, generated_arms
from .findings import Finding, listed
from .records import BankRecord, RunRecord

# Temperatures of the required sweep, and the fewest seeds that a paired test is made of.
SWEEP = (0.0, 0.1, 0.25, 0.5)
MIN_SEEDS = 3
# The word that marks a run whose arms may not be ranked.
SINGLE_TEMP = "single_temp"
# Arms without remasking; `origin` takes the place of `none` among Dream's orders (care.md, 7).
NO_REMASK = ("none", "origin")


def judge_sweep(run: RunRecord) -> Finding:
    """Point 3: every strategy at every budget is drawn at all temperatures of the sweep."""
    arms, problems = generated_arms(run)
    series: dict[str, list[ArmRecord]] = {}
    for arm in arms:
        series.setdefault(arm.key("unmask_temp"), []).append(arm)
    for members in series.values():
        problems += _gaps(members)
    grid = ", ".join(f"{temp:g}" for temp in SWEEP)
    names = listed(list(dict.fromkeys(arm.strategy for arm in arms)))
    return Finding(problems, f"{names}: every series has t={grid}")


def judge_seeds(run: RunRecord) -> Finding:
    """Point 4: at least three seeds, the same in every arm, on the same prefixes and references."""
    arms, problems = generated_arms(run)
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for arm in arms:
        by_seeds.setdefault(arm.seeds, []).append(arm.label)
    for seeds, labels in by_seeds.items():
        if len(set(seeds)) < MIN_SEEDS:
            problems.append(
                f"{listed(labels, 2)}: at least {MIN_SEEDS} seeds are needed and there"
                f" {'is' if len(set(seeds)) == 1 else 'are'} {listed(seeds)}"
            )
        if len(set(seeds)) < len(seeds):
            problems.append(f"{listed(labels, 2)}: a seed comes twice ({listed(seeds)})")
    if len(by_seeds) > 1:
        shown = [f"{listed(seeds)} in {listed(labels, 2)}" for seeds, labels in by_seeds.items()]
        problems.append(f"arms have different seeds: {'; '.join(shown[:3])}")
    for (seed, _), records in _at_each_seed(arms).items():
        try:
            problems += _pairing_problems(run, seed, records)
        except InputError as error:
            problems.append(one_line(error))
    if problems:
        return Finding(problems, "")
    seeds = arms[0].seeds
    shared = "references and prefixes" if arms[0].fields.get("prefix_length") else "references"
    summary = (
        f"{len(arms)} arms share seeds {listed(seeds)} and their {shared}; paired tests have"
        f" {len(seeds) - 1} degrees of freedom"
    )
    alike = [arm.label for arm in arms if _same_texts(arm)]
    warnings = []
    if alike:
        warnings.append(f"all seeds of {listed(alike, 2)} hold the same texts")
    return Finding([], summary, warnings)


def judge_baseline(run: RunRecord) -> Finding:
    """Point 6: every strategy has a twin without remasking at some temperature above 0."""
    arms, problems = generated_arms(run)
    if not any(arm.strategy in NO_REMASK and arm.unmask_temp > 0 for arm in arms):
        problems.append("there is no `none` arm at a temperature above 0")
    gaps: dict[tuple[object, str], set[float]] = {}
    for arm in arms:
        model = arm.fields.get("model_digest")
        baselines = [a for a in arms if a.fields.get("model_digest") == model]
        names = {other.strategy for other in baselines}
        name = "origin" if "none" not in names and _is_order(arm.strategy) else "none"
        if arm.strategy == name:
            continue
        found = gaps.setdefault((model, arm.strategy), set())
        near = [
            other
            for other in baselines
            if (other.strategy, other.unmask_temp, other.budget)
            == (name, arm.unmask_temp, arm.budget)
        ]
        if arm.unmask_temp > 0 and near:
            if any(_twin_key(other) == _twin_key(arm) for other in near):
                found.add(arm.unmask_temp)
            else:
                problems.append(f"{arm.label} and {near[0].label} differ in settings or seeds")
    for (_, strategy), found in gaps.items():
        if not found:
            problems.append(
                f"{strategy} has no `none` arm of the same model, settings, budget and seeds at a"
                " temperature above 0, so its interaction gap cannot be computed"
            )
    if not gaps:
        return Finding(problems, "`none` is the only strategy, so there is no gap to compute")
    shown = [
        f"{strategy} at t={', '.join(f'{temp:g}' for temp in sorted(found))}"
        for (_, strategy), found in gaps.items()
    ]
    return Finding(problems, f"gaps to arms without remasking can be computed: {listed(shown)}")


def _gaps(series: Sequence[ArmRecord]) -> list[str]:
    """Temperatures of the sweep that a strategy lacks at a budget, by seed where seeds differ."""
    temps: dict[int, set[float]] = {}
    for arm in series:
        for seed in arm.seeds:
            temps.setdefault(seed, set()).add(round(arm.unmask_temp, 6))
    by_temps: dict[tuple[float, ...], list[int]] = {}
    for seed, found in sorted(temps.items()):
        by_temps.setdefault(tuple(sorted(found)), []).append(seed)
    problems = []
    for found, seeds in by_temps.items():
        lacking = [f"{temp:g}" for temp in SWEEP if temp not in found]
        if lacking:
            where = f"{series[0].strategy} {series[0].budget}"
            if len(by_temps) > 1:
                where += f" at seed {listed(seeds)}"
            problems.append(
                f"{SINGLE_TEMP}, no ranking claims: {where} has"
                f" t={listed([f'{temp:g}' for temp in found])} and lacks {', '.join(lacking)}"
            )
    return problems


def _at_each_seed(arms: Sequence[ArmRecord]) -> dict[tuple[int, object], list[BankRecord]]:
    """The banks that a paired test would pair: of one seed and one model."""
    found: dict[tuple[int, object], list[BankRecord]] = {}
    for arm in arms:
        for seed, record in arm.banks:
            found.setdefault((seed, arm.fields.get("model_digest")), []).append(record)
    return found


def _pairing_problems(run: RunRecord, seed: int, records: Sequence[BankRecord]) -> list[str]:
    problems = []
    prompts: dict[object, list[str]] = {}
    for record in records:
        used = record.score_fact("reference_digest", "digest")
        bank = run.reference_of(record)
        if used != bank.fact("bank_digest", "digest"):
            problems.append(
                f"{record.score_file}: {record.label} is scored against another bank than"
                f" {bank.folder}"
            )
        digest = None
        if record.fact("cell", "record").get("prefix_length") is not None:
            digest = record.fact("prompts.digest", "digest")
        prompts.setdefault(digest, []).append(record.label)
    if len({record.reference for record in records}) > 1:
        problems.append(f"arms of seed {seed} are scored against different references")
    if len(prompts) > 1:
        shown = "; ".join(
            f"{'none' if digest is None else str(digest)[:12]} in {listed(labels, 2)}"
            for digest, labels in prompts.items()
        )
        problems.append(f"arms of seed {seed} continue different prefixes: {shown}")
    return problems


def _same_texts(arm: ArmRecord) -> bool:
    return len({record.fact("bank_digest", "digest") for _, record in arm.banks}) == 1


def _is_order(strategy: str) -> bool:
    try:
        return get_entry(strategy).kind == "order"
    except ValueError:  # a strategy of the user's own, registered elsewhere
        return False


def _twin_key(arm: ArmRecord) -> tuple[str, str, tuple[int, ...]]:
    """What an arm shares with its twin of another strategy."""
    fields = arm.key(*STRATEGY_FIELDS, "num_steps", "target_nfe", "match_mode")
    return fields, arm.budget, arm.seeds
