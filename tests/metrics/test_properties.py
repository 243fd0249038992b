"""Laws that hold for every bank, tried on banks that nobody chose.

Seeds are fixed and shapes few, so that examples share one compilation. The distances run under
x64: there an invariance holds to rounding, and a tolerance cannot hide a broken one.
"""

import functools
import math

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmeval import metrics
from dlmeval.metrics.context_tree import posterior_levels

few = settings(max_examples=10, derandomize=True, deadline=None)
many = settings(max_examples=50, derandomize=True, deadline=None)
seeds = st.integers(0, 2**32 - 1)

N, D = 9, 5  # equal banks, so that they can be swapped without another compilation


def draw(seed, *shifts):
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(D, D))
    return [rng.normal(size=(N, D)) @ mixing + shift for shift in shifts]


# Name: the metric of banks scaled by s, brought back to the units of s = 1.
DISTANCES = {
    "energy": lambda x, y, s=1.0: metrics.energy_distance(x, y) / s,
    "energy, unbiased": lambda x, y, s=1.0: metrics.energy_distance(x, y, unbiased=True) / s,
    "mmd": lambda x, y, s=1.0: metrics.mmd(x, y, bandwidth=4 * s**2),
    "frechet": lambda x, y, s=1.0: metrics.frechet_distance(x, y) / s**2,
    "kernel": lambda x, y, s=1.0: metrics.kernel_distance(x, y, scale=0.1 / s**2),
    "kernel, biased": lambda x, y, s=1.0: metrics.kernel_distance(
        x, y, scale=0.1 / s**2, unbiased=False
    ),
}
# Of banks as empirical laws: their roots are metrics.
ROOTED = ("energy", "mmd", "frechet", "kernel, biased")


@pytest.mark.parametrize("name", DISTANCES)
@given(seeds, st.floats(-5, 5), st.floats(0.1, 10))
@few
def test_order_of_rows_and_banks_rotation_translation_and_units_do_not_matter(
    name, seed, shift, scale
):
    distance = DISTANCES[name]
    x, y = draw(seed, 0, 0.5)
    rng = np.random.default_rng(seed)
    rotation, _ = np.linalg.qr(rng.normal(size=(D, D)))
    with jax.enable_x64(True):
        same = functools.partial(np.testing.assert_allclose, desired=distance(x, y), rtol=1e-8)
        same(distance(rng.permutation(x), rng.permutation(y)))
        same(distance(y, x))
        same(distance(x @ rotation, y @ rotation))
        same(distance(scale * x, scale * y, scale))
        if not name.startswith("kernel"):  # a polynomial sees where the origin is
            same(distance(x + shift, y + shift))


@pytest.mark.parametrize("name", ROOTED)
@given(seeds)
@few
def test_roots_obey_the_axioms_of_a_metric(name, seed):
    distance = DISTANCES[name]
    x, y, z = draw(seed, 0, 0.3, 0.5)
    with jax.enable_x64(True):
        assert 0 <= distance(x, x) < 1e-10
        assert 0 <= distance(x, np.random.default_rng(seed).permutation(x)) < 1e-10
        xy, yz, xz = (math.sqrt(distance(*pair)) for pair in ((x, y), (y, z), (x, z)))
    assert xy > 0
    assert xz <= xy + yz + 1e-9


@given(seeds, st.floats(-1e3, 1e3))
@few
def test_whitening_learns_nothing_from_what_it_transforms(seed, shift):
    reference, generated = draw(seed, 1, 2)
    whitening = metrics.fit_whitening(reference, 3)
    before = [field.tobytes() for field in whitening]
    rows = np.asarray(whitening.transform(generated))
    other = generated.copy()
    other[1:] += shift
    # A row's coordinates are its own business ...
    np.testing.assert_array_equal(rows[0], np.asarray(whitening.transform(other))[0])
    # ... and neither the fit nor a refit has moved by a bit.
    assert [field.tobytes() for field in whitening] == before
    assert [field.tobytes() for field in metrics.fit_whitening(reference, 3)] == before


