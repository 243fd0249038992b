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

from ..errors import InputError
from ..experiment import option
from ..report import write_report
from ..report.rebenchmark.agreement_sections import agreement_data, agreement_page
from ..report.rebenchmark.agreement_tables import column_directions
from ..sources import Sources
from ..workdir.joined import JoinedArm, digests_of, join_workdirs, reading_lines
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
    return digests_of(config.workdirs)


def description(config: Config, *, sources: Sources) -> list[str]:
    """Generators, columns and workdirs."""
    arms = _joined(config)
    naive = sum(arm.role == "heuristic" for arm in arms)
    return [
        f"generators: {len(arms)}, of which {naive} naive samplers",
        f"columns: {', '.join(column_directions(arms, config.columns))}",
        *reading_lines(config.workdirs),
    ]


def run_stage(
    stage: str, config: Config, workdir: pathlib.Path, *, sources: Sources
) -> tuple[int, str]:
    """Runs one stage; only "report" does anything."""
    if stage != "report":
        return 0, f"{stage}: nothing to do, agreement reads scored workdirs"
    arms = _joined(config)
    data = agreement_data(make_study_plan("agreement", config, sources), arms)
    directions = column_directions(arms, config.columns)
    findings, sections = agreement_page(data, arms, directions)
    write_report(workdir / "report", data, findings, sections)
    return 1, f"report: {workdir / 'report' / 'index.html'}"


def _joined(config: Config) -> tuple[JoinedArm, ...]:
    if not config.workdirs:
        raise InputError("--workdirs is empty; name at least one scored workdir")
    arms = join_workdirs([pathlib.Path(name) for name in config.workdirs])
    if not arms:
        raise InputError(f"--workdirs={','.join(config.workdirs)} hold no generator")
    return arms
