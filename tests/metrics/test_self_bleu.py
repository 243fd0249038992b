"""Self-BLEU against its definition in plain Python, golden values and NLTK."""

import collections
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmeval.metrics import self_bleu

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


def bleu(hypothesis, references, order):
    """The definition: clipped precisions, method-1 smoothing, closest reference length."""

    def grams(row, n):
        return collections.Counter(tuple(row[i : i + n]) for i in range(len(row) - n + 1))

    log_precision = 0.0
    for n in range(1, order + 1):
        counts, others = grams(hypothesis, n), [grams(row, n) for row in references]
        matches = sum(min(c, max(o[g] for o in others)) for g, c in counts.items())
        if n == 1 and matches == 0:
            return 0.0
        log_precision += math.log((matches or 0.1) / max(1, len(hypothesis) - n + 1))
    length = len(hypothesis)
    closest = min((abs(len(row) - length), len(row)) for row in references)[1]
    penalty = 1.0 if length > closest else math.exp(1 - closest / length)
    return penalty * math.exp(log_precision / order)


def leave_one_out(rows, order):
    return [bleu(row, rows[:i] + rows[i + 1 :], order) for i, row in enumerate(rows)]


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


@given(banks, st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_equals_the_definition(rows, order):
    np.testing.assert_allclose(
        self_bleu(*pack(rows), order=order), leave_one_out(rows, order), rtol=1e-12
    )


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
        expected = [
            score.sentence_bleu(
                rows[:i] + rows[i + 1 :], row, (1 / order,) * order, smoothing_function=smoothing
            )
            for i, row in enumerate(rows)
        ]
        np.testing.assert_allclose(self_bleu(*pack(rows), order=order), expected, rtol=1e-12)


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


def test_tracing_is_refused():
    with pytest.raises(ValueError, match=r"outside jax\.jit"):
        jax.jit(self_bleu)(jnp.zeros((2, 3), jnp.int32))
