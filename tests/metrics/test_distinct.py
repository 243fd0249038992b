"""Distinct-n and its jackknife against sets."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmeval.metrics import distinct_n, distinct_n_stderr


def by_sets(rows, order):
    grams = [tuple(row[i : i + order]) for row in rows for i in range(len(row) - order + 1)]
    return len(set(grams)) / len(grams)


def pack(rows):
    lengths = np.array([len(row) for row in rows])
    ids = np.full((len(rows), max(lengths)), 77)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return ids, lengths


@pytest.mark.parametrize(
    ("ids", "order", "expected"),
    [
        ([[1, 1, 1, 1]], 1, 1 / 4),
        ([[1, 1, 1, 1]], 3, 1 / 2),
        ([[1, 2, 3, 4], [1, 2, 3, 5]], 3, 3 / 4),
        ([[1, 2, 3, 4], [5, 6, 7, 8]], 2, 1.0),
        ([[1, 2], [3, 1]], 2, 1.0),  # (2, 3) would cross rows
    ],
)
def test_closed_forms(ids, order, expected):
    value = distinct_n(np.array(ids), order=order)
    assert isinstance(value, np.ndarray)
    assert value.shape == ()
    assert float(value) == expected


@given(
    st.lists(st.lists(st.integers(0, 2), max_size=7), min_size=1, max_size=6),
    st.integers(1, 3),
)
@settings(max_examples=80, deadline=None)
def test_equals_sets_and_brute_force_jackknife(rows, order):
    if sum(len(row) >= order for row in rows) < 1:
        return
    ids, lengths = pack(rows)
    assert float(distinct_n(ids, lengths, order=order)) == by_sets(rows, order)
    if sum(len(row) >= order for row in rows) < 2:
        return
    n = len(rows)
    without = [by_sets(rows[:i] + rows[i + 1 :], order) for i in range(n)]
    expected = math.sqrt((n - 1) / n * np.sum((without - np.mean(without)) ** 2))
    value = distinct_n_stderr(ids, lengths, order=order)
    assert float(value) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_jax_arrays_and_default_order():
    ids = np.random.default_rng(0).integers(0, 3, (4, 9))
    assert distinct_n(jnp.asarray(ids)) == distinct_n(ids) == by_sets(ids.tolist(), 3)


def test_repeating_the_bank_halves_the_value():
    ids = np.random.default_rng(0).integers(0, 9, (4, 9))
    assert float(distinct_n(np.tile(ids, (2, 1)))) == float(distinct_n(ids)) / 2


@pytest.mark.parametrize(
    ("ids", "order", "message"),
    [
        (np.zeros((2, 2), int), 3, "no row has 3 tokens"),
        (np.zeros((2, 2), int), 0, "order must be"),
        (np.zeros((2, 2)), 1, "integer"),
        (np.zeros((0, 2), int), 1, "empty bank"),
    ],
)
def test_bad_input_is_named(ids, order, message):
    for function in (distinct_n, distinct_n_stderr):
        with pytest.raises(ValueError, match=message):
            function(ids, order=order)


def test_stderr_needs_two_rows():
    with pytest.raises(ValueError, match="at least 2 rows of 3 tokens"):
        distinct_n_stderr(np.zeros((2, 4), int), np.array([4, 2]))
