"""n-gram counts by sorting against counts by dictionary."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmeval.metrics import count_ngrams, ngram_counts


def by_dictionary(rows, order):
    """Counts of each n-gram by row."""
    grams = collections.defaultdict(collections.Counter)
    for index, row in enumerate(rows):
        for start in range(len(row) - order + 1):
            grams[tuple(row[start : start + order])][index] += 1
    return grams


def check(counts, rows, order):
    grams = by_dictionary(rows, order)
    assert counts.totals.tolist() == [max(len(row) - order + 1, 0) for row in rows]
    found = collections.defaultdict(dict)
    for ngram, row, count in zip(counts.ngram, counts.row, counts.count, strict=True):
        found[ngram][row] = count
    # Ranks follow the lexicographic order of the n-grams, so names can be compared.
    assert [found[rank] for rank in range(len(found))] == [dict(grams[g]) for g in sorted(grams)]
    assert counts.ngram[counts.starts].tolist() == list(range(len(grams)))


@given(
    st.lists(st.lists(st.integers(0, 3), max_size=7), min_size=1, max_size=6).filter(any),
    st.integers(1, 4),
)
@settings(max_examples=80, deadline=None)
def test_counts_equal_the_dictionary(rows, max_order):
    width = max(map(len, rows))
    ids = np.array([row + [9] * (width - len(row)) for row in rows])
    lengths = np.array([len(row) for row in rows])
    orders = list(count_ngrams(ids, lengths, max_order=max_order))
    assert len(orders) == max_order
    for order, counts in enumerate(orders, start=1):
        check(counts, rows, order)
    single = ngram_counts(ids, lengths, order=max_order)
    for left, right in zip(single, orders[-1], strict=True):
        np.testing.assert_array_equal(left, right)


def test_huge_ids_do_not_collide():
    """Naming n-grams by a product of ids would overflow 64 bits at order 3."""
    rng = np.random.default_rng(0)
    ids = rng.choice(np.array([0, 1, 2**30, 2**31 - 1], np.int32), (5, 40))
    check(ngram_counts(ids, order=5), ids.tolist(), 5)


def test_jax_arrays_give_the_same():
    ids, lengths = np.array([[1, 2, 1, 2], [2, 1, 2, 0]]), np.array([4, 3])
    left = ngram_counts(ids, lengths, order=2)
    right = ngram_counts(jnp.asarray(ids), jnp.asarray(lengths), order=2)
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)


def test_short_rows_give_empty_counts_and_the_rest_stays():
    counts = ngram_counts(np.array([[1, 2, 3], [4, 5, 6]]), np.array([2, 0]), order=3)
    assert [len(field) for field in counts] == [0, 0, 0, 0, 2]
    assert counts.totals.tolist() == [0, 0]


@pytest.mark.parametrize("order", [0, -1, 1.5, True, "2"])
def test_bad_order_is_named(order):
    with pytest.raises(ValueError, match="order must be an integer >= 1"):
        ngram_counts(np.zeros((2, 3), int), order=order)


def test_tracing_is_refused():
    with pytest.raises(ValueError, match=r"outside jax\.jit"):
        jax.jit(lambda ids: ngram_counts(ids, order=2).count)(jnp.zeros((2, 3), jnp.int32))
