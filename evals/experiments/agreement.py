"""Which metrics agree: correlations of columns over the generators of scored workdirs.

Figures 3 and 10 of "Hacking Generative Perplexity". It samples and scores nothing: it reads other
workdirs, joins their generators exactly, and refuses those of unlike lengths, corpora, references
or settings. The agreement is shown with and without naive samplers.

    python launch/run.py --experiment=agreement --workdir=runs/agreement \\
        --workdirs=runs/rebenchmark,runs/quickstart
"""

import dataclasses
import pathlib
from collections.abc import Mapping

from ... import __version__
from ..errors import InputError
from ..experiment import option
from ..report import Provenance, Record, ReportData, Section, write_report
from ..report.collect import command_line
from ..report.data import Bank
from ..report.rebenchmark.agreement_tables import (
    agreement,
    agreement_finding,
    agreement_table,
    column_directions,
    generators_table,
    titled,
)
from ..report.rebenchmark.correlation_figures import correlation_figure
from ..sources import Sources
from ..workdir.joined import JoinedArm, join_workdirs, scored_digests
from ..workdir.plan import make_study_plan


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of the agreement study; every field is a flag."""

    workdirs: tuple[str, ...] = option((), "Scored workdirs whose generators are joined.")
    columns: tuple[str, ...] = option(
        (
            "gen_ppl",
            "h_uni",
            "h_pos",
            "mauve",
            "gradient_moment",
            "jcd",
            "energy_distance",
            "frechet_distance",
            "mmd",
            "self_bleu",
            "distinct_3",
        ),
        "Metrics to correlate; those that no workdir holds are left out.",
    )


def inputs(config: Config, *, sources: Sources) -> Mapping[str, str]:
    """Digests of the scores of every workdir, which are checked to be joinable.

    Raises:
        InputError: no workdirs, one that is not scored, or ones that may not be joined.
    """
    arms = _joined(config)
    column_directions(arms, config.columns)
    return {name: scored_digests(pathlib.Path(name)) for name in config.workdirs}


def description(config: Config, *, sources: Sources) -> list[str]:
    """Generators, columns and workdirs."""
    arms = _joined(config)
    naive = sum(arm.role == "heuristic" for arm in arms)
    return [
        f"generators: {len(arms)}, of which {naive} naive samplers",
        f"columns: {', '.join(column_directions(arms, config.columns))}",
        "files needed:",
        *(f"  scores of {name}" for name in config.workdirs),
        "forwards: 0; time: seconds; memory: below 1 GB",
    ]


def run_stage(
    stage: str, config: Config, workdir: pathlib.Path, *, sources: Sources
) -> tuple[int, str]:
    """Runs one stage; only "report" does anything."""
    if stage != "report":
        return 0, f"{stage}: nothing to do, agreement reads scored workdirs"
    arms = _joined(config)
    directions = column_directions(arms, config.columns)
    every = agreement(arms, directions, naive=True)
    trained = agreement(arms, directions, naive=False)
    if every is None:
        raise InputError(f"--workdirs={','.join(config.workdirs)} hold no generator")
    panels = {"all generators": titled(every)}
    if trained is not None:
        panels["without naive samplers"] = titled(trained)
    plan = make_study_plan("agreement", config, sources)
    data = ReportData(
        title="dlmeval agreement",
        arms=(),
        lead=(f"{len(arms)} generators from {len(config.workdirs)} workdirs.",),
        caveats=("Few generators leave correlations wide open: three points always look orderly.",),
        provenance=Provenance(
            command=command_line(plan),
            config=plan.config,
            banks=tuple(
                Bank(f"{arm.label} seed {seed}", digest[:16], digest, arm.metrics["gen_ppl"].n)
                for arm in arms
                for seed, digest in arm.digests.items()
            ),
            versions={"dlmeval": __version__},
        ),
    )
    figure = correlation_figure(
        panels,
        name="agreement",
        caption="Spearman correlations of columns over generators, turned so that higher is"
        " better: blue columns prefer the same generators.",
    )
    sections = (
        Section("Agreement", (figure, agreement_table(every, trained))),
        Section("Generators", (generators_table(arms),)),
        Section("How this was made", (Record(data.provenance, ("tables/agreement.csv",)),)),
    )
    write_report(workdir / "report", data, [agreement_finding(every, trained)], sections)
    return 1, f"report: {workdir / 'report' / 'index.html'}"


def _joined(config: Config) -> tuple[JoinedArm, ...]:
    if not config.workdirs:
        raise InputError("--workdirs is empty; name at least one scored workdir")
    return join_workdirs([pathlib.Path(name) for name in config.workdirs])
