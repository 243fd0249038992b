"""Dream, Dream-Coder, DreamOn and DiffuCoder: Qwen2 made bidirectional (github.com/DreamLM/Dream).

The published forward gives next-token logits, which its sampler moves one place to the right;
here the network does that itself, so that position i predicts token i as everywhere else.
DreamOn's network is Dream's: how it grows and shrinks its canvas is the matter of its sampler,
which alone knows the tokens for it.
"""

from collections.abc import Mapping
from typing import Any

from ..decoder import NETWORK, DecoderConfig
from ..family import Architecture, ModelSpec, decoder_spec
from . import llama, qwen2


def _spec(c: Mapping[str, Any]) -> ModelSpec:
    mask_id = c["mask_token_id"]
    shape = llama.read_shape(c, causal=False, qkv_bias=True, shift=True)
    return decoder_spec(shape, c, mask_id)


def _write(decoder: DecoderConfig, ids: Mapping[str, int]) -> dict[str, Any]:
    return {"model_type": "Dream", **llama.write_shape(decoder, ids)}


DREAM = Architecture(
    name="dream",
    model_types=("Dream",),
    kinds=frozenset({"denoiser"}),
    network=NETWORK,
    # Without use_sliding_window there is no window, whatever its width and its layers.
    read=llama.FIELDS
    | {
        "delete_token_id",
        "expand_token_id",
        "mask_token_id",
        "max_window_layers",
        "sliding_window",
    },
    accepted={
        "hidden_act": ("silu",),
        "rope_scaling": (None,),
        "use_mrope": (False,),
        "use_sliding_window": (False,),
    },
    spec=_spec,
    tensors=qwen2.TENSORS,
    tied=("head",),
    ignored=llama.BUFFERS,
    write=_write,
)
