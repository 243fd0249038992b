"""Networks, weights and tokenizers behind pure functions of params."""

from .denoiser import Denoiser, load_denoiser
from .markov_oracle import MarkovOracle
from .registry import ModelEntry, list_models
from .scorer import Scorer, load_scorer
from .sources import ModelCard
from .text_tokens import Tokenizer

__all__ = [
    "Denoiser",
    "MarkovOracle",
    "ModelCard",
    "ModelEntry",
    "Scorer",
    "Tokenizer",
    "list_models",
    "load_denoiser",
    "load_scorer",
]
