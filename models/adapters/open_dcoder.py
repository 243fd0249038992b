"""Open-dCoder: Qwen2 made bidirectional (github.com/pengzhangzhi/Open-dLLM), shifted as Dream.

Its config.json is Qwen2's and names no mask. Where it does not, the tokenizer must: the public
sampling script then adds a mask of its own, whose embedding was never trained.
"""

from collections.abc import Mapping
from typing import Any

from ..decoder import NETWORK
from ..family import Architecture, ModelSpec, decoder_spec
from . import llama, qwen2


def _spec(c: Mapping[str, Any]) -> ModelSpec:
    shape = qwen2.read_shape(c, causal=False, shift=True)
    mask_id = c.get("mask_token_id")
    if mask_id is not None and not 0 <= mask_id < shape.vocab_size:
        raise ValueError(
            f"mask_token_id={mask_id} is outside the vocabulary of {shape.vocab_size}: a mask that"
            " was added after training cannot be used"
        )
    return decoder_spec(shape, c, mask_id)


OPEN_DCODER = Architecture(
    name="open_dcoder",
    model_types=("qwen2",),
    kinds=frozenset({"denoiser"}),
    network=NETWORK,
    read=qwen2.FIELDS | {"mask_token_id"},
    accepted=qwen2.ACCEPTED,
    spec=_spec,
    tensors=qwen2.TENSORS,
    tied=("head",),
    ignored=llama.BUFFERS,
)
