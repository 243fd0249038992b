"""The frozen context tree against a sequential coder, worked values and code laws."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmeval.metrics import (
    code_length,
    context_tree_from_counts,
    count_contexts,
    fit_context_tree,
)
from dlmeval.metrics import context_tree as module


class SequentialCoder:
    """Context-tree weighting bit by bit, one dictionary entry a node."""

    def __init__(self, depth):
        self.depth = depth
        self.nodes = {}

    def visit(self, past, bit, commit):
        """Probability of `bit` after `past` (most recent first); counts it if `commit`."""
        contexts = [tuple(past[:d]) for d in range(self.depth + 1)]
        before = self.nodes.get((), ((0, 0), 0.0, 0.0))[2]
        changed, weighted = {}, 0.0
        for d in range(self.depth, -1, -1):
            counts, estimated, _ = self.nodes.get(contexts[d], ((0, 0), 0.0, 0.0))
            estimated += math.log((counts[bit] + 0.5) / (sum(counts) + 1))
            if d == self.depth:
                weighted = estimated
            else:
                sibling = (*contexts[d], 1 - past[d])
                weighted += self.nodes.get(sibling, ((0, 0), 0.0, 0.0))[2]
                weighted = np.logaddexp(estimated, weighted) - math.log(2)
            counts = (counts[0] + (bit == 0), counts[1] + (bit == 1))
            changed[contexts[d]] = (counts, estimated, weighted)
        if commit:
            self.nodes.update(changed)
        return math.exp(weighted - before)

    def run(self, document, commit):
        """Bits for a document that starts after zeros."""
        past, total = [0] * self.depth, 0.0
        for bit in np.unpackbits(np.frombuffer(document, np.uint8)).tolist():
            total -= math.log2(self.visit(past, bit, commit))
            past = [bit, *past[:-1]] if self.depth else []
        return total


documents = st.lists(st.binary(max_size=6), max_size=5)


@given(documents, documents, st.sampled_from([0, 1, 2, 4, 9]))
@settings(max_examples=40, deadline=None)
def test_equals_the_sequential_coder(fit, held, depth):
    coder = SequentialCoder(depth)
    spent = sum(coder.run(document, commit=True) for document in fit)
    tree = fit_context_tree(fit, depth)
    assert tree.depth == depth
    assert tree.log_evidence == pytest.approx(-spent * math.log(2), rel=1e-12, abs=1e-12)
    expected = [coder.run(document, commit=False) for document in held]
    np.testing.assert_allclose(code_length(tree, held), expected, rtol=1e-12)


def test_equals_the_sequential_coder_at_full_depth():
    fit, held = [b"abracadabra", b"cab"], [b"bracca", b"\0\0\0", b"\xff\xfe\xfd\xfc"]
    coder = SequentialCoder(20)
    for document in fit:
        coder.run(document, commit=True)
    expected = [coder.run(document, commit=False) for document in held]
    np.testing.assert_allclose(code_length(fit_context_tree(fit), held), expected, rtol=1e-12)


def test_worked_example_of_depth_two():
    counts = np.array([[2, 1], [1, 1], [1, 0], [1, 1]])
    levels, _ = module.posterior_levels(counts)
    np.testing.assert_allclose(
        [level.estimates[0, 0] for level in levels], [0.611111, 0.7, 0.625], atol=5e-7
    )
    stay = [level.stop[0] for level in levels]
    go = [level.descend[0] for level in levels]
    weights = [stay[0], go[0] * stay[1], go[0] * go[1]]
    np.testing.assert_allclose(weights, [0.666667, 0.185185, 0.148148], atol=5e-7)
    tree = context_tree_from_counts(counts)
    assert 2.0 ** -tree.bits[0, 0] == pytest.approx(0.62962963, abs=1e-8)


@pytest.mark.parametrize(
    ("depth", "expected"),
    [(20, (3.7556238, 8.5586368, 4.3276233)), (8, (3.7289290, 8.5891129, 4.3081687))],
)
def test_golden_code_lengths(depth, expected):
    tree = fit_context_tree([b"abracadabra"], depth)
    texts = ([b"abracadabra"], [b"hello world"], [b"abra", b"cad"])
    rates = [code_length(tree, text).sum() / len(b"".join(text)) for text in texts]
    np.testing.assert_allclose(rates, expected, atol=1e-7)


@pytest.mark.parametrize("fit", [[], [b""], [b"", b""]])
def test_empty_fit_spends_eight_bits_a_byte(fit):
    tree = fit_context_tree(fit)
    assert tree.log_evidence == 0.0
    np.testing.assert_array_equal(code_length(tree, [b"abc", b"", b"\xff"]), [24.0, 0.0, 8.0])


def test_next_bit_probabilities_sum_to_one():
    tree = fit_context_tree([b"to be or not to be", bytes(range(256))], 12)
    assert tree.bits.shape == (2**12, 2)
    assert np.all(tree.bits > 0)
    np.testing.assert_allclose(np.sum(2.0**-tree.bits, axis=1), 1.0, rtol=1e-14)


def test_code_is_a_probability_over_all_strings_of_two_bytes():
    """Kraft sum 1; catches any leak at a document's start."""
    tree = fit_context_tree([b"banana", b"bandana"], 11)
    pairs = [bytes(pair) for pair in itertools.product(range(256), repeat=2)]
    assert np.sum(2.0 ** -code_length(tree, pairs)) == pytest.approx(1.0, rel=1e-10)


