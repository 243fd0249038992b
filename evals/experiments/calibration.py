"""Every metric measured against known damage of a known language.

Which metric sees which damage, how little of it, in how small a bank, at what cost: the damage is
done to a language whose law is known, so the true divergences stand beside the scores.

    python launch/run.py --flagfile=launch/flags/calibration.flags --workdir=runs/calibration

`--measures=energy_distance,jcd` calibrates some metrics only. Stages: "sample" draws and scores the
rows of every law (`pools/`), "score" measures banks of them (`laws/`: all draws), "report" writes
`report/calibration.json`, `report/tables.md` and `report/calibration.png`.
"""

import pathlib
from collections import Counter
from collections.abc import Mapping

from .. import storage
from ..calibration.figure import detection_figure
from ..calibration.settings import Settings
from ..calibration.study import GRADIENTS, Calibration
from ..calibration.summary import (
    Records,
    bias_table,
    metrics_table,
    refused_numbers,
    summarise,
    summary_record,
    truth_table,
)
from ..errors import InputError, naming
from ..sources import Sources, model_digest

Config = Settings
# Bytes on disk of a character and of a row's features; seconds on two cores, as measured.
_CHARACTER_BYTES, _ROW_BYTES, _GRADIENT_BYTES = 8, 1400, 8192
_ROW_SECONDS, _GRADIENT_SECONDS, _DRAW_SECONDS = 0.004, 0.027, 0.002


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
    calibration = Calibration(pathlib.Path(), config, sources)
    rows = sum(map(calibration.num_rows, calibration.drawn_laws))
    banks = Counter()
    for step in calibration.steps:
        banks.update(calibration.draws(step))
    gradients = GRADIENTS in config.chosen
    size = rows * (_ROW_BYTES + _GRADIENT_BYTES * gradients + _CHARACTER_BYTES * config.length)
    seconds = rows * (_ROW_SECONDS + _GRADIENT_SECONDS * gradients)
    seconds += sum(_DRAW_SECONDS * len(config.chosen) * n**0.5 * k for n, k in banks.items())
    counts = ", ".join(f"{count} of {size} rows" for size, count in sorted(banks.items()))
    return [
        f"laws: {len(calibration.steps)}, in pools of {rows} rows in all",
        f"banks: {counts}, each scored by {len(config.chosen)} measures",
        "",
        "files needed:",
        *(f"  {config.scorer}: {file}" for file in sources.scorer(config.scorer).card.digests),
        f"  corpus kjv:train ({len(sources.corpus('kjv:train').documents)} documents)",
        "",
        f"disk: about {size / 1e6:.0f} MB",
        f"time: about {seconds / 60:.0f} min on two cores",
    ]


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
    _report(records, workdir / "report")
    refused = refused_numbers(records)
    note = f" (without {', '.join(refused)}: refused on clean banks)" if refused else ""
    return 1, f"report: {workdir / 'report' / 'tables.md'}{note}"


def _report(records: Records, folder: pathlib.Path) -> None:
    summaries = summarise(records)
    if not summaries:
        raise InputError("every metric refused some clean bank; raise --sizes in another workdir")
    tables = "\n".join([metrics_table(summaries), bias_table(summaries), truth_table(records)])
    truths = [{key: record[key] for key in ("ladder", "level", "truth")} for record in records]
    numbers = {"metrics": summary_record(summaries), "laws": truths}
    folder.mkdir(exist_ok=True)
    storage.write_json(folder / "calibration.json", numbers)
    storage.write_bytes(folder / "tables.md", tables.encode("utf-8"))
    storage.write_bytes(folder / "calibration.png", detection_figure(summaries, records))


def _say(line: str) -> None:
    print(line, flush=True)
