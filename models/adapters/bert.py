"""BERT, MiniLM and E5, with the names Hugging Face gives them."""

from collections.abc import Mapping
from typing import Any

from ..bert import NETWORK, BertConfig
from ..family import Architecture, ModelSpec, Tensor

# Dropout rates act in training alone; directionality and pooler_* are left from the first files.
FIELDS = frozenset(
    """attention_probs_dropout_prob classifier_dropout directionality eos_token_id
    gradient_checkpointing hidden_dropout_prob hidden_size intermediate_size layer_norm_eps
    max_position_embeddings num_attention_heads num_hidden_layers pad_token_id pooler_fc_size
    pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
    tie_word_embeddings type_vocab_size vocab_size""".split()
)
ACCEPTED = {
    "add_cross_attention": (False,),
    "hidden_act": ("gelu",),
    "is_decoder": (False,),
    "position_embedding_type": ("absolute",),
}
# Poolers and heads of tasks: behind the last hidden state, so of no effect on it.
HEADS = (r"(\w+\.)?pooler\..*", r"classifier\..*", r"qa_outputs\..*")
BUFFERS = (r"(\w+\.)?embeddings\.(position_ids|token_type_ids)",)


def pair(theirs: str, ours: str) -> tuple[Tensor, Tensor]:
    """Rows of a Linear (`ours` ends in `_proj`) or a LayerNorm and of its bias."""
    matrix = ours.endswith("_proj")
    bias = ours.removesuffix("_proj") + "_bias"
    where = ("blocks",) if "{i}" in theirs else ()
    return (
        Tensor(f"{theirs}.weight", (*where, ours), transpose=matrix),
        Tensor(f"{theirs}.bias", (*where, bias)),
    )


TENSORS = (
    Tensor("embeddings.word_embeddings.weight", ("embed",)),
    Tensor("embeddings.position_embeddings.weight", ("position_embed",)),
    Tensor("embeddings.token_type_embeddings.weight", ("type_embed",)),
    *pair("embeddings.LayerNorm", "embed_norm"),
    *pair("encoder.layer.{i}.attention.self.query", "q_proj"),
    *pair("encoder.layer.{i}.attention.self.key", "k_proj"),
    *pair("encoder.layer.{i}.attention.self.value", "v_proj"),
    *pair("encoder.layer.{i}.attention.output.dense", "o_proj"),
    *pair("encoder.layer.{i}.attention.output.LayerNorm", "attn_norm"),
    *pair("encoder.layer.{i}.intermediate.dense", "up_proj"),
    *pair("encoder.layer.{i}.output.dense", "down_proj"),
    *pair("encoder.layer.{i}.output.LayerNorm", "mlp_norm"),
)


def read_shape(c: Mapping[str, Any]) -> dict[str, Any]:
    """What the configs of BERT, RoBERTa and MPNet call alike, by our names.

    Raises:
        ValueError: the heads do not divide the hidden states.
        KeyError: a field is missing.
    """
    width, heads = c["hidden_size"], c["num_attention_heads"]
    if width % heads:
        raise ValueError(f"hidden_size={width} is not a multiple of num_attention_heads={heads}")
    return {
        "vocab_size": c["vocab_size"],
        "hidden_size": width,
        "num_layers": c["num_hidden_layers"],
        "num_heads": heads,
        "intermediate_size": c["intermediate_size"],
        "num_positions": c["max_position_embeddings"],
        "layer_norm_eps": float(c.get("layer_norm_eps", 1e-12)),
    }


def encoder_spec(network: Any, c: Mapping[str, Any], pad_id: int) -> ModelSpec:
    """The `ModelSpec` of an encoder, which predicts nothing."""
    return ModelSpec(
        network,
        mask_id=None,
        eos_id=c.get("eos_token_id"),
        pad_id=pad_id,
        bos_id=c.get("bos_token_id"),
        num_ids=c["vocab_size"],
    )


def _spec(c: Mapping[str, Any]) -> ModelSpec:
    network = BertConfig(**read_shape(c), type_vocab_size=c["type_vocab_size"])
    return encoder_spec(network, c, pad_id=c.get("pad_token_id", 0))


BERT = Architecture(
    name="bert",
    model_types=("bert",),
    kinds=frozenset({"encoder"}),
    network=NETWORK,
    read=FIELDS,
    accepted=ACCEPTED,
    spec=_spec,
    tensors=TENSORS,
    prefixes=("", "bert."),
    renamed={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
    ignored=(r"cls\..*", *HEADS, *BUFFERS),
    pooling="cls",
)
