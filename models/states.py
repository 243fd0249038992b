"""Final hidden states of id rows: what scorers and encoders both give."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from . import precision
from .family import NetworkConfig
from .loading import LoadedNetwork
from .network import Network, Params
from .streaming import stream


class Bound(NamedTuple):
    """A network with its parameters."""

    network: Network
    config: NetworkConfig
    precision: str
    params: Params


def bind(loaded: LoadedNetwork) -> Bound:
    """The network of a loaded model, at the precision its card records."""
    return Bound(loaded.family.network, loaded.spec.network, loaded.card.precision, loaded.params)


def stream_states(
    bound: Bound, ids: Int[np.ndarray, "n t"], lengths: Int[np.ndarray, "n"], *more: np.ndarray
) -> Float[np.ndarray, "n t d"]:
    """Final hidden states, zeros beyond a row's length; rows as `batches.check_rows` leaves them.

    Args:
        more: token types, for networks that have them.
    """
    launch = functools.partial(launch_states, bound.network, bound.config, bound.precision)
    return stream(launch, bound.params, ids, lengths, *more)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def launch_states(
    network: Network,
    config: NetworkConfig,
    matmul_precision: str,
    params: Params,
    ids: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    token_types: Int[Array, "b t"] | None = None,
) -> Float[Array, "b t d"]:
    """float32 hidden states of one batch, zeros at pads."""
    inputs = {} if token_types is None else {"token_types": token_types}
    with precision.products(matmul_precision):
        hidden = network.hidden_states(config, params, ids, token_mask, **inputs)
    return jnp.where(token_mask[..., None], hidden.astype(jnp.float32), 0.0)
