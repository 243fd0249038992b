"""Entropies against closed forms, a float64 oracle, orderings and hash collisions."""

import collections
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmeval.metrics import entropies
from dlmeval.metrics import entropy as module

FIELDS = ("uni", "pool", "pos", "pos_mm", "joint", "total_correlation")


def oracle(ids, lengths=None):
    """Definitions taken literally, float64, Python counters."""
    ids = np.asarray(ids)
    lengths = [ids.shape[1]] * len(ids) if lengths is None else list(lengths)
    rows = [tuple(row[:length].tolist()) for row, length in zip(ids, lengths, strict=True)]
    longest = max(lengths)

    def entropy(items):
        counts = np.array(list(collections.Counter(items).values()), float)
        return float(-np.sum(counts / counts.sum() * np.log(counts / counts.sum())))

    columns = [[row[t] for row in rows if len(row) > t] for t in range(longest)]
    uni_rows = [entropy(row) if row else 0.0 for row in rows]
    pos = math.fsum(map(entropy, columns)) / longest
    joint = entropy(rows) / longest
    miller = math.fsum((len(set(c)) - 1) / (2 * len(c)) for c in columns) / longest
    return {
        "uni": np.mean(uni_rows),
        "uni_rows": np.array(uni_rows),
        "pool": entropy([token for row in rows for token in row]),
        "pos": pos,
        "pos_mm": pos + miller,
        "joint": joint,
        "total_correlation": longest * (pos - joint),
    }


def assert_matches(result, expected, rtol, atol):
    for field, value in expected.items():
        np.testing.assert_allclose(
            np.asarray(getattr(result, field), np.float64), value, rtol, atol, err_msg=field
        )


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (
            [[0, 0, 9], [0, 1, 9]],
            (math.log(2) / 2, 0.562335, math.log(2) / 2, math.log(2) / 2, 0.0),
        ),
        ([[0, 0, 9], [1, 1, 9]], (0.0, math.log(2), math.log(2), math.log(2) / 2, math.log(2))),
    ],
)
def test_toy_values(ids, expected):
    result = entropies(np.array(ids), np.array([2, 2]))
    got = (result.uni, result.pool, result.pos, result.joint, result.total_correlation)
    np.testing.assert_allclose(got, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("length", "period", "value"),
    [(1024, 64, math.log(64)), (1024, 180, 5.1896), (1024, 400, 5.972238), (128, 64, math.log(64))],
)
def test_periodic_rows_have_the_closed_form(length, period, value):
    quotient, rest = divmod(length, period)
    plogp = rest * (quotient + 1) * math.log(quotient + 1)
    plogp += (period - rest) * quotient * math.log(quotient) if quotient else 0.0
    closed = math.log(length) - plogp / length
    assert closed == pytest.approx(value, abs=5e-5)
    result = entropies(np.tile(np.arange(1024) % period, (4, 1)), np.full(4, length))
    np.testing.assert_allclose([result.uni, result.pool], closed, rtol=1e-6)
    np.testing.assert_array_equal(result.uni_rows, result.uni_rows[0])
    assert (float(result.pos), float(result.joint)) == (0.0, 0.0)
    assert float(result.total_correlation) == 0.0


def test_distinct_rows_have_joint_entropy_log_n(rng):
    ids = rng.integers(0, 50_000, (9, 5))
    assert 5 * float(entropies(ids).joint) == pytest.approx(math.log(9), rel=1e-6)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_small_entropies_keep_relative_precision():
    """One odd token in a long row: log m - sum c log c / m would lose 4 digits in fp32."""
    ids = np.zeros((4, 1024), np.int32)
    ids[:, 7] = 5
    assert_matches(entropies(ids), oracle(ids), rtol=1e-5, atol=0)


def test_many_equal_terms_do_not_drift():
    """A single fp32 accumulator over 2**18 terms would be off by more than 1e-5."""
    ids = np.arange(2**18, dtype=np.int32)[None]
    np.testing.assert_allclose(float(entropies(ids).pool), 18 * math.log(2), rtol=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.booleans())
@settings(max_examples=40, deadline=None)
def test_matches_the_oracle_on_random_ragged_banks(seed, vocabulary, ragged):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, vocabulary, (9, 5))
    ids[rng.integers(0, 9, 4)] = ids[0]  # repeated rows
    lengths = rng.integers(0, 6, 9) if ragged else None
    if ragged:
        lengths[3] = max(lengths[3], 1)
    assert_matches(entropies(ids, lengths), oracle(ids, lengths), rtol=1e-5, atol=2e-6)


