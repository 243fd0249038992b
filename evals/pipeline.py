"""Runs an experiment: plan, then the stages sample, score and report, each one resumable."""

import contextlib
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import storage
from .cell import arm_labels
from .environment import device_name, environment
from .errors import InputError, usable_files
from .experiment import is_study, load_experiment, make_config
from .loggers import RunLog, open_loggers, parse_loggers
from .sampling.drawing import vocabulary
from .sources import Sources
from .workdir.estimate import Estimate, estimate, free_bytes
from .workdir.events import EventLog
from .workdir.plan import PLAN, Plan, StudyPlan, check_workdir, make_plan, make_study_plan
from .workdir.sample_stage import run_sample_stage
from .workdir.score_stage import run_score_stage

STAGES = ("sample", "score", "report")
# Bytes on disk: JSON of a token (its id, its text) and a row's other fields; a row's features.
_TOKEN_BYTES, _ROW_BYTES, _FEATURE_BYTES = 12, 80, 8192
_UNWRITTEN = "nothing was written (--dry_run)"


def run_experiment(
    name: str,
    config: Mapping[str, Any] | Any,
    workdir: str | pathlib.Path,
    stages: Sequence[str] | str = STAGES,
    *,
    sources: Sources | None = None,
    loggers: Sequence[str] | str = (),
) -> dict[str, int]:
    """Runs stages of an experiment in a workdir; running again does only what is missing.

    All inputs are checked before anything is written. The plan is written first; a workdir keeps
    to one plan for good. After a crash the same call goes on where the last one stopped, and the
    banks and scores are the same bytes as without the crash.

    Args:
        name: a module of `evals/experiments`, such as "quickstart" or "calibration".
        config: its `Config`, or a mapping of fields that differ from the defaults.
        workdir: folder of all results; created.
        stages: some of "sample", "score", "report" (a sequence, or names joined by commas).
        sources: loaders of models and corpora; the usual ones by default.
        loggers: some of "jsonl", "tensorboard", "wandb", "trackio", which get the scores of each
            cell when it has them, and those of each arm at the report.

    Returns:
        {stage: banks or reports made}; all zeros but the report's mean that nothing was left.

    Raises:
        ValueError: `InputError` for anything a person can mend: unknown names, unusable models,
            corpora or settings, a workdir of another plan or in use, a bank that was edited, a
            logger whose package is not installed.
    """
    chosen = parse_stages(stages)
    log_names = parse_loggers(loggers)
    workdir = pathlib.Path(workdir)
    sources = sources or Sources()
    experiment = load_experiment(name)
    if log_names and is_study(experiment):
        raise InputError(f"--experiment={name} has no cells to log; leave --loggers out")
    settings: Any = make_config(experiment, config)
    plan = _plan_of(name, settings, sources)
    check_workdir(workdir, plan)
    done = {}
    with usable_files(), _held(workdir), contextlib.ExitStack() as stack:
        check_workdir(workdir, plan)
        storage.remove_leftovers(workdir)
        if not (workdir / PLAN).exists():
            storage.write_json(workdir / PLAN, plan.record())
        opened = stack.enter_context(open_loggers(log_names, workdir))
        follow = RunLog(plan, workdir, opened).on_event if isinstance(plan, Plan) else None
        log = EventLog(workdir / "events.jsonl", follow)
        log.write("start", experiment=name, stages=chosen, argv=sys.argv, **environment())
        for stage in chosen:
            with log.span("stage", stage=stage, device=device_name()) as found:
                if isinstance(plan, StudyPlan):
                    made, line = experiment.run_stage(stage, settings, workdir, sources=sources)
                else:
                    made = _run_stage(stage, plan, settings, workdir, sources, log)
                    line = _stage_line(stage, made, workdir)
                found["made"] = made
            done[stage] = made
            print(line, flush=True)
    return done


@contextlib.contextmanager
def _held(workdir: pathlib.Path) -> Iterator[None]:
    """Makes the folder and holds it for this process."""
    workdir.mkdir(parents=True, exist_ok=True)
    with storage.exclusive(workdir):
        yield


