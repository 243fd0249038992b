"""seq-rep-n and diversity against sets, closed forms and a brute-force jackknife."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmeval.metrics import (
    diversity,
    diversity_stderr,
    sequence_repetition,
    sequence_repetition_stderr,
)


def pack(rows):
    lengths = np.array([len(row) for row in rows])
    ids = np.full((len(rows), max(lengths)), 77)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return ids, lengths


def grams(row, order):
    return [tuple(row[i : i + order]) for i in range(len(row) - order + 1)]


def diversity_by_sets(rows, orders):
    value = 1.0
    for order in orders:
        total = sum(len(grams(row, order)) for row in rows)
        value *= sum(len(set(grams(row, order))) for row in rows) / total
    return value


banks = st.lists(st.lists(st.integers(0, 2), max_size=9), min_size=1, max_size=6)


@given(banks, st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_each_row_equals_sets(rows, order):
    if max(map(len, rows)) < order:
        return
    expected = [
        1 - len(set(grams(row, order))) / len(grams(row, order)) if len(row) >= order else 0.0
        for row in rows
    ]
    np.testing.assert_allclose(sequence_repetition(*pack(rows), order=order), expected, atol=1e-15)
    if len(rows) > 1:
        error = np.std(expected, ddof=1) / math.sqrt(len(rows))
        value = sequence_repetition_stderr(*pack(rows), order=order)
        assert value.shape == ()
        assert float(value) == pytest.approx(error, abs=1e-12)


@given(banks, st.sampled_from([(2, 3, 4), (2,), (3, 1)]))
@settings(max_examples=80, deadline=None)
def test_diversity_equals_sets_and_brute_force_jackknife(rows, orders):
    with_ngrams = sum(len(row) >= max(orders) for row in rows)
    if with_ngrams < 1:
        return
    value = diversity(*pack(rows), orders=orders)
    assert value.shape == ()
    assert float(value) == pytest.approx(diversity_by_sets(rows, orders), rel=1e-12)
    if with_ngrams < 2:
        return
    n = len(rows)
    without = [diversity_by_sets(rows[:i] + rows[i + 1 :], orders) for i in range(n)]
    expected = math.sqrt((n - 1) * np.var(without))
    assert float(diversity_stderr(*pack(rows), orders=orders)) == pytest.approx(expected, abs=1e-12)


def test_closed_forms():
    constant = np.zeros((3, 10), int)
    np.testing.assert_allclose(sequence_repetition(constant, order=4), 1 - 1 / 7)
    assert float(diversity(constant)) == pytest.approx(1 / 9 / 8 / 7)
    assert float(diversity_stderr(constant)) == pytest.approx(0, abs=1e-15)
    periodic = np.tile(np.arange(5), (2, 4))  # period 5 in 20 tokens: 5 different of 17 4-grams
    np.testing.assert_allclose(sequence_repetition(periodic), 1 - 5 / 17)
    fresh = np.arange(30).reshape(3, 10)
    assert sequence_repetition(fresh).tolist() == [0.0] * 3
    assert float(diversity(fresh)) == 1.0


def test_repetition_across_rows_is_not_seen():
    ids = np.random.default_rng(0).integers(0, 4, (5, 20))
    twice = np.tile(ids, (2, 1))
    assert float(diversity(twice)) == pytest.approx(float(diversity(ids)), rel=1e-14)
    np.testing.assert_array_equal(sequence_repetition(twice)[:5], sequence_repetition(ids))


def test_jackknife_errors_are_the_spread_over_banks():
    rng = np.random.default_rng(1)
    banks_ = np.where(rng.random((200, 30, 1)) < 0.3, 3, 12)  # some rows repeat far more
    ids = rng.integers(0, 12, (200, 30, 40)) % banks_
    spread = np.std([float(diversity(bank)) for bank in ids], ddof=1)
    claimed = math.sqrt(np.mean([float(diversity_stderr(bank)) ** 2 for bank in ids]))
    assert claimed == pytest.approx(spread, rel=0.2)


def test_jax_arrays_padding_and_tracing():
    ids, lengths = np.random.default_rng(2).integers(0, 3, (4, 12)), np.array([12, 5, 0, 9])
    for function in (sequence_repetition, diversity, diversity_stderr):
        padded = np.pad(ids, ((0, 0), (0, 3)), constant_values=-100)
        expected = function(ids, lengths)
        np.testing.assert_array_equal(function(padded, lengths), expected)
        np.testing.assert_array_equal(function(jnp.asarray(ids), jnp.asarray(lengths)), expected)
        with pytest.raises(ValueError, match=r"outside jax\.jit"):
            jax.jit(function)(jnp.zeros((2, 4), jnp.int32))


@pytest.mark.parametrize(
    ("function", "ids", "options", "message"),
    [
        (sequence_repetition, np.zeros((2, 3), int), {}, "no row has 4 tokens"),
        (sequence_repetition, np.zeros((2, 3), int), {"order": 0}, "order must be"),
        (sequence_repetition, np.zeros((2, 3)), {}, "integer"),
        (sequence_repetition_stderr, np.zeros((1, 4), int), {}, "at least 2 rows"),
        (diversity, np.zeros((2, 3), int), {}, "no row has 4 tokens"),
        (diversity, np.zeros((2, 9), int), {"orders": ()}, "orders must list"),
        (diversity, np.zeros((2, 9), int), {"orders": (2, 2)}, "each once"),
        (diversity, np.zeros((2, 9), int), {"orders": (2, 0)}, "order must be"),
        (diversity_stderr, np.zeros((1, 9), int), {}, "at least 2 rows of 4 tokens"),
    ],
)
def test_bad_input_is_named(function, ids, options, message):
    with pytest.raises(ValueError, match=message):
        function(ids, **options)
