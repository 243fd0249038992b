"""-log p in tiles and slices: the same sums and gradients as all logits at once."""

import functools

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.models import decoder, likelihood
from dlmeval.models.likelihood import row_nll, score_rows

CONFIG = decoder.DecoderConfig(
    vocab_size=37,
    hidden_size=16,
    num_layers=1,
    num_heads=2,
    num_kv_heads=1,
    intermediate_size=24,
    causal=True,
)


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    shapes = decoder.abstract_params(CONFIG)
    params = jax.tree.map(lambda x: jnp.asarray(rng.normal(0, 0.4, x.shape), jnp.float32), shapes)
    ids = jnp.asarray(rng.integers(0, 37, (3, 11)), jnp.int32)
    token_mask = np.arange(11) < np.array([11, 7, 2])[:, None]
    targets = token_mask & (rng.random((3, 11)) < 0.7)
    return params, ids, jnp.asarray(token_mask), jnp.asarray(targets)


def oracle(params, ids, token_mask, targets):
    """All logits, one log-softmax."""
    hidden = decoder.hidden_states(CONFIG, params, ids, token_mask)
    log_p = jax.nn.log_softmax(decoder.project(CONFIG, params, hidden[:, :-1]))
    picked = jnp.take_along_axis(log_p, ids[:, 1:, None], axis=-1)[..., 0]
    return -jnp.where(targets[:, 1:], picked, 0.0).sum(axis=1)


@pytest.fixture
def limits(monkeypatch):
    """Sets how many logits exist at a time, for scores and for gradients."""

    def set_limits(scores, gradients):
        monkeypatch.setattr(likelihood, "_LEAST_TILE", 1)
        monkeypatch.setattr(likelihood, "_LOGITS", {"cpu": scores})
        monkeypatch.setattr(likelihood, "_LOGITS_OF_A_GRADIENT", gradients)

    return set_limits


# 30 positions of 37 logits: all at once; 8 tiles of 5 ids, the last of them 2 new ones, or 8 slices
# of 4 positions with 2 to spare; one at a time.
LIMITS = [(1 << 24, 1 << 24), (30 * 5, 37 * 5 - 1), (1, 1)]


@pytest.mark.parametrize("limit", LIMITS)
def test_scores_do_not_depend_on_tiles(case, limits, limit):
    limits(*limit)
    found = jax.jit(functools.partial(score_rows, *NETWORK))(*case)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, oracle(*case), rtol=1e-5)


@pytest.mark.parametrize("limit", LIMITS[1:])
def test_gradients_do_not_depend_on_slices(case, expected, limits, limit):
    limits(*limit)
    value, found = both(functools.partial(row_nll, *NETWORK), case)
    np.testing.assert_allclose(value, expected[0], rtol=1e-5)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


NETWORK = decoder.NETWORK, CONFIG
WEIGHTS = jnp.array([0.5, -1.5, 2.0])


def both(nll, case):
    params, *batch = case
    return jax.jit(jax.value_and_grad(lambda p: nll(p, *batch) @ WEIGHTS))(params)


@pytest.fixture(scope="module")
def expected(case):
    value, gradient = both(oracle, case)
    assert np.isfinite(float(value))
    return value, gradient


@pytest.mark.parametrize("nll", [score_rows, row_nll])
def test_rows_are_sums_over_their_targets(case, limits, nll):
    limits(100, 100)
    params, ids, token_mask, targets = case
    run = jax.jit(functools.partial(nll, *NETWORK))
    found = run(*case)
    # The first position is never a target, whatever the mask says.
    always = targets.at[:, 0].set(True)
    np.testing.assert_array_equal(run(params, ids, token_mask, always), found)
    nothing = run(params, ids, token_mask, jnp.zeros_like(targets))
    assert nothing.tolist() == [0.0] * 3
    one = [x[:, :1] for x in (ids, token_mask, targets)]
    assert nll(*NETWORK, params, *one).tolist() == [0.0] * 3


@pytest.mark.parametrize("nll", [score_rows, row_nll])
def test_bfloat16_weights_give_float32_sums(case, nll):
    params, *batch = case
    half = jax.tree.map(lambda x: x.astype(jnp.bfloat16), params)
    found = jax.jit(functools.partial(nll, *NETWORK))(half, *batch)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, oracle(*case), rtol=0.05)


def test_far_logits_neither_overflow_nor_vanish(case, limits):
    limits(30 * 5, 1)
    params, *batch = case
    far = params | {"head": params["head"] * 1e3}
    found = jax.jit(functools.partial(score_rows, *NETWORK))(far, *batch)
    np.testing.assert_allclose(found, oracle(far, *batch), rtol=1e-4)
    assert np.asarray(found).max() > 1e3


@pytest.mark.parametrize("positions", [1, 2, 7, 30, 1000, 4093])
def test_slices_are_of_one_size_with_little_to_spare(positions):
    for vocab_size in (1, 37, 50257, 1 << 25):
        size = likelihood._slice_size(vocab_size, positions)
        count = -(-positions // size)
        assert 1 <= size <= positions
        assert size == 1 or size * vocab_size <= 1 << 24
        assert 0 <= count * size - positions < count


def test_logits_of_all_positions_never_exist(case, limits):
    limits(30 * 5, 37 * 5)
    params, *batch = case

    def largest(nll):
        return max(sizes(jax.make_jaxpr(lambda p: nll(p, *batch))(params).jaxpr))

    def gradient(nll):
        return lambda p, *batch: jax.grad(lambda p: nll(p, *batch).sum())(p)

    assert largest(functools.partial(score_rows, *NETWORK)) < 30 * 37
    assert largest(gradient(functools.partial(row_nll, *NETWORK))) < 30 * 37
    assert largest(gradient(oracle)) >= 30 * 37


def sizes(jaxpr):
    """Elements of every array of floats that a program makes."""
    for equation in jaxpr.eqns:
        for value in equation.outvars:
            if jnp.issubdtype(getattr(value.aval, "dtype", bool), jnp.floating):
                yield value.aval.size
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            yield from sizes(inner)
