"""The oracle against enumeration: every string, its probability, and conditioning by counting."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.models import MarkovOracle
from dlmeval.models.masked_posteriors import judged_posteriors, log_conditionals, log_posteriors

POSTERIORS = jax.jit(
    lambda params, tokens, mask: log_posteriors(params, tokens, mask, slice(0, tokens.shape[1]))
)
CONDITIONALS = jax.jit(
    lambda params, tokens, mask: log_conditionals(params, tokens, mask, slice(0, tokens.shape[1]))
)


def posteriors(oracle, tokens, mask=None, law=POSTERIORS):
    mask = np.ones_like(tokens, bool) if mask is None else mask
    return np.asarray(law(oracle.params, tokens, mask))


def random_law(rng, *shape, zeros=0.0):
    weights = rng.gamma(0.7, size=shape) + 1e-3
    weights = np.where(rng.random(shape) < zeros, 0.0, weights)
    weights[..., 0] += 1e-3
    return weights / weights.sum(-1, keepdims=True)


def make(order, v, seed=0, zeros=0.0):
    rng = np.random.default_rng(seed)
    initial = random_law(rng, v**order, zeros=zeros).reshape((v,) * order)
    return MarkovOracle(initial, random_law(rng, *(v,) * (order + 1), zeros=zeros))


def language(oracle, length):
    """All strings and their probabilities, token by token in plain Python."""
    strings = list(itertools.product(range(oracle.num_ids), repeat=length))
    law = []
    for x in strings:
        if oracle.order == 1:
            p = oracle.initial[x[0]]
        else:
            p = oracle.initial[x[0]].sum() if length == 1 else oracle.initial[x[0], x[1]]
        for i in range(oracle.order, length):
            p = p * oracle.transition[x[i - oracle.order : i]][x[i]]
        law.append(p)
    return np.array(strings), np.array(law)


def conditioned(strings, law, decided, v):
    """p(token at each position | the decided tokens), [L, v], by adding up strings."""
    agree = np.all([strings[:, i] == token for i, token in decided.items()] or [law >= 0], axis=0)
    weights = law * agree
    hits = strings[:, :, None] == np.arange(v)
    return np.einsum("n,nlv->lv", weights, hits) / weights.sum()


def canvases(rng, v, length, rows):
    tokens = rng.integers(0, v, size=(rows, length))
    undecided = rng.random((rows, length)) < rng.random((rows, 1))
    return np.where(undecided, v, tokens)


@pytest.mark.parametrize(
    ("order", "v", "length"), [(1, 3, 6), (1, 4, 1), (2, 3, 6), (2, 4, 2), (2, 2, 1), (1, 1, 3)]
)
def test_posteriors_equal_enumeration(order, v, length):
    oracle = make(order, v, seed=length)
    strings, law = language(oracle, length)
    tokens = canvases(np.random.default_rng(1), v, length, 24)
    tokens[0] = v
    given = np.exp(posteriors(oracle, tokens))
    apart = np.exp(posteriors(oracle, tokens, law=CONDITIONALS))
    for row, canvas in enumerate(tokens):
        decided = {i: token for i, token in enumerate(canvas) if token < v}
        expected = conditioned(strings, law, decided, v)
        np.testing.assert_allclose(given[row], expected, rtol=2e-6, atol=1e-12)
        for i in range(length):
            others = {j: token for j, token in decided.items() if j != i}
            expected = conditioned(strings, law, others, v)[i]
            np.testing.assert_allclose(apart[row, i], expected, rtol=2e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_impossible_tokens_are_minus_infinity(order):
    oracle = make(order, 4, seed=3, zeros=0.5)
    strings, law = language(oracle, 5)
    rng = np.random.default_rng(0)
    tokens = strings[rng.choice(len(law), size=24, p=law / law.sum())]
    tokens = np.where(rng.random(tokens.shape) < 0.6, 4, tokens)
    logits = posteriors(oracle, tokens)
    for row, canvas in enumerate(tokens):
        decided = {i: token for i, token in enumerate(canvas) if token < 4}
        expected = conditioned(strings, law, decided, 4)
        np.testing.assert_array_equal(logits[row] == -np.inf, expected == 0)
        np.testing.assert_allclose(np.exp(logits[row]), expected, rtol=2e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_the_chain_begins_at_the_first_token(order):
    """Padding on the left, whatever it holds, and on the right changes nothing."""
    oracle = make(order, 3)
    tokens = canvases(np.random.default_rng(2), 3, 5, 8)
    strings, law = language(oracle, 5)
    for left, right, filler in ((3, 0, 0), (2, 1, 1), (1, 2, 3), (0, 3, -7)):
        pads = ((0, 0), (left, right))
        padded = np.pad(tokens, pads, constant_values=filler)
        logits = posteriors(oracle, padded, np.pad(np.ones_like(tokens, bool), pads))
        for row, canvas in enumerate(tokens):
            decided = {i: token for i, token in enumerate(canvas) if token < 3}
            expected = conditioned(strings, law, decided, 3)
            np.testing.assert_allclose(np.exp(logits[row, left : left + 5]), expected, rtol=2e-6)


def test_rows_of_different_padding_share_a_batch_and_regions_are_slices():
    oracle = make(2, 3)
    tokens = canvases(np.random.default_rng(4), 3, 6, 4)
    starts = (0, 1, 2, 5)
    mask = np.arange(6) >= np.array(starts)[:, None]
    whole = posteriors(oracle, tokens, mask)
    for row, start in enumerate(starts):
        decided = {i: x for i, x in enumerate(tokens[row, start:]) if x < 3}
        expected = conditioned(*language(oracle, 6 - start), decided, 3)
        np.testing.assert_allclose(np.exp(whole[row, start:]), expected, rtol=2e-6)
    part = jax.jit(lambda *args: log_posteriors(*args, slice(3, 5)))(oracle.params, tokens, mask)
    assert part.shape == (4, 2, 3)
    assert part.dtype == jnp.float32
    np.testing.assert_allclose(part, whole[:, 3:5], rtol=1e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_contradictions_fall_back_to_the_left_side(order):
    # 0 and 1 alternate or stay in a loop of 2; nothing leads from 2 back.
    step = np.array([[0, 1, 0], [0.25, 0, 0.75], [0, 0, 1.0]])
    if order == 1:
        oracle = MarkovOracle([0.5, 0.5, 0.0], step)
    else:
        oracle = MarkovOracle(np.diag([0.5, 0.5, 0]) @ step, np.stack([step] * 3))
    tokens = np.array([[0, 2, 3, 3, 1], [2, 3, 3, 0, 0], [2, 2, 2, 2, 0], [3, 3, 3, 3, 3]])
    logits, apart = posteriors(oracle, tokens), posteriors(oracle, tokens, law=CONDITIONALS)
    for law in (logits, apart):
        assert not np.isnan(law).any()
        np.testing.assert_allclose(np.exp(law).sum(-1), 1, rtol=1e-6)
    for row, i in zip(*np.nonzero(tokens < 3)):
        np.testing.assert_array_equal(logits[row, i] == 0, np.arange(3) == tokens[row, i])
    # From 2 the chain stays in 2, though the 1 at the end cannot follow.
    np.testing.assert_array_equal(np.exp(logits[0, 2:4]), [[0, 0, 1]] * 2)


def test_length_does_not_underflow():
    oracle = MarkovOracle([1.0, 0.0], [[1 - 1e-7, 1e-7], [1e-7, 1 - 1e-7]])
    tokens = np.full((1, 400), 2)
    tokens[0, 1::2] = np.arange(200) % 2  # a hundred improbable changes
    logits = posteriors(oracle, tokens)
    assert np.isfinite(logits[0, 2::2]).all()
    np.testing.assert_allclose(np.exp(logits[0, 2::2]), 0.5, rtol=1e-5)  # between 0 and 1


def test_large_vocabularies_and_long_ranges():
    """v = 256 at order 1 against matrix powers in float64."""
    oracle = make(1, 256)
    tokens = np.full((1, 12), 256)
    tokens[0, [2, 9]] = 17, 200
    logits = posteriors(oracle, tokens)
    step = np.linalg.matrix_power
    expected = step(oracle.transition, 4)[17] * step(oracle.transition, 3)[:, 200]
    np.testing.assert_allclose(np.exp(logits[0, 6]), expected / expected.sum(), rtol=1e-5)


def test_quality_is_the_probability_of_the_token_held():
    oracle = make(1, 3, seed=6)
    tokens = canvases(np.random.default_rng(1), 3, 6, 24)
    judged = jax.jit(lambda *args: judged_posteriors(*args, slice(0, 6)))
    logits, aux = judged(oracle.params, tokens, np.ones_like(tokens, bool))
    np.testing.assert_allclose(logits, posteriors(oracle, tokens), rtol=1e-5, atol=1e-6)
    apart = np.exp(posteriors(oracle, tokens, law=CONDITIONALS))
    held = np.take_along_axis(apart, np.minimum(tokens, 2)[..., None], -1)[..., 0]
    np.testing.assert_allclose(aux["quality"], np.where(tokens < 3, held, apart.max(-1)), rtol=1e-5)


@pytest.mark.parametrize(("order", "length"), [(1, 4), (2, 4), (2, 2), (2, 1), (1, 1)])
def test_likelihoods_are_those_of_enumeration(order, length):
    oracle = make(order, 3, seed=5)
    strings, law = language(oracle, length)
    np.testing.assert_allclose(np.exp(oracle.log_likelihood(strings)), law, rtol=1e-12)
    nll, counted = oracle.nll(strings, np.full(len(strings), length))
    first = oracle.initial if order == 1 else oracle.initial.sum(1)
    np.testing.assert_allclose(np.exp(-nll) * first[strings[:, 0]], law, rtol=1e-12)
    assert math.isclose((np.exp(-nll) * first[strings[:, 0]]).sum(), 1, rel_tol=1e-12)
    np.testing.assert_array_equal(counted, length - 1)
    assert counted.dtype == np.int32
    assert math.isclose(oracle.entropy(length), -(law * np.log(law)).sum(), rel_tol=1e-12)


def test_nll_of_ragged_rows_and_chosen_targets():
    oracle = make(2, 3)
    ids = np.array([[0, 1, 2, 2], [1, 1, 99, -5], [2, 7, 7, 7], [9, 9, 9, 9]])
    lengths = np.array([4, 2, 1, 0])
    nll, counted = oracle.nll(ids, lengths)
    pair = oracle.initial / oracle.initial.sum(1, keepdims=True)
    steps = oracle.transition
    expected = [-np.log([pair[0, 1], steps[0, 1, 2], steps[1, 2, 2]]).sum(), -np.log(pair[1, 1])]
    np.testing.assert_allclose(nll, [*expected, 0, 0], rtol=1e-12)
    np.testing.assert_array_equal(counted, [3, 1, 0, 0])
    chosen = np.zeros_like(ids, bool)
    chosen[:, [0, 2]] = True
    nll, counted = oracle.nll(ids, lengths, chosen)
    np.testing.assert_allclose(nll, [-np.log(steps[0, 1, 2]), 0, 0, 0], rtol=1e-12)
    np.testing.assert_array_equal(counted, [1, 0, 0, 0])


def test_impossible_strings_have_infinite_nll():
    oracle = MarkovOracle([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]])
    nll, _ = oracle.nll(np.array([[0, 1, 0], [1, 1, 1]]), np.array([3, 3]))
    np.testing.assert_array_equal(nll, [np.inf, 0.0])
    assert oracle.log_likelihood(np.array([[1, 1]]))[0] == -np.inf


def test_entropy_rate_has_its_closed_forms():
    p, q = 0.2, 0.35

    def h(x):
        return -x * math.log(x) - (1 - x) * math.log(1 - x)

    chain = [[1 - p, p], [q, 1 - q]]
    rate = (q * h(p) + p * h(q)) / (p + q)
    assert math.isclose(MarkovOracle([1.0, 0.0], chain).entropy_rate, rate, rel_tol=1e-12)
    lifted = MarkovOracle(np.full((2, 2), 0.25), np.stack([chain, chain]))
    assert math.isclose(lifted.entropy_rate, rate, rel_tol=1e-12)
    uniform = MarkovOracle(np.full(5, 0.2), np.full((5, 5), 0.2))
    assert math.isclose(uniform.entropy_rate, math.log(5), rel_tol=1e-12)
    # Periodic: tokens of {0} and {1, 2} alternate; every second step is a fair coin.
    periodic = MarkovOracle([1, 0, 0], [[0, 0.5, 0.5], [1, 0, 0], [1, 0, 0]])
    assert math.isclose(periodic.entropy_rate, math.log(2) / 2, rel_tol=1e-12)
    # Reducible: a third of the strings end in a coin, the others in a constant.
    reducible = MarkovOracle([1 / 3, 0, 2 / 3], [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]])
    assert math.isclose(reducible.entropy_rate, math.log(2) / 3, rel_tol=1e-12)


@pytest.mark.parametrize(("order", "v"), [(1, 6), (2, 4), (2, 33)])
def test_entropy_rate_is_the_slope_of_the_entropy(order, v):
    oracle = make(order, v)
    slope = oracle.entropy(401) - oracle.entropy(400)
    assert math.isclose(oracle.entropy_rate, slope, rel_tol=1e-9)


def test_slow_mixing_is_solved_by_squaring():
    p = 1e-9
    slow = MarkovOracle([1.0, 0.0], [[1 - p, p], [3 * p, 1 - 3 * p]])
    entropies = [-(x * math.log(x) + (1 - x) * math.log1p(-x)) for x in (p, 3 * p)]
    assert math.isclose(slow.entropy_rate, 0.75 * entropies[0] + 0.25 * entropies[1], rel_tol=1e-5)


def test_oracles_are_denoisers():
    a, b = make(1, 3), make(1, 3, seed=1)
    assert a.logits_fn is b.logits_fn
    assert hash(a) != hash(b)
    assert (a.mask_id, a.num_ids, a.order) == (3, 3, 1)
    assert [a.eos_id, a.bos_id, a.pad_id, a.tokenizer] == [None] * 4
    assert a.card.digests != b.card.digests
    assert a.card == make(1, 3).card
    leaves = jax.tree.leaves(jax.jit(lambda: make(1, 3, seed=2).params)())
    assert all(leaf.dtype == jnp.float32 for leaf in leaves)
    with pytest.raises(ValueError, match="read-only"):
        a.transition[0, 0] = 1.0


CHAIN = np.full((3, 3), 1 / 3)


@pytest.mark.parametrize(
    ("initial", "transition", "message"),
    [
        (np.ones(3) / 3, np.ones(3) / 3, r"transition has shape \[3\]"),
        (np.ones(3) / 3, np.full((3, 2), 0.5), r"transition has shape \[3, 2\]"),
        (np.ones(3) / 3, np.full((3,) * 4, 1 / 3), r"transition has shape"),
        (np.ones(4) / 4, CHAIN, r"initial has shape \[4\].*\[3\]"),
        (np.ones(3) / 3, np.full((3, 3, 3), 1 / 3), r"initial has shape \[3\].*\[3, 3\]"),
        (np.ones(257) / 257, np.full((257, 257), 1 / 257), "at most 256"),
        ([0.5, 0.5, 0.5], CHAIN, "initial must sum to 1; it sums to 1.5"),
        (np.ones(3) / 3, CHAIN * [[1], [2], [1]], r"transition must sum to 1; row \[1\] sums to 2"),
        ([1.5, -0.5, 0.0], CHAIN, "initial holds -0.5"),
        (np.ones(3) / 3, CHAIN * np.nan, "transition holds NaN"),
        ([1.0, np.inf, 0.0], CHAIN, "initial holds NaN or infinite"),
        ([], CHAIN, "initial has shape"),
        ("abc", CHAIN, "initial must be an array"),
        ([[0.5], [0.25, 0.25]], CHAIN, "initial must be an array"),
    ],
)
def test_bad_languages_are_refused(initial, transition, message):
    with pytest.raises(ValueError, match=message):
        MarkovOracle(initial, transition)


@pytest.mark.parametrize(
    ("ids", "lengths", "mask", "message"),
    [
        ([[0, 3]], [2], None, r"ids must lie in 0..2, not 0..3"),
        ([[-1, 0]], [2], None, "ids must lie in"),
        ([[0.0, 1.0]], [2], None, "ids must be a non-empty 2-D integer"),
        ([[0, 1]], [3], None, r"lengths must lie in 0..2"),
        ([[0, 1]], [1, 1], None, "lengths must hold 1"),
        ([[0, 1]], [2], [[True]], r"mask has shape \[1, 1\]"),
    ],
)
def test_bad_rows_are_refused(ids, lengths, mask, message):
    with pytest.raises(ValueError, match=message):
        make(1, 3).nll(np.array(ids), np.array(lengths), mask)


@pytest.mark.parametrize("length", [0, -1, 2.0, True])
def test_bad_lengths_are_refused(length):
    with pytest.raises(ValueError, match="length="):
        make(1, 3).entropy(length)
