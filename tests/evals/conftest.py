"""The toy world, for tests of the pipeline."""

import importlib.util
import pathlib

import pytest

TOY_PATH = pathlib.Path(__file__).with_name("toy_world.py")


@pytest.fixture(scope="session")
def toy():
    """The module `toy_world`: letters as tokens, random networks, a list of words as text."""
    spec = importlib.util.spec_from_file_location("toy_world", TOY_PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
