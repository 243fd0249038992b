"""Fixtures of the tests of models."""

import os
import pathlib

import pytest


@pytest.fixture(scope="session")
def real_weights():
    """Resolves a model that launch/fetch_weights.py fetches, or skips the test."""
    folder = pathlib.Path(os.environ.get("DLMEVAL_WEIGHTS") or "~/.cache/dlmeval/weights")

    def resolve(name: str) -> pathlib.Path:
        path = folder.expanduser() / name
        if not path.exists():
            pytest.skip(f"{name} not found (launch/fetch_weights.py fetches it; DLMEVAL_WEIGHTS)")
        return path

    return resolve
