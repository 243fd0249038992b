"""Where parameters and rows lie on a mesh of devices: fsdp × tensor.

Rules go by the names of parameters, so a new network that keeps to them is sharded at once.
Whatever the placement, GSPMD computes the same network; only speed and memory depend on it.
"""

import math
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from .network import Params

FSDP, TENSOR = "fsdp", "tensor"

# Matrices [in, out] that split heads or hidden units, and those that join them again.
_SPLIT = (FSDP, TENSOR)
_JOIN = (TENSOR, FSDP)
_JOINING = ("o_proj", "down_proj", "expert_down_proj")


def make_mesh(fsdp: int = 1, tensor: int = 1) -> Mesh:
    """A mesh of the first fsdp × tensor devices.

    Args:
        fsdp: devices over which rows of a batch are spread, and matrices along one side.
        tensor: devices over which heads and hidden units are spread.

    Raises:
        ValueError: a number below 1, or more devices than there are.
    """
    for name, value in ((FSDP, fsdp), (TENSOR, tensor)):
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    devices = jax.devices()
    if fsdp * tensor > len(devices):
        raise ValueError(
            f"a mesh of fsdp={fsdp} × tensor={tensor} needs {fsdp * tensor} devices; there are"
            f" {len(devices)} ({devices[0].platform})"
        )
    return Mesh(np.array(devices[: fsdp * tensor]).reshape(fsdp, tensor), (FSDP, TENSOR))


def partition_spec(
    path: tuple[str, ...], shape: tuple[int, ...], mesh: Mesh | jax.sharding.AbstractMesh
) -> PartitionSpec:
    """How one parameter is split: matrices along both axes, all else kept whole.

    The axes of layers and experts are never split, and a side that a mesh axis does not divide is
    kept whole.
    """
    name = path[-1]
    if name in ("embed", "position_embed", "type_embed"):
        sides = _JOIN
    elif name.endswith("_proj") or name == "head":
        sides = _JOIN if name in _JOINING else _SPLIT
    else:
        return PartitionSpec()
    spec: list[str | None] = [None] * len(shape)
    for axis, side in zip((-2, -1), sides):
        if shape[axis] % mesh.shape.get(side, 1) == 0 and side in mesh.shape:
            spec[axis] = side
    return PartitionSpec(*spec)


def placement(
    path: tuple[str, ...], shape: tuple[int, ...], mesh: Mesh | None
) -> NamedSharding | None:
    """The sharding of one parameter; None (the default device) without a mesh."""
    if mesh is None:
        return None
    return NamedSharding(_automatic(mesh), partition_spec(path, shape, mesh))


def local_bytes(shapes: Params, dtype: str, mesh: jax.sharding.AbstractMesh | Mesh | None) -> int:
    """Bytes of the parameters that one device holds; an abstract mesh needs no devices."""
    total = 0
    for keys, leaf in jax.tree_util.tree_leaves_with_path(shapes):
        path = tuple(key.key for key in keys)
        spec = PartitionSpec() if mesh is None else partition_spec(path, leaf.shape, mesh)
        ways = math.prod(mesh.shape[axis] for axis in spec if axis is not None) if mesh else 1
        total += math.prod(leaf.shape) * np.dtype(jax.numpy.dtype(dtype)).itemsize // ways
    return total


def mesh_of(params: Params) -> Mesh | None:
    """The mesh that parameters lie on; None where they lie on one device."""
    found = getattr(jax.tree.leaves(params)[0], "sharding", None)
    if isinstance(found, NamedSharding) and isinstance(found.mesh, Mesh):
        return found.mesh
    return None


def shard_rows(tree: Any, mesh: Mesh | None) -> Any:
    """Arrays with their first axis spread over fsdp, where it divides them; else whole."""
    if mesh is None:
        return tree

    def place(leaf):
        ways = mesh.shape.get(FSDP, 1)
        rows = PartitionSpec(FSDP) if ways > 1 and len(leaf) % ways == 0 else PartitionSpec()
        return jax.device_put(leaf, NamedSharding(_automatic(mesh), rows))

    return jax.tree.map(place, tree)


def _automatic(mesh: Mesh) -> Mesh:
    """The same devices with sharding left to the compiler rather than written in types."""
    if AxisType.Explicit not in mesh.axis_types:
        return mesh
    return Mesh(mesh.devices, mesh.axis_names)
