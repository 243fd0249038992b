"""Token draws: the law at every temperature, its far tail, and the limit of temperature 0."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dlmeval.samplers import packing
from dlmeval.samplers.noise import _pick, draw, draw_tokens, uniform64

# A billion numbers are drawn below: this program is worth optimising, whatever XLA_FLAGS says.
FAST = {"xla_backend_optimization_level": 2}
jitted = jax.jit(draw_tokens, static_argnums=0, compiler_options=FAST)
EXACT = ["inverse_cdf", "gumbel_fp64", "gumbel_high"]
MODES = [*EXACT, "gumbel_fp32"]


def draws(mode, logits, temp, rows, seed=0, length=512):
    """`rows` x `length` independent draws from one row of logits."""
    keys = jax.random.split(jax.random.key(seed), rows)
    tiled = jnp.broadcast_to(jnp.asarray(logits, jnp.float32), (rows, length, len(logits)))
    with jax.enable_x64(mode == "gumbel_fp64"):
        return np.asarray(jitted(mode, keys, tiled, jnp.float32(temp)))


@pytest.mark.parametrize("mode", MODES)
def test_categories_of_a_small_vocabulary(mode):
    """V = 64, t = 0.7: chi-square of 30,720 draws against the tempered softmax."""
    logits = np.random.default_rng(5).normal(size=64)
    p = np.exp(logits / 0.7)
    counts = np.bincount(draws(mode, logits, 0.7, 60).ravel(), minlength=64)
    assert stats.chisquare(counts, p / p.sum() * counts.sum()).pvalue > 1e-3


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


SLOW = [pytest.param(mode, marks=pytest.mark.slow) for mode in MODES[1:]]


@pytest.mark.parametrize("mode", ["inverse_cdf", *SLOW])
def test_tail_of_a_large_vocabulary(mode):
    """0.99 on one id, 0.01 spread over 50,256: the tail keeps its mass, but for gumbel_fp32."""
    size, total = 50_257, 16_384
    logits = np.full(size, np.log(0.01 / (size - 1)), np.float32)
    logits[777] = np.log(0.99)
    drawn = np.concatenate(
        [draws(mode, logits, 1.0, 1, seed=s, length=256).ravel() for s in range(total // 256)]
    )
    tail = drawn[drawn != 777]
    deviations = (len(tail) - 0.01 * total) / np.sqrt(0.01 * 0.99 * total)
    print(f"{mode}: tail mass {len(tail) / total:.5f}, n {total}, {deviations:+.2f} sigma")
    if mode == "gumbel_fp32":
        assert deviations < -3
        return
    assert abs(deviations) < 3
    quarters = np.histogram(tail, bins=4, range=(0, size))[0]
    assert stats.chisquare(quarters).pvalue > 1e-3
    within = np.bincount(tail % 128 // 32, minlength=4)
    assert stats.chisquare(within).pvalue > 1e-3


def test_rare_events_are_as_rare_as_they_should_be():
    """Mass 1e-6 next to 1 - 1e-6, seen through the stage that decides it: bits to choices."""
    others = 1e-6 / (1 - 1e-6)
    bits = jnp.uint32(2**32 * 1e-6) + jnp.arange(-3, 4).astype(jnp.uint32)
    chosen = uniform64(bits, jnp.zeros_like(bits)) * jnp.float32(1 + others) < others
    # Exactly the high words below 1e-6 * 2^32 = 4294.97 choose the tail.
    assert chosen.tolist() == [int(b) * 2.0**-32 < 1e-6 for b in bits]
    tiny = uniform64(jnp.uint32([0, 0]), jnp.uint32([0, 2**20]))
    np.testing.assert_allclose(tiny, [2.0**-65, 2.0**-44], rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_forbidden_ids_are_never_drawn(mode):
    logits = np.full(200, -np.inf)
    logits[[3, 130, 199]] = [0.0, 0.5, 0.2]
    assert set(np.unique(draws(mode, logits, 2.0, 4))) == {3, 130, 199}
    logits[[3, 130]] = -np.inf
    assert np.all(draws(mode, logits, 2.0, 4) == 199)


@pytest.mark.parametrize("mode", MODES)
def test_temperature_zero_takes_the_first_of_the_best(mode):
    logits = np.array([0.0, 2.0, 1.0, 2.0])
    assert np.all(draws(mode, logits, 0.0, 2) == 1)
    near = draws(mode, logits, 1e-6, 2)
    assert set(np.unique(near)) == {1, 3}  # the limit from above draws among the ties
    for temp in (1e-30, 1e-40):  # the second is no normal float32
        assert np.all(draws(mode, [1.0, 2.0], temp, 2) == 1)


def test_pick_skips_weightless_entries_at_the_extremes():
    weights = jnp.array([[[0.0, 1.0, 0.0, 3.0, 0.0]]] * 3)
    u = jnp.array([[0.0], [0.2499], [1 - 2.0**-24]])
    assert _pick(weights, u).ravel().tolist() == [1, 1, 3]


@pytest.mark.parametrize("mode", EXACT)
def test_draws_depend_on_key_and_position_alone(mode):
    """Not on the batch, the length, the positions needed, or how rows are grouped."""
    batch, length, vocab = 3, 11, 300
    logits = jax.random.normal(jax.random.key(3), (batch, length, vocab))
    keys = jax.random.split(jax.random.key(4), batch)
    needed = np.random.default_rng(0).random((batch, length)) < 0.4
    grouped = jax.jit(lambda entries, *args: draw_in_chunks(mode, entries, *args), static_argnums=0)
    with jax.enable_x64(mode == "gumbel_fp64"):
        whole = jitted(mode, keys, logits, jnp.float32(1))
        alone = jitted(mode, keys[1:2], logits[1:2, :7], jnp.float32(1))
        every = grouped(8 * batch * vocab, keys, logits, np.ones_like(needed))
        some = grouped(16 * batch * vocab, keys, logits, needed)
    assert whole.dtype == every.tokens.dtype == jnp.int32
    np.testing.assert_array_equal(whole[1:2, :7], alone)
    np.testing.assert_array_equal(whole, every.tokens)
    np.testing.assert_array_equal(np.asarray(whole)[needed], np.asarray(some.tokens)[needed])
    assert np.all((some.tokens >= 0) & (some.tokens < vocab))
    assert len({tuple(row) for row in np.asarray(whole).tolist()}) == batch
    norm = np.asarray(jax.nn.logsumexp(logits, axis=-1))
    np.testing.assert_allclose(every.log_norm, norm, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(some.log_norm)[needed], norm[needed], rtol=1e-6)


def draw_in_chunks(mode, entries, keys, logits, needed):
    """`draw` while a chunk holds so many numbers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(packing._ENTRIES, "cpu", entries)
        return draw(mode, keys, logits, jnp.float32(1), needed=needed)


