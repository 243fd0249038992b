"""Entropies against closed forms, a float64 oracle, orderings and hash collisions."""

import collections
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmeval.metrics import entropies, entropies_stderr, entropy_ceiling
from dlmeval.metrics import entropy as module

TRACED = jax.jit(entropies)
# Concrete ids are counted on the host, traced ones by XLA: two algorithms, one meaning.
ROUTES = pytest.mark.parametrize("route", [entropies, TRACED], ids=["host", "traced"])
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


@ROUTES
@pytest.mark.parametrize(
    ("length", "period", "value"),
    [
        (1024, 64, 4.158883),
        (1024, 180, 5.1896),
        (1024, 200, 5.2964),
        (1024, 256, 5.545177),
        (1024, 290, 5.6598),
        (1024, 300, 5.6935),
        (1024, 400, 5.972238),
        (1024, 5000, math.log(1024)),
        (128, 64, math.log(64)),
    ],
)
def test_periodic_rows_have_the_closed_form(route, length, period, value):
    quotient, rest = divmod(length, period)
    plogp = rest * (quotient + 1) * math.log(quotient + 1)
    plogp += (period - rest) * quotient * math.log(quotient) if quotient else 0.0
    closed = math.log(length) - plogp / length
    assert closed == pytest.approx(value, abs=5e-5)
    result = route(np.tile(np.arange(1024) % period, (4, 1)), np.full(4, length))
    np.testing.assert_allclose([result.uni, result.pool], closed, rtol=1e-6)
    np.testing.assert_array_equal(result.uni_rows, result.uni_rows[0])
    assert (float(result.pos), float(result.joint)) == (0.0, 0.0)
    assert float(result.total_correlation) == 0.0


@ROUTES
def test_distinct_rows_have_joint_entropy_log_n(route, rng):
    ids = rng.integers(0, 50_000, (9, 5))
    ceiling = float(entropy_ceiling(9))
    assert ceiling == math.log(9)
    assert 5 * float(route(ids).joint) == pytest.approx(ceiling, rel=1e-6)


def test_ceiling_is_reached_and_named():
    """All tokens of every column distinct: the plug-in shows the bank's size and nothing else."""
    ids = np.arange(45).reshape(9, 5)
    e = entropies(ids)
    assert float(e.pos) == pytest.approx(float(entropy_ceiling(9)), rel=1e-6)
    assert float(e.pos_mm) == pytest.approx(math.log(9) + 8 / 18, rel=1e-6)
    assert float(entropy_ceiling(1024)) == pytest.approx(6.93147, abs=5e-6)
    np.testing.assert_array_equal(entropy_ceiling(np.array([1, 4])), [0, np.log(4)])
    for wrong in (0, 1.5, np.array([], int)):
        with pytest.raises(ValueError, match="num_rows must be a number of rows"):
            entropy_ceiling(wrong)  # type: ignore[arg-type]


def test_ragged_rows_bend_the_orderings():
    """uni weighs rows alike and pool tokens: only the length-weighted mean stays below pool."""
    ids, lengths = np.zeros((4, 1024), int), np.array([2, 1024, 1024, 1024])
    ids[0, 1] = 1
    e = entropies(ids, lengths)
    assert float(e.uni) == pytest.approx(math.log(2) / 4, rel=1e-6)
    assert float(e.uni_rows @ lengths) / lengths.sum() < float(e.pool) < 0.01 < float(e.uni)
    # Positions weigh alike: two that one row alone reaches, one of a fair coin.
    ids, lengths = np.arange(4096).reshape(4, 1024), np.array([3, 1, 0, 0])
    assert float(entropies(ids, lengths).pos) == pytest.approx(math.log(2) / 3, rel=1e-6)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@ROUTES
def test_small_entropies_keep_relative_precision(route):
    """One odd token in a long row: log m - sum c log c / m would lose 4 digits in fp32."""
    ids = np.zeros((4, 1024), np.int32)
    ids[:, 7] = 5
    assert_matches(route(ids), oracle(ids), rtol=1e-5, atol=0)


