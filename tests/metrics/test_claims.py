"""Claims about generative perplexity and its remedies that need no model: enumerated languages.

A bank that lists every sequence as often as its law says is that law, so plug-in entropies are
true entropies. Claims already held by another test (closed forms of Periodic, the joint entropy
of distinct rows, the adjusted score's identity, the worked context tree, the floor of MAUVE) are
not repeated here.
"""

import inspect
import itertools
import math

import jax
import numpy as np
import pytest

from dlmeval import metrics
from dlmeval.metrics.context_tree import posterior_levels
from dlmeval.samplers import corpus_counts, periodic

LENGTH, PREFIX = 4, 2
LETTERS = np.array([0, 0, 1, 2])  # the law 1/2, 1/4, 1/4
LAW = np.array([0.5, 0.25, 0.25])
ENTROPY = 1.5 * math.log(2)
IID = LETTERS[np.array(list(itertools.product(range(4), repeat=LENGTH)))]
MIRROR = np.tile(IID[:: 4**PREFIX, :PREFIX], (4**PREFIX, LENGTH // PREFIX))


def entropies(ids):
    with jax.enable_x64(True):  # all banks here have 256 rows of 4: one compilation
        return metrics.entropies(ids)


def perplexity(ids, log_r):
    return float(metrics.generative_perplexity(-log_r, np.full(len(ids), LENGTH)))


def test_mirror_has_the_positions_of_independent_draws_and_half_their_entropy():
    independent, mirror = entropies(IID), entropies(MIRROR)
    assert MIRROR.shape == IID.shape == (4**LENGTH, LENGTH)
    np.testing.assert_allclose(independent.joint, ENTROPY, rtol=1e-12)
    np.testing.assert_allclose(mirror.joint, ENTROPY / 2, rtol=1e-12)
    np.testing.assert_allclose([independent.pos, mirror.pos], ENTROPY, rtol=1e-12)
    np.testing.assert_allclose(independent.total_correlation, 0, atol=1e-12)
    np.testing.assert_allclose(mirror.total_correlation, LENGTH * ENTROPY / 2, rtol=1e-12)


def test_a_unigram_scorer_cannot_be_gamed_by_mirror():
    """KL rises by exactly the total correlation that the adjusted score subtracts."""
    scorer = np.array([0.2, 0.5, 0.3])
    adjusted = [
        metrics.adjusted_perplexity(
            perplexity(ids, np.log(scorer[ids]).sum(axis=1)), entropies(ids).pos
        )
        for ids in (IID, MIRROR)
    ]
    divergence = np.sum(LAW * np.log(LAW / scorer))
    np.testing.assert_allclose(adjusted, math.exp(divergence), rtol=1e-12)


def test_a_scorer_that_knows_copying_is_gamed_by_mirror():
    log_r = np.log(LAW[MIRROR[:, :PREFIX]]).sum(axis=1)  # the rest follows, so it costs nothing
    score = metrics.adjusted_perplexity(perplexity(MIRROR, log_r), entropies(MIRROR).pos)
    expected = -(LENGTH - PREFIX) * ENTROPY / LENGTH
    np.testing.assert_allclose(math.log(score), expected, rtol=1e-12)
    assert score < 1  # better than the true law scored by itself
    own = perplexity(IID, np.log(LAW[IID]).sum(axis=1))
    np.testing.assert_allclose(metrics.adjusted_perplexity(own, entropies(IID).pos), 1, rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_cross_entropy_is_entropy_plus_divergence_and_a_point_mass_is_its_optimum(seed):
    rng = np.random.default_rng(seed)
    scorer = rng.dirichlet(np.full(3**LENGTH, 0.5))
    codes = rng.choice(3**LENGTH, 4**LENGTH, p=rng.dirichlet(np.ones(3**LENGTH)))
    ids = np.stack(np.unravel_index(codes, (3,) * LENGTH), axis=1)
    law = np.bincount(codes, minlength=3**LENGTH) / len(codes)
    seen = law > 0
    divergence = np.sum(law[seen] * np.log(law[seen] / scorer[seen]))
    value = perplexity(ids, np.log(scorer[codes]))
    per_token = float(entropies(ids).joint) + divergence / LENGTH
    assert math.log(value) == pytest.approx(per_token, rel=1e-12)
    optimum = perplexity(ids, np.full(len(ids), math.log(scorer.max())))
    assert optimum == pytest.approx(scorer.max() ** (-1 / LENGTH), rel=1e-12)
    assert optimum < value


def test_periodic_is_no_language_and_only_diversity_says_so():
    counts = corpus_counts([np.random.default_rng(0).zipf(1.5, 4000).clip(0, 99)])
    ids = periodic(counts, 3, length=LENGTH, num_samples=4**LENGTH, seed=0)
    assert (metrics.self_bleu(ids) == 1).all()
    assert metrics.distinct_n(ids, order=1) == 3 / ids.size
    result = entropies(ids)
    assert float(result.pos) == float(result.joint) == 0
    assert float(result.uni) == pytest.approx(float(result.pool), rel=1e-12)
    # Nothing to adjust by: the score is left as it was.
    assert float(metrics.adjusted_perplexity(19.6, float(result.pos))) == 19.6


def test_coder_looks_back_twenty_bits_through_twenty_one_levels():
    defaults = inspect.signature(metrics.jeffreys_coding_divergence).parameters
    assert defaults["depth"].default == 20
    counts = metrics.count_contexts([b"in the beginning"])
    assert counts.full.shape == (2**20, 2)
    assert len(posterior_levels(counts.full)[0]) == 21


@pytest.mark.parametrize(
    ("coverage", "fidelity", "value"), [(0.085, 0.075, 0.080), (0.181, 0.050, 0.1155)]
)
def test_coding_divergence_is_the_mean_of_its_directions(coverage, fidelity, value):
    size, bits = np.array([1000]), np.array([2000.0])
    codes = metrics.HeldOutCodes(
        reference_bytes=size,
        reference_by_reference=bits,
        reference_by_generated=bits + 1000 * coverage,
        generated_bytes=size,
        generated_by_generated=bits,
        generated_by_reference=bits + 1000 * fidelity,
    )
    result = metrics.coding_divergence_from_codes(codes)
    assert float(result.coverage) == pytest.approx(coverage)
    assert float(result.fidelity) == pytest.approx(fidelity)
    assert float(result.value) == pytest.approx(value)
