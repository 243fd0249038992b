"""SEDD with an absorbing state (github.com/louaaron/Score-Entropy-Discrete-Diffusion).

The same DiT as MDLM's, conditioned on sigma, whose output is the logarithm of the concrete score.
At a masked position the score is proportional to the posterior of the clean token, so the log
score serves as its logits.
"""

from collections.abc import Mapping
from typing import Any

from ..dit import NETWORK
from ..family import Architecture, ModelSpec
from . import mdlm


def _spec(c: Mapping[str, Any]) -> ModelSpec:
    mask_id = c["tokens"]
    graph = c["graph"].get("type")
    wrong = [] if graph == "absorb" else [f"graph.type={graph!r} is not implemented ('absorb' is)"]
    for field, value in (("vocab_size", mask_id + 1), ("mask_index", mask_id)):
        if c.get(field, value) != value:
            wrong.append(f"{field}={c[field]} contradicts tokens={mask_id}: it must be {value}")
    if wrong:
        raise ValueError("; ".join(wrong))
    network = mdlm.read_shape(
        c,
        vocab_size=mask_id + 1,
        mask_id=mask_id,
        time_conditioning=True,
        log_score=True,
        scale_by_sigma=bool(c["model"]["scale_by_sigma"]),
    )
    return ModelSpec(
        network, mask_id, eos_id=None, pad_id=None, bos_id=None, num_ids=network.vocab_size
    )


SEDD = Architecture(
    name="sedd",
    model_types=("sedd",),
    kinds=frozenset({"denoiser"}),
    network=NETWORK,
    # The training code's config is stored whole; what is not of the network is without effect.
    read=frozenset(
        """data eval graph mask_index model ngpus noise optim sampling tokens training
        vocab_size work_dir""".split()
    ),
    accepted={},
    spec=_spec,
    tensors=mdlm.tensors(""),
    constants=mdlm.constants(""),
)