@given(seeds, st.integers(1, 6))
@few
def test_entropies_do_not_see_what_they_average_over(seed, vocabulary):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, vocabulary, (N, D))
    result = metrics.entropies(ids)
    columns = metrics.entropies(ids[rng.permutation(N)][:, rng.permutation(D)])
    for field in set(result._fields) - {"uni_rows"}:
        np.testing.assert_allclose(
            getattr(columns, field), getattr(result, field), rtol=1e-5, atol=1e-6, err_msg=field
        )
    # Shuffling within rows destroys positions and rows, but neither of the unigram entropies.
    shuffled = metrics.entropies(rng.permuted(ids, axis=1))
    np.testing.assert_allclose(shuffled.uni_rows, result.uni_rows, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(shuffled.pool, result.pool, rtol=1e-5, atol=1e-6)


# Histograms of six clusters, the last one empty so that another can be split into it.
histograms = st.lists(st.integers(0, 20), min_size=5, max_size=5).filter(any)


@given(histograms, histograms, st.floats(0.1, 0.9), seeds)
@many
def test_mauve_of_histograms(p, q, share, seed):
    p, q = np.array([*p, 0.0]), np.array([*q, 0.0])
    with jax.enable_x64(True):
        value = metrics.mauve_from_histograms(p, q)
        assert 0.00407 < value <= 1
        assert metrics.mauve_from_histograms(p, p) == 1
        close = functools.partial(np.testing.assert_allclose, desired=value, rtol=1e-9)
        close(metrics.mauve_from_histograms(q, p))
        close(metrics.mauve_from_histograms(7 * p, q / q.sum()))
        order = np.random.default_rng(seed).permutation(6)
        close(metrics.mauve_from_histograms(p[order], q[order]))
        # Splitting a cluster alike for both banks tells nothing new, merging two loses something.
        split = [np.array([(1 - share) * h[0], *h[1:5], share * h[0]]) for h in (p, q)]
        close(metrics.mauve_from_histograms(*split))
        merged = [np.array([0.0, h[0] + h[1], *h[2:]]) for h in (p, q)]
        assert metrics.mauve_from_histograms(*merged) >= value - 1e-9


@given(seeds)
@settings(few, max_examples=4)
def test_mauve_of_features(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(20, D)), rng.normal(size=(20, D)) + rng.normal()
    result = metrics.mauve(x, y)
    for number in (result.value, result.star, result.frontier_integral):
        assert 0 <= number <= 1
    shuffled = metrics.mauve(rng.permutation(x), rng.permutation(y))
    assert shuffled.value == result.value
    swapped = metrics.mauve(y, x)
    np.testing.assert_allclose(swapped.value, result.value, rtol=1e-5)
    np.testing.assert_allclose(swapped.frontier_integral, result.frontier_integral, rtol=1e-4)
    assert metrics.mauve(x, rng.permutation(x)).value == 1


# Text without JAX: banks of any size.
documents = st.lists(st.binary(min_size=1, max_size=12), min_size=3, max_size=6)


starts = st.sampled_from(["zeros", "grow", "skip"])


@given(documents, documents, st.integers(0, 12), starts, st.randoms(use_true_random=False))
@many
def test_coding_divergence(reference, generated, depth, start, random):
    if start == "skip":  # something must be left to code
        depth = min(depth, 7)
    divergence = functools.partial(
        metrics.jeffreys_coding_divergence, depth=depth, num_fit=2, start=start
    )
    result = divergence(reference, generated)
    swapped = divergence(generated, reference)
    assert swapped.value == result.value
    assert (swapped.coverage, swapped.fidelity) == (result.fidelity, result.coverage)
    # Document order within the fitted and within the coded part is free.
    moved = [
        random.sample(bank[:2], 2) + random.sample(bank[2:], len(bank) - 2)
        for bank in (reference, generated)
    ]
    np.testing.assert_allclose(divergence(*moved).value, result.value, rtol=1e-9, atol=1e-12)
    assert divergence(reference, list(reference)).value == 0
    assert min(result.cross_entropies) > 0


@given(documents, documents, st.integers(0, 10), starts)
@many
def test_context_counts_of_shards_add_up(left, right, depth, start):
    shards = [metrics.count_contexts(bank, depth, start=start) for bank in (left, right)]
    total, whole = (
        shards[0] + shards[1],
        metrics.count_contexts([*right, *left], depth, start=start),
    )
    np.testing.assert_array_equal(total.full, whole.full)
    np.testing.assert_array_equal(total.cut, whole.cut)
    counted = whole.full.sum() + (0 if whole.cut is None else whole.cut.sum())
    skipped = sum(min(depth, 8 * len(text)) for text in left + right) if start == "skip" else 0
    assert counted == 8 * sum(map(len, left + right)) - skipped


@given(documents, st.integers(0, 10), starts)
@many
def test_coder_is_a_probability_in_every_context(bank, depth, start):
    counts = metrics.count_contexts(bank, depth, start=start)
    tree = metrics.context_tree_from_counts(counts)
    np.testing.assert_allclose(np.sum(2.0**-tree.bits, axis=1), np.ones(2**depth), rtol=1e-13)
    if tree.cut_bits is not None:  # contexts of documents younger than the depth; row 0 is unused
        np.testing.assert_allclose(np.sum(2.0 ** -tree.cut_bits[1:], axis=1), 1, rtol=1e-13)
    levels, log_evidence = posterior_levels(counts.full, counts.cut)
    assert len(levels) == depth + 1
    assert log_evidence <= 0
    for level in levels:
        np.testing.assert_allclose(level.estimates.sum(axis=1), 1, rtol=1e-13)
        np.testing.assert_allclose(level.stop + level.descend, 1, rtol=1e-13)


@given(documents, st.integers(0, 8), st.sampled_from(["zeros", "grow"]))
@settings(few, max_examples=4)
def test_evidence_is_a_probability_of_the_next_document(bank, depth, start):
    """Over all 256 one-byte documents: the ratio of weighted probabilities sums to one."""

    def log_evidence(texts):
        return metrics.fit_context_tree(texts, depth, start=start).log_evidence

    after = [log_evidence([*bank, bytes([byte])]) for byte in range(256)]
    assert math.fsum(np.exp(np.array(after) - log_evidence(bank))) == pytest.approx(1, rel=1e-10)


token_banks = st.lists(
    st.lists(st.integers(0, 4), min_size=7, max_size=7), min_size=2, max_size=6
).map(np.array)


@given(token_banks, st.integers(1, 4), seeds)
@many
def test_overlap_does_not_see_names_of_tokens_or_order_of_rows(ids, order, seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(order, 8, len(ids))  # every row has an n-gram
    training = rng.integers(0, 5, (3, 9))
    rows, names = rng.permutation(len(ids)), rng.permutation(10_000)
    moved = names[ids][rows], lengths[rows]
    for share in (metrics.self_bleu, metrics.sequence_repetition):
        scores = share(ids, lengths, order=order)
        assert ((scores >= 0) & (scores <= 1)).all()
        np.testing.assert_allclose(share(*moved, order=order), scores[rows], rtol=1e-13)
    novelty = metrics.ngram_novelty(ids, training, lengths, order=order)
    assert ((novelty >= 0) & (novelty <= 1)).all()
    renamed = metrics.ngram_novelty(moved[0], names[training], moved[1], order=order)
    np.testing.assert_allclose(renamed, novelty[rows], rtol=1e-13)
    copied = metrics.longest_copied_span(ids, training, lengths)
    assert ((copied >= 0) & (copied <= lengths)).all()
    # A row of which all n-grams are known has a copied span of n tokens at least.
    assert (copied[novelty == 0] >= order).all()
    assert (copied[novelty == 1] < order).all()
    for bank_share in (metrics.distinct_n, functools.partial(diversity, order)):
        value = bank_share(ids, lengths, order=order)
        assert 0 < value <= 1
        assert bank_share(*moved, order=order) == pytest.approx(float(value), rel=1e-13)


def diversity(largest, ids, lengths, order):
    return metrics.diversity(ids, lengths, orders=range(1, largest + 1))


@given(token_banks, st.integers(1, 4), seeds)
@many
def test_copies_of_rows(ids, order, seed):
    """Every row beside its twin: nothing is said twice as often as by Self-BLEU and distinct-n."""
    lengths = np.random.default_rng(seed).integers(order, 8, len(ids))
    twins = np.tile(ids, (2, 1)), np.tile(lengths, 2)
    np.testing.assert_allclose(metrics.self_bleu(*twins, order=order), 1, rtol=1e-13)
    once, twice = (metrics.distinct_n(*bank, order=order) for bank in ((ids, lengths), twins))
    assert float(twice) == pytest.approx(float(once) / 2, rel=1e-13)
    # Copies of the training text are found whole, and nothing in them is new.
    np.testing.assert_array_equal(metrics.longest_copied_span(ids, ids, lengths, lengths), lengths)
    assert not metrics.ngram_novelty(ids, ids, lengths, lengths, order=order).any()


@given(st.lists(st.tuples(st.floats(0, 9), st.integers(1, 40)), min_size=2, max_size=8))
@many
def test_perplexity(rows):
    counts = np.array([count for _, count in rows])
    nll = np.array([rate * count for rate, count in rows])
    value = {
        aggregate: float(metrics.generative_perplexity(nll, counts, aggregate))
        for aggregate in ("token", "sample", "macro")
    }
    assert value["macro"] <= value["sample"] * (1 + 1e-12)  # Jensen
    row_values = np.exp(nll / counts)
    for aggregate, number in value.items():
        assert row_values.min() * (1 - 1e-12) <= number <= row_values.max() * (1 + 1e-12)
        # Three times the vocabulary for the same knowledge, and any number of copies.
        wider = metrics.generative_perplexity(nll + counts * math.log(3), counts, aggregate)
        assert float(wider) == pytest.approx(3 * number, rel=1e-12)
        copies = metrics.generative_perplexity(np.tile(nll, 2), np.tile(counts, 2), aggregate)
        assert float(copies) == pytest.approx(number, rel=1e-12)
        uniform = metrics.generative_perplexity(counts * math.log(50_257), counts, aggregate)
        assert float(uniform) == pytest.approx(50_257, rel=1e-12)
        assert metrics.generative_perplexity_stderr(nll, counts, aggregate) >= 0
