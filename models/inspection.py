"""What a model is and what it needs, from its config and headers: no weights are read.

A config says the shape, headers say which tensors the files hold; together they tell whether a
loader would accept the model and what it takes on a device.
"""

import math
import pathlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from . import (
    architectures,
    gguf_config,
    loading,
    registry,
    sharding,
    sources,
    stored,
    text_tokens,
    weight_table,
)
from .family import Architecture, ModelSpec
from .stored import Stored

_SMALL = tuple(pattern for pattern in sources.PATTERNS if pattern != "*.safetensors")


class Inspection(NamedTuple):
    """What was found out about a model.

    Attributes:
        source: what was looked at.
        kind: what it is to serve as, or None.
        family: whose tables read it; None where config.json was not understood.
        spec: its shape and special ids; None likewise.
        problems: everything a loader would refuse; empty if it would load.
        num_params: parameters of the network, tied ones once; None without a shape.
        types: {stored type: numbers stored so}, as the files name types.
        tokenizer_size: the tokenizer's highest id and one more; None without a tokenizer.
        unread: of "tensors" and "tokenizer", what could not be looked at.
    """

    source: str
    kind: str | None
    family: Architecture | None
    spec: ModelSpec | None
    problems: tuple[str, ...]
    num_params: int | None
    types: Mapping[str, int]
    tokenizer_size: int | None
    unread: tuple[str, ...] = ()


class Memory(NamedTuple):
    """Bytes on each device: the parameters it holds, and one float32 buffer of logits."""

    params: int
    logits: int

    @property
    def total(self) -> int:
        return self.params + self.logits


def inspect_source(
    source: str, *, kind: str | None = None, architecture: str | None = None
) -> Inspection:
    """Reads the config, tokenizer files and headers of a source; of remote ones nothing else.

    Args:
        source: as `load_denoiser` takes it.
        kind: what it is to serve as: "denoiser", "scorer" or "encoder".
        architecture: family to read it as, where config.json names another or none.

    Returns:
        All problems, listed; "tensors" are `unread` where only the network had their headers and
        it does not answer.

    Raises:
        ValueError: there is nothing to look at: no such source, or it cannot be reached.
    """
    if source.startswith("gguf:"):
        return _inspect_gguf(source, kind, architecture)
    folder = sources.resolve(source, _SMALL)
    config = sources.read_json(folder / "config.json")
    found = inspect_config(config, source, kind=kind, architecture=architecture)
    problems = list(found.problems)
    tokenizer = None
    try:
        tokenizer = text_tokens.load_folder(folder)
    except ValueError as error:
        problems.append(str(error))
    tensors, twice, unread = {}, [], ()
    try:
        tensors, twice, unread = _headers(source, folder)
    except ValueError as error:
        problems.append(str(error))
        unread = ("tensors",)
    if _serves(found) == {"denoiser"} and found.spec is not None and found.spec.mask_id is None:
        problems += _mask_problems(folder, tokenizer)
    return _judge(found, problems, tensors, twice, tokenizer, unread)


def inspect_config(
    config: Mapping[str, Any],
    source: str,
    *,
    kind: str | None = None,
    architecture: str | None = None,
) -> Inspection:
    """Looks at a config.json alone; tensors and tokenizer are `unread`."""
    unread = ("tensors", "tokenizer")
    family = spec = num_params = None
    problems = ()
    try:
        family = architectures.architecture_of(config, architecture, source, kind)
        spec = architectures.read_config(config, family, source)
        shapes = family.network.abstract_params(spec.network)
        num_params = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
    except ValueError as error:
        problems = (str(error),)
    return Inspection(source, kind, family, spec, problems, num_params, {}, None, unread)


def inspect_entry(entry: registry.ModelEntry) -> Inspection:
    """Looks at the shape that the registry has on record.

    Raises:
        ValueError: it has none.
    """
    if entry.config is None:
        raise ValueError(f"the registry has no shape of {entry.name} on record")
    return inspect_config(
        entry.config, entry.source, kind=entry.kind, architecture=entry.architecture
    )


def memory_per_device(
    inspection: Inspection,
    *,
    dtype: str = "float32",
    fsdp: int = 1,
    tensor: int = 1,
    batch_size: int = 1,
    length: int = 128,
) -> Memory:
    """What parameters and logits take on each device of a mesh, which need not be at hand.

    Encoders have no logits.

    Activations and the sampler's own buffers come on top; they are small beside logits of a large
    vocabulary.

    Args:
        inspection: with a shape.
        dtype: type of the parameters in memory.
        fsdp, tensor: as in `sharding.make_mesh`. Rows are spread over fsdp where it divides them.
        batch_size, length: rows, and positions of each whose logits are held at once.

    Raises:
        ValueError: no shape is known, or a number below 1.
    """
    if inspection.spec is None or inspection.family is None:
        raise ValueError(f"{inspection.source}: without a shape nothing is known of its memory")
    for name, value in {
        "fsdp": fsdp,
        "tensor": tensor,
        "batch_size": batch_size,
        "length": length,
    }.items():
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    network, config = inspection.family.network, inspection.spec.network
    mesh = jax.sharding.AbstractMesh((fsdp, tensor), (sharding.FSDP, sharding.TENSOR))
    params = sharding.local_bytes(network.abstract_params(config), dtype, mesh)
    if _serves(inspection) == {"encoder"}:
        return Memory(params, 0)
    rows = batch_size // fsdp if batch_size % fsdp == 0 else batch_size
    return Memory(params, rows * length * config.vocab_size * np.dtype(np.float32).itemsize)


