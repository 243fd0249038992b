"""Pure sampling loops over a logits function."""

from . import remasking as remasking
from .config import SamplerConfig
from .naive import CorpusCounts, corpus_counts, mirror, periodic, phrase_bank, topk_iid
from .ranking import entropy, probability, remask_top, take_top
from .registry import get_strategy, register_strategy, strategy_names
from .sampling import sample
from .trajectory import CELL_CLASSES, classify_cells, replacement_rate, stable_cells
from .types import History, Obs, Samples, Strategy

__all__ = [
    "CELL_CLASSES",
    "CorpusCounts",
    "History",
    "Obs",
    "SamplerConfig",
    "Samples",
    "Strategy",
    "classify_cells",
    "corpus_counts",
    "entropy",
    "get_strategy",
    "mirror",
    "periodic",
    "phrase_bank",
    "probability",
    "register_strategy",
    "remask_top",
    "remasking",
    "replacement_rate",
    "sample",
    "stable_cells",
    "strategy_names",
    "take_top",
    "topk_iid",
]
