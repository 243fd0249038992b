"""MAUVE beside mauve-text: one value from the same clusters, one law over clustering seeds."""

import jax
import numpy as np
import pytest

from dlmeval.metrics import frontier_integral_from_histograms, mauve, mauve_from_histograms

pytestmark = pytest.mark.parity


def clouds(shift, n, d=32):
    rng = np.random.default_rng(0)
    scales = 1 / np.sqrt(np.arange(1, d + 1))
    x, y = rng.normal(size=(2, n, d)) * scales
    return x.astype(np.float32), (y + shift * scales).astype(np.float32)


@pytest.fixture(autouse=True)
def installed():
    pytest.importorskip("mauve")
    pytest.importorskip("faiss")


@pytest.mark.parametrize("k", [13, 102])
def test_every_number_after_clustering(k, peers):
    """Value, MAUVE* and frontier integral of banks whose histograms overlap by parts."""
    rng = np.random.default_rng(k)
    p, q = (rng.multinomial(1024, law) for law in rng.dirichlet(np.full(k, 0.3), size=2))
    for a, b in ((p, q), (q, p), (p + 0.5, q + 0.5)):
        a, b = a / a.sum(), b / b.sum()
        theirs = peers.mauve_text_of_histograms(a, b)
        with jax.enable_x64(True):
            assert float(mauve_from_histograms(a, b)) == pytest.approx(theirs["mauve"], abs=1e-10)
            integral = float(frontier_integral_from_histograms(a, b))
        assert integral == pytest.approx(theirs["frontier_integral"], abs=1e-10)
        single = float(mauve_from_histograms(a, b))
        assert single == pytest.approx(theirs["mauve"], rel=1e-4)


@pytest.mark.parametrize("shift", [0.3, 1.5])
def test_their_clusters_give_their_value(shift, peers):
    x, y = clouds(shift, 300)
    theirs = peers.mauve_text(x, y)
    counts = 300 * theirs.p_hist, 300 * theirs.q_hist
    with jax.enable_x64(True):
        value = float(mauve_from_histograms(*counts))
        star = float(mauve_from_histograms(*(count + 0.5 for count in counts)))
    assert value == pytest.approx(theirs.mauve, abs=1e-10)
    assert star == pytest.approx(theirs.mauve_star, abs=1e-10)


@pytest.mark.parametrize("shift", [0.0, 0.7])
def test_means_over_seeds_agree(shift, peers):
    """Their k-means starts elsewhere than ours, so single values differ and means must not."""
    x, y = clouds(shift, 255)
    theirs = [peers.mauve_text(x, y, seed=seed) for seed in range(5)]
    ours = mauve(x, y, seeds=range(10))
    assert ours.num_clusters == theirs[0].num_buckets
    for field, name in (("value", "mauve"), ("star", "mauve_star")):
        mean = np.mean([getattr(result, name) for result in theirs])
        assert float(getattr(ours, field)) == pytest.approx(mean, abs=0.03)
    integral = np.mean([result.frontier_integral for result in theirs])
    assert float(ours.frontier_integral) == pytest.approx(integral, abs=0.03)
