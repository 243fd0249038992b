"""One adapter per published family of checkpoints."""

from .dream import DREAM
from .llada import LLADA
from .llama import LLAMA
from .mdlm import MDLM
from .sedd import SEDD

__all__ = ["DREAM", "LLADA", "LLAMA", "MDLM", "SEDD"]