@pytest.mark.parametrize("temp", [0.0, 0.6, 1.0])
def test_normalisers_are_those_of_temperature_one(temp):
    logits = jnp.asarray(np.random.default_rng(3).normal(size=(2, 4, 40)) * 4, jnp.float32)
    logits = logits.at[:, :, 3:9].set(-jnp.inf).at[0, 0, 1:].set(-jnp.inf)
    keys = jax.random.split(jax.random.key(0), 2)
    drawn = jax.jit(draw, static_argnums=0)("inverse_cdf", keys, logits, jnp.float32(temp))
    p = np.exp(np.asarray(logits, float))
    np.testing.assert_allclose(drawn.log_norm, np.log(p.sum(-1)), rtol=1e-6)


def test_unknown_mode():
    keys = jax.random.split(jax.random.key(0), 1)
    with pytest.raises(ValueError, match=r"'gumbel'.*choose inverse_cdf"):
        draw_tokens("gumbel", keys, jnp.zeros((1, 1, 3)), jnp.float32(1))


def test_replayed_uniforms_give_the_published_formula():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 512, 20)).astype(np.float32) * 3
    u = rng.random((2, 512, 20), dtype=np.float32)
    expected = (np.exp(logits.astype(float)) / (-np.log(u.astype(float))) ** 0.4).argmax(-1)
    keys = jax.random.split(jax.random.key(0), 2)
    with jax.enable_x64(True):
        got = jitted(
            "gumbel_fp64",
            keys,
            jnp.asarray(logits),
            jnp.float32(0.4),
            uniforms=jnp.asarray(u),
        )
    np.testing.assert_array_equal(got, expected)
