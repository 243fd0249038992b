"""One adapter per published family of checkpoints."""

from .bert import BERT
from .dream import DREAM
from .gpt2 import GPT2
from .illada import ILLADA
from .llada import LLADA
from .llada_moe import LLADA_MOE
from .llama import LLAMA
from .mdlm import MDLM
from .mpnet import MPNET
from .open_dcoder import OPEN_DCODER
from .qwen2 import QWEN2
from .roberta import ROBERTA
from .sedd import SEDD
from .smdm import SMDM

__all__ = [
    "BERT",
    "DREAM",
    "GPT2",
    "ILLADA",
    "LLADA",
    "LLADA_MOE",
    "LLAMA",
    "MDLM",
    "MPNET",
    "OPEN_DCODER",
    "QWEN2",
    "ROBERTA",
    "SEDD",
    "SMDM",
]
