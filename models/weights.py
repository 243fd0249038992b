"""Stored tensors to parameters and back, by the tables of `architectures` (`weight_table`).

A checkpoint is streamed: a few tensors at a time go through one buffer on the host, straight to
the devices that hold them, where they are cast and laid into the stack of their layers.
"""

import concurrent.futures
import functools
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import safetensors.numpy

from . import sharding
from .family import Architecture, NetworkConfig
from .network import Params
from .stored import Stored
from .weight_table import Leaf, canonical_names, leaves_of, tensor_problems

# Bytes that go through the host at a time, unless one tensor is larger.
_BUFFER = 1 << 29
_READERS = 2
# What JAX asks of memory on CPU to take it over rather than copy it.
_ALIGNMENT = 64


def place_params(
    tensors: Mapping[str, Stored],
    family: Architecture,
    config: NetworkConfig,
    dtype: str,
    mesh: jax.sharding.Mesh | None = None,
    *,
    where: str,
    twice: list[str] | None = None,
) -> Params:
    """Streams tensors to their devices.

    Peak memory on the host: two buffers, each of a quarter of the largest file's size or 512 MB,
    whichever is smaller, but no less than one layer's share of a parameter; on a device: the
    parameters and as much again as the buffers. Where both are one memory, as on CPU, that is the
    parameters and the size of the largest file.

    Args:
        tensors: what the files hold.
        family, config: the tables and the shape to read them by.
        dtype: type of the parameters in memory.
        mesh: as in `sharding.placement`; default: the first device.
        where: what messages name.
        twice: what is stored more than once, as `stored.open_safetensors` words it.

    Raises:
        ValueError: tensors that are missing, unexpected, stored twice, misshapen, of a type that
            is not read, or constants of other values than the config gives them; all of them in
            one message. A file that ends early.
    """
    found = canonical_names(tensors, family, config)
    problems = [f"stored twice {name}" for name in twice or ()]
    problems += tensor_problems(tensors, family, config)
    for name, of in family.constants.items():
        if name in found and found[name].dtype is not None:
            held, value = _read(found[name]), of(config)
            if held.shape != value.shape or not np.allclose(held, value, rtol=1e-2):
                problems.append(f"{name} does not hold the values {value} of this config")
    if problems:
        raise ValueError(f"{where}: tensors of a {family.name} model: " + "; ".join(problems))
    params: Params = {}
    leaves = list(leaves_of(family, config))
    largest_file = max(entry.file.stat().st_size for entry in found.values())
    # Half a file in all, since on CPU what has left a buffer is on the host too.
    size = min(_BUFFER, largest_file // (2 * _READERS))
    buffers: list[np.ndarray] = []
    # Of this thread: others do not see what `jax.default_device` sets around the call.
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]

    def place(leaf: Leaf) -> jax.Array:
        try:
            buffer = buffers.pop()
        except IndexError:  # a thread's first
            buffer = np.empty(size, np.uint8)
        layers = leaf.shape[0] if "{i}" in leaf.row.name else 1
        needed = sum(_nbytes(found[name]) for name in leaf.names) // layers
        if buffer.nbytes < needed:
            buffer = np.empty(needed, np.uint8)
        with jax.default_device(device):
            value = _place(leaf, found, config, jnp.dtype(dtype), mesh, buffer)
        buffers.append(buffer)
        return value

    # One reads while the other transposes and sends.
    with concurrent.futures.ThreadPoolExecutor(_READERS, "weights") as pool:
        for leaf, value in zip(leaves, pool.map(place, leaves), strict=True):
            node = params
            for part in leaf.row.path[:-1]:
                node = node.setdefault(part, {})
            node[leaf.row.path[-1]] = value
    return params


