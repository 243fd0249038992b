"""Fixtures shared by all tests."""

import os
import pathlib

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
