"""LLaDA: OLMo's names, LLaMA's blocks (github.com/ML-GSAI/LLaDA)."""

from collections.abc import Mapping
from typing import Any

from ..decoder import NETWORK, DecoderConfig
from ..family import Architecture, ModelSpec, Tensor, decoder_spec, layer_tensors


def _spec(c: Mapping[str, Any]) -> ModelSpec:
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
        max_length=c.get("max_sequence_length"),
    )
    return decoder_spec(decoder, c, mask_id=c["mask_token_id"])


def _write(decoder: DecoderConfig, ids: Mapping[str, int]) -> dict[str, Any]:
    length = {} if decoder.max_length is None else {"max_sequence_length": decoder.max_length}
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
        **length,
        **ids,
    }


LLADA = Architecture(
    name="llada",
    model_types=("llada",),
    kinds=frozenset({"denoiser"}),
    network=NETWORK,
    read=frozenset(
        """d_model embedding_size eos_token_id mask_token_id max_sequence_length mlp_hidden_size
        n_heads n_kv_heads n_layers pad_token_id rms_norm_eps rope_theta vocab_size weight_tying
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
    spec=_spec,
    tensors=(
        Tensor("model.transformer.wte.weight", ("embed",)),
        *layer_tensors(
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
    write=_write,
)
