"""From a source to a network in memory: config, tokenizer, weights, card."""

import pathlib
from collections.abc import Mapping
from typing import NamedTuple

import jax

from . import (
    architectures,
    gguf_config,
    model_files,
    precision,
    sources,
    stored,
    text_tokens,
    weights,
)
from .family import Architecture, ModelSpec
from .network import Params

DTYPES = ("float32", "bfloat16", "float16")


class LoadedNetwork(NamedTuple):
    """What every kind of adapter is made of."""

    family: Architecture
    spec: ModelSpec
    params: Params
    tokenizer: text_tokens.Tokenizer | None
    card: sources.ModelCard
    place: pathlib.Path

    @property
    def num_ids(self) -> int:
        """Ids below this are real tokens: of the head, and of the tokenizer where there is one."""
        if self.tokenizer is None:
            return self.spec.num_ids
        return min(self.spec.num_ids, self.tokenizer.vocab_size)


def load_network(
    name: str,
    kind: str,
    dtype: str = "float32",
    mesh: jax.sharding.Mesh | None = None,
    architecture: str | None = None,
    *,
    matmul_precision: str = "highest",
    digests: Mapping[str, str] | None = None,
) -> LoadedNetwork:
    """Reads config, tokenizer and weights of a source through the tables of its family.

    Config and tokenizer are read, and their faults reported, before any weights are fetched.

    Args:
        name: a source, as in `sources`.
        kind: what it is to serve as: "denoiser", "scorer" or "encoder".
        dtype: type of the parameters in memory: float32, bfloat16 or float16.
        mesh: devices to spread the parameters over (`sharding.make_mesh`); default: the first.
        architecture: family to read the files as, where config.json has no `model_type`.
        matmul_precision: as in `precision`.
        digests: {file: sha256} that must hold; the rest is hashed all the same, for the card.

    Raises:
        ValueError: what was not found, not understood, not implemented, or is not what was
            pinned. That a file changed meanwhile is told by `card.digests`; with `digests`, here.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is not accepted; use {', '.join(DTYPES)}")
    precision.check(matmul_precision)
    name = str(name)
    if name.startswith("gguf:"):
        place = sources.resolve(name)
        before = model_files.file_states(place)
        file = gguf_config.open_gguf(place)
        config, tensors, twice = file.config, file.tensors, []
        tokenizer = None if file.tokenizer is None else text_tokens.Tokenizer(file.tokenizer)
    else:
        small = tuple(p for p in sources.PATTERNS if p != "*.safetensors")
        place = sources.resolve(name, small)
        before = model_files.file_states(place, small)
        config = sources.read_json(place / "config.json")
        tokenizer = text_tokens.load_folder(place)
    family = architectures.architecture_of(config, architecture, name, kind)
    spec = architectures.read_config(config, family, name)
    if tokenizer is not None:
        check_tokenizer(tokenizer, family, spec, name)
    if not name.startswith("gguf:"):
        place = sources.resolve(name)
        # Of files that were read already, the state before that.
        before = {**model_files.file_states(place), **before}
        tensors, twice = stored.open_safetensors(stored.weight_files(place))
    hashing = None if digests is None else model_files.check_pins(place, digests)
    params = weights.place_params(
        tensors, family, spec.network, dtype, mesh, where=name, twice=twice
    )
    if hashing is not None:
        model_files.check_unchanged(before)
    # Not beside the loading, which it would slow: while the first program compiles.
    hashing = hashing or model_files.start_hashing(place, before)
    card = sources.ModelCard(
        name,
        family.name,
        dtype,
        sum(x.size for x in jax.tree.leaves(params)),
        config,
        matmul_precision,
        hashing,
    )
    return LoadedNetwork(family, spec, params, tokenizer, card, place)


def check_tokenizer(
    tokenizer: text_tokens.Tokenizer, family: Architecture, spec: ModelSpec, where: str
) -> None:
    """Refuses a tokenizer that gives ids the network has no embedding for.

    Raises:
        ValueError: its largest id is beyond the embedding.
    """
    rows = spec.network.vocab_size
    if tokenizer.vocab_size > rows:
        raise ValueError(
            f"{where}: the tokenizer has ids up to {tokenizer.vocab_size - 1}, but the"
            f" {family.name} network has {rows} embeddings; tokenizer and weights do not belong"
            " together"
        )
