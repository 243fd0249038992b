"""What each published family calls things: config fields and tensor names, as tables.

`read_config` turns a config.json into our `ModelSpec` and refuses what it does not understand:
an unknown field, or a setting that is not implemented, could silently change the logits.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .decoder import DecoderConfig

# Book-keeping of Hugging Face's PretrainedConfig: without effect on a forward pass.
_IGNORED = frozenset(
    """_attn_implementation_autoset _name_or_path add_cross_attention architectures
    attention_dropout auto_map bad_words_ids begin_suppress_tokens bos_token_id
    chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id diversity_penalty
    do_sample dtype early_stopping embedding_dropout encoder_no_repeat_ngram_size
    exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id
    id2label init_cutoff_factor init_device init_fn init_std initializer_range is_decoder
    is_encoder_decoder label2id length_penalty max_length max_position_embeddings
    max_sequence_length min_length mlp_ratio model_type no_repeat_ngram_size num_beam_groups
    num_beams num_return_sequences output_attentions output_hidden_states output_scores prefix
    pretraining_tp problem_type pruned_heads remove_invalid_values repetition_penalty
    residual_dropout return_dict return_dict_in_generate sep_token_id suppress_tokens
    task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class top_k
    top_p torch_dtype torchscript transformers_version typical_p use_bfloat16
    use_cache""".split()
)


class ModelSpec(NamedTuple):
    """A decoder's shape and the ids its checkpoint declares (None: not declared)."""

    decoder: DecoderConfig
    mask_id: int | None
    eos_id: int | None
    pad_id: int | None
    bos_id: int | None
    num_ids: int


class Tensor(NamedTuple):
    """One row of a weight table.

    Attributes:
        name: the checkpoint's name; `{i}` stands for the layer.
        path: where it lives in our parameters; stacked over layers if the name has `{i}`.
        transpose: whether the checkpoint stores [out, in] for our [in, out].
    """

    name: str
    path: tuple[str, ...]
    transpose: bool = False


class Architecture(NamedTuple):
    """One family: fields that are read, fields with accepted values, and the weight table."""

    name: str
    kinds: frozenset[str]
    read: frozenset[str]
    accepted: Mapping[str, tuple[Any, ...]]
    spec: Callable[[Mapping[str, Any]], ModelSpec]
    tensors: tuple[Tensor, ...]
    tied: tuple[str, ...]


def architecture_of(config: Mapping[str, Any], override: str | None, where: str) -> Architecture:
    """The family of a config: `override`, or its `model_type`.

    Raises:
        ValueError: neither names a family that is implemented.
    """
    name = str(override or config.get("model_type"))
    if name not in ARCHITECTURES:
        accepted = ", ".join(sorted(ARCHITECTURES))
        raise ValueError(
            f"{where}: architecture {name!r} is not implemented; accepted: {accepted}"
            " (model_type in config.json, or the argument architecture=)"
        )
    return ARCHITECTURES[name]


def read_config(config: Mapping[str, Any], family: Architecture, where: str) -> ModelSpec:
    """Checks every field of a config and translates it.

    Raises:
        ValueError: lists all unknown fields, settings that are not implemented and missing fields.
    """
    problems = []
    for field, value in config.items():
        if field in family.accepted:
            if value not in family.accepted[field]:
                allowed = " or ".join(repr(v) for v in family.accepted[field])
                problems.append(f"{field}={value!r} is not implemented (accepted: {allowed})")
        elif field not in family.read and field not in _IGNORED:
            problems.append(f"unknown field {field!r}")
    try:
        spec = family.spec(config)
    except KeyError as missing:
        problems.append(f"missing field {missing.args[0]!r}")
    except ValueError as wrong:
        problems.append(str(wrong))
    if problems:
        raise ValueError(f"{where}: config.json of a {family.name} model: " + "; ".join(problems))
    return spec


def write_config(family: Architecture, decoder: DecoderConfig, ids: Mapping[str, int]) -> dict:
    """The config.json that `read_config` turns back into `decoder` and the ids."""
    if family.name == "llada":
        return {
            "model_type": "llada",
            "d_model": decoder.hidden_size,
            "n_heads": decoder.num_heads,
            "n_kv_heads": decoder.num_kv_heads,
            "n_layers": decoder.num_layers,
            "mlp_hidden_size": decoder.intermediate_size,
            "vocab_size": decoder.vocab_size,
            "embedding_size": decoder.vocab_size,
            "rope_theta": decoder.rope_theta,
            "rms_norm_eps": decoder.rms_norm_eps,
            "weight_tying": decoder.tie_embeddings,
            **ids,
        }
    return {
        "model_type": "llama",
        "hidden_size": decoder.hidden_size,
        "num_attention_heads": decoder.num_heads,
        "num_key_value_heads": decoder.num_kv_heads,
        "num_hidden_layers": decoder.num_layers,
        "intermediate_size": decoder.intermediate_size,
        "vocab_size": decoder.vocab_size,
        "rope_theta": decoder.rope_theta,
        "rms_norm_eps": decoder.rms_norm_eps,
        "tie_word_embeddings": decoder.tie_embeddings,
        **ids,
    }


