"""Where numbers go while a run is going: JSONL, TensorBoard, Weights & Biases, trackio."""

from .jsonl import JsonlLogger
from .opening import logger_names, open_loggers, parse_loggers
from .protocol import Logger, flat_numbers
from .run_log import RunLog
from .tensorboard import TensorBoardLogger
from .tracker import TrackerLogger

__all__ = [
    "JsonlLogger",
    "Logger",
    "RunLog",
    "TensorBoardLogger",
    "TrackerLogger",
    "flat_numbers",
    "logger_names",
    "open_loggers",
    "parse_loggers",
]
