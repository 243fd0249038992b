"""The frozen context tree against a sequential coder, worked values and code laws."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmeval.metrics import (
    ContextCounts,
    code_length,
    context_counts,
    context_tree,
    context_tree_from_counts,
    count_contexts,
    fit_context_tree,
)


class SequentialCoder:
    """Context-tree weighting bit by bit, one dictionary entry a node.

    A context is the tuple of the bits before, most recent first. Where a document has fewer
    than `depth` of them, start "grow" ends the tuple with None: a child for "nothing before".
    """

    def __init__(self, depth, start="zeros"):
        self.depth, self.start = depth, start
        self.nodes = {}

    def visit(self, past, bit, commit):
        """Probability of `bit` after `past`; counts it if `commit`."""
        empty = (0, 0), 0.0, 0.0
        before = self.nodes.get((), empty)[2]
        changed, weighted = {}, 0.0
        for d in range(len(past), -1, -1):
            context = tuple(past[:d])
            counts, estimated, _ = self.nodes.get(context, empty)
            estimated += math.log((counts[bit] + 0.5) / (sum(counts) + 1))
            if d == len(past):
                weighted = estimated
            else:
                siblings = {0, 1, None} - {past[d]}
                weighted += sum(self.nodes.get((*context, x), empty)[2] for x in siblings)
                weighted = np.logaddexp(estimated, weighted) - math.log(2)
            counts = (counts[0] + (bit == 0), counts[1] + (bit == 1))
            changed[context] = (counts, estimated, weighted)
        if commit:
            self.nodes.update(changed)
        return math.exp(weighted - before)

    def run(self, document, commit):
        """Bits for a document."""
        total = 0.0
        bits = np.unpackbits(np.frombuffer(document, np.uint8)).tolist()
        for t, bit in enumerate(bits):
            past = bits[max(t - self.depth, 0) : t][::-1]
            short = self.depth - len(past)
            if short and self.start == "skip":
                continue
            if short:
                past += [0] * short if self.start == "zeros" else [None]
            total -= math.log2(self.visit(past, bit, commit))
        return total


def build_tree_bits(document, depth):
    """One document by the rule of BUILD_TREE: mix from the node where the past ends, upward."""
    counts, odds = {}, {}  # odds: log of (weight of the longer context / of this one)
    bits, total = np.unpackbits(np.frombuffer(document, np.uint8)).tolist(), 0.0
    for t, bit in enumerate(bits):
        past = bits[max(t - depth, 0) : t][::-1]
        mixed = None
        for d in range(len(past), -1, -1):
            node = tuple(past[:d])
            seen = counts.setdefault(node, [0.5, 0.5])
            here = seen[bit] / sum(seen)
            if mixed is None:
                mixed = here
            else:
                longer = 1 / (1 + math.exp(-odds.get(node, 0.0)))
                odds[node] = odds.get(node, 0.0) + math.log(mixed / here)
                mixed = longer * mixed + (1 - longer) * here
            seen[bit] += 1
        total -= math.log2(mixed)
    return total


documents = st.lists(st.binary(max_size=6), max_size=5)


starts = st.sampled_from(["zeros", "grow", "skip"])


@given(documents, documents, st.sampled_from([0, 1, 2, 4, 9]), starts)
@settings(max_examples=80, deadline=None)
def test_equals_the_sequential_coder(fit, held, depth, start):
    coder = SequentialCoder(depth, start)
    spent = sum(coder.run(document, commit=True) for document in fit)
    tree = fit_context_tree(fit, depth, start=start)
    assert (tree.depth, tree.start) == (depth, start)
    assert tree.log_evidence == pytest.approx(-spent * math.log(2), rel=1e-12, abs=1e-12)
    expected = [coder.run(document, commit=False) for document in held]
    np.testing.assert_allclose(code_length(tree, held), expected, rtol=1e-12)


@pytest.mark.parametrize("start", ["zeros", "grow", "skip"])
def test_equals_the_sequential_coder_at_full_depth(start):
    fit, held = [b"abracadabra", b"cab"], [b"bracca", b"\0\0\0", b"\xff\xfe\xfd\xfc", b"ab"]
    coder = SequentialCoder(20, start)
    for document in fit:
        coder.run(document, commit=True)
    expected = [coder.run(document, commit=False) for document in held]
    tree = fit_context_tree(fit, start=start)
    np.testing.assert_allclose(code_length(tree, held), expected, rtol=1e-12)


@given(st.binary(min_size=1, max_size=12), st.sampled_from([3, 9]))
@settings(max_examples=20, deadline=None)
def test_growing_on_one_document_is_build_tree(document, depth):
    """Code length of the document itself while it is learned: the evidence of the fit."""
    tree = fit_context_tree([document], depth, start="grow")
    expected = -math.log(2) * build_tree_bits(document, depth)
    assert tree.log_evidence == pytest.approx(expected, rel=1e-12)


def test_policies_differ_at_starts_only():
    """Long after the start all policies see the same contexts; in front they do not."""
    fit = [b"to be or not to be, that is the question"]
    zeros, grow, skip = (
        count_contexts(fit, 12, start=start) for start in ("zeros", "grow", "skip")
    )
    np.testing.assert_array_equal(grow.full, skip.full)
    assert grow.cut is not None
    assert grow.cut.sum() == 12
    assert zeros.full.sum() == 8 * 40 == skip.full.sum() + 12
    assert grow.cut[1].tolist() == [1, 0]  # the first bit of ASCII, after nothing
    assert grow.cut[2].tolist() == [0, 1]  # the second, after a 0
    assert not grow.cut[0].any()


@pytest.mark.parametrize("start", ["zeros", "grow", "skip"])
def test_short_documents(start):
    """Shorter than the context: coded whole, or with "skip" not at all."""
    tree = fit_context_tree([b"a", b"", b"ab"], start=start)
    lengths = code_length(tree, [b"", b"a", b"ab"])
    assert lengths[0] == 0
    if start == "skip":
        np.testing.assert_array_equal(lengths, 0)
        assert tree.log_evidence == 0
        assert code_length(tree, [b"abc"])[0] == 4  # four bits beyond twenty, none ever fitted
    else:
        assert 0 < lengths[1] < lengths[2] < 16


def test_counts_of_different_policies_do_not_mix():
    counts = count_contexts([b"ab"], 6)
    for other in (count_contexts([b"ab"], 6, start="grow"), count_contexts([b"ab"], 7)):
        with pytest.raises(ValueError, match="do not add up; count both sets with the same"):
            counts + other
    with pytest.raises(TypeError):
        counts + counts.full  # type: ignore[operator]
    with pytest.raises(ValueError, match=r"start must be one of \('zeros', 'grow', 'skip'\)"):
        count_contexts([b"ab"], 6, start="empty")  # type: ignore[arg-type]


def test_depth_twenty_four():
    """The deepest tree there is; three bytes of context tell what follows exactly."""
    fit, held = [b"abcdabce"] * 3, [b"abcd", b"abce", b"zzzz"]
    tree = fit_context_tree(fit, 24)
    coder = SequentialCoder(24)
    for document in fit:
        coder.run(document, commit=True)
    expected = [coder.run(document, commit=False) for document in held]
    np.testing.assert_allclose(code_length(tree, held), expected, rtol=1e-12)
    assert tree.bits.nbytes == 2**28


def test_worked_example_of_depth_two():
    counts = np.array([[2, 1], [1, 1], [1, 0], [1, 1]])
    levels, _ = context_tree.posterior_levels(counts)
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


@pytest.mark.parametrize("start", ["zeros", "grow"])
@pytest.mark.parametrize("fit", [[], [b""], [b"", b""]])
def test_empty_fit_spends_eight_bits_a_byte(fit, start):
    tree = fit_context_tree(fit, start=start)
    assert tree.log_evidence == 0.0
    np.testing.assert_array_equal(code_length(tree, [b"abc", b"", b"\xff"]), [24.0, 0.0, 8.0])


def assert_normalised(bits):
    assert np.all(bits > 0)
    np.testing.assert_allclose(np.sum(2.0**-bits, axis=1), 1.0, rtol=1e-14)


@given(documents, st.sampled_from([0, 3, 8]), starts)
@settings(max_examples=20, deadline=None)
def test_next_bit_probabilities_sum_to_one_in_every_context(fit, depth, start):
    tree = fit_context_tree(fit, depth, start=start)
    assert tree.bits.shape == (2**depth, 2)
    assert_normalised(tree.bits)
    if tree.cut_bits is not None:
        assert_normalised(tree.cut_bits[1:])


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_estimates_are_normalised_and_within_half_a_count(zeros, ones):
    (estimate,) = context_tree._estimates(np.array([[zeros, ones]]))
    assert estimate.sum() == pytest.approx(1, rel=1e-15)
    assert estimate[0] == pytest.approx((zeros + 0.5) / (zeros + ones + 1), rel=1e-15)
    assert estimate.min() > 1e-8


@pytest.mark.parametrize("start", ["zeros", "grow"])
def test_code_is_a_probability_over_all_strings_of_two_bytes(start):
    """Kraft sum 1; catches any leak at a document's start."""
    tree = fit_context_tree([b"banana", b"bandana"], 11, start=start)
    pairs = [bytes(pair) for pair in itertools.product(range(256), repeat=2)]
    assert np.sum(2.0 ** -code_length(tree, pairs)) == pytest.approx(1.0, rel=1e-10)


