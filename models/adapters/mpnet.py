"""MPNet (github.com/microsoft/MPNet), with the names Hugging Face gives it."""

from collections.abc import Mapping
from typing import Any

from ..family import Architecture, ModelSpec, Tensor
from ..mpnet import NETWORK, MPNetConfig
from . import bert, roberta


def _spec(c: Mapping[str, Any]) -> ModelSpec:
    rows = c.get("relative_attention_num_buckets", 32)
    if rows < 32:
        raise ValueError(
            f"relative_attention_num_buckets={rows} is not implemented (accepted: 32 or more, of"
            " which the first 32 are used, as the published code does)"
        )
    pad_id = roberta.read_pad(c)
    network = MPNetConfig(**bert.read_shape(c), pad_id=pad_id, relative_rows=rows)
    return bert.encoder_spec(network, c, pad_id)


MPNET = Architecture(
    name="mpnet",
    model_types=("mpnet",),
    kinds=frozenset({"encoder"}),
    network=NETWORK,
    read=(bert.FIELDS - {"type_vocab_size"}) | {"relative_attention_num_buckets"},
    accepted=bert.ACCEPTED,
    spec=_spec,
    tensors=(
        Tensor("embeddings.word_embeddings.weight", ("embed",)),
        Tensor("embeddings.position_embeddings.weight", ("position_embed",)),
        *bert.pair("embeddings.LayerNorm", "embed_norm"),
        Tensor("encoder.relative_attention_bias.weight", ("relative_bias",)),
        *bert.pair("encoder.layer.{i}.attention.attn.q", "q_proj"),
        *bert.pair("encoder.layer.{i}.attention.attn.k", "k_proj"),
        *bert.pair("encoder.layer.{i}.attention.attn.v", "v_proj"),
        *bert.pair("encoder.layer.{i}.attention.attn.o", "o_proj"),
        *bert.pair("encoder.layer.{i}.attention.LayerNorm", "attn_norm"),
        *bert.pair("encoder.layer.{i}.intermediate.dense", "up_proj"),
        *bert.pair("encoder.layer.{i}.output.dense", "down_proj"),
        *bert.pair("encoder.layer.{i}.output.LayerNorm", "mlp_norm"),
    ),
    prefixes=("", "mpnet."),
    ignored=(r"lm_head\..*", *bert.HEADS, *bert.BUFFERS),
    pooling="mean",
)
