"""Qwen2 and Qwen2.5: Llama's names, with biases on queries, keys and values."""

from collections.abc import Mapping
from typing import Any

from ..decoder import NETWORK, DecoderConfig
from ..family import Architecture, ModelSpec, Tensor, decoder_spec
from . import llama

# Without use_sliding_window there is no window, whatever its width and its layers.
FIELDS = llama.FIELDS | {"layer_types", "max_window_layers", "rope_scaling", "sliding_window"}

ACCEPTED = {"hidden_act": ("silu",), "use_mrope": (False,), "use_sliding_window": (False,)}

TENSORS = (
    *llama.TENSORS,
    *(
        Tensor(f"model.layers.{{i}}.self_attn.{x}_proj.bias", ("blocks", f"{x}_bias"))
        for x in "qkv"
    ),
)


def read_shape(c: Mapping[str, Any], **choices: Any) -> DecoderConfig:
    """As `llama.read_shape`.

    Raises:
        ValueError: a layer has another attention than full, or as `llama.read_shape`.
    """
    if other := sorted(set(c.get("layer_types") or ()) - {"full_attention"}):
        raise ValueError(f"layer_types with {other} are not implemented (accepted: full_attention)")
    return llama.read_shape(c, qkv_bias=True, **choices)


def _spec(c: Mapping[str, Any]) -> ModelSpec:
    return decoder_spec(read_shape(c, causal=True), c, mask_id=None)


QWEN2 = Architecture(
    name="qwen2",
    model_types=("qwen2",),
    kinds=frozenset({"scorer"}),
    network=NETWORK,
    read=FIELDS,
    accepted=ACCEPTED,
    spec=_spec,
    tensors=TENSORS,
    tied=("head",),
    ignored=llama.BUFFERS,
    write=lambda decoder, ids: {"model_type": "qwen2", **llama.write_shape(decoder, ids)},
)