def test_contexts_and_their_order():
    """0x80: bit 1 after zeros, then seven zeros while the 1 moves up the context."""
    counts = count_contexts([b"\x80"], 3)
    assert counts[0b000].tolist() == [4, 1]
    assert [counts[index].tolist() for index in (0b001, 0b010, 0b100)] == [[1, 0]] * 3
    assert counts.sum() == 8


def test_history_crosses_bytes_but_not_documents():
    joined, apart = count_contexts([b"ab"], 20), count_contexts([b"a", b"b"], 20)
    assert joined.sum() == apart.sum() == 16
    assert not np.array_equal(joined, apart)


@given(documents, documents)
@settings(max_examples=20, deadline=None)
def test_counts_add_and_order_does_not_matter(left, right):
    total = count_contexts(left, 10) + count_contexts(right, 10)
    np.testing.assert_array_equal(total, count_contexts([*right, *left], 10))
    tree = fit_context_tree([*left, *right], 10)
    np.testing.assert_array_equal(context_tree_from_counts(total).bits, tree.bits)


@pytest.mark.parametrize("chunk", [1, 7, 40])
def test_chunking_changes_nothing(monkeypatch, chunk):
    rng = np.random.default_rng(0)
    texts = [rng.bytes(size) for size in (5, 0, 12, 0, 1, 30, 2)]
    expected = code_length(fit_context_tree(texts, 14), texts)
    monkeypatch.setattr(module, "_CHUNK_BYTES", chunk)
    np.testing.assert_allclose(code_length(fit_context_tree(texts, 14), texts), expected)


def test_learns_the_entropy_rate_of_a_source():
    rng = np.random.default_rng(1)
    fit, held = (rng.choice(list(b"abcd"), 20_000).astype(np.uint8).tobytes() for _ in range(2))
    rate = code_length(fit_context_tree([fit]), [held])[0] / 20_000
    assert 2.0 < rate < 2.1  # four equally likely letters: 2 bits a byte


def test_bytearrays_and_tuples_are_welcome():
    tree = fit_context_tree((bytearray(b"abc"),), 8)
    np.testing.assert_array_equal(
        code_length(tree, (bytearray(b"abc"),)), code_length(tree, [b"abc"])
    )
    assert code_length(tree, []).shape == (0,)


@pytest.mark.parametrize(
    ("texts", "depth", "message"),
    [
        (["text"], 20, r"documents\[0\] is a str.*encode"),
        ([b"a", 3], 20, r"documents\[1\] is a int"),
        (b"abc", 20, "sequence of byte strings, got one bytes"),
        ("abc", 20, "got one str"),
        ([b"a"], -1, r"depth must be in \[0, 24\].*-1"),
        ([b"a"], 25, "25"),
        ([b"a"], 2.0, "integer"),
        ([b"a"], True, "integer"),
    ],
)
def test_bad_input_is_named(texts, depth, message):
    with pytest.raises(ValueError, match=message):
        fit_context_tree(texts, depth)


@pytest.mark.parametrize("counts", [np.zeros((3, 2), int), np.zeros(4, int), np.zeros((0, 2), int)])
def test_bad_counts_are_named(counts):
    with pytest.raises(ValueError, match="counts must have shape"):
        context_tree_from_counts(counts)


def test_negative_counts_are_refused():
    with pytest.raises(ValueError, match="non-negative"):
        context_tree_from_counts(np.array([[1, -1]]))
    with pytest.raises(ValueError, match="non-negative integers, got dtype float64"):
        context_tree_from_counts(np.ones((2, 2)))
