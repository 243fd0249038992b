"""GPT-2, whose matrices are stored [in, out] as ours are: nothing is transposed but a head."""

from collections.abc import Mapping
from typing import Any

from ..family import Architecture, ModelSpec, Tensor
from ..gpt2 import NETWORK, GPT2Config

_BLOCK = {
    "attn_norm": "ln_1.weight",
    "attn_norm_bias": "ln_1.bias",
    "qkv_proj": "attn.c_attn.weight",
    "qkv_bias": "attn.c_attn.bias",
    "o_proj": "attn.c_proj.weight",
    "o_bias": "attn.c_proj.bias",
    "mlp_norm": "ln_2.weight",
    "mlp_norm_bias": "ln_2.bias",
    "up_proj": "mlp.c_fc.weight",
    "up_bias": "mlp.c_fc.bias",
    "down_proj": "mlp.c_proj.weight",
    "down_bias": "mlp.c_proj.bias",
}


def _spec(c: Mapping[str, Any]) -> ModelSpec:
    width, heads, context = c["n_embd"], c["n_head"], c["n_positions"]
    wrong = []
    if width % heads:
        wrong.append(f"n_embd={width} is not a multiple of n_head={heads}")
    if c.get("n_ctx", context) != context:
        wrong.append(f"n_ctx={c['n_ctx']} contradicts n_positions={context}: both are the context")
    if wrong:
        raise ValueError("; ".join(wrong))
    network = GPT2Config(
        vocab_size=c["vocab_size"],
        hidden_size=width,
        num_layers=c["n_layer"],
        num_heads=heads,
        intermediate_size=c.get("n_inner") or 4 * width,
        max_length=context,
        layer_norm_eps=float(c.get("layer_norm_epsilon", 1e-5)),
        tie_embeddings=bool(c.get("tie_word_embeddings", True)),
    )
    return ModelSpec(
        network,
        mask_id=None,
        eos_id=c.get("eos_token_id"),
        pad_id=c.get("pad_token_id"),
        bos_id=c.get("bos_token_id"),
        num_ids=c["vocab_size"],
    )


GPT2 = Architecture(
    name="gpt2",
    model_types=("gpt2",),
    kinds=frozenset({"scorer", "encoder"}),
    network=NETWORK,
    # Dropout rates act in training alone; summary_* describe a head for multiple choice.
    read=frozenset(
        """attn_pdrop embd_pdrop eos_token_id gradient_checkpointing layer_norm_epsilon n_ctx n_embd
        n_head n_inner n_layer n_positions output_past pad_token_id resid_pdrop summary_activation
        summary_first_dropout summary_proj_to_labels summary_type summary_use_proj
        tie_word_embeddings vocab_size""".split()
    ),
    accepted={
        "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
        "add_cross_attention": (False,),
        "reorder_and_upcast_attn": (False,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "scale_attn_weights": (True,),
    },
    spec=_spec,
    tensors=(
        Tensor("wte.weight", ("embed",)),
        Tensor("wpe.weight", ("position_embed",)),
        *(Tensor(f"h.{{i}}.{theirs}", ("blocks", ours)) for ours, theirs in _BLOCK.items()),
        Tensor("ln_f.weight", ("final_norm",)),
        Tensor("ln_f.bias", ("final_norm_bias",)),
        Tensor("lm_head.weight", ("head",), transpose=True),
    ),
    tied=("head",),
    prefixes=("", "transformer."),
    # The causal mask and its filling, which old files hold as buffers; heads of tasks.
    ignored=(
        r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias",
        r"(score|classifier|qa_outputs|multiple_choice_head)\..*",
    ),
    pooling="last",
)