def _llada_spec(c: Mapping[str, Any]) -> ModelSpec:
    decoder = DecoderConfig(
        vocab_size=c.get("embedding_size") or c["vocab_size"],
        hidden_size=c["d_model"],
        num_layers=c["n_layers"],
        num_heads=c["n_heads"],
        num_kv_heads=c.get("n_kv_heads") or c["n_heads"],
        intermediate_size=c.get("mlp_hidden_size") or c["mlp_ratio"] * c["d_model"],
        causal=False,
        rope_theta=float(c["rope_theta"]),
        rms_norm_eps=float(c["rms_norm_eps"]),
        tie_embeddings=bool(c["weight_tying"]),
    )
    return ModelSpec(
        decoder,
        mask_id=c["mask_token_id"],
        eos_id=c.get("eos_token_id"),
        pad_id=c.get("pad_token_id"),
        bos_id=c.get("bos_token_id"),
        num_ids=c["vocab_size"],
    )


def _llama_spec(c: Mapping[str, Any]) -> ModelSpec:
    rope = c.get("rope_parameters") or {}
    if rope.get("rope_type", "default") != "default":
        raise ValueError(
            f"rope_type={rope['rope_type']!r} is not implemented (accepted: 'default')"
        )
    if unknown := set(rope) - {"rope_type", "rope_theta"}:
        raise ValueError(f"unknown fields {sorted(unknown)} in rope_parameters")
    decoder = DecoderConfig(
        vocab_size=c["vocab_size"],
        hidden_size=c["hidden_size"],
        num_layers=c["num_hidden_layers"],
        num_heads=c["num_attention_heads"],
        num_kv_heads=c.get("num_key_value_heads") or c["num_attention_heads"],
        intermediate_size=c["intermediate_size"],
        causal=True,
        rope_theta=float(rope.get("rope_theta") or c["rope_theta"]),
        rms_norm_eps=float(c["rms_norm_eps"]),
        head_dim=c.get("head_dim"),
        tie_embeddings=bool(c["tie_word_embeddings"]),
    )
    return ModelSpec(
        decoder,
        mask_id=None,
        eos_id=c.get("eos_token_id"),
        pad_id=c.get("pad_token_id"),
        bos_id=c.get("bos_token_id"),
        num_ids=c["vocab_size"],
    )


def _layer(prefix: str, names: Mapping[str, str]) -> list[Tensor]:
    return [
        Tensor(f"{prefix}{{i}}.{theirs}.weight", ("blocks", ours), transpose=ours.endswith("proj"))
        for ours, theirs in names.items()
    ]


_LLADA = Architecture(
    name="llada",
    kinds=frozenset({"denoiser"}),
    read=frozenset(
        """d_model embedding_size eos_token_id mask_token_id mlp_hidden_size n_heads n_kv_heads
        n_layers pad_token_id rms_norm_eps rope_theta vocab_size weight_tying
        tie_word_embeddings""".split()
    ),
    accepted={
        "activation_type": ("silu",),
        "alibi": (False,),
        "alibi_bias_max": (8.0,),
        "attention_layer_norm": (False,),
        "attention_layer_norm_with_affine": (True, False),
        "bias_for_layer_norm": (False, None),
        "block_group_size": (1,),
        "block_type": ("llama",),
        "flash_attention": (True, False),
        "include_bias": (False,),
        "include_qkv_bias": (False,),
        "input_emb_norm": (False,),
        "layer_norm_type": ("rms",),
        "layer_norm_with_affine": (True,),
        "multi_query_attention": (None, False),
        "precision": (None, "amp_bf16"),
        "rope": (True,),
        "rope_full_precision": (True,),
        "scale_logits": (False,),
    },
    spec=_llada_spec,
    tensors=(
        Tensor("model.transformer.wte.weight", ("embed",)),
        *_layer(
            "model.transformer.blocks.",
            {
                "attn_norm": "attn_norm",
                "q_proj": "q_proj",
                "k_proj": "k_proj",
                "v_proj": "v_proj",
                "o_proj": "attn_out",
                "mlp_norm": "ff_norm",
                "gate_proj": "ff_proj",
                "up_proj": "up_proj",
                "down_proj": "ff_out",
            },
        ),
        Tensor("model.transformer.ln_f.weight", ("final_norm",)),
        Tensor("model.transformer.ff_out.weight", ("head",), transpose=True),
    ),
    tied=("head",),
)

_LLAMA = Architecture(
    name="llama",
    kinds=frozenset({"scorer"}),
    read=frozenset(
        """eos_token_id head_dim hidden_size intermediate_size num_attention_heads
        num_hidden_layers num_key_value_heads pad_token_id rms_norm_eps rope_parameters rope_theta
        tie_word_embeddings vocab_size""".split()
    ),
    accepted={
        "attention_bias": (False,),
        "hidden_act": ("silu",),
        "mlp_bias": (False,),
        "rope_scaling": (None,),
    },
    spec=_llama_spec,
    tensors=(
        Tensor("model.embed_tokens.weight", ("embed",)),
        *_layer(
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
    ),
    tied=("head",),
)

ARCHITECTURES: Mapping[str, Architecture] = {f.name: f for f in (_LLADA, _LLAMA)}
