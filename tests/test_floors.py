"""The house: no import runs up, kernels know arrays only, and folders list their public names."""

import ast
import importlib
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLOORS = {"metrics": 1, "samplers": 2, "models": 3, "evals": 4, "launch": 5}
# What the two lower floors may import beside the standard library.
OUTSIDE = {
    "metrics": {"jax", "jaxtyping", "numpy", "scipy"},
    "samplers": {"jax", "jaxtyping", "numpy"},
}
VAGUE = {"utils", "util", "helpers", "common", "misc"}
MODULES = [path for floor in FLOORS for path in sorted((ROOT / floor).rglob("*.py"))]


def imported(path):
    """(floor or None, outermost outside name or None) of every import of a module."""
    package = ["dlmeval", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            stem = start + (node.module.split(".") if node.module else [])
            names = [[*stem, alias.name] for alias in node.names]
        else:
            continue
        for name in names:
            if name[0] != "dlmeval":
                yield None, name[0]
            elif name[1] in FLOORS:
                yield name[1], None


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_import_runs_up(path):
    own = path.relative_to(ROOT).parts[0]
    for floor, _ in imported(path):
        if floor is None:
            continue
        assert FLOORS[floor] <= FLOORS[own], f"{own} imports {floor}"
        assert {floor, own} != {"metrics", "samplers"}, "metrics and samplers never meet"


@pytest.mark.parametrize("floor", sorted(OUTSIDE))
def test_kernels_know_arrays_only(floor):
    for path in sorted((ROOT / floor).rglob("*.py")):
        outside = {name for _, name in imported(path) if name} - set(sys.stdlib_module_names)
        assert outside <= OUTSIDE[floor], path.name


def test_every_floor_is_seen():
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == set(FLOORS)
    found = {floor for path in MODULES for floor, _ in imported(path)}
    assert {"metrics", "samplers", "models", "evals"} <= found


def test_no_file_has_a_vague_name():
    assert not [path for path in MODULES if path.stem in VAGUE]


def test_public_names_are_listed_in_order_and_exist():
    for floor in ("metrics", "samplers", "models", "evals"):
        package = importlib.import_module(f"dlmeval.{floor}")
        assert list(package.__all__) == sorted(package.__all__)
        assert all(hasattr(package, name) for name in package.__all__)
