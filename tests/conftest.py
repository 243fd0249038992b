"""Fixtures shared by all tests."""

import gc
import importlib.metadata
import os
import pathlib

# Small programs are compiled by the thousand here: optimising each costs more than it saves, and
# so does what the other two flags turn off. An unknown flag is fatal, so these are set only for
# versions of JAX that are known to have them.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0"
    + (
        " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
        if importlib.metadata.version("jax").startswith("0.10.")
        else ""
    ),
)

import jax
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = pathlib.Path(os.environ.get("DLMEVAL_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def shared():
    """Resolves a path of the optional test-data folder, or skips the test."""

    def resolve(relative: str) -> pathlib.Path:
        path = SHARED / relative
        if not path.exists():
            pytest.skip(f"test data {relative} not found (set DLMEVAL_SHARED to its folder)")
        return path

    return resolve


@pytest.fixture(scope="session")
def golden():
    """Resolves a path below tests/golden, which is part of the repository."""
    return lambda relative: ROOT / "tests" / "golden" / relative


@pytest.fixture(scope="module", autouse=True)
def bounded_mappings():
    """Drops compiled programs before the process has more memory mappings than Linux allows.

    Each program takes some; at 65,530 the next compilation ends in a segmentation fault.
    """
    yield
    maps = pathlib.Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 25_000:
        jax.clear_caches()
        gc.collect()
