"""Acceptance rates of the same arms on several corpora, side by side.

Tables 19 and 20 of CaRE. It samples and scores nothing: it reads scored workdirs, one a corpus,
and refuses those whose arms differ in more than the text that they were prompted with and are
compared to.

    python launch/run.py --experiment=acceptance --workdir=runs/acceptance \\
        --workdirs=runs/care_owt,runs/care_lm1b
"""

import dataclasses
import pathlib
from collections.abc import Mapping

from ..experiment import option
from ..report import write_report
from ..report.care.acceptance import acceptance_data, acceptance_page
from ..sources import Sources
from ..workdir.across import CorpusArms, arms_by_corpus
from ..workdir.joined import digests_of, reading_lines
from ..workdir.plan import make_study_plan


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of the study; every field is a flag."""

    workdirs: tuple[str, ...] = option((), "Scored workdirs of one experiment, each on a corpus.")


def inputs(config: Config, *, sources: Sources) -> Mapping[str, str]:
    """Digests of the scores of every workdir, which are checked to differ in the corpus alone.

    Raises:
        InputError: fewer than two workdirs, one that is not scored, two of one corpus, or arms
            that differ in more than the corpus.
    """
    _read(config)
    return digests_of(config.workdirs)


def description(config: Config, *, sources: Sources) -> list[str]:
    """Arms, corpora and workdirs."""
    found = _read(config)
    return [
        f"arms: {len(found[0].arms)}",
        f"corpora: {', '.join(one.corpus for one in found)}",
        *reading_lines(config.workdirs),
    ]


def run_stage(
    stage: str, config: Config, workdir: pathlib.Path, *, sources: Sources
) -> tuple[int, str]:
    """Runs one stage; only "report" does anything."""
    if stage != "report":
        return 0, f"{stage}: nothing to do, acceptance reads scored workdirs"
    found = _read(config)
    data = acceptance_data(make_study_plan("acceptance", config, sources), found)
    findings, sections = acceptance_page(data, found)
    write_report(workdir / "report", data, findings, sections)
    return 1, f"report: {workdir / 'report' / 'index.html'}"


def _read(config: Config) -> tuple[CorpusArms, ...]:
    return arms_by_corpus([pathlib.Path(name) for name in config.workdirs])
