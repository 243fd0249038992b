"""Dream, DreamCoder and DiffuCoder: Qwen2 made bidirectional (github.com/DreamLM/Dream).

The published forward gives next-token logits, which its sampler moves one place to the right;
here the network does that itself, so that position i predicts token i as everywhere else.
"""

from collections.abc import Mapping
from typing import Any

from ..decoder import DecoderConfig
from ..family import Architecture, ModelSpec, Tensor, decoder_spec
from . import llama


def _spec(c: Mapping[str, Any]) -> ModelSpec:
    shape = llama.read_shape(c, causal=False, qkv_bias=True, shift=True)
    return decoder_spec(shape, c, mask_id=c["mask_token_id"])


def _write(decoder: DecoderConfig, ids: Mapping[str, int]) -> dict[str, Any]:
    return {"model_type": "Dream", **llama.write_shape(decoder, ids)}


DREAM = Architecture(
    name="dream",
    model_type="Dream",
    kinds=frozenset({"denoiser"}),
    # max_window_layers says which layers the sliding window spares; there is no window.
    read=llama.FIELDS | {"mask_token_id", "max_window_layers"},
    accepted={
        "hidden_act": ("silu",),
        "rope_scaling": (None,),
        "sliding_window": (None,),
        "use_sliding_window": (False,),
    },
    spec=_spec,
    tensors=(
        *llama.TENSORS,
        *(
            Tensor(f"model.layers.{{i}}.self_attn.{x}_proj.bias", ("blocks", f"{x}_bias"))
            for x in "qkv"
        ),
    ),
    tied=("head",),
    write=_write,
)
