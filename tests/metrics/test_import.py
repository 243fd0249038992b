"""Importing the metrics must stay light: no JAX backend, no frameworks."""

import importlib
import json
import subprocess
import sys

import pytest

CODE = """
import json, sys
import dlmeval.metrics
from jax._src import xla_bridge
print(json.dumps([xla_bridge.backends_are_initialized(), sorted(sys.modules)]))
"""


def test_import_starts_no_backend_and_loads_no_framework():
    """`jax.distributed.initialize` refuses to run once a backend exists."""
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    started, loaded = json.loads(run.stdout)
    assert not started
    heavy = {"flax", "torch", "sklearn", "nltk", "transformers", "matplotlib", "mauve", "faiss"}
    heavy |= {"scipy.stats", "scipy.special", "scipy.linalg", "dcor", "fast_bleu", "hypothesis"}
    assert not heavy & set(loaded)
    assert not {name for name in loaded if name.startswith(("dlmeval.models", "dlmeval.samplers"))}


def test_import_adds_little_to_that_of_jax():
    """CPU seconds of a fresh process, the best of up to five, since the machine may be busy."""
    code = """
import time
import jax
start = time.process_time()
import dlmeval.metrics
print(time.process_time() - start)
"""
    for _ in range(5):
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        if float(run.stdout) <= 0.3:
            return
    pytest.fail(f"import dlmeval.metrics took {run.stdout.strip()} CPU seconds after import jax")


def test_public_names_exist_and_are_sorted():
    metrics = importlib.import_module("dlmeval.metrics")
    assert metrics.__all__ == sorted(metrics.__all__)
    assert all(hasattr(metrics, name) for name in metrics.__all__)
