"""Mixture of experts: the router's rule, and grouped products against a dense one-hot sum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.models import moe

N, K, E, D, F = 21, 3, 6, 8, 10


def swiglu(x, gate, up, down):
    return (jax.nn.silu(x @ gate) * (x @ up)) @ down


def one_hot_mixture(x, weights, chosen, gate, up, down):
    """Every expert on every token, weighed by what the router gave it: the definition."""
    share = (jax.nn.one_hot(chosen, len(gate)) * weights[..., None]).sum(axis=1)
    return jnp.einsum(
        "ned,ne->nd",
        jax.vmap(lambda t: jax.vmap(swiglu, (None, 0, 0, 0))(t, gate, up, down))(x),
        share,
    )


@pytest.fixture(scope="module")
def layer():
    keys = jax.random.split(jax.random.key(0), 5)
    x = jax.random.normal(keys[0], (N, D))
    weights = jax.random.uniform(keys[1], (N, K))
    gate, up = (jax.random.normal(key, (E, D, F)) for key in keys[2:4])
    return x, weights, (gate, up, jax.random.normal(keys[4], (E, F, D)))


def choices(name):
    """Experts of each token, all different within a token."""
    rng = np.random.default_rng(1)
    if name == "one triple for all":
        return np.tile([4, 0, 2], (N, 1))
    if name == "two experts idle":
        return np.stack([rng.permutation(E - 2)[:K] for _ in range(N)])
    return np.stack([rng.permutation(E)[:K] for _ in range(N)])


mixture = jax.jit(moe.mix_experts)


@pytest.mark.parametrize("name", ["mixed", "one triple for all", "two experts idle"])
def test_the_mixture_is_the_weighted_sum_of_all_chosen_experts(layer, name):
    x, weights, experts = layer
    chosen = jnp.asarray(choices(name))
    expected = one_hot_mixture(x, weights, chosen, *experts)
    np.testing.assert_allclose(mixture(x, weights, chosen, *experts), expected, atol=2e-5)


def test_a_token_does_not_depend_on_the_others(layer):
    x, weights, experts = layer
    chosen = jnp.asarray(choices("mixed"))
    whole = mixture(x, weights, chosen, *experts)
    order = np.random.default_rng(2).permutation(N)
    moved = mixture(x[order], weights[order], chosen[order], *experts)
    np.testing.assert_allclose(moved, whole[order], atol=1e-5)
    # All others crowd into the first token's experts: nothing of it is dropped.
    crowd = jnp.tile(chosen[:1], (N, 1))
    crowded = mixture(x.at[1:].set(9.0), weights, crowd, *experts)
    np.testing.assert_allclose(crowded[0], whole[0], atol=1e-5)


def test_gradients_are_those_of_the_dense_sum(layer):
    x, weights, experts = layer
    chosen = jnp.asarray(choices("two experts idle"))

    def loss(function):
        return lambda *args: jnp.sum(jnp.sin(function(args[0], args[1], chosen, *args[2:])))

    numbers = tuple(range(5))
    ours = jax.jit(jax.grad(loss(moe.mix_experts), numbers))(x, weights, *experts)
    expected = jax.jit(jax.grad(loss(one_hot_mixture), numbers))(x, weights, *experts)
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=5e-4)
    assert not ours[2][E - 2 :].any()  # experts without a token


@pytest.mark.parametrize(
    "sizes", [[5, 0, 17, 1, 0, 40], [63, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 63], [10, 11] * 3]
)
def test_tiles_agree_with_ragged_dot(sizes):
    keys = jax.random.split(jax.random.key(3))
    rows = jax.random.normal(keys[0], (63, D))
    matrices = jax.random.normal(keys[1], (E, D, F))
    ours = tiled(rows, matrices, jnp.array(sizes))
    np.testing.assert_allclose(ours, ragged(rows, matrices, jnp.array(sizes)), atol=1e-5)
    groups = np.repeat(np.arange(E), sizes)
    np.testing.assert_allclose(
        ours, np.einsum("ma,mac->mc", rows, np.asarray(matrices)[groups]), atol=1e-5
    )


tiled, ragged = jax.jit(moe.tiled_matmul), jax.jit(jax.lax.ragged_dot)


def test_fewer_rows_than_experts():
    rows, matrices = jnp.ones((2, 3)), jnp.arange(9.0)[:, None, None] * jnp.ones((9, 3, 2))
    sizes = jnp.zeros(9, int).at[jnp.array([4, 8])].set(1)
    np.testing.assert_array_equal(moe.tiled_matmul(rows, matrices, sizes), [[12, 12], [24, 24]])


def test_the_router_softmaxes_over_all_and_renormalises_nothing():
    x = np.random.default_rng(4).normal(size=(N, D)).astype(np.float32)
    router = np.random.default_rng(5).normal(size=(D, E)).astype(np.float32)
    weights, chosen = moe.route(jnp.asarray(x), jnp.asarray(router), None, K)
    scores = np.exp(x @ router)
    scores /= scores.sum(axis=1, keepdims=True)
    order = np.argsort(-scores, axis=1)[:, :K]
    np.testing.assert_array_equal(chosen, order)
    np.testing.assert_allclose(weights, np.take_along_axis(scores, order, 1), rtol=1e-5)
    assert (weights.sum(axis=1) < 1).all()


def test_the_bias_moves_the_choice_and_stays_in_the_weights():
    x, router = jnp.eye(2), jnp.array([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]])
    bias = jnp.array([0.0, 1.0, 0.0])
    weights, chosen = moe.route(x, router, bias, 1)
    assert chosen.tolist() == [[1], [1]]
    np.testing.assert_allclose(weights, 1 + jax.nn.softmax(router)[:, 1:2], rtol=1e-6)


def test_equal_weights_go_to_the_lower_number():
    _, chosen = moe.route(jnp.ones((1, 4)), jnp.zeros((4, 5)), None, 3)
    assert chosen.tolist() == [[0, 1, 2]]


def test_bfloat16_tokens_are_routed_in_float32_and_come_back_as_bfloat16(layer):
    x, _, experts = layer
    router = jax.random.normal(jax.random.key(6), (D, E)).astype(jnp.bfloat16)
    narrow = x.astype(jnp.bfloat16)
    weights, chosen = moe.route(narrow, router, None, K)
    assert weights.dtype == jnp.float32
    exact = jax.nn.softmax(narrow.astype(jnp.float32) @ router.astype(jnp.float32))
    np.testing.assert_allclose(weights, jnp.sort(exact)[:, ::-1][:, :K], rtol=1e-5)
    mixed = moe.mix_experts(narrow, weights, chosen, *(w.astype(jnp.bfloat16) for w in experts))
    assert mixed.dtype == jnp.bfloat16
    wide = one_hot_mixture(x, weights, chosen, *experts)
    assert jnp.abs(mixed - wide).max() < 0.05 * jnp.abs(wide).max()
