"""iLLaDA: Llama's names and blocks, bidirectional (huggingface.co/GSAI-ML/iLLaDA-8B-Base).

Unlike LLaDA its queries are grouped and its head is tied; its config.json names no mask.
"""

from collections.abc import Mapping
from typing import Any

from ..decoder import NETWORK
from ..family import Architecture, ModelSpec, decoder_spec
from . import llama

_MASK_ID = 5  # "<[MASK]>" of its tokenizer, as the public sampling code has it


def _spec(c: Mapping[str, Any]) -> ModelSpec:
    shape = llama.read_shape(c, causal=False)
    return decoder_spec(shape, c, mask_id=c.get("mask_token_id", _MASK_ID))


ILLADA = Architecture(
    name="illada",
    model_types=("illada",),
    kinds=frozenset({"denoiser"}),
    network=NETWORK,
    read=llama.FIELDS | {"embd_pdrop", "mask_token_id", "resid_pdrop"},
    accepted={
        "attention_bias": (False,),
        "hidden_act": ("silu",),
        "layer_norm_eps": (None,),  # else its norms are LayerNorms
        "mlp_bias": (False,),
        "rope_scaling": (None,),
    },
    spec=_spec,
    tensors=llama.TENSORS,
    tied=("head",),
    ignored=llama.BUFFERS,
)
