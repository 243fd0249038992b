"""The peers, and what they said when the golden files were written."""

import importlib.util
import pathlib

import pytest


@pytest.fixture(scope="session")
def record():
    """The module `record`, which holds `peers`."""
    path = pathlib.Path(__file__).with_name("record.py")
    spec = importlib.util.spec_from_file_location("parity_record", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def peers(record):
    """The module `peers`: one function a peer."""
    return record.peers
