"""Pure sampling loops over a logits function."""

from . import ordering as ordering
from . import planning as planning
from . import remasking as remasking
from . import token_to_mask as token_to_mask
from .ancestral import transition_probabilities
from .config import SamplerConfig
from .naive import CorpusCounts, corpus_counts, mirror, periodic, phrase_bank, topk_iid
from .ranking import confidence, entropy, probability, remask_top, take_top
from .registry import get_strategy, register_strategy, strategy_names
from .sampling import sample
from .trajectory import (
    CELL_CLASSES,
    EosUse,
    classify_cells,
    eos_use,
    never_settled,
    recommit_change,
    replacement_rate,
    stable_cells,
    step_notes,
    tie_rate,
)
from .types import History, Obs, Rates, Samples, Settings, StepNotes, Strategy, Traits

__all__ = [
    "CELL_CLASSES",
    "CorpusCounts",
    "EosUse",
    "History",
    "Obs",
    "Rates",
    "SamplerConfig",
    "Samples",
    "Settings",
    "StepNotes",
    "Strategy",
    "Traits",
    "classify_cells",
    "confidence",
    "corpus_counts",
    "entropy",
    "eos_use",
    "get_strategy",
    "mirror",
    "never_settled",
    "ordering",
    "periodic",
    "phrase_bank",
    "planning",
    "probability",
    "recommit_change",
    "register_strategy",
    "remask_top",
    "remasking",
    "replacement_rate",
    "sample",
    "stable_cells",
    "step_notes",
    "strategy_names",
    "take_top",
    "tie_rate",
    "token_to_mask",
    "topk_iid",
    "transition_probabilities",
]
