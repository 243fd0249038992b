"""Writes what a calibration found: numbers, tables and the figure."""

import pathlib

from .. import storage
from ..errors import InputError
from .figure import detection_figure
from .summary import (
    Records,
    bias_table,
    metrics_table,
    summarise,
    summary_record,
    truth_table,
)


def write_calibration(records: Records, folder: pathlib.Path) -> None:
    """Writes `folder`/calibration.json, tables.md and calibration.png.

    Raises:
        InputError: every metric refused some clean bank.
    """
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
