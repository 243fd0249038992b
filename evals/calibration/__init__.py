"""Metrics measured against known damage of a known language."""

from .banks import Bank
from .ladders import UNITS, Level, ladders
from .measures import MEASURES, Context, Measure
from .power import detectable, null_band, power
from .settings import Settings
from .study import Calibration
from .summary import Detection, Summary, bias_table, metrics_table, summarise, truth_table
from .truth import Known, Truth, truth

__all__ = [
    "MEASURES",
    "UNITS",
    "Bank",
    "Calibration",
    "Context",
    "Detection",
    "Known",
    "Level",
    "Measure",
    "Settings",
    "Summary",
    "Truth",
    "bias_table",
    "detectable",
    "ladders",
    "metrics_table",
    "null_band",
    "power",
    "summarise",
    "truth",
    "truth_table",
]
