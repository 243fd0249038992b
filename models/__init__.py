"""Networks, weights and tokenizers behind pure functions of params."""

from .architectures import register_architecture
from .decoder import DecoderConfig
from .denoiser import Denoiser, load_denoiser
from .encoder import Encoder, Recipe, load_encoder
from .family import Architecture, ModelSpec, Tensor
from .markov_oracle import MarkovOracle
from .registry import ModelEntry, list_models
from .scorer import Scorer, load_scorer
from .sharding import make_mesh
from .soft_masking import SoftMasking, soft_masked
from .sources import ModelCard
from .text_tokens import Tokenizer

__all__ = [
    "Architecture",
    "DecoderConfig",
    "Denoiser",
    "Encoder",
    "MarkovOracle",
    "ModelCard",
    "ModelEntry",
    "ModelSpec",
    "Recipe",
    "Scorer",
    "SoftMasking",
    "Tensor",
    "Tokenizer",
    "list_models",
    "load_denoiser",
    "load_encoder",
    "load_scorer",
    "make_mesh",
    "register_architecture",
    "soft_masked",
]