def _serves(found: Inspection) -> frozenset[str]:
    if found.kind is not None or found.family is None:
        return frozenset({found.kind} if found.kind else ())
    return found.family.kinds


def _inspect_gguf(source: str, kind: str | None, architecture: str | None) -> Inspection:
    path = sources.resolve(source)
    try:
        file = gguf_config.open_gguf(path)
    except ValueError as error:
        unread = ("tensors", "tokenizer")
        return Inspection(source, kind, None, None, (str(error),), None, {}, None, unread)
    found = inspect_config(file.config, source, kind=kind, architecture=architecture)
    tokenizer = None if file.tokenizer is None else text_tokens.Tokenizer(file.tokenizer)
    return _judge(found, list(found.problems), file.tensors, [], tokenizer, ())


def _judge(
    found: Inspection,
    problems: list[str],
    tensors: Mapping[str, Stored],
    twice: list[str],
    tokenizer: text_tokens.Tokenizer | None,
    unread: tuple[str, ...],
) -> Inspection:
    """Holds tensors and tokenizer against the shape."""
    family, spec = found.family, found.spec
    problems += [f"stored twice: {name}" for name in twice]
    if family is not None and spec is not None:
        if "tensors" not in unread:
            problems += weight_table.tensor_problems(tensors, family, spec.network)
        if tokenizer is not None:
            try:
                loading.check_tokenizer(tokenizer, family, spec, found.source)
            except ValueError as error:
                problems.append(str(error))
    types: Counter[str] = Counter()
    for entry in tensors.values():
        types[entry.type_name] += math.prod(entry.shape)
    return found._replace(
        problems=tuple(problems),
        types=dict(types),
        tokenizer_size=None if tokenizer is None else tokenizer.vocab_size,
        unread=unread,
    )


def _mask_problems(folder: pathlib.Path, tokenizer: text_tokens.Tokenizer | None) -> list[str]:
    try:
        if tokenizer is not None and text_tokens.mask_id(folder, tokenizer) is not None:
            return []
    except ValueError as error:
        return [str(error)]
    return ["neither config.json nor the tokenizer's files name a mask"]


def _headers(
    source: str, folder: pathlib.Path
) -> tuple[dict[str, Stored], list[str], tuple[str, ...]]:
    """Tensors by name, names stored twice, and ("tensors",) where they could not be looked at."""
    if not source.startswith("hf:") and "://" not in source:
        return *stored.open_safetensors(stored.weight_files(folder)), ()
    try:  # the weights may lie in the local cache already
        return *stored.open_safetensors(stored.weight_files(folder)), ()
    except ValueError:
        if source.startswith("hf:"):
            return _hub_headers(source)
    return _remote_headers(source)


def _hub_headers(source: str) -> tuple[dict[str, Stored], list[str], tuple[str, ...]]:
    """By range requests, a few kilobytes a file."""
    import huggingface_hub  # only this branch needs a network stack

    repository, _, revision = source.removeprefix("hf:").partition("@")
    try:
        files = huggingface_hub.get_safetensors_metadata(repository, revision=revision)
    except huggingface_hub.errors.NotASafetensorsRepoError as error:
        raise ValueError(
            f"{source} has no model.safetensors, nor an index of several; pickles are never opened"
        ) from error
    except huggingface_hub.errors.SafetensorsParsingError as error:
        raise ValueError(f"{source}: {error}") from error
    except Exception:  # offline, or the hub raises one of its many kinds
        return {}, [], ("tensors",)
    tensors, twice = {}, []
    for name, file in files.files_metadata.items():
        for key, entry in file.tensors.items():
            twice += [key] if key in tensors else []
            tensors[key] = _unread(pathlib.Path(name), entry.dtype, entry.shape)
    return tensors, twice, ()


def _remote_headers(source: str) -> tuple[dict[str, Stored], list[str], tuple[str, ...]]:
    """Of the safetensors files of a folder of any filesystem that epath knows."""
    from etils import epath  # its remote backends are imported on use

    files = sorted(epath.Path(source).glob("*.safetensors"))
    if not files:
        raise ValueError(f"{source}: no *.safetensors file found")
    tensors, twice = {}, []
    for path in files:
        with path.open("rb") as handle:
            try:
                header, _ = stored.read_header(handle)
            except ValueError as error:
                raise ValueError(f"{path} is no safetensors file: {error}") from error
        for key, entry in header.items():
            twice += [key] if key in tensors else []
            tensors[key] = _unread(pathlib.Path(path.name), entry["dtype"], entry["shape"])
    return tensors, twice, ()


def _unread(path: pathlib.Path, type_name: str, shape: Any) -> Stored:
    """A tensor of which the header alone is at hand."""

    def read(_: np.ndarray) -> None:
        raise ValueError(f"{path} was not fetched")

    readable = np.dtype(np.float32) if type_name in stored.TYPES else None
    return Stored(path, type_name, readable, tuple(shape), read)
