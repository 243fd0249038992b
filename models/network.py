"""What a kind of network is to the rest: pure functions of a config, parameters and tokens.

`decoder`, `dit`, `gpt2`, `bert` and `mpnet` each offer one `NETWORK`; loaders, scorers and encoders
know nothing else of them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

Params = dict[str, Any]


def scan_layers(
    layer: Callable[[Any, Any], Any], hidden: Any, stack: Any, *, remat: bool = False
) -> Any:
    """Runs (hidden, weights of one layer) -> hidden over a stack, compiling one layer.

    Args:
        remat: whether a gradient computes each layer again instead of keeping what it held.
    """
    body = jax.checkpoint(layer, prevent_cse=False) if remat else layer
    return jax.lax.scan(lambda hidden, weights: (body(hidden, weights), None), hidden, stack)[0]


def head_logits(
    hidden: Array, weight: Array, columns: tuple[Any, int] | None, *, tied: bool
) -> Array:
    """float32 logits of final hidden states.

    Args:
        hidden: [b l d].
        weight: the head [d v], or the embedding [v d] it is tied to.
        columns: first id and number of the ids that are wanted, or None for all.
        tied: which of them `weight` is.
    """
    if columns is not None:
        weight = jax.lax.dynamic_slice_in_dim(weight, *columns, axis=0 if tied else 1)
    matrix = weight.T if tied else weight
    flat = hidden.reshape(-1, hidden.shape[-1])
    logits = jnp.matmul(flat, matrix, preferred_element_type=jnp.float32)
    return logits.reshape(*hidden.shape[:-1], matrix.shape[-1])


def _none(config: Any, *args: Any, **kwargs: Any) -> Any:
    raise ValueError(f"a network of {type(config).__name__} does not offer this")


class Network(NamedTuple):
    """One kind of network. `config` is its frozen dataclass, first argument of everything.

    Every config has `vocab_size` (rows of the embedding), `num_layers` and `max_length` (most
    tokens a row may have, or None where nothing limits it).

    Attributes:
        abstract_params: (config) -> shapes and dtypes of the parameters; a plain nested dict, with
            the weights of all layers stacked on the first axis below "blocks".
        hidden_states: (config, params, tokens Int["b t"], token_mask Bool["b t"], **inputs) ->
            Float["b t d"] after the final norm. Values at pads mean nothing, but are finite. Those
            of scorers take `remat` as `scan_layers` does.
        project: (config, params, hidden Float["b l d"], columns=None) -> float32 logits
            Float["b l v"], or those of `columns`, a pair of first id and (static) number; for
            networks with a head.
        region_logits: (config, params, tokens, token_mask, region: slice, **inputs) -> float32
            logits of a region; None where they are `project` of the region's `hidden_states`.
        inputs: names of the keyword inputs a forward may be given, such as "sigma".
    """

    abstract_params: Callable[..., Params]
    hidden_states: Callable[..., Any] = _none
    project: Callable[..., Any] = _none
    region_logits: Callable[..., Any] | None = None
    inputs: tuple[str, ...] = ()
