"""The vocabulary of the weight tables: what an adapter says about a published family."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .decoder import DecoderConfig
from .network import Network

# The frozen dataclass of a kind of network: DecoderConfig, DiTConfig, GPT2Config, …
NetworkConfig = Any


class ModelSpec(NamedTuple):
    """A network's shape and the ids its checkpoint declares (None: not declared)."""

    network: NetworkConfig
    mask_id: int | None
    eos_id: int | None
    pad_id: int | None
    bos_id: int | None
    num_ids: int


class Tensor(NamedTuple):
    """One row of a weight table.

    Attributes:
        name: the checkpoint's name; `{i}` stands for the layer, `{e}` for the expert.
        path: where it lives in our parameters; stacked over layers if the name has `{i}`, then
            over experts if it has `{e}`.
        transpose: whether the checkpoint stores [out, in] for our [in, out].
        part: where the checkpoint fuses several of our tensors in one: (config, stored array) ->
            the view of it that is ours, before any transposition. Several rows may share a name.
        stored: with `part`: (config) -> the shape of the fused tensor.
        optional: whether only some shapes of the family have it.
    """

    name: str
    path: tuple[str, ...]
    transpose: bool = False
    part: Callable[[Any, np.ndarray], np.ndarray] | None = None
    stored: Callable[[Any], tuple[int, ...]] | None = None
    optional: bool = False


class Architecture(NamedTuple):
    """One family: its config fields, its weight table, and how both become ours.

    Attributes:
        name: what `architecture=` calls it.
        model_types: what its config.json may call it. Families may share one if they serve
            different kinds, or are told apart by `classes`.
        kinds: what it can serve as: "denoiser", "scorer", "encoder".
        network: the kind of network it is.
        read: config fields that are read, or known to be without effect.
        accepted: config fields and the values that are implemented.
        spec: config.json to `ModelSpec`; KeyError for a missing field, ValueError for a wrong one.
        tensors: the weight table.
        tied: parameters that a network with tied embeddings does not have.
        prefixes: what a checkpoint may put before all names of the table, "" among them.
        renamed: {ending of a stored name: ending in the table}, for older files.
        ignored: regular expressions of stored names (prefix and all) that are known and not
            needed: other heads, poolers, buffers.
        constants: tensors that a checkpoint may store although the config fixes their values.
        classes: what config.json names under `architectures`, where another family of the same
            kind has the same `model_type`.
        pooling: how an encoder of this family pools unless its files say: "cls", "mean", "last".
        write: the config.json of a network and its ids; None where writing is not implemented.
    """

    name: str
    model_types: tuple[str, ...]
    kinds: frozenset[str]
    network: Network
    read: frozenset[str]
    accepted: Mapping[str, tuple[Any, ...]]
    spec: Callable[[Mapping[str, Any]], ModelSpec]
    tensors: tuple[Tensor, ...]
    tied: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ("",)
    renamed: Mapping[str, str] = {}
    ignored: tuple[str, ...] = ()
    constants: Mapping[str, Callable[[Any], np.ndarray]] = {}
    classes: tuple[str, ...] = ()
    pooling: str | None = None
    write: Callable[[DecoderConfig, Mapping[str, int]], dict[str, Any]] | None = None


def layer_tensors(prefix: str, names: Mapping[str, str]) -> tuple[Tensor, ...]:
    """Rows of the weights of a block: ours by theirs; our `*_proj` are matrices, hence transposed.

    Args:
        prefix: what stands before the layer number.
        names: {our name: their name without `.weight`}.
    """
    return tuple(
        Tensor(f"{prefix}{{i}}.{theirs}.weight", ("blocks", ours), transpose=ours.endswith("proj"))
        for ours, theirs in names.items()
    )


def decoder_spec(decoder: DecoderConfig, c: Mapping[str, Any], mask_id: int | None) -> ModelSpec:
    """The `ModelSpec` of a decoder whose config names special ids as Hugging Face does."""
    return ModelSpec(
        decoder,
        mask_id=mask_id,
        eos_id=c.get("eos_token_id"),
        pad_id=c.get("pad_token_id"),
        bos_id=c.get("bos_token_id"),
        num_ids=c["vocab_size"],
    )
