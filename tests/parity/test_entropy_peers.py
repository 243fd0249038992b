"""Plug-in entropies beside `scipy.stats.entropy`."""

import jax
import numpy as np
import pytest

from dlmeval.metrics import entropies

pytestmark = pytest.mark.parity


@pytest.mark.parametrize("ragged", [False, True])
def test_entropies(ragged, peers):
    rng = np.random.default_rng(2)
    ids = rng.zipf(1.4, size=(60, 25)).clip(0, 500)
    ids[1] = ids[0]
    lengths = rng.integers(0, 26, 60) if ragged else np.full(60, 25)
    lengths[:2] = 25
    with jax.enable_x64(True):
        ours = entropies(ids, lengths)
    expected = peers.scipy_entropies([row[:length] for row, length in zip(ids, lengths)])
    for field, value in expected.items():
        assert float(getattr(ours, field)) == pytest.approx(value, abs=1e-12), field
