"""Token draws: the law at every temperature, its far tail, and the limit of temperature 0."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dlmeval.samplers.noise import _pick, draw_tokens

jitted = jax.jit(draw_tokens, static_argnums=0)


def draws(mode, logits, temp, rows, seed=0):
    """`rows` x 512 independent draws from one row of logits."""
    keys = jax.random.split(jax.random.key(seed), rows)
    tiled = jnp.broadcast_to(jnp.asarray(logits, jnp.float32), (rows, 512, len(logits)))
    with jax.enable_x64(mode == "gumbel_fp64"):
        return np.asarray(jitted(mode, keys, tiled, jnp.float32(temp)))


@pytest.mark.parametrize("mode", ["inverse_cdf", "gumbel_fp64"])
def test_frequencies_follow_the_tempered_softmax(mode):
    logits = np.random.default_rng(2).normal(size=300) * 2  # two runs of 128 and a shorter one
    for temp in (0.5, 1.0):
        p = np.exp(logits / temp - (logits / temp).max())
        p /= p.sum()
        counts = np.bincount(draws(mode, logits, temp, 60).ravel(), minlength=300)
        often = p * counts.sum() > 5
        observed = np.append(counts[often], counts[~often].sum())
        expected = np.append(p[often], p[~often].sum()) * counts.sum()
        assert stats.chisquare(observed, expected).pvalue > 1e-3


def test_tail_of_a_large_vocabulary():
    """0.99 on one id, 0.01 spread over 50,256: the tail keeps its mass and all its runs."""
    size = 50_257
    logits = np.full(size, np.log(0.01 / (size - 1)), np.float32)
    logits[777] = np.log(0.99)
    drawn = np.concatenate([draws("inverse_cdf", logits, 1.0, 4, seed=s) for s in range(8)])
    tail = drawn[drawn != 777]
    total = drawn.size
    assert abs(len(tail) - 0.01 * total) < 4 * np.sqrt(0.01 * 0.99 * total)
    quarters = np.histogram(tail, bins=4, range=(0, size))[0]
    assert stats.chisquare(quarters).pvalue > 1e-3
    within = np.bincount(tail % 128 // 32, minlength=4)
    assert stats.chisquare(within).pvalue > 1e-3


def test_rare_events_are_as_rare_as_they_should_be():
    """Mass 1e-6 next to 1 - 1e-6, seen through the stage that decides it: bits to choices."""
    from dlmeval.samplers.noise import _uniform64

    others = 1e-6 / (1 - 1e-6)
    bits = jnp.uint32(2**32 * 1e-6) + jnp.arange(-3, 4).astype(jnp.uint32)
    chosen = _uniform64(bits, jnp.zeros_like(bits)) * jnp.float32(1 + others) < others
    # Exactly the high words below 1e-6 * 2^32 = 4294.97 choose the tail.
    assert chosen.tolist() == [int(b) * 2.0**-32 < 1e-6 for b in bits]
    tiny = _uniform64(jnp.uint32([0, 0]), jnp.uint32([0, 2**20]))
    np.testing.assert_allclose(tiny, [2.0**-65, 2.0**-44], rtol=1e-5)


@pytest.mark.parametrize("mode", ["inverse_cdf", "gumbel_fp64"])
def test_forbidden_ids_are_never_drawn(mode):
    logits = np.full(200, -np.inf)
    logits[[3, 130, 199]] = [0.0, 0.5, 0.2]
    assert set(np.unique(draws(mode, logits, 2.0, 4))) == {3, 130, 199}
    logits[[3, 130]] = -np.inf
    assert np.all(draws(mode, logits, 2.0, 4) == 199)


@pytest.mark.parametrize("mode", ["inverse_cdf", "gumbel_fp64"])
def test_temperature_zero_takes_the_first_of_the_best(mode):
    logits = np.array([0.0, 2.0, 1.0, 2.0])
    assert np.all(draws(mode, logits, 0.0, 2) == 1)
    near = draws(mode, logits, 1e-6, 2)
    assert set(np.unique(near)) == {1, 3}  # the limit from above draws among the ties
    assert np.all(draws(mode, [1.0, 2.0], 1e-30, 2) == 1)


def test_pick_skips_weightless_entries_at_the_extremes():
    weights = jnp.array([[[0.0, 1.0, 0.0, 3.0, 0.0]]] * 3)
    u = jnp.array([[0.0], [0.2499], [1 - 2.0**-24]])
    assert _pick(weights, u).ravel().tolist() == [1, 1, 3]


def test_draws_depend_on_the_sample_key_alone():
    logits = jax.random.normal(jax.random.key(3), (3, 512, 20))
    keys = jax.random.split(jax.random.key(4), 3)
    together = jitted("inverse_cdf", keys, logits, jnp.float32(1))
    alone = jitted("inverse_cdf", keys[1:2], logits[1:2], jnp.float32(1))
    np.testing.assert_array_equal(together[1], alone[0])
    assert np.any(np.asarray(together[0]) != np.asarray(together[2]))


def test_replayed_uniforms_give_the_published_formula():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 512, 20)).astype(np.float32) * 3
    u = rng.random((2, 512, 20), dtype=np.float32)
    expected = (np.exp(logits.astype(float)) / (-np.log(u.astype(float))) ** 0.4).argmax(-1)
    keys = jax.random.split(jax.random.key(0), 2)
    with jax.enable_x64(True):
        got = jitted("gumbel_fp64", keys, jnp.asarray(logits), jnp.float32(0.4), jnp.asarray(u))
    np.testing.assert_array_equal(got, expected)
