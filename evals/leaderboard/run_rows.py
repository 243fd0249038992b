"""From a finished run to its row: which arms stand for it, and what they say."""

import pathlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from .. import storage
from ..cell import cell_from_dict
from ..errors import InputError, naming, one_line
from ..protocol import validate_run
from ..protocol.arm_records import ArmRecord, generated_arms
from ..protocol.records import BankRecord, RunRecord, fact, read_run
from ..report.collect import command_line
from ..report.data import Bank, missing
from ..scoring.scores import Score, mean_score
from ..workdir.plan import PLAN, read_plan
from ..workdir.seed_scores import SeededArm, SeedScores
from .comparable import run_facts
from .gap import interaction_gap
from .identity import identify
from .rows import ARMS, METRICS, ORDERS, BoardRow, RowArm, marks_of
from .settings import Settings
from .verdict import judge_run

# Names of score files for `METRICS`; the first that all seeds have counts.
_STORED = {
    "perplexity": ("gen_ppl_given_prefix", "gen_ppl"),
    "nfe": ("nfe_mean",),
}


# What a row says of its model, as `records.fact` reads it.
_MODEL = {"source": "text", "files": "record"}


class OpenRun(NamedTuple):
    """A run whose plan was read.

    Attributes:
        workdir: as named.
        record: its banks.
        arms: generated arms of the pair, at nominal budgets.
        problems: what could not be read of them.
        pair: the strategy without remasking, and the one it is compared with.
        reference, scorer: names of the text and of the network that judges, as planned.
    """

    workdir: str
    record: RunRecord
    arms: tuple[ArmRecord, ...]
    problems: tuple[str, ...]
    pair: tuple[str, str]
    reference: str
    scorer: str

    def temps(self, num_steps: int) -> list[float]:
        """Temperatures above 0 at which both strategies were drawn with that budget."""
        found: list[set[float]] = [set(), set()]
        for arm in self.arms:
            if arm.fields["num_steps"] == num_steps and arm.unmask_temp > 0:
                found[self.pair.index(arm.strategy)].add(arm.unmask_temp)
        return sorted(found[0] & found[1])

    @property
    def budgets(self) -> set[int]:
        """Nominal budgets at which the pair can be compared."""
        return {n for arm in self.arms if self.temps(n := arm.fields["num_steps"])}


def open_run(workdir: str, settings: Settings) -> OpenRun:
    """Reads a run's plan and finds the arms that a row may be made of.

    Raises:
        InputError: no run of cells, no pair of arms at one budget and temperature above 0, or
            arms of several models.
    """
    record = read_run(workdir)
    arms, problems = generated_arms(record)
    file = record.workdir / PLAN
    scorer = fact(storage.read_json(file), "scoring.scorer", "text", file)
    texts = [str(bank.planned.get("corpus")) for bank in record.with_role("reference")]
    names = (texts[0] if texts else "", scorer)
    nominal = [arm for arm in arms if arm.fields.get("target_nfe") is None]
    for pair in (("none", settings.strategy), ORDERS):
        kept = tuple(arm for arm in nominal if arm.strategy in pair)
        run = OpenRun(workdir, record, kept, tuple(problems), pair, *names)
        if run.budgets:
            break
    else:
        raise InputError(
            f"{workdir} has no arms of none and {settings.strategy} (or of {' and '.join(ORDERS)})"
            " at one nominal budget and one temperature above 0; run experiment care with both"
        )
    if len({arm.fields["model_digest"] for arm in kept}) > 1:
        raise InputError(f"{workdir} samples several models; a row is of one, so run them apart")
    return run