@ROUTES
def test_many_equal_terms_do_not_drift(route):
    """A single fp32 accumulator over 2**18 terms would be off by more than 1e-5."""
    ids = np.arange(2**18, dtype=np.int32)[None]
    np.testing.assert_allclose(float(route(ids).pool), 18 * math.log(2), rtol=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.booleans())
@settings(max_examples=40, deadline=None)
def test_matches_the_oracle_on_random_ragged_banks(seed, vocabulary, ragged):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, vocabulary, (9, 5))
    ids[rng.integers(0, 9, 4)] = ids[0]  # repeated rows
    lengths = rng.integers(0, 6, 9) if ragged else None
    if lengths is not None:
        lengths[3] = max(lengths[3], 1)
    found, expected = entropies(ids, lengths), oracle(ids, lengths)
    assert_matches(found, expected, rtol=1e-6, atol=1e-14)  # rounded once, not in every sum
    assert_matches(TRACED(ids, lengths), expected, rtol=1e-5, atol=2e-6)
    for one, other in zip(found, TRACED(ids, lengths), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)


@ROUTES
def test_x64_matches_to_1e_9(route, rng):
    ids, lengths = rng.zipf(1.3, (9, 5)).clip(0, 999), rng.integers(1, 6, 9)
    with jax.enable_x64(True):
        result = route(ids, lengths)
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


@ROUTES
def test_ids_beyond_the_length_are_ignored(route, rng):
    ids, lengths = rng.integers(0, 5, (9, 5)), np.array([5, 1, 2, 3, 4, 5, 0, 2, 2])
    other = ids.copy()
    other[np.arange(5) >= lengths[:, None]] = -100
    for left, right in zip(route(ids, lengths), route(other, lengths), strict=True):
        np.testing.assert_array_equal(left, right)


@ROUTES
def test_columns_of_padding_change_nothing(route, rng):
    ids = rng.integers(0, 5, (9, 5))
    assert_matches(route(ids, np.full(9, 3)), oracle(ids[:, :3]), rtol=1e-5, atol=1e-6)


@ROUTES
def test_the_largest_id_is_not_taken_for_padding(route):
    top = np.iinfo(np.int32).max
    ids, lengths = np.array([[top, top, 3], [top, 3, 3]]), np.array([2, 3])
    assert_matches(route(ids, lengths), oracle(ids, lengths), rtol=1e-5, atol=1e-6)


@ROUTES
def test_rows_that_agree_but_for_length_are_different(route):
    ids, lengths = np.zeros((2, 3), int), np.array([2, 3])
    assert 3 * float(route(ids, lengths).joint) == pytest.approx(math.log(2), rel=1e-6)


@ROUTES
def test_invariances(route, rng):
    ids = rng.integers(0, 5, (9, 5))
    relabelled = rng.permutation(50_000)[ids][rng.permutation(9)]
    result, same = route(ids), route(relabelled)
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


def test_routes_agree_on_a_bank_of_the_size_of_text(rng):
    """Zipf ids, repeated rows, ragged: at this size the blocked fp32 sums are at work."""
    ids, lengths = rng.zipf(1.3, (64, 1024)).clip(0, 50_000), rng.integers(0, 1025, 64)
    ids[40:], lengths[40:] = ids[:24], lengths[:24]
    ids[np.arange(1024) >= lengths[:, None]] = -1
    found = entropies(ids, lengths)
    traced = TRACED(ids, lengths)
    for field in ("uni", "uni_rows", "pool", "pos", "pos_mm", "joint"):
        one, other = getattr(found, field), getattr(traced, field)
        np.testing.assert_allclose(one, other, rtol=3e-6, atol=1e-7, err_msg=field)
    np.testing.assert_allclose(found.total_correlation, traced.total_correlation, rtol=1e-4)


def test_concrete_ids_are_counted_on_the_host(monkeypatch):
    monkeypatch.setattr(module, "_entropies", None)
    assert float(entropies(jnp.arange(6).reshape(2, 3)).pool) == pytest.approx(math.log(6))


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


