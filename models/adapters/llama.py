"""Llama (Llama 2 and 3, SmolLM2), with the names Hugging Face gives it and its relatives."""

from collections.abc import Mapping
from typing import Any

from ..decoder import NETWORK, DecoderConfig
from ..family import Architecture, ModelSpec, Tensor, decoder_spec, layer_tensors
from ..rotary import RopeScaling

FIELDS = frozenset(
    """eos_token_id head_dim hidden_size intermediate_size max_position_embeddings
    num_attention_heads num_hidden_layers num_key_value_heads pad_token_id rms_norm_eps
    rope_parameters rope_theta tie_word_embeddings vocab_size""".split()
)

# The fields of each kind of rope scaling, and ours.
_SCALINGS: Mapping[str, Mapping[str, str]] = {
    "linear": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "low_freq_factor": "low_freq_factor",
        "high_freq_factor": "high_freq_factor",
        "original_max_position_embeddings": "original_length",
    },
}

# Rotary frequencies, which older files hold as buffers; the config fixes them.
BUFFERS = (r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",)

WITHOUT_MLP = (
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
        },
    ),
    Tensor("model.norm.weight", ("final_norm",)),
    Tensor("lm_head.weight", ("head",), transpose=True),
)

TENSORS = (
    *WITHOUT_MLP,
    *layer_tensors(
        "model.layers.",
        {"gate_proj": "mlp.gate_proj", "up_proj": "mlp.up_proj", "down_proj": "mlp.down_proj"},
    ),
)


def read_shape(c: Mapping[str, Any], **choices: Any) -> DecoderConfig:
    """The shape a config describes in Llama's fields; `choices` are what the family fixes.

    Raises:
        ValueError: as `read_rope`.
        KeyError: a field is missing.
    """
    theta, scaling = read_rope(c)
    shape: dict[str, Any] = dict(
        vocab_size=c["vocab_size"],
        hidden_size=c["hidden_size"],
        num_layers=c["num_hidden_layers"],
        num_heads=c["num_attention_heads"],
        num_kv_heads=c.get("num_key_value_heads") or c["num_attention_heads"],
        rope_theta=theta,
        rope_scaling=scaling,
        rms_norm_eps=float(c["rms_norm_eps"]),
        head_dim=c.get("head_dim"),
        tie_embeddings=bool(c["tie_word_embeddings"]),
        max_length=c.get("max_position_embeddings"),
    )
    if "intermediate_size" not in choices:
        shape["intermediate_size"] = c["intermediate_size"]
    return DecoderConfig(**shape, **choices)


def read_rope(c: Mapping[str, Any]) -> tuple[float, RopeScaling | None]:
    """Theta and scaling of the rotary embedding, in either spelling.

    Transformers 5 writes all under `rope_parameters`; older files have `rope_theta` (10,000 where
    it is absent) and `rope_scaling`, whose kind is `rope_type` or `type`.

    Raises:
        ValueError: both spellings are there and contradict each other, the kind is not
            implemented, or its fields are missing or unknown.
    """
    found = [(name, _read_rope(c, name)) for name in ("rope_parameters", "rope_scaling")]
    found = [(name, rope) for name, rope in found if c.get(name)] or found[1:]
    if len(found) == 2 and found[0][1] != found[1][1]:
        raise ValueError(
            f"rope_parameters={c['rope_parameters']!r} contradicts rope_theta="
            f"{c.get('rope_theta')!r}, rope_scaling={c['rope_scaling']!r}"
        )
    return found[0][1]


def _read_rope(c: Mapping[str, Any], name: str) -> tuple[float, RopeScaling | None]:
    if not isinstance(c.get(name) or {}, Mapping):
        raise ValueError(f"{name}={c[name]!r} must be an object or null")
    fields = dict(c.get(name) or {})
    if fields.get("partial_rotary_factor") == 1:
        del fields["partial_rotary_factor"]
    theta = float(fields.pop("rope_theta", None) or c.get("rope_theta") or 10_000.0)
    kinds = {str(fields.pop(key)) for key in ("rope_type", "type") if key in fields}
    if not fields and kinds <= {"default"}:
        return theta, None
    kind = kinds.pop() if len(kinds) == 1 else ""
    if kind not in _SCALINGS:
        accepted = " or ".join(map(repr, ("default", *_SCALINGS)))
        raise ValueError(f"{name}={c[name]!r} is not implemented (accepted: rope_type {accepted})")
    names = _SCALINGS[kind]
    if fields.keys() != names.keys():
        raise ValueError(f"{name}={c[name]!r} must have the fields {', '.join(names)} of {kind!r}")
    return theta, RopeScaling(kind, **{names[field]: value for field, value in fields.items()})


def write_shape(decoder: DecoderConfig, ids: Mapping[str, int]) -> dict[str, Any]:
    """The fields that `read_shape` reads; optional ones only where they say something."""
    fields: dict[str, Any] = {
        "hidden_size": decoder.hidden_size,
        "num_attention_heads": decoder.num_heads,
        "num_key_value_heads": decoder.num_kv_heads,
        "num_hidden_layers": decoder.num_layers,
        "intermediate_size": decoder.intermediate_size,
        "vocab_size": decoder.vocab_size,
        "rope_theta": decoder.rope_theta,
        "rms_norm_eps": decoder.rms_norm_eps,
        "tie_word_embeddings": decoder.tie_embeddings,
    }
    if decoder.head_dim is not None:
        fields["head_dim"] = decoder.head_dim
    if decoder.max_length is not None:
        fields["max_position_embeddings"] = decoder.max_length
    if decoder.rope_scaling is not None:
        names = _SCALINGS[decoder.rope_scaling.kind]
        values = {field: getattr(decoder.rope_scaling, ours) for field, ours in names.items()}
        fields["rope_scaling"] = {"rope_type": decoder.rope_scaling.kind, **values}
    return {**fields, **ids}


def _spec(c: Mapping[str, Any]) -> ModelSpec:
    return decoder_spec(read_shape(c, causal=True), c, mask_id=None)


LLAMA = Architecture(
    name="llama",
    model_types=("llama",),
    kinds=frozenset({"scorer"}),
    network=NETWORK,
    # is_llama_config and transformers.js_config are notes that SmolLM2's files carry.
    read=FIELDS | {"is_llama_config", "rope_scaling", "transformers.js_config"},
    accepted={
        "attention_bias": (False,),
        "hidden_act": ("silu",),
        "mlp_bias": (False,),
        "rope_interleaved": (False,),
    },
    spec=_spec,
    tensors=TENSORS,
    tied=("head",),
    ignored=BUFFERS,
    write=lambda decoder, ids: {"model_type": "llama", **write_shape(decoder, ids)},
)
