"""Jeffreys coding divergence: golden banks, symmetry, degenerate generators, errors."""

import math

import numpy as np
import pytest

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


def test_identical_banks_have_divergence_zero_exactly():
    bank = make_bank(0, 6)
    result = jeffreys_coding_divergence(bank, list(bank), depth=12)
    assert (float(result.value), float(result.coverage), float(result.fidelity)) == (0, 0, 0)


def test_symmetry_swaps_the_directions():
    left = jeffreys_coding_divergence(REFERENCE, GENERATED, depth=12)
    right = jeffreys_coding_divergence(GENERATED, REFERENCE, depth=12)
    assert left.value == right.value
    assert (left.coverage, left.fidelity) == (right.fidelity, right.coverage)


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


def test_stderr_is_the_brute_force_jackknife():
    codes = code_held_out(make_bank(0, 20), make_bank(3, 20, WORDS[:9]), depth=12, num_fit=8)
    result = coding_divergence_stderr(codes)

    def jackknife(side):
        n = 12
        values = []
        for i in range(n):
            parts = {
                field: np.delete(array, i) if field.startswith(side) else array
                for field, array in codes._asdict().items()
            }
            shorter = coding_divergence_from_codes(type(codes)(**parts))
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


def test_stderr_needs_two_documents():
    codes = code_held_out(REFERENCE, GENERATED, depth=8, num_fit=3)
    with pytest.raises(ValueError, match="at least 2 non-empty held-out documents of reference"):
        coding_divergence_stderr(codes)