def save_params(
    path: pathlib.Path, family: Architecture, config: NetworkConfig, params: Params
) -> None:
    """Writes parameters in bfloat16 under the family's own tensor names.

    Raises:
        ValueError: the family's files fuse tensors; such files are only read.
    """
    tensors = {}
    for leaf in leaves_of(family, config):
        if leaf.row.part is not None:
            raise ValueError(f"{family.name}: {leaf.row.name} is fused; such files are only read")
        value = np.asarray(_at(params, leaf.row.path)).astype(ml_dtypes.bfloat16)
        for name, matrix in zip(leaf.names, value.reshape(-1, *leaf.piece), strict=True):
            tensors[name] = np.ascontiguousarray(matrix.T if leaf.row.transpose else matrix)
    path.parent.mkdir(parents=True, exist_ok=True)
    safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
    path.chmod(0o644)  # the library writes for the owner alone


def _place(
    leaf: Leaf,
    found: Mapping[str, Stored],
    config: NetworkConfig,
    dtype: np.dtype,
    mesh: jax.sharding.Mesh | None,
    buffer: np.ndarray,
) -> jax.Array:
    """One parameter on its devices, as many layers at a time as the buffer holds."""
    target = sharding.placement(leaf.row.path, leaf.shape, mesh)
    layers = leaf.shape[0] if "{i}" in leaf.row.name else 1
    a_layer = len(leaf.names) // layers
    step = max(1, buffer.nbytes // sum(_nbytes(found[name]) for name in leaf.names[:a_layer]))
    # The buffer is used again, hence the waiting, and must not become the parameter: on CPU, JAX
    # makes aligned memory in its own order the array itself, whatever `may_alias` says. What is
    # read in that order at once has memory of its own, which may become the parameter.
    whole = step >= layers
    own = whole and (not leaf.row.transpose or 1 in leaf.piece)
    value: Any = None
    for start in range(0, layers, step):
        names = leaf.names[start * a_layer : (start + step) * a_layer]
        host = _fill(leaf, names, found, config, None if own else buffer)
        part = jax.device_put(host, target).block_until_ready()
        if whole:
            value = part if part.dtype == dtype else _cast(part, dtype).block_until_ready()
        else:
            if value is None:
                value = jnp.zeros(leaf.shape, dtype, device=target)
            value = _insert(value, part, start).block_until_ready()
    return value


def _fill(leaf, names, found, config, buffer) -> np.ndarray:
    """Reads whole layers of one parameter into the buffer; a view of them, in our orientation.

    Without a buffer, into new memory that is aligned as JAX has it.
    """
    # Files may mix types within a parameter; the widest holds them all.
    dtype = functools.reduce(jnp.promote_types, (found[name].dtype for name in names))
    shape = (leaf.piece[1], leaf.piece[0]) if leaf.row.transpose else leaf.piece
    size = len(names) * int(np.prod(shape)) * dtype.itemsize
    if buffer is None:
        buffer = np.empty(size + _ALIGNMENT, np.uint8)
        buffer = buffer[-buffer.ctypes.data % _ALIGNMENT :]
    held = buffer[:size].view(dtype).reshape(len(names), *shape)
    for into, name in zip(held, names, strict=True):
        if leaf.row.part is not None:
            into[...] = leaf.row.part(config, _read(found[name]))
        elif found[name].dtype != dtype:
            into[...] = _read(found[name])
        else:
            found[name].read(into)
    stacked = leaf.shape[: len(leaf.shape) - len(leaf.piece)]
    held = held.reshape(-1, *stacked[1:], *shape) if stacked else held[0]
    return held.swapaxes(-1, -2) if leaf.row.transpose else held


def _read(entry: Stored) -> np.ndarray:
    value = np.empty(entry.shape, entry.dtype)
    entry.read(value)
    return value


@functools.partial(jax.jit, static_argnums=1)
def _cast(value: jax.Array, dtype: np.dtype) -> jax.Array:
    return value.astype(dtype)


@functools.partial(jax.jit, donate_argnums=0)
def _insert(stack: jax.Array, part: jax.Array, start: int) -> jax.Array:
    return jax.lax.dynamic_update_slice_in_dim(stack, part.astype(stack.dtype), start, 0)


def _nbytes(entry: Stored) -> int:
    """Room for a tensor in whatever type it comes to be read."""
    return int(np.prod(entry.shape)) * 4


def _at(tree: Any, path: tuple[str, ...]) -> Any:
    return functools.reduce(lambda node, part: node[part], path, tree)
