"""Whitening and k-means beside scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.metrics import fit_whitening, kmeans

pytestmark = pytest.mark.parity


@pytest.fixture(autouse=True)
def installed():
    pytest.importorskip("sklearn")


@pytest.mark.parametrize(("n", "d", "k"), [(80, 12, 12), (20, 24, 12)])
def test_whitening_up_to_signs(n, d, k, peers):
    rng = np.random.default_rng(0)
    scales = 1 / np.arange(1, d + 1)
    x, y = rng.normal(size=(n, d)) * scales + 4, rng.normal(size=(7, d)) * scales + 4
    with jax.enable_x64(True):
        z = np.asarray(fit_whitening(x, k).transform(y))
    expected = peers.sklearn_whitened(x, y, k)
    signs = np.sign(np.sum(z * expected, axis=0))
    np.testing.assert_allclose(z * signs, expected, rtol=0, atol=1e-8 * np.abs(expected).max())


def test_kmeans_finds_clusters_as_tight(peers):
    """Means over seeds of the inertia of five restarts."""
    points = np.random.default_rng(1).normal(size=(200, 4))
    keys = jax.vmap(jax.random.key)(jnp.arange(5, dtype=jnp.uint32))
    ours = float(np.mean(kmeans(points, 16, keys, num_restarts=5).inertia))
    theirs = np.mean([peers.sklearn_inertia(points, 16, num_restarts=5, seed=s) for s in range(5)])
    assert ours < 1.02 * theirs