def test_contexts_and_their_order():
    """0x80: bit 1 after zeros, then seven zeros while the 1 moves up the context."""
    counts = count_contexts([b"\x80"], 3).full
    assert counts[0b000].tolist() == [4, 1]
    assert [counts[index].tolist() for index in (0b001, 0b010, 0b100)] == [[1, 0]] * 3
    assert counts.sum() == 8


def test_history_crosses_bytes_but_not_documents():
    joined, apart = (count_contexts(texts, 20).full for texts in ([b"ab"], [b"a", b"b"]))
    assert joined.sum() == apart.sum() == 16
    assert not np.array_equal(joined, apart)


@given(documents, documents, starts)
@settings(max_examples=30, deadline=None)
def test_counts_add_and_order_does_not_matter(left, right, start):
    total = count_contexts(left, 10, start=start) + count_contexts(right, 10, start=start)
    together = count_contexts([*right, *left], 10, start=start)
    np.testing.assert_array_equal(total.full, together.full)
    streamed = context_tree_from_counts(total)
    tree = fit_context_tree([*left, *right], 10, start=start)
    np.testing.assert_array_equal(streamed.bits, tree.bits)
    assert (total.start, total.depth, streamed.start) == (start, 10, start)
    if start == "grow":
        np.testing.assert_array_equal(total.cut, together.cut)
        np.testing.assert_array_equal(streamed.cut_bits, tree.cut_bits)
    else:
        assert streamed.cut_bits is None


