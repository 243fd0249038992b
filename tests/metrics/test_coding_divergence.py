"""Jeffreys coding divergence: golden banks, symmetry, degenerate generators, errors."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmeval.metrics import (
    code_held_out,
    code_length,
    coding_divergence_from_codes,
    coding_divergence_stderr,
    fit_context_tree,
    jeffreys_coding_divergence,
)

REFERENCE = [b"the cat sat on the mat. ", b"a dog ran in the park. "] * 2
GENERATED = [b"the the the the the the ", b"mat mat cat cat dog dog "] * 2
WORDS = "the of and to in that he shall unto for they be is him not them with all thou".split()


def make_bank(seed, n, words=WORDS):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(words, 12)).encode() for _ in range(n)]


@pytest.mark.parametrize(
    ("depth", "coverage", "fidelity", "value"),
    [
        (20, 0.510846743, 2.688652606, 1.599749674),
        (8, 0.676755016, 2.118715603, 1.397735309),
    ],
)
def test_golden_banks(depth, coverage, fidelity, value):
    result = jeffreys_coding_divergence(REFERENCE, GENERATED, depth=depth, num_fit=2)
    np.testing.assert_allclose(
        [result.coverage, result.fidelity, result.value], [coverage, fidelity, value], atol=1e-7
    )
    assert all(isinstance(x, np.ndarray) and x.shape == () for x in result[:3])


def test_cross_entropies_are_pooled_code_lengths():
    result = jeffreys_coding_divergence(REFERENCE, GENERATED, depth=12, num_fit=1)
    trees = {
        "reference": fit_context_tree(REFERENCE[:1], 12),
        "generated": fit_context_tree(GENERATED[:1], 12),
    }
    held = {"reference": REFERENCE[1:], "generated": GENERATED[1:]}
    for text, documents in held.items():
        for coder, tree in trees.items():
            rate = code_length(tree, documents).sum() / sum(map(len, documents))
            assert float(getattr(result.cross_entropies, f"{text}_by_{coder}")) == rate
    h = result.cross_entropies
    assert result.coverage == h.reference_by_generated - h.reference_by_reference
    assert result.fidelity == h.generated_by_reference - h.generated_by_generated


def test_half_of_each_bank_fits_by_default():
    banks = make_bank(0, 7), make_bank(1, 7)
    assert jeffreys_coding_divergence(*banks, depth=9) == jeffreys_coding_divergence(
        *banks, depth=9, num_fit=3
    )


options = st.fixed_dictionaries(
    {
        "depth": st.sampled_from([0, 5, 9]),
        "start": st.sampled_from(["zeros", "grow", "skip"]),
        "dedup_fit": st.booleans(),
        "pooling": st.sampled_from(["bytes", "documents"]),
    }
)
banks = st.lists(st.binary(min_size=2, max_size=8), min_size=2, max_size=6)


@given(banks, options)
@settings(max_examples=25, deadline=None)
def test_identical_banks_have_divergence_zero_exactly(bank, options):
    result = jeffreys_coding_divergence(bank, list(bank), **options)
    assert (float(result.value), float(result.coverage), float(result.fidelity)) == (0, 0, 0)


@given(banks, banks, options)
@settings(max_examples=25, deadline=None)
def test_symmetry_swaps_the_directions(left, right, options):
    there = jeffreys_coding_divergence(left, right, **options)
    back = jeffreys_coding_divergence(right, left, **options)
    assert there.value == back.value
    assert (there.coverage, there.fidelity) == (back.fidelity, back.coverage)


def test_cross_entropies_are_pooled_over_documents_on_demand():
    """Two held-out documents of 24 bytes and one of 3: means of rates, not rate of sums."""
    reference = [*REFERENCE, b"the"]
    trees = [fit_context_tree(bank[:2], 12) for bank in (reference, GENERATED)]
    by_document = jeffreys_coding_divergence(
        reference, GENERATED, depth=12, num_fit=2, pooling="documents"
    )
    h = by_document.cross_entropies
    for tree, value in zip(
        trees, (h.reference_by_reference, h.reference_by_generated), strict=True
    ):
        rates = code_length(tree, reference[2:]) / [24, 23, 3]
        assert float(value) == pytest.approx(rates.mean(), rel=1e-14)
    by_bytes = jeffreys_coding_divergence(reference, GENERATED, depth=12, num_fit=2)
    assert by_bytes.coverage != by_document.coverage
    # Documents of one length weigh alike either way.
    assert by_bytes.fidelity == pytest.approx(float(by_document.fidelity), rel=1e-12)


def test_copies_sharpen_a_tree_unless_removed():
    reference, copies = make_bank(0, 40), make_bank(9, 1) * 40
    plain = jeffreys_coding_divergence(reference, copies, depth=16, num_fit=20)
    deduped = jeffreys_coding_divergence(reference, copies, depth=16, num_fit=20, dedup_fit=True)
    tree, held = (
        fit_context_tree(copies[:1], 16),
        {"generated": copies, "reference": reference[20:]},
    )
    for text, documents in held.items():  # the held-out part keeps its copies
        rate = code_length(tree, documents).sum() / sum(map(len, documents))
        value = float(getattr(deduped.cross_entropies, f"{text}_by_generated"))
        assert value == pytest.approx(rate, rel=1e-12)
        assert value != float(getattr(plain.cross_entropies, f"{text}_by_generated"))
    own = "reference_by_reference"  # the reference has no copies to lose
    assert getattr(deduped.cross_entropies, own) == getattr(plain.cross_entropies, own)


def test_skipped_bits_are_not_charged():
    """With nothing learned the rate stays 8 bits a byte whatever is skipped."""
    codes = code_held_out([b"", b"abcdef"], [b"", b"uvwxyz"], depth=20, num_fit=1, start="skip")
    np.testing.assert_array_equal(codes.reference_bytes, [(48 - 20) / 8])
    np.testing.assert_array_equal(codes.reference_by_generated, [28.0])
    result = coding_divergence_from_codes(codes)
    assert float(result.cross_entropies.reference_by_generated) == 8.0
    with pytest.raises(ValueError, match="held-out documents of reference are all not longer than"):
        code_held_out([b"", b"ab"], [b"", b"uvwxyz"], depth=20, num_fit=1, start="skip")


def test_worst_documents_are_a_sort_away():
    """The one document that is no English costs the reference's coder most a byte."""
    odd = b"0123456789" * 5
    codes = code_held_out(make_bank(0, 20), [*make_bank(1, 15), odd, *make_bank(2, 4)], depth=12)
    rates = codes.generated_by_reference / codes.generated_bytes
    assert int(np.argmax(rates)) == 15 - 10


