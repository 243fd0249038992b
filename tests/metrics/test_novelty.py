"""Memorisation metrics against sets of all spans, closed forms and known nulls."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmeval.metrics import (
    fit_training_index,
    longest_copied_span,
    longest_copied_span_stderr,
    memorisation,
    ngram_novelty,
    ngram_novelty_stderr,
)


def pack(rows):
    lengths = np.array([len(row) for row in rows])
    ids = np.full((len(rows), max(1, *lengths)), 77)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return ids, lengths


def spans(rows, span):
    return {tuple(row[i : i + span]) for row in rows for i in range(len(row) - span + 1)}


def longest_by_sets(row, documents):
    return max(
        (span for span in range(1, len(row) + 1) if spans([row], span) & spans(documents, span)),
        default=0,
    )


def novelty_by_sets(row, documents, order):
    grams = [tuple(row[i : i + order]) for i in range(len(row) - order + 1)]
    known = spans(documents, order)
    return sum(gram not in known for gram in grams) / max(len(grams), 1)


tokens = st.lists(st.integers(0, 2), max_size=20)


@given(
    st.lists(tokens, min_size=1, max_size=5).filter(any),
    st.lists(tokens, min_size=1, max_size=4).filter(any),
    st.integers(0, 3),
)
@settings(max_examples=100, deadline=None)
def test_equals_sets_of_all_spans(documents, rows, shift):
    """Also for copies of whole documents and for tokens the training text lacks."""
    rows = [[token + shift // 3 for token in row] for row in rows]
    rows += [documents[0] + documents[-1]]
    training, bank = pack(documents), pack(rows)
    index = fit_training_index(*training)
    copied = longest_copied_span(bank[0], index, bank[1])
    assert copied.tolist() == [longest_by_sets(row, documents) for row in rows]
    direct = longest_copied_span(bank[0], training[0], bank[1], training[1])
    np.testing.assert_array_equal(direct, copied)
    for order in (1, 2, 3, 4, 5, 7, 8, 15):
        if max(map(len, rows)) < order:
            break
        expected = [novelty_by_sets(row, documents, order) for row in rows]
        value = ngram_novelty(bank[0], index, bank[1], order=order)
        np.testing.assert_allclose(value, expected, atol=1e-15)


@given(st.lists(tokens, min_size=1, max_size=5).filter(any))
@settings(max_examples=80, deadline=None)
def test_the_index_is_the_sorted_suffixes_and_names_spans_exactly(documents):
    index = fit_training_index(*pack(documents))
    suffixes = [document[i:] for document in documents for i in range(len(document))]
    assert [suffixes[i] for i in index.order] == sorted(suffixes)
    assert index.left.tolist() == list(map(len, suffixes))
    assert len(index.names) == max(map(len, documents)).bit_length()
    ordered = sorted(suffixes)
    for level, names in enumerate(index.names):
        heads = [suffix[: 2**level] for suffix in ordered]
        expected = [heads.index(suffix[: 2**level]) for suffix in suffixes]
        assert names.tolist() == expected


def test_long_copies_are_found_whole_and_levels_without_change_are_shared():
    rng = np.random.default_rng(0)
    training = rng.integers(0, 2**31 - 1, (20, 500))
    training[7] = training[3]  # a repeated document must not hide anything
    index = fit_training_index(training)
    assert len(index.names) == 9
    assert len({id(names) for names in index.names}) == 1  # single tokens tell all suffixes apart
    bank = rng.integers(0, 2**31 - 1, (4, 500))
    bank[0] = training[3]
    bank[1, 17:400] = training[7, 100:483]
    bank[2, :250], bank[2, 250:] = training[1, :250], training[2, :250]
    assert longest_copied_span(bank, index).tolist() == [500, 383, 250, 0]
    expected = [0, 1 - (383 - 99) / 401, 1 - 2 * 151 / 401, 1]
    np.testing.assert_allclose(ngram_novelty(bank, index, order=100), expected)


def test_spans_stay_within_one_document_and_one_row():
    training = np.array([[1, 2, 3], [4, 5, 6]])
    assert longest_copied_span(np.array([[3, 4, 5]]), training).tolist() == [2]
    assert longest_copied_span(np.array([[9, 1], [2, 3]]), training).tolist() == [1, 2]
    beyond = longest_copied_span(
        np.array([[1, 2, 3]]), training, None, training_lengths=np.array([2, 3])
    )
    assert beyond.tolist() == [2]


def test_longer_spans_than_any_document_are_novel():
    novelty = ngram_novelty(np.array([[1, 2, 3, 4, 1]]), np.array([[1, 2], [3, 4]]), order=4)
    assert novelty.tolist() == [1.0]


def test_row_order_padding_and_array_type_do_not_matter():
    rng = np.random.default_rng(1)
    training, ids = rng.integers(0, 3, (5, 12)), rng.integers(0, 4, (6, 10))
    lengths, order = rng.integers(4, 11, 6), rng.permutation(6)
    index = fit_training_index(training)
    mixed = fit_training_index(jnp.asarray(training[::-1]))
    padded = np.pad(ids, ((0, 0), (0, 4)), constant_values=-100)
    for function in (longest_copied_span, ngram_novelty):
        rows = function(ids, index, lengths)
        np.testing.assert_array_equal(function(ids[order], index, lengths[order]), rows[order])
        np.testing.assert_array_equal(function(padded, mixed, lengths), rows)
        np.testing.assert_array_equal(function(jnp.asarray(ids), index, lengths), rows)


def test_standard_errors_are_those_of_a_mean_of_rows():
    rng = np.random.default_rng(2)
    index, ids = fit_training_index(rng.integers(0, 4, (5, 40))), rng.integers(0, 4, (9, 20))
    for function, stderr in (
        (longest_copied_span, longest_copied_span_stderr),
        (ngram_novelty, ngram_novelty_stderr),
    ):
        expected = np.std(function(ids, index), ddof=1) / 3
        assert float(stderr(ids, index)) == pytest.approx(expected, rel=1e-12)
        assert float(expected) > 0


def source(rng, n):
    """Rows of 60 tokens of one chain: each token is followed by one of three."""
    rows = np.empty((n, 60), int)
    rows[:, 0] = rng.integers(0, 200, n)
    for t in range(1, 60):
        rows[:, t] = (3 * rows[:, t - 1] + rng.integers(0, 3, n)) % 200
    return rows


def test_memorisation_tells_copies_from_fresh_text():
    rng = np.random.default_rng(3)
    training, fresh, more = source(rng, 150), source(rng, 100), source(rng, 100)
    index = fit_training_index(training)
    copy = memorisation(fresh, training[20:60], index)
    assert float(copy.novelty) == 0.0
    assert float(copy.copied_span) == 60.0
    assert float(copy.exceeding) == 1.0
    assert float(copy.novelty_z) < -10
    assert float(copy.copied_span_z) > 10
    null = memorisation(fresh, more, index)
    assert abs(float(null.novelty_z)) < 3
    assert abs(float(null.copied_span_z)) < 3
    assert float(null.exceeding) < 0.1
    noise = memorisation(fresh, rng.integers(0, 200, (100, 60)), index)
    assert float(noise.novelty_z) > 10  # novel, and worthless: the null is what to aim at
    spliced = more.copy()
    spliced[:20, 10:50] = training[:20, 10:50]  # a fifth of the rows hold a copied passage
    part = memorisation(fresh, spliced, index)
    assert float(part.exceeding) == pytest.approx(0.2, abs=0.05)
    assert float(part.copied_span_z) > 3


def test_equal_rows_have_no_error_and_equal_means_no_distance():
    row = np.array([[*range(9), 99]])  # novelty 0.1, which no float holds
    index = fit_training_index(row[:, :9])
    for n, m in ((100, 1000), (300, 700), (3, 7)):
        found = memorisation(row.repeat(n, 0), row.repeat(m, 0), index, order=1)
        assert found.novelty_z == found.copied_span_z == 0
        assert ngram_novelty_stderr(row.repeat(n, 0), index, order=1) == 0
    other = np.array([[*range(8), 98, 99]]).repeat(11, 0)
    assert memorisation(row.repeat(100, 0), other, index, order=1).novelty_z == np.inf


def test_memorisation_without_variance_has_limits():
    training = np.arange(40).reshape(2, 20)
    index = fit_training_index(training)
    same = memorisation(training, training, index)
    assert float(same.novelty_z) == float(same.copied_span_z) == 0.0
    unknown = memorisation(training + 100, training, index)
    assert float(unknown.novelty_z) == -math.inf
    assert float(unknown.copied_span_z) == math.inf


IDS = np.zeros((2, 4), int)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: longest_copied_span(IDS[:0], IDS), "ids has shape"),
        (lambda: longest_copied_span(IDS, IDS[:0]), "training_ids has shape"),
        (lambda: longest_copied_span(IDS, IDS.astype(float)), "training_ids must hold integer"),
        (lambda: longest_copied_span(IDS - 1, IDS), r"ids\[0, 0\] = -1"),
        (lambda: longest_copied_span(IDS, IDS, np.array([5, 1])), "outside"),
        (lambda: ngram_novelty(IDS, IDS, order=5), "no row has 5 tokens"),
        (lambda: ngram_novelty(IDS, IDS, order=0), "order must be"),
        (
            lambda: ngram_novelty(IDS, fit_training_index(IDS), None, np.array([4, 4])),
            "training_lengths must be None with a TrainingIndex",
        ),
        (lambda: ngram_novelty_stderr(IDS[:1], IDS), "at least 2 rows"),
        (lambda: memorisation(IDS, IDS[:1], fit_training_index(IDS)), "at least 2 rows"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_tracing_is_refused():
    index = fit_training_index(IDS)
    for function in (fit_training_index, lambda ids: longest_copied_span(ids, index)):
        with pytest.raises(ValueError, match=r"outside jax\.jit"):
            jax.jit(function)(jnp.zeros((2, 3), jnp.int32))


def test_an_empty_document_of_a_list_is_no_array_of_floats():
    for documents in ([[], [1, 2]], [[1, 2], []]):
        assert fit_training_index(documents).tokens.tolist() == [1, 2]


def test_a_list_of_documents_makes_the_index_of_the_padded_array():
    documents = [[1, 2, 3, 1], [2], [], [3, 1, 2, 2, 1, 3]]
    listed = fit_training_index([np.array(d, np.int32) for d in documents])
    padded = fit_training_index(*pack(documents))
    for ours, theirs in zip(jax.tree.leaves(listed), jax.tree.leaves(padded), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("documents", [[], [np.zeros((2, 2), np.int32)], [np.zeros(2)]])
def test_a_list_that_holds_no_documents_is_refused(documents):
    with pytest.raises(ValueError, match="training_ids"):
        fit_training_index(documents)
