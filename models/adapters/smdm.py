"""SMDM: the bidirectional Llama of lit-gpt (github.com/ML-GSAI/SMDM).

Its releases are bare weights: the config.json to put beside them holds the fields of lit-gpt's
`Config`, as `lit_gpt/config.py` lists them by the model's name. The mask is an id beyond the
padded vocabulary, with a row in the embedding and no column in the head.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..decoder import NETWORK, DecoderConfig
from ..family import Architecture, ModelSpec, Tensor, layer_tensors

# What lit-gpt takes for a field that is left out is another network than this one.
_REQUIRED = ("_mlp_class", "_norm_class", "bias", "parallel_residual", "rotary_percentage")


def _spec(c: Mapping[str, Any]) -> ModelSpec:
    for field in _REQUIRED:
        c[field]
    padded = c.get("padded_vocab_size")
    if padded is None:
        padded = -(-c["vocab_size"] // c["padding_multiple"]) * c["padding_multiple"]
    if c.get("mask_token_id", padded) != padded:
        raise ValueError(
            f"mask_token_id={c['mask_token_id']} must be the padded vocabulary's size {padded}"
        )
    network = DecoderConfig(
        vocab_size=padded + 1,
        hidden_size=c["n_embd"],
        num_layers=c["n_layer"],
        num_heads=c["n_head"],
        num_kv_heads=c.get("n_query_groups") or c["n_head"],
        intermediate_size=c["intermediate_size"],
        causal=False,
        rms_norm_eps=float(c["norm_eps"]),
        rope_cache_dtype="bfloat16",
        max_length=c["block_size"],
        num_outputs=padded,
    )
    return ModelSpec(
        network,
        mask_id=padded,
        eos_id=c.get("eos_token_id"),
        pad_id=c.get("pad_token_id"),
        bos_id=c.get("bos_token_id"),
        num_ids=c["vocab_size"],
    )


def _fused(network: DecoderConfig) -> tuple[int, int, int]:
    """Query groups, heads in each (queries, then the key, then the value), width of a head."""
    groups = network.num_kv_heads
    return groups, network.num_heads // groups + 2, network.width_per_head


def _stored(network: DecoderConfig) -> tuple[int, int]:
    return int(np.prod(_fused(network))), network.hidden_size


def _part(heads: slice):
    """The rows of some heads of every group, group after group."""

    def part(network: DecoderConfig, fused: np.ndarray) -> np.ndarray:
        split = fused.reshape(*_fused(network), network.hidden_size)
        return split[:, heads].reshape(-1, network.hidden_size)

    return part


SMDM = Architecture(
    name="smdm",
    model_types=("smdm",),
    kinds=frozenset({"denoiser"}),
    network=NETWORK,
    read=frozenset(
        """block_size eos_token_id intermediate_size mask_token_id n_embd n_head n_layer
        n_query_groups name norm_eps org pad_token_id padded_vocab_size padding_multiple
        vocab_size""".split()
    ),
    accepted={
        "_mlp_class": ("LLaMAMLP",),
        "_norm_class": ("RMSNorm", "FusedRMSNorm"),
        "bias": (False,),
        "condense_ratio": (1,),
        "parallel_residual": (False,),
        "rotary_percentage": (1.0,),
        "shared_attention_norm": (False,),
    },
    spec=_spec,
    tensors=(
        Tensor("transformer.wte.weight", ("embed",)),
        *(
            Tensor(
                "transformer.h.{i}.attn.attn.weight",
                ("blocks", f"{name}_proj"),
                transpose=True,
                part=_part(heads),
                stored=_stored,
            )
            for name, heads in (("q", slice(-2)), ("k", slice(-2, -1)), ("v", slice(-1, None)))
        ),
        *layer_tensors(
            "transformer.h.",
            {
                "attn_norm": "norm_1",
                "o_proj": "attn.proj",
                "mlp_norm": "norm_2",
                "gate_proj": "mlp.swiglu.w1",
                "up_proj": "mlp.swiglu.w2",
                "down_proj": "mlp.swiglu.w3",
            },
        ),
        Tensor("transformer.ln_f.weight", ("final_norm",)),
        Tensor("lm_head.weight", ("head",), transpose=True),
    ),
)