def dry_run(
    name: str,
    config: Mapping[str, Any] | Any,
    workdir: str | pathlib.Path,
    *,
    sources: Sources | None = None,
) -> str:
    """Describes a run without writing anything: cells, files needed, forwards, memory, time.

    Arguments as in `run_experiment`.

    Raises:
        ValueError: as `run_experiment`; so a dry run that passes means usable inputs.
    """
    workdir = pathlib.Path(workdir)
    sources = sources or Sources()
    experiment = load_experiment(name)
    settings: Any = make_config(experiment, config)
    plan = _plan_of(name, settings, sources)
    check_workdir(workdir, plan)
    if isinstance(plan, StudyPlan):
        lines = experiment.description(settings, sources=sources)
        return "\n".join([f"experiment {name} in {workdir}", "", *lines, _UNWRITTEN])
    cost = estimate(plan, sources, settings.batch_size)
    return "\n".join(_description(plan, sources, cost, workdir))


def parse_stages(stages: Sequence[str] | str) -> list[str]:
    """Stages in the order in which they run.

    Raises:
        InputError: an unknown name, or none.
    """
    names = stages.split(",") if isinstance(stages, str) else list(stages)
    names = [name.strip() for name in names]
    unknown = [name for name in names if name not in STAGES]
    if unknown or not names:
        raise InputError(f"--stages={','.join(names)} is unknown; accepted: {','.join(STAGES)}")
    return [stage for stage in STAGES if stage in names]


def _plan_of(name: str, settings: Any, sources: Sources) -> Plan | StudyPlan:
    make = make_study_plan if is_study(load_experiment(name)) else make_plan
    return make(name, settings, sources)


def _run_stage(
    stage: str, plan: Plan, settings: Any, workdir: pathlib.Path, sources: Sources, log: EventLog
) -> int:
    """One stage of an experiment of cells; returns how many banks or reports it made."""
    if stage == "sample":
        sizes = settings.batch_size, settings.shard_size
        return run_sample_stage(plan, workdir, sources, log, *sizes)
    if stage == "score":
        return run_score_stage(plan, workdir, sources, log, settings.batch_size)
    load_experiment(plan.experiment).report(workdir, sources=sources)
    return 1


def _stage_line(stage: str, made: int, workdir: pathlib.Path) -> str:
    if stage == "report":
        return f"report: {workdir / 'report' / 'index.html'}"
    verb = {"sample": "sampled", "score": "scored"}[stage]
    return f"{stage}: {made} banks {verb}" if made else f"{stage}: nothing left to do"


def _description(plan: Plan, sources: Sources, cost: Estimate, workdir: pathlib.Path) -> list[str]:
    """Lines of a dry run."""
    lines = [f"experiment {plan.experiment}: {len(plan.cells)} cells in {workdir}", ""]
    labels = arm_labels(plan.cells)
    width = max(34, 2 + max(map(len, labels.values()), default=0))
    lines.append(f"{'arm':<{width}}{'seed':>5}{'n':>7}{'length':>8}{'forwards ≤':>12}")
    for cell in plan.cells:
        label, count = labels[cell.fingerprint], cost.forwards[cell.fingerprint]
        lines.append(
            f"{label:<{width}}{cell.seed:>5}{cell.num_samples:>7}{cell.gen_length:>8}{count:>12}"
        )
    lines += ["", "files needed:", *(f"  {line}" for line in _files(plan, sources)), ""]
    disk = sum(
        cell.num_samples * (_ROW_BYTES + _FEATURE_BYTES + _TOKEN_BYTES * cell.gen_length)
        for cell in plan.cells
    )
    lines += [
        f"forwards: at most {cost.total_forwards} (batched, scoring included)",
        f"memory: about {cost.memory_bytes / 1e9:.1f} GB",
        f"disk: about {disk / 1e6:.0f} MB of {free_bytes(workdir) / 1e6:.0f} MB free",
        f"time: about {cost.seconds / 60:.1f} min on {device_name()}",
        _UNWRITTEN,
    ]
    return lines


def _files(plan: Plan, sources: Sources) -> list[str]:
    found: dict[str, None] = {}
    for cell in plan.cells:
        for file in sources.network(str(cell.model), vocabulary(cell)).card.digests:
            found[f"{cell.model}: {file}"] = None
        if cell.corpus is not None:
            found[
                f"corpus {cell.corpus} ({len(sources.corpus(cell.corpus).documents)} documents)"
            ] = None
    judges = [(plan.scoring.scorer, sources.scorer(plan.scoring.scorer))]
    judges += [(source, sources.encoder(source)) for source in plan.scoring.encoders]
    for source, network in judges:
        for file in network.card.digests:
            found[f"{source}: {file}"] = None
    for encoder in plan.scoring.encoders:
        for file in sources.encoder(encoder).card.digests:
            found[f"{encoder}: {file}"] = None
    return list(found)
