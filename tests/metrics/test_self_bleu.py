"""Self-BLEU against its definition in plain Python, golden values and NLTK."""

import collections
import math
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmeval.metrics import self_bleu, self_bleu_stderr, text_ids

# Three sentences of 16, 18 and 16 words, as word numbers.
SENTENCES = [
    [0, 1, 2, 3, 4, 5, 6, 7, 6, 8, 9, 10, 11, 12, 13, 14],
    [0, 1, 8, 15, 16, 17, 18, 8, 9, 19, 20, 21, 22, 8, 23, 24, 8, 13],
    [0, 1, 8, 25, 3, 26, 8, 27, 20, 4, 12, 8, 28, 24, 8, 29],
]

banks = st.lists(st.lists(st.integers(0, 3), max_size=9), min_size=2, max_size=7).filter(any)


def pack(rows):
    """Ragged lists as (ids, lengths), with padding that must not matter."""
    lengths = np.array([len(row) for row in rows])
    ids = np.full((len(rows), max(lengths)), 77)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return ids, lengths


def bleu(hypothesis, references, order, smoothing="method1"):
    """The definition: clipped precisions, smoothing, closest reference length."""

    def grams(row, n):
        return collections.Counter(tuple(row[i : i + n]) for i in range(len(row) - n + 1))

    log_precision = 0.0
    for n in range(1, order + 1):
        counts, others = grams(hypothesis, n), [grams(row, n) for row in references]
        matches = sum(min(c, max(o[g] for o in others)) for g, c in counts.items())
        if n == 1 and matches == 0:
            return 0.0
        if matches == 0 and smoothing == "none":
            log_precision += math.log(sys.float_info.min)
            continue
        log_precision += math.log((matches or 0.1) / max(1, len(hypothesis) - n + 1))
    length = len(hypothesis)
    closest = min((abs(len(row) - length), len(row)) for row in references)[1]
    penalty = 1.0 if length > closest else math.exp(1 - closest / length)
    return penalty * math.exp(log_precision / order)


def leave_one_out(rows, order, smoothing="method1"):
    return [bleu(row, rows[:i] + rows[i + 1 :], order, smoothing) for i, row in enumerate(rows)]


def jackknife(rows, order, smoothing="method1"):
    """Standard error of the mean from banks that really lack a row."""
    n = len(rows)
    without = [np.mean(leave_one_out(rows[:i] + rows[i + 1 :], order, smoothing)) for i in range(n)]
    return math.sqrt((n - 1) * np.var(without))


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (2, [0.258198890, 0.361550763, 0.370809924]),
        (3, [0.0780896666, 0.2014062117, 0.2141533574]),
        (4, [0.0437481143, 0.0859076484, 0.0932304601]),
    ],
)
def test_golden_sentences(order, expected):
    np.testing.assert_allclose(self_bleu(*pack(SENTENCES), order=order), expected, atol=1e-8)


@given(banks, st.integers(1, 5), st.sampled_from(["method1", "none"]))
@settings(max_examples=150, deadline=None)
def test_equals_the_definition(rows, order, smoothing):
    value = self_bleu(*pack(rows), order=order, smoothing=smoothing)
    np.testing.assert_allclose(value, leave_one_out(rows, order, smoothing), rtol=1e-12)


@given(banks, st.integers(1, 4), st.sampled_from(["method1", "none"]))
@settings(max_examples=80, deadline=None)
def test_standard_error_equals_the_brute_force_jackknife(rows, order, smoothing):
    rows = [*rows, [0, 1, 2], rows[0]]  # three rows or more, one of them twice
    value = self_bleu_stderr(*pack(rows), order=order, smoothing=smoothing)
    assert value.shape == ()
    assert float(value) == pytest.approx(jackknife(rows, order, smoothing), rel=1e-9, abs=1e-13)


def test_standard_error_on_a_larger_bank():
    rng = np.random.default_rng(3)
    rows = [rng.zipf(1.5, rng.integers(1, 30)).clip(0, 30).tolist() for _ in range(20)]
    assert float(self_bleu_stderr(*pack(rows))) == pytest.approx(jackknife(rows, 4), rel=1e-9)


def test_standard_error_covers_the_spread_over_banks():
    """Rows serve each other as references; the rows' sd / sqrt(n) misses that."""
    rng = np.random.default_rng(4)
    means, errors, naive = [], [], []
    for _ in range(200):
        ids = rng.zipf(1.5, (24, 40)).clip(0, 500)
        scores = self_bleu(ids)
        means.append(scores.mean())
        errors.append(float(self_bleu_stderr(ids)) ** 2)
        naive.append(scores.var(ddof=1) / 24)
    spread = np.std(means, ddof=1)
    assert 0.95 * spread < math.sqrt(np.mean(errors)) < 1.4 * spread
    assert math.sqrt(np.mean(naive)) < 0.92 * spread


def test_first_rows_alone_take_part():
    rng = np.random.default_rng(5)
    ids, lengths = rng.integers(0, 5, (9, 12)), rng.integers(3, 13, 9)
    for function in (self_bleu, self_bleu_stderr):
        cut = function(ids, lengths, max_references=4)
        np.testing.assert_array_equal(cut, function(ids[:4], lengths[:4]))
        everything = function(ids, lengths, max_references=500)
        np.testing.assert_array_equal(everything, function(ids, lengths))