@pytest.mark.parametrize("start", ["zeros", "grow"])
@pytest.mark.parametrize("chunk", [1, 7, 40])
def test_chunking_changes_nothing(monkeypatch, chunk, start):
    rng = np.random.default_rng(0)
    texts = [rng.bytes(size) for size in (5, 0, 12, 0, 1, 30, 2)]
    expected = code_length(fit_context_tree(texts, 14, start=start), texts)
    monkeypatch.setattr(context_counts, "_CHUNK_BYTES", chunk)
    tree = fit_context_tree(texts, 14, start=start)
    np.testing.assert_allclose(code_length(tree, texts), expected)


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


def test_counts_may_be_a_plain_array():
    counts = count_contexts([b"banana"], 5)
    assert isinstance(counts, ContextCounts)
    left, right = context_tree_from_counts(counts), context_tree_from_counts(counts.full)
    np.testing.assert_array_equal(left.bits, right.bits)


def test_narrow_integer_counts_do_not_wrap():
    counts = count_contexts([b"the cat sat on the mat. " * 20], 8)
    wide = context_tree_from_counts(np.asarray(counts.full, np.int64))
    for dtype in (np.int8, np.uint8, np.int32):
        narrow = context_tree_from_counts(np.asarray(counts.full).astype(dtype))
        assert narrow.log_evidence == wide.log_evidence < 0
        np.testing.assert_array_equal(narrow.bits, wide.bits)
