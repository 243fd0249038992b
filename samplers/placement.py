"""Arrays spread over devices, in the form the loop is traced in."""

from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding


def auto_sharded(tree: Any) -> Any:
    """The same arrays on the same devices, without sharding in their types.

    `jax.make_mesh` gives arrays explicit sharding, under which a network must say the sharding of
    every reshape; the loop leaves that to the compiler. Moves no data.
    """

    def relaxed(leaf):
        sharding = getattr(leaf, "sharding", None)
        if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
            return leaf
        mesh = sharding.mesh
        if AxisType.Explicit not in mesh.axis_types:
            return leaf
        auto = Mesh(mesh.devices, mesh.axis_names)
        return jax.device_put(leaf, NamedSharding(auto, sharding.spec))

    return jax.tree.map(relaxed, tree)