def run_row(run: OpenRun, settings: Settings, num_steps: int, *, verify: bool = True) -> BoardRow:
    """The row of a run at a budget.

    Numbers come from its score files alone, averaged over seeds. An arm whose files are missing
    or damaged has no numbers and the row is pending.

    Args:
        verify: read and judge every bank; without it the row is pending.

    Raises:
        InputError: no readable manifest, or several arms in one place of the grid.
    """
    temps = run.temps(num_steps)
    temp = min(temps, key=lambda t: (abs(t - settings.unmask_temp), -t))
    places = ((run.pair[0], 0.0), (run.pair[0], temp), (run.pair[1], temp))
    found = {
        name: _find(run, strategy, unmask_temp, num_steps)
        for name, (strategy, unmask_temp) in zip(ARMS, places, strict=True)
    }
    chosen = {name: arm for name, arm in found.items() if arm is not None}
    seeded: dict[str, SeededArm] = {}
    lacking: dict[str, str] = {}
    if "cold" not in chosen:
        lacking["cold"] = f"the run has no arm {run.pair[0]} t=0 N={num_steps}"
    for name, arm in chosen.items():
        try:
            seeded[name] = _seeded(arm)
        except InputError as error:
            lacking[name] = one_line(error)
    gap, gap_test = interaction_gap(seeded.get("baseline"), seeded.get("strategy"), lacking)
    seeds = chosen["baseline"].seeds
    facts, unread = run_facts(run.record, chosen.values())
    references = {}
    if "baseline" in seeded:
        references = {s: str(one.reference) for s, one in seeded["baseline"].seeds.items()}
    report = validate_run(run.workdir) if verify else None
    status, reasons = judge_run(run.record, report) if report else ("pending", ("not judged",))
    model = _model(run)
    return BoardRow(
        model=identify(model),
        status=status,
        reasons=tuple(dict.fromkeys((*reasons, *run.problems, *unread))),
        origin=run.workdir,
        num_steps=num_steps,
        unmask_temp=temp,
        seeds=seeds,
        arms={name: _row_arm(arm) for name, arm in seeded.items()},
        lacking=lacking,
        gap=gap,
        gap_test=gap_test,
        marks=marks_of(temp, settings.unmask_temp, seeds, run.pair),
        facts=facts,
        references=references,
        reference=run.reference,
        scorer=run.scorer,
        protocol=report,
        command=_command(run.workdir),
        digest=run.arms[0].fields["model_digest"],
        files={name: str(digest) for name, digest in model["files"].items()},
        banks=tuple(_banks(run.record.banks)),
    )


def _find(run: OpenRun, strategy: str, temp: float, num_steps: int) -> ArmRecord | None:
    found = [
        arm
        for arm in run.arms
        if (arm.strategy, arm.unmask_temp, arm.fields["num_steps"]) == (strategy, temp, num_steps)
    ]
    if len(found) > 1:
        labels = " and ".join(arm.label for arm in found)
        raise InputError(f"{run.workdir} has {labels}; a row needs one arm in each place")
    return found[0] if found else None


def _seeded(arm: ArmRecord) -> SeededArm:
    """An arm's scores seed by seed, those of `METRICS` under the names of rows."""
    if len(set(arm.seeds)) < len(arm.seeds):
        raise InputError(f"{arm.label} has a seed twice; seeds tell draws apart")
    seeds = {}
    for seed, record in arm.banks:
        reference = record.score_fact("reference_digest", "digest")
        prompts = None
        if record.manifest.get("prompts") is not None:
            prompts = record.fact("prompts.digest", "digest")
        metrics = {name: _score(record, _stored(arm, name)) for name in METRICS}
        seeds[seed] = SeedScores(metrics, reference, prompts, None)
    with naming(f"{arm.label} in the plan"):
        cell = cell_from_dict(dict(arm.banks[0][1].planned))
    return SeededArm(arm.label, cell, seeds)


def _stored(arm: ArmRecord, metric: str) -> str:
    names = _STORED.get(metric, (metric,))
    for name in names:
        if all(name in record.scores for _, record in arm.banks):
            return name
    return names[-1]


def _score(record: BankRecord, name: str) -> Score:
    try:
        return record.score(name)
    except InputError as error:
        return missing(one_line(error))


def _row_arm(arm: SeededArm) -> RowArm:
    means: dict[str, Score] = {}
    values: dict[str, tuple[float, ...]] = {}
    for name in METRICS:
        scores = [one.metrics[name] for one in arm.seeds.values()]
        lacking = [score for score in scores if score.value is None]
        if lacking:
            means[name] = lacking[0]
            continue
        with naming(f"{name} of {arm.label}"):
            means[name] = mean_score(scores)
        values[name] = tuple(score.value for score in scores if score.value is not None)
    assert arm.cell.unmask_temp is not None  # a generated cell has one
    return RowArm(arm.cell.strategy, arm.cell.unmask_temp, tuple(arm.seeds), values, means)


def _model(run: OpenRun) -> dict[str, Any]:
    """The first manifest's record of the model that can be read."""
    error = InputError(f"{run.workdir} has no generated banks")
    for arm in run.arms:
        for _, record in arm.banks:
            try:
                for name, kind in _MODEL.items():
                    record.fact(f"model.{name}", kind)
                return record.fact("model", "record")
            except InputError as found:
                error = found
    raise error


def _banks(records: Iterable[BankRecord]) -> Iterable[Bank]:
    """The banks whose manifest can be read; `judge_run` says what is wrong with others."""
    for record in records:
        try:
            facts = record.fact("bank_digest", "digest"), record.fact("n", "count")
        except InputError:
            continue
        yield Bank(record.label, record.fingerprint, *facts)


def _command(workdir: str) -> str:
    """What runs a plan again; "" for a plan of an experiment that this version lacks."""
    try:
        return command_line(read_plan(pathlib.Path(workdir)))
    except InputError:
        return ""