def test_x64_matches_to_1e_9(rng):
    ids, lengths = rng.zipf(1.3, (9, 5)).clip(0, 999), rng.integers(1, 6, 9)
    with jax.enable_x64(True):
        result = entropies(ids, lengths)
    assert result.pool.dtype == jnp.float64
    assert_matches(result, oracle(ids, lengths), rtol=1e-12, atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_orderings_of_equal_length_rows(seed, vocabulary):
    ids = np.random.default_rng(seed).integers(0, vocabulary, (9, 5))
    result = {field: float(getattr(entropies(ids), field)) for field in FIELDS}
    slack = 1e-6
    assert -slack <= result["joint"] <= result["pos"] + slack
    assert result["pos"] <= result["pool"] + slack
    assert 0 <= result["uni"] <= result["pool"] + slack
    assert result["uni"] <= math.log(min(5, vocabulary)) + slack
    assert result["pos"] <= math.log(min(9, vocabulary)) + slack
    assert 5 * result["joint"] <= math.log(9) + slack
    assert result["pos"] <= result["pos_mm"] <= result["pos"] + (vocabulary - 1) / 18 + slack
    assert result["total_correlation"] >= -slack


def test_ids_beyond_the_length_are_ignored(rng):
    ids, lengths = rng.integers(0, 5, (9, 5)), np.array([5, 1, 2, 3, 4, 5, 0, 2, 2])
    other = ids.copy()
    other[np.arange(5) >= lengths[:, None]] = -100
    for left, right in zip(entropies(ids, lengths), entropies(other, lengths), strict=True):
        np.testing.assert_array_equal(left, right)


def test_columns_of_padding_change_nothing(rng):
    ids = rng.integers(0, 5, (9, 5))
    assert_matches(entropies(ids, np.full(9, 3)), oracle(ids[:, :3]), rtol=1e-5, atol=1e-6)


def test_the_largest_id_is_not_taken_for_padding():
    top = np.iinfo(np.int32).max
    ids, lengths = np.array([[top, top, 3], [top, 3, 3]]), np.array([2, 3])
    assert_matches(entropies(ids, lengths), oracle(ids, lengths), rtol=1e-5, atol=1e-6)


def test_rows_that_agree_but_for_length_are_different():
    ids, lengths = np.zeros((2, 3), int), np.array([2, 3])
    assert 3 * float(entropies(ids, lengths).joint) == pytest.approx(math.log(2), rel=1e-6)


def test_invariances(rng):
    ids = rng.integers(0, 5, (9, 5))
    relabelled = rng.permutation(50_000)[ids][rng.permutation(9)]
    result, same = entropies(ids), entropies(relabelled)
    for field in FIELDS:
        np.testing.assert_allclose(
            getattr(result, field), getattr(same, field), rtol=1e-5, atol=1e-6
        )


def test_jit_vmap_and_jax_arrays_agree(rng):
    banks, lengths = rng.integers(0, 4, (3, 9, 5)), rng.integers(1, 6, (3, 9))
    mapped = jax.jit(jax.vmap(entropies))(jnp.asarray(banks), jnp.asarray(lengths))
    for i in range(3):
        expected = oracle(banks[i], lengths[i])
        assert_matches(type(mapped)(*(x[i] for x in mapped)), expected, rtol=1e-5, atol=2e-6)
        assert_matches(
            entropies(jnp.asarray(banks[i]), jnp.asarray(lengths[i])), expected, 1e-5, 2e-6
        )


def test_hash_collisions_cannot_merge_rows(monkeypatch):
    """The first seed hashes all rows alike: verification must notice and hash anew."""
    seeds = []
    true_hash = module._hash_rows

    def weak_first(ids, lengths, seed):
        jax.debug.callback(lambda s: seeds.append(int(s)), seed)
        good = true_hash(ids, lengths, seed)
        return jnp.where(seed < 2, jnp.zeros_like(good), good)

    monkeypatch.setattr(module, "_hash_rows", weak_first)
    ids = np.array([[1, 2], [3, 4], [1, 2], [5, 6]])
    total = module._row_entropy(jnp.asarray(ids, jnp.int32), jnp.full(4, 2))
    jax.effects_barrier()
    assert float(total) == pytest.approx(oracle(ids)["joint"] * 2, rel=1e-6)
    assert set(seeds) == {0, 1, 2, 3}  # one repetition, no more


def test_hashes_of_similar_rows_are_distinct():
    """All permutations of a row, and all small rows: a weak mixer collides here."""
    ids = np.stack([x.ravel() for x in np.meshgrid(*[np.arange(32)] * 3)], axis=1)
    hashed = module._hash_rows(jnp.asarray(ids, jnp.int32), jnp.full(len(ids), 3), jnp.uint32(0))
    assert len(np.unique(hashed)) >= len(ids) - 3  # 32 bits: 0.13 collisions expected


@pytest.mark.parametrize(("r", "m"), [(1, 1), (3, 2), (2, 63), (2, 64), (3, 1000)])
def test_running_max(rng, r, m):
    x = rng.integers(0, 10_000, (r, m)).astype(np.int32)
    np.testing.assert_array_equal(module._running_max(x), np.maximum.accumulate(x, axis=1))


@pytest.mark.parametrize(
    ("ids", "lengths", "message"),
    [
        (np.zeros(3, int), None, r"ids must be 2-D.*\(3,\)"),
        (np.zeros((2, 3)), None, "integer token ids, got dtype float64"),
        (np.zeros((2, 3), bool), None, "integer token ids, got dtype bool"),
        (np.zeros((0, 3), int), None, "empty bank"),
        (np.zeros((2, 0), int), None, "empty bank"),
        ([[1, 2], [3]], None, "rectangular"),
        (np.zeros((2, 3), int), np.array([3, 4]), r"lengths\[1\] = 4 is outside \[0, 3\]"),
        (np.zeros((2, 3), int), np.array([-1, 3]), r"lengths\[0\] = -1"),
        (np.zeros((2, 3), int), np.array([3]), r"one length for each of the 2 rows"),
        (np.zeros((2, 3), int), np.array([3.0, 3.0]), "lengths must be integers"),
        (np.zeros((2, 3), int), np.array([0, 0]), "all 0"),
        (np.array([[0, -1]]), None, r"ids\[0, 1\] = -1"),
        (np.array([[0, 2**31]]), None, r"ids\[0, 1\] = 2147483648"),
    ],
)
def test_bad_input_is_named(ids, lengths, message):
    with pytest.raises(ValueError, match=message):
        entropies(ids, lengths)


def test_shapes_are_checked_under_jit():
    with pytest.raises(ValueError, match="2-D"):
        jax.jit(entropies)(jnp.zeros(3, jnp.int32))