def test_order_within_a_part_does_not_matter():
    bank, other = make_bank(0, 8), make_bank(1, 8)
    shuffled = bank[3::-1] + bank[:3:-1]
    left = jeffreys_coding_divergence(bank, other, depth=12)
    right = jeffreys_coding_divergence(shuffled, other, depth=12)
    assert float(left.value) == pytest.approx(float(right.value), rel=1e-12)


def test_null_is_small_and_degenerate_generators_are_not():
    reference = make_bank(0, 80)
    null = jeffreys_coding_divergence(reference, make_bank(1, 80), depth=16)
    assert abs(float(null.value)) < 0.1
    periodic = jeffreys_coding_divergence(reference, [b" ".join(reference[:1])] * 80, depth=16)
    assert float(periodic.coverage) > 1 > 10 * abs(float(null.coverage))
    missing_words = jeffreys_coding_divergence(reference, make_bank(2, 80, WORDS[:4]), depth=16)
    assert float(missing_words.coverage) > float(missing_words.fidelity) > 0


def test_empty_documents_count_for_nothing():
    plain = jeffreys_coding_divergence(REFERENCE, GENERATED, depth=8, num_fit=2)
    padded = jeffreys_coding_divergence(
        [*REFERENCE, b""], [*GENERATED, b"", b""], depth=8, num_fit=2
    )
    assert plain == padded


