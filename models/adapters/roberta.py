"""RoBERTa: BERT whose positions start behind the id of its pad."""

from collections.abc import Mapping
from typing import Any

from ..bert import NETWORK, BertConfig
from ..family import Architecture, ModelSpec
from . import bert


def read_pad(c: Mapping[str, Any]) -> int:
    """The id behind which positions start: 1 unless the config says otherwise.

    Raises:
        ValueError: it is no id of the vocabulary, or leaves no position for a token.
    """
    pad_id, ids, rows = c.get("pad_token_id", 1), c["vocab_size"], c["max_position_embeddings"]
    if not isinstance(pad_id, int) or not 0 <= pad_id < min(ids, rows - 1):
        raise ValueError(
            f"pad_token_id={pad_id!r} must be an id below vocab_size={ids} and below"
            f" max_position_embeddings - 1 = {rows - 1}, since positions start behind it"
        )
    return pad_id


def _spec(c: Mapping[str, Any]) -> ModelSpec:
    pad_id = read_pad(c)
    network = BertConfig(
        **bert.read_shape(c), type_vocab_size=c["type_vocab_size"], position_pad_id=pad_id
    )
    return bert.encoder_spec(network, c, pad_id)


ROBERTA = Architecture(
    name="roberta",
    model_types=("roberta",),
    kinds=frozenset({"encoder"}),
    network=NETWORK,
    read=bert.FIELDS,
    accepted=bert.ACCEPTED,
    spec=_spec,
    tensors=bert.TENSORS,
    prefixes=("", "roberta."),
    ignored=(r"lm_head\..*", *bert.HEADS, *bert.BUFFERS),
    pooling="cls",
)
