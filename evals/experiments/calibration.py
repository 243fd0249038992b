"""Every metric measured against known damage of a known language.

Which metric sees which damage, how little of it, in how small a bank, at what cost: the damage is
done to a language whose law is known, so the true divergences stand beside the scores.

    python launch/run.py --flagfile=launch/flags/calibration.flags --workdir=runs/calibration

`--measures=energy_distance,jcd` calibrates some metrics only. Stages: "sample" draws and scores the
rows of every law (`pools/`), "score" measures banks of them (`laws/`: all draws), "report" writes
`report/calibration.json`, `report/tables.md` and `report/calibration.png`.
"""

import pathlib
from collections.abc import Mapping

from ..calibration.estimate import estimate_lines
from ..calibration.report import write_calibration
from ..calibration.settings import Settings
from ..calibration.study import Calibration
from ..calibration.summary import refused_numbers
from ..errors import InputError, naming
from ..sources import Sources, model_digest

Config = Settings


def inputs(config: Settings, *, sources: Sources) -> Mapping[str, str]:
    """Digests of the scorer and of the text that the language is estimated from.

    Raises:
        InputError: a scorer that does not load or has no tokenizer, or too few clean rows.
    """
    with naming(f"--scorer={config.scorer}"):
        scorer = sources.scorer(config.scorer)
    if scorer.tokenizer is None:
        raise InputError(f"--scorer={config.scorer} has no tokenizer.json; add it to the folder")
    Calibration(pathlib.Path(), config, sources).check()
    return {"scorer": model_digest(scorer.card), "corpus": sources.corpus("kjv:train").digest}


def description(config: Settings, *, sources: Sources) -> list[str]:
    """Pools, banks, files needed, disk and time."""
    return estimate_lines(Calibration(pathlib.Path(), config, sources), config, sources)


def run_stage(
    stage: str, config: Settings, workdir: pathlib.Path, *, sources: Sources
) -> tuple[int, str]:
    """Runs one stage.

    Raises:
        InputError: a report of laws that are not all measured.
    """
    calibration = Calibration(workdir, config, sources)
    if stage == "sample":
        made = calibration.draw(_say)
        return made, f"sample: {made} pools drawn" if made else "sample: nothing left to do"
    if stage == "score":
        made = calibration.measure(_say)
        return made, f"score: {made} laws measured" if made else "score: nothing left to do"
    records = calibration.records()
    write_calibration(records, workdir / "report")
    refused = refused_numbers(records)
    note = f" (without {', '.join(refused)}: refused on clean banks)" if refused else ""
    return 1, f"report: {workdir / 'report' / 'tables.md'}{note}"


def _say(line: str) -> None:
    print(line, flush=True)
