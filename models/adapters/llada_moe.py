"""LLaDA-MoE: Llama's names, normed queries and keys, a mixture of experts in every layer.

Source: huggingface.co/inclusionAI/LLaDA-MoE-7B-A1B-Base, as in github.com/ZHZisZZ/dllm.
"""

from collections.abc import Mapping
from typing import Any

from ..decoder import NETWORK
from ..family import Architecture, ModelSpec, Tensor, decoder_spec, layer_tensors
from . import llama

_EXPERTS = "model.layers.{i}.mlp.experts.{e}."


def _spec(c: Mapping[str, Any]) -> ModelSpec:
    num_experts, chosen = c["num_experts"], c["num_experts_per_tok"]
    if not 1 <= chosen <= num_experts:
        raise ValueError(f"num_experts_per_tok={chosen} must lie in 1..num_experts={num_experts}")
    layers = c["moe_layer_freq"]
    if list(layers) != [1] * c["num_hidden_layers"]:
        raise ValueError(f"moe_layer_freq={layers!r} is not implemented (accepted: 1 a layer)")
    shape = llama.read_shape(
        c,
        causal=False,
        intermediate_size=c["expert_intermediate_size"],
        qk_norm=bool(c["qk_layernorm"]),
        num_experts=num_experts,
        experts_per_token=chosen,
        expert_bias=bool(c["moe_router_enable_expert_bias"]),
    )
    # Published configs name no mask, and leave it to the tokenizer.
    return decoder_spec(shape, c, c.get("mask_token_id", c.get("mask_token_id_used")))


LLADA_MOE = Architecture(
    name="llada_moe",
    # Published configs call it "llada", as the dense LLaDA; only the class is its own.
    model_types=("llada_moe", "lladamoe", "llada"),
    classes=("LLaDAMoEModel", "LLaDAMoEModelLM"),
    kinds=frozenset({"denoiser"}),
    network=NETWORK,
    # dense_intermediate_size is the width of layers without experts, of which there are none.
    read=llama.FIELDS
    | frozenset(
        """_attn_implementation_used dense_intermediate_size expert_intermediate_size
        mask_token_id mask_token_id_used moe_layer_freq moe_router_enable_expert_bias num_experts
        num_experts_per_tok output_router_logits qk_layernorm router_aux_loss_coef""".split()
    ),
    accepted={
        "attention_bias": (False,),
        "clip_qkv": (None,),
        "hidden_act": ("silu",),
        "partial_rotary_factor": (1,),
        "rope_scaling": (None,),
        "shared_expert_intermediate_size": (None,),
        # The public code ignores these five: accepted are the values that ask for nothing.
        "moe_router_score_function": ("softmax", None),
        "norm_topk_prob": (False, None),
        "routed_scaling_factor": (1,),
        "router_num_group": (None, -2, -1, 1),
        "router_topk_group": (None, -2, -1, 1),
    },
    spec=_spec,
    tensors=(
        *llama.WITHOUT_MLP,
        *layer_tensors(
            "model.layers.",
            {"router_proj": "mlp.gate"},
        ),
        Tensor("model.layers.{i}.mlp.expert_bias", ("blocks", "router_bias"), optional=True),
        *(
            Tensor(f"model.layers.{{i}}.self_attn.{x}.weight", ("blocks", x), optional=True)
            for x in ("q_norm", "k_norm")
        ),
        *(
            Tensor(f"{_EXPERTS}{x}_proj.weight", ("blocks", f"expert_{x}_proj"), transpose=True)
            for x in ("gate", "up", "down")
        ),
    ),
    tied=("head",),
    ignored=llama.BUFFERS,
)
