"""Llama, with the names Hugging Face gives it and its relatives."""

from collections.abc import Mapping
from typing import Any

from ..decoder import DecoderConfig
from ..family import Architecture, ModelSpec, Tensor, decoder_spec, layer_tensors

FIELDS = frozenset(
    """eos_token_id head_dim hidden_size intermediate_size num_attention_heads
    num_hidden_layers num_key_value_heads pad_token_id rms_norm_eps rope_parameters rope_theta
    tie_word_embeddings vocab_size""".split()
)

TENSORS = (
    Tensor("model.embed_tokens.weight", ("embed",)),
    *layer_tensors(
        "model.layers.",
        {
            "attn_norm": "input_layernorm",
            "q_proj": "self_attn.q_proj",
            "k_proj": "self_attn.k_proj",
            "v_proj": "self_attn.v_proj",
            "o_proj": "self_attn.o_proj",
            "mlp_norm": "post_attention_layernorm",
            "gate_proj": "mlp.gate_proj",
            "up_proj": "mlp.up_proj",
            "down_proj": "mlp.down_proj",
        },
    ),
    Tensor("model.norm.weight", ("final_norm",)),
    Tensor("lm_head.weight", ("head",), transpose=True),
)


def read_shape(c: Mapping[str, Any], **choices: bool) -> DecoderConfig:
    """The shape a config describes in Llama's fields; `choices` are what the family fixes.

    Raises:
        ValueError: the rotary embedding is scaled.
        KeyError: a field is missing.
    """
    rope = c.get("rope_parameters") or {}
    if rope.get("rope_type", "default") != "default":
        raise ValueError(
            f"rope_type={rope['rope_type']!r} is not implemented (accepted: 'default')"
        )
    if unknown := set(rope) - {"rope_type", "rope_theta"}:
        raise ValueError(f"unknown fields {sorted(unknown)} in rope_parameters")
    return DecoderConfig(
        vocab_size=c["vocab_size"],
        hidden_size=c["hidden_size"],
        num_layers=c["num_hidden_layers"],
        num_heads=c["num_attention_heads"],
        num_kv_heads=c.get("num_key_value_heads") or c["num_attention_heads"],
        intermediate_size=c["intermediate_size"],
        rope_theta=float(rope.get("rope_theta") or c["rope_theta"]),
        rms_norm_eps=float(c["rms_norm_eps"]),
        head_dim=c.get("head_dim"),
        tie_embeddings=bool(c["tie_word_embeddings"]),
        **choices,
    )


def write_shape(decoder: DecoderConfig, ids: Mapping[str, int]) -> dict[str, Any]:
    """The fields that `read_shape` reads; the head's width only where it is not implied."""
    width = {} if decoder.head_dim is None else {"head_dim": decoder.head_dim}
    return {
        "hidden_size": decoder.hidden_size,
        "num_attention_heads": decoder.num_heads,
        "num_key_value_heads": decoder.num_kv_heads,
        "num_hidden_layers": decoder.num_layers,
        "intermediate_size": decoder.intermediate_size,
        "vocab_size": decoder.vocab_size,
        "rope_theta": decoder.rope_theta,
        "rms_norm_eps": decoder.rms_norm_eps,
        "tie_word_embeddings": decoder.tie_embeddings,
        **width,
        **ids,
    }


def _spec(c: Mapping[str, Any]) -> ModelSpec:
    return decoder_spec(read_shape(c, causal=True), c, mask_id=None)


LLAMA = Architecture(
    name="llama",
    model_type="llama",
    kinds=frozenset({"scorer"}),
    read=FIELDS,
    accepted={
        "attention_bias": (False,),
        "hidden_act": ("silu",),
        "mlp_bias": (False,),
        "rope_scaling": (None,),
    },
    spec=_spec,
    tensors=TENSORS,
    tied=("head",),
    write=lambda decoder, ids: {"model_type": "llama", **write_shape(decoder, ids)},
)