@pytest.mark.parametrize("pooling", ["bytes", "documents"])
def test_stderr_is_the_brute_force_jackknife(pooling):
    codes = code_held_out(make_bank(0, 20), make_bank(3, 20, WORDS[:9]), depth=12, num_fit=8)
    result = coding_divergence_stderr(codes, pooling=pooling)

    def jackknife(side):
        n = 12
        values = []
        for i in range(n):
            parts = {
                field: np.delete(array, i) if field.startswith(side) else array
                for field, array in codes._asdict().items()
            }
            shorter = coding_divergence_from_codes(type(codes)(**parts), pooling=pooling)
            values.append(float(shorter.coverage if side == "reference" else shorter.fidelity))
        return math.sqrt((n - 1) / n * np.sum((values - np.mean(values)) ** 2))

    assert float(result.coverage) == pytest.approx(jackknife("reference"), rel=1e-10)
    assert float(result.fidelity) == pytest.approx(jackknife("generated"), rel=1e-10)
    assert float(result.value) == pytest.approx(math.hypot(*result[1:]) / 2, rel=1e-12)


def test_stderr_predicts_the_spread_over_held_out_documents():
    fit_reference, fit_generated = make_bank(0, 20), make_bank(1, 20, WORDS[:9])
    values, errors = [], []
    for seed in range(60):
        held = make_bank(100 + 2 * seed, 25), make_bank(101 + 2 * seed, 25, WORDS[:9])
        codes = code_held_out(
            fit_reference + held[0], fit_generated + held[1], depth=10, num_fit=20
        )
        values.append(float(coding_divergence_from_codes(codes).value))
        errors.append(float(coding_divergence_stderr(codes).value))
    assert np.mean(errors) == pytest.approx(np.std(values, ddof=1), rel=0.3)  # sd of a sd: 9%


@pytest.mark.parametrize(
    ("reference", "generated", "num_fit", "message"),
    [
        ([], GENERATED, None, "reference has 0 documents"),
        (REFERENCE, [b"a"], None, "generated has 1 documents"),
        (REFERENCE, GENERATED, 0, r"num_fit must be in \[1, 3\]"),
        (REFERENCE, GENERATED, 4, "got 4"),
        (REFERENCE, GENERATED * 2, 4, "documents of reference"),
        (REFERENCE, GENERATED, 1.5, "num_fit must be an integer"),
        (REFERENCE, ["text", "text"], None, r"generated\[0\] is a str"),
        (REFERENCE, [b"a", b"b", b"", b""], None, "held-out documents of generated are all empty"),
    ],
)
def test_bad_input_is_named(reference, generated, num_fit, message):
    with pytest.raises(ValueError, match=message):
        jeffreys_coding_divergence(reference, generated, depth=8, num_fit=num_fit)


def test_bad_options_are_named():
    with pytest.raises(ValueError, match=r"pooling must be one of \('bytes', 'documents'\)"):
        jeffreys_coding_divergence(REFERENCE, GENERATED, depth=8, pooling="rows")  # type: ignore
    with pytest.raises(ValueError, match="start must be one of"):
        jeffreys_coding_divergence(REFERENCE, GENERATED, depth=8, start="none")  # type: ignore
    with pytest.raises(ValueError, match="dedup_fit must be True or False, got 'yes'"):
        jeffreys_coding_divergence(REFERENCE, GENERATED, depth=8, dedup_fit="yes")  # type: ignore
    codes = code_held_out(REFERENCE, GENERATED, depth=8)
    with pytest.raises(ValueError, match="pooling must be one of"):
        coding_divergence_stderr(codes, pooling="rows")  # type: ignore[arg-type]


def test_stderr_needs_two_documents():
    codes = code_held_out(REFERENCE, GENERATED, depth=8, num_fit=3)
    with pytest.raises(ValueError, match="at least 2 non-empty held-out documents of reference"):
        coding_divergence_stderr(codes)
