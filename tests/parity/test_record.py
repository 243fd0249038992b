"""The golden files still hold what the peers say."""

import importlib.util
import json

import numpy as np
import pytest

pytestmark = pytest.mark.parity

IMPORTS = {
    "clusters": ["sklearn"],
    "distances": ["dcor", "sklearn"],
    "entropies": [],
    "mauve": ["mauve", "faiss", "sklearn"],
    "perplexity": ["torch", "transformers"],
    "self_bleu": ["nltk"],
}


@pytest.mark.parametrize("name", sorted(IMPORTS))
def test_peers_repeat_the_record(name, record, golden):
    for module in IMPORTS[name]:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    stored = json.loads(golden(f"metrics/{name}.json").read_text())
    assert set(stored["versions"]) == set(record.PACKAGES[name])
    # Float32 networks differ in the last digits from one machine to the next.
    rtol = 1e-5 if name == "perplexity" else 1e-9
    agree(record.PEERS[name](stored["inputs"]), stored["peers"], rtol)


def test_every_record_is_tested(record):
    assert set(record.PEERS) == set(record.INPUTS) == set(record.PACKAGES) == set(IMPORTS)


def agree(value, expected, rtol):
    """Numbers, or lists and dicts of them, of the same structure."""
    if isinstance(expected, dict):
        assert value.keys() == expected.keys()
        for key in expected:
            agree(value[key], expected[key], rtol)
    elif isinstance(expected, list) and expected and isinstance(expected[0], list | dict):
        assert len(value) == len(expected)
        for pair in zip(value, expected, strict=True):
            agree(*pair, rtol)
    else:
        np.testing.assert_allclose(value, expected, rtol=rtol, atol=1e-12)