def brute_force_stderr(ids, lengths):
    """Every row left out in turn, by the literal definitions."""
    n = len(ids)
    without = [oracle(np.delete(ids, i, axis=0), np.delete(lengths, i)) for i in range(n)]
    spread = {field: np.var([values[field] for values in without]) for field in FIELDS}
    return {field: math.sqrt((n - 1) * variance) for field, variance in spread.items()}


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from(["full", "ragged", "one long"])
)
@settings(max_examples=60, deadline=None)
def test_stderr_is_the_brute_force_jackknife(seed, vocabulary, shape):
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, vocabulary, (7, 5))
    ids[rng.integers(0, 7, 3)] = ids[0]  # repeated rows
    lengths = np.full(7, 5)
    if shape == "ragged":
        lengths = rng.integers(0, 6, 7)
        lengths[:2] = rng.integers(1, 6, 2)
    if shape == "one long":  # leaving it out shortens L
        lengths = rng.integers(1, 4, 7)
        lengths[rng.integers(7)] = 5
    result = entropies_stderr(ids, None if shape == "full" else lengths)
    for field, value in brute_force_stderr(ids, lengths).items():
        got = getattr(result, field)
        assert isinstance(got, np.ndarray)
        assert got.shape == ()
        assert float(got) == pytest.approx(value, rel=1e-9, abs=1e-12), field


def test_stderr_of_uni_is_sd_over_root_n(rng):
    ids = rng.integers(0, 5, (9, 5))
    rows = oracle(ids)["uni_rows"]
    value = rows.std(ddof=1) / 3
    assert float(entropies_stderr(ids).uni) == pytest.approx(value, rel=1e-12)


def test_stderr_predicts_the_spread_of_repeated_banks():
    """64 rows over 4 letters, far from the ceiling, where the jackknife is to be trusted."""
    rng = np.random.default_rng(3)
    banks = rng.choice(4, (120, 64, 6), p=[0.5, 0.25, 0.15, 0.1])
    values = [oracle(bank) for bank in banks]
    errors = [entropies_stderr(bank) for bank in banks]
    for field in ("uni", "pool", "pos", "pos_mm"):
        spread = np.std([value[field] for value in values], ddof=1)
        mean = np.mean([getattr(error, field) for error in errors])
        assert mean == pytest.approx(spread, rel=0.25), field  # a sd of 120 has 6.5% error


def test_saturated_plug_ins_have_no_spread():
    """The documented trap: an error of 0 next to a bias of nats."""
    ids = np.random.default_rng(4).integers(0, 50_000, (9, 5))
    errors = entropies_stderr(ids)
    assert float(errors.joint) < 1e-12
    assert float(errors.pos) < 0.02
    assert math.log(50_000) - float(entropies(ids).pos) > 8


def test_stderr_ignores_padding_and_relabelling(rng):
    ids, lengths = rng.integers(0, 4, (9, 5)), np.array([5, 1, 2, 3, 4, 5, 0, 2, 2])
    other = rng.permutation(2**31 - 1 - np.arange(10))[ids]
    other[np.arange(5) >= lengths[:, None]] = -100
    for left, right in zip(
        entropies_stderr(ids, lengths), entropies_stderr(jnp.asarray(other), lengths), strict=True
    ):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(
    ("ids", "lengths", "message"),
    [
        (np.zeros((1, 3), int), None, "at least 2 rows that hold tokens, got 1"),
        (np.zeros((3, 3), int), np.array([0, 2, 0]), "at least 2 rows that hold tokens, got 1"),
        (np.zeros((2, 3)), None, "integer token ids"),
        ([[b"to"], [b"be"]], None, r"got text \(dtype \|S2\); encode it with the tokenizer first"),
        ("to be", None, "got text"),
    ],
)
def test_stderr_names_bad_input(ids, lengths, message):
    with pytest.raises(ValueError, match=message):
        entropies_stderr(ids, lengths)


def test_stderr_stays_outside_jit():
    with pytest.raises(ValueError, match="call it outside jit"):
        jax.jit(entropies_stderr)(jnp.zeros((2, 3), jnp.int32))
