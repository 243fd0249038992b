"""Counts against dictionaries, samplers against their closed forms."""

import collections

import numpy as np
import pytest
from scipy import stats

from dlmeval.samplers import corpus_counts, mirror, periodic, phrase_bank, topk_iid


@pytest.fixture(scope="module")
def corpus():
    """Documents of 0 to 60 Zipf-like ids, some large, with one planted phrase."""
    rng = np.random.default_rng(1)
    documents = [rng.zipf(1.6, size=size) % 90 for size in rng.integers(0, 60, size=200)]
    documents[3] = np.array([50_000, 7, 7, 7, 7, 50_000] * 5)
    return documents


@pytest.mark.parametrize("ngram", [1, 2, 5, 13])
def test_counts_equal_a_dictionary(corpus, ngram):
    counts = corpus_counts(corpus, ngram=ngram)
    tokens = collections.Counter(int(i) for document in corpus for i in document)
    expected = sorted(tokens.items(), key=lambda item: (-item[1], item[0]))
    assert list(zip(counts.tokens.tolist(), counts.token_counts.tolist())) == expected
    phrases = collections.Counter(
        tuple(document[i : i + ngram].tolist())
        for document in corpus
        for i in range(len(document) - ngram + 1)
    )
    expected = sorted(phrases.items(), key=lambda item: (-item[1], item[0]))
    got = zip(map(tuple, counts.phrases.tolist()), counts.phrase_counts.tolist())
    assert list(got) == expected


def test_codes_beyond_64_bits_keep_order_and_identity():
    """40 tokens of 3,000 distinct ids need 462 bits."""
    document = np.random.default_rng(0).integers(0, 3000, size=4000)
    document[2000:2100] = document[100:200]
    counts = corpus_counts([document], ngram=40)
    assert counts.phrase_counts.sum() == 4000 - 39
    assert counts.phrase_counts[:61].tolist() == [2] * 61
    assert counts.phrase_counts[61] == 1
    twice = counts.phrases[:61].tolist()
    assert twice == sorted(twice)
    assert document[100:140].tolist() in twice


def test_topk_draws_renormalised_counts():
    counts = corpus_counts([np.repeat([5, 8, 2, 9], [50, 30, 20, 7])], ngram=2)
    bank = topk_iid(counts, 3, length=200, num_samples=100, seed=0)
    assert bank.shape == (100, 200)
    assert bank.dtype == np.int32
    observed = [(bank == i).sum() for i in (5, 8, 2)]
    assert stats.chisquare(observed, np.array([0.5, 0.3, 0.2]) * bank.size).pvalue > 1e-3
    np.testing.assert_array_equal(bank, topk_iid(counts, 3, length=200, num_samples=100, seed=0))
    assert np.any(bank != topk_iid(counts, 3, length=200, num_samples=100, seed=1))


def test_mirror_repeats_its_first_half(corpus):
    counts = corpus_counts(corpus)
    odd = mirror(counts, 20, length=7, num_samples=50, seed=3)
    np.testing.assert_array_equal(odd[:, 4:7], odd[:, :3])
    even = mirror(counts, 20, length=8, num_samples=50, seed=3)
    np.testing.assert_array_equal(even[:, 4:], even[:, :4])
    assert len(np.unique(even[:, :4], axis=0)) > 40
    one = mirror(counts, 20, length=1, num_samples=50, seed=3)
    np.testing.assert_array_equal(one, topk_iid(counts, 20, length=1, num_samples=50, seed=3))


def test_periodic_recites_ranks(corpus):
    counts = corpus_counts(corpus)
    bank = periodic(counts, 3, length=8, num_samples=2, seed=0)
    ranks = counts.tokens[[0, 1, 2, 0, 1, 2, 0, 1]]
    np.testing.assert_array_equal(bank, [ranks, ranks])
    np.testing.assert_array_equal(bank, periodic(counts, 3, length=8, num_samples=2, seed=9))
    short = periodic(counts, 30, length=8, num_samples=1, seed=0)
    np.testing.assert_array_equal(short[0], counts.tokens[:8])


@pytest.mark.parametrize(("size", "value"), [(64, 4.158883), (180, 5.1896), (400, 5.972238)])
def test_periodic_unigram_entropy(size, value):
    counts = corpus_counts([np.arange(500)])
    row = periodic(counts, size, length=1024, num_samples=1, seed=0)[0]
    assert abs(stats.entropy(np.bincount(row)) - value) < 1e-4


def test_phrase_bank_draws_whole_phrases_uniformly():
    documents = [np.tile([1, 2, 3, 4, 5, 6], 10), np.tile([7, 8, 9], 9), np.array([1, 2])]
    counts = corpus_counts(documents)
    bank = phrase_bank(counts, 4, length=12, num_samples=500, seed=0)
    assert bank.shape == (500, 12)
    known = [tuple(phrase) for phrase in counts.phrases[:4].tolist()]
    cells = [tuple(row[i : i + 5]) for row in bank.tolist() for i in (0, 5)]
    frequency = collections.Counter(cells)
    assert set(frequency) == set(known)
    assert stats.chisquare(list(frequency.values())).pvalue > 1e-3
    assert {tuple(row[10:]) for row in bank.tolist()} <= {phrase[:2] for phrase in known}


def test_phrases_never_cross_documents():
    counts = corpus_counts([np.array([1, 2, 3]), np.array([4, 5, 6, 7, 8, 9])])
    assert counts.phrases.tolist() == [[4, 5, 6, 7, 8], [5, 6, 7, 8, 9]]
    assert counts.tokens.tolist() == list(range(1, 10))


def test_large_sizes():
    counts = corpus_counts([np.arange(8)])
    with pytest.raises(ValueError, match=r"size=9 exceeds the 8 distinct ids.*clamp=True"):
        topk_iid(counts, 9, length=4, num_samples=1, seed=0)
    clamped = mirror(counts, 9, length=4, num_samples=1, seed=0, clamp=True)
    np.testing.assert_array_equal(clamped, mirror(counts, 8, length=4, num_samples=1, seed=0))
    with pytest.warns(UserWarning, match="4 distinct 5-grams"):
        bank = phrase_bank(counts, 9, length=5, num_samples=3, seed=0)
    assert bank.shape == (3, 5)


def test_refusals():
    counts = corpus_counts([np.arange(4)])
    with pytest.raises(ValueError, match="no 5-gram"):
        phrase_bank(counts, 1, length=5, num_samples=1, seed=0)
    for sampler in (topk_iid, mirror, periodic, phrase_bank):
        for change in ({"size": 0}, {"length": 0}, {"num_samples": 0}):
            arguments = {"size": 2, "length": 3, "num_samples": 1, "seed": 0} | change
            with pytest.raises(ValueError, match=f"{next(iter(change))}=0"):
                sampler(counts, **arguments)
    for documents, message in (
        ([], "no tokens"),
        ([np.array([])], "no tokens"),
        ([np.ones(3)], r"documents\[0\] is float64"),
        ([np.arange(3), np.ones((2, 2), int)], r"documents\[1\]"),
        ([np.array([1, -1])], "id -1"),
    ):
        with pytest.raises(ValueError, match=message):
            corpus_counts(documents)
    with pytest.raises(ValueError, match="ngram=0"):
        corpus_counts([np.arange(4)], ngram=0)
