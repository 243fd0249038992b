"""What the table of a family asks of a checkpoint: names, shapes, and what is wrong with them.

Nothing is read here but names, shapes and types.
"""

import collections
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import jax

from . import stored
from .family import Architecture, NetworkConfig, Tensor
from .network import Params
from .stored import Stored


class Leaf(NamedTuple):
    """One array of ours: its table row, shape, and the checkpoint's names in stacking order."""

    row: Tensor
    shape: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def piece(self) -> tuple[int, ...]:
        """The shape of what one name gives, without the axes that are stacked."""
        return self.shape[sum(mark in self.row.name for mark in ("{i}", "{e}")) :]


def tensor_problems(
    tensors: Mapping[str, Stored], family: Architecture, config: NetworkConfig
) -> list[str]:
    """What is missing, unexpected, misshapen or of another type; nothing is read for it."""
    found = canonical_names(tensors, family, config)
    expected = expected_tensors(family, config)
    spare = _spare_names(family, config)
    problems = [f"missing {name}" for name in sorted(expected.keys() - found.keys())]
    held = collections.Counter(_table_names(tensors, family, config).values())
    for name in sorted(name for name in expected if held[name] > 1):
        problems.append(f"stored twice {name}, under names that mean the same")
    known = expected.keys() | family.constants.keys()
    for name in sorted(found.keys() - known):
        if name not in spare and not any(re.fullmatch(p, name) for p in family.ignored):
            problems.append(f"unexpected {name}")
    for name in sorted(expected.keys() & found.keys()):
        entry = found[name]
        if entry.shape != expected[name]:
            problems.append(f"{name} has shape {list(entry.shape)}, not {list(expected[name])}")
        if entry.dtype is None:
            problems.append(f"{name} has type {entry.type_name}, not one of {stored.TYPES}")
    return problems


def canonical_names(
    tensors: Mapping[str, Stored], family: Architecture, config: NetworkConfig
) -> dict[str, Stored]:
    """The tensors by the names of the table: older endings renamed, a common prefix taken off."""
    names = _table_names(tensors, family, config)
    return {names[name]: entry for name, entry in tensors.items()}


def _table_names(
    stored_names: Iterable[str], family: Architecture, config: NetworkConfig
) -> dict[str, str]:
    """The table's name for each stored one."""
    renamed = {}
    for name in stored_names:
        renamed[name] = name
        for old, new in family.renamed.items():
            if name.endswith(old):
                renamed[name] = name.removesuffix(old) + new
    there = set(renamed.values())
    expected = expected_tensors(family, config).keys()
    prefix = max(family.prefixes, key=lambda p: sum(p + name in there for name in expected))
    return {stored: name.removeprefix(prefix) for stored, name in renamed.items()}


def expected_tensors(family: Architecture, config: NetworkConfig) -> Mapping[str, tuple[int, ...]]:
    """Name and stored shape of every tensor a checkpoint of this shape must hold."""
    expected = {}
    for leaf in leaves_of(family, config):
        shape = leaf.piece
        if leaf.row.stored is not None:
            shape = leaf.row.stored(config)
        elif leaf.row.transpose:
            shape = tuple(reversed(shape))
        expected |= dict.fromkeys(leaf.names, tuple(shape))
    return expected


def leaves_of(family: Architecture, config: NetworkConfig) -> Iterator[Leaf]:
    """The parameters a network of this shape has, in the order of the table."""
    shapes = _shapes(family.network.abstract_params, config)
    known = {
        tuple(key.key for key in path): tuple(leaf.shape)
        for path, leaf in jax.tree_util.tree_leaves_with_path(shapes)
    }
    for row in family.tensors:
        if row.path[0] in family.tied and getattr(config, "tie_embeddings", False):
            continue
        shape = known.pop(row.path, None)
        if shape is not None:
            yield Leaf(row, shape, tuple(_names(row, config)))
        elif not row.optional:
            raise ValueError(
                f"the table of {family.name} puts {row.name} at {'.'.join(row.path)}, of which the"
                " network has none left"
            )
    if known:
        missing = ", ".join(".".join(path) for path in known)
        raise ValueError(f"the table of {family.name} has no row for the parameters {missing}")


@functools.cache
def _shapes(abstract_params: Callable[..., Params], config: NetworkConfig) -> Params:
    """Traced once; whoever asks must leave it as it is."""
    return abstract_params(config)


def _names(row: Tensor, config: NetworkConfig) -> list[str]:
    layers = range(config.num_layers) if "{i}" in row.name else (None,)
    experts = range(config.num_experts) if "{e}" in row.name else (None,)
    return [
        row.name.replace("{i}", str(layer)).replace("{e}", str(expert))
        for layer in layers
        for expert in experts
    ]


def _spare_names(family: Architecture, config: NetworkConfig) -> set[str]:
    """Names of parameters that a network with tied embeddings may store all the same."""
    rows = [row for row in family.tensors if row.path[0] in family.tied]
    return {name for row in rows for name in _names(row, config)}