def test_no_smoothing_leaves_matched_rows_alone_and_makes_others_vanish():
    texts = ["a b c d e", "a b c d f", "x y a z"]
    smooth, plain = (self_bleu(*text_ids(texts), smoothing=s) for s in ("method1", "none"))
    np.testing.assert_array_equal(plain[:2], smooth[:2])
    assert 0 < plain[2] < 1e-60 < smooth[2]


def test_equals_the_definition_on_a_larger_bank():
    rng = np.random.default_rng(0)
    rows = [rng.zipf(1.5, rng.integers(1, 40)).clip(0, 60).tolist() for _ in range(40)]
    np.testing.assert_allclose(self_bleu(*pack(rows)), leave_one_out(rows, 4), rtol=1e-12)


@pytest.mark.parity
def test_equals_nltk():
    score = pytest.importorskip("nltk.translate.bleu_score")
    smoothing = score.SmoothingFunction().method1
    rng = np.random.default_rng(1)
    rows = [rng.zipf(1.5, rng.integers(1, 30)).clip(0, 60).tolist() for _ in range(30)]
    for order in (1, 2, 3, 4, 5):
        weights = (1 / order,) * order
        for name, function in (("method1", smoothing), ("none", None)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # method0 warns of orders without a match
                expected = [
                    score.sentence_bleu(rows[:i] + rows[i + 1 :], row, weights, function)
                    for i, row in enumerate(rows)
                ]
            value = self_bleu(*pack(rows), order=order, smoothing=name)
            np.testing.assert_allclose(value, expected, rtol=1e-11)


def test_identical_rows_score_one_and_disjoint_rows_zero():
    assert self_bleu(np.tile(np.arange(9), (4, 1))).tolist() == [1.0] * 4
    assert self_bleu(np.arange(36).reshape(4, 9)).tolist() == [0.0] * 4


def test_the_hypothesis_is_not_among_its_references():
    """One row repeats a token three times, no other row more than once: clipping must bite."""
    scores = self_bleu(np.array([[5, 5, 5], [5, 6, 7], [5, 8, 9]]), order=1)
    assert scores[0] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("lengths", "penalty"),
    [
        ((4, 6, 2), 1.0),  # 2 and 6 are equally close to 4: the shorter counts
        ((4, 5, 9), math.exp(1 - 5 / 4)),
        ((4, 4, 9), 1.0),
        ((4, 9, 9), math.exp(1 - 9 / 4)),
    ],
)
def test_brevity_penalty(lengths, penalty):
    ids = np.zeros((3, 9), int)
    assert self_bleu(ids, np.array(lengths), order=1)[0] == pytest.approx(penalty)


def test_empty_rows_score_zero_but_are_references():
    scores = self_bleu(np.zeros((3, 4), int), np.array([0, 3, 4]), order=1)
    np.testing.assert_allclose(scores, [0.0, math.exp(1 - 4 / 3), 3 / 4])


def test_row_order_padding_and_array_type_do_not_matter():
    rng = np.random.default_rng(2)
    ids, lengths = rng.integers(0, 5, (8, 9)), rng.integers(3, 10, 8)
    scores, order = self_bleu(ids, lengths), rng.permutation(8)
    np.testing.assert_allclose(self_bleu(ids[order], lengths[order]), scores[order], rtol=1e-14)
    padded = np.pad(ids, ((0, 0), (0, 4)), constant_values=-100)
    np.testing.assert_array_equal(self_bleu(padded, lengths), scores)
    np.testing.assert_array_equal(self_bleu(jnp.asarray(ids), jnp.asarray(lengths)), scores)


@pytest.mark.parametrize(
    ("ids", "lengths", "order", "message"),
    [
        (np.zeros((1, 4), int), None, 4, "ids has 1 row"),
        (np.zeros((2, 4), int), None, 0, "order must be"),
        (np.zeros((2, 4)), None, 4, "integer"),
        (np.zeros(4, int), None, 4, "2-D"),
        (np.zeros((2, 4), int), np.array([5, 1]), 4, "outside"),
    ],
)
def test_bad_input_is_named(ids, lengths, order, message):
    with pytest.raises(ValueError, match=message):
        self_bleu(ids, lengths, order=order)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"smoothing": "method2"}, 'smoothing must be "method1" or "none"'),
        ({"max_references": 1}, "max_references must be an integer >= 2"),
        ({"max_references": True}, "max_references must be"),
        ({"max_references": 2.5}, "max_references must be"),
    ],
)
def test_bad_options_are_named(options, message):
    for function in (self_bleu, self_bleu_stderr):
        with pytest.raises(ValueError, match=message):
            function(np.zeros((3, 4), int), **options)


def test_standard_error_needs_three_rows():
    with pytest.raises(ValueError, match="at least 3 rows, got 2"):
        self_bleu_stderr(np.zeros((5, 4), int), max_references=2)


def test_tracing_is_refused():
    with pytest.raises(ValueError, match=r"outside jax\.jit"):
        jax.jit(self_bleu)(jnp.zeros((2, 3), jnp.int32))
    with pytest.raises(ValueError, match=r"outside jax\.jit"):
        jax.jit(self_bleu_stderr)(jnp.zeros((3, 3), jnp.int32))
