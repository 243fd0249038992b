"""Sampling from a network with the special ids that the network itself declares."""

from collections.abc import Callable
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import Array, Bool, Int

from ... import samplers


class Network(Protocol):
    """What is sampled from: a `models.Denoiser`, a `models.MarkovOracle` or alike."""

    @property
    def logits_fn(self) -> Callable[..., Any]: ...
    @property
    def params(self) -> Any: ...
    @property
    def mask_id(self) -> int: ...
    @property
    def num_ids(self) -> int: ...
    @property
    def eos_id(self) -> int | None: ...


def sample_from(
    network: Network,
    config: samplers.SamplerConfig,
    prompt: Int[Array, "b p"] | Any,
    prompt_mask: Bool[Array, "b p"] | Any,
    keys: Array,
) -> samplers.Samples:
    """`samplers.sample` with the network's function, parameters and ids."""
    return samplers.sample(
        network.logits_fn,
        network.params,
        prompt,
        prompt_mask,
        keys,
        config,
        mask_id=network.mask_id,
        num_ids=network.num_ids,
        eos_id=network.eos_id,
    )


def judges_tokens(network: Network) -> bool:
    """Whether the network says how good the tokens held are, as some strategies need; runs none."""

    def call(params: Any, ids: Array, mask: Array) -> Any:
        return network.logits_fn(params, ids, mask, slice(0, 1))

    ids = np.zeros((1, 1), np.int32)
    returned = jax.eval_shape(call, network.params, ids, np.ones_like(ids, bool))
    return isinstance(returned, tuple) and "quality" in returned[1]
