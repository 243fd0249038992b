"""Canvases recorded from Dream's diffusion_generate, and its algorithms against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.models import load_denoiser
from dlmeval.samplers import Obs, SamplerConfig, Settings, get_strategy

ORDERS = ("entropy", "maskgit", "topk_margin")


@pytest.fixture(scope="module")
def peaked(golden):
    return load_denoiser(str(golden("dream_peaked")), architecture="dream")


NAMES = {"maskgit_plus": "maskgit", "entropy": "entropy", "topk_margin": "topk_margin"}
RUNS = (
    *(f"{alg}_n{steps}" for alg in NAMES for steps in (8, 16, 32)),
    *("entropy_n16_pad2", "maskgit_plus_n8_pad2", "topk_margin_n13_batch2"),
)


def check_canvases(run, denoiser, recorded, replay, **settings):
    """Replays a recorded run, compares every canvas, and returns (samples, reveals per step)."""
    arrays, about = recorded("dream_generate")
    about, prompt = about[run], arrays[f"{run}/prompt"]
    samples = replay(
        denoiser,
        prompt,
        NAMES[about["alg"]],
        about["steps"],
        about["gen_length"],
        mask=arrays[f"{run}/attention_mask"],
        **settings,
    )
    canvases = arrays[f"{run}/canvases"]
    np.testing.assert_array_equal(samples.history.canvas, canvases[1:, :, prompt.shape[1] :])
    return samples, arrays[f"{run}/n_revealed"]


@pytest.mark.parametrize("run", RUNS)
def test_every_canvas_is_reproduced(run, peaked, recorded, replay):
    samples, revealed = check_canvases(run, peaked, recorded, replay)
    np.testing.assert_array_equal(samples.nfe, np.sum(revealed > 0, axis=0))


def test_the_published_loop_runs_and_charges_idle_steps_too(peaked, recorded, replay):
    samples, revealed = check_canvases("entropy_n32", peaked, recorded, replay, skip_idle=False)
    assert samples.nfe.tolist() == [32]
    assert np.sum(revealed == 0) > 8


def dream_counts(length, steps):
    """Masks revealed in each step by the published rule, in NumPy's float32."""
    times = np.linspace(1, 1e-3, steps + 1, dtype=np.float32)
    masked, counts = length, []
    for i in range(steps):
        share = np.float32(1) - times[i + 1] / times[i]
        counts.append(int(np.float32(masked) * share) if i < steps - 1 else masked)
        masked -= counts[-1]
    return counts


def our_counts(length, steps):
    quota = jax.jit(get_strategy("entropy").quota)
    masked, counts = length, []
    for step in range(steps):
        given = (jnp.array([masked]), jnp.int32(steps - step), jnp.int32(step), jnp.int32(steps))
        counts.append(int(quota(*given)[0]))
        masked -= counts[-1]
    return counts


@pytest.mark.parametrize(("length", "steps"), [(128, 64), (128, 100), (16, 13), (64, 64), (7, 1)])
def test_counts_follow_the_published_rule(length, steps):
    assert our_counts(length, steps) == dream_counts(length, steps)


@pytest.mark.parametrize(("steps", "idle"), [(64, 0), (128, 1), (256, 129), (512, 385)])
def test_idle_steps_of_128_tokens(steps, idle):
    counts = our_counts(128, steps)
    assert counts.count(0) == idle
    assert sum(counts) == 128
    if steps == 256:
        assert counts.index(1) == 129, "counted from 0"
        assert counts[-1] == 2


def observation(logits, temp, alg_temp, keys=1):
    """`keys` rows of the same undecided canvas, tokens drawn at `temp` as the sampler does."""
    scaled = jnp.asarray(logits / temp if temp else logits, jnp.float32)
    drawn = jnp.broadcast_to(jnp.argmax(scaled, axis=-1).astype(jnp.int32), (keys, len(logits)))
    rows = jnp.broadcast_to(scaled, (keys, *logits.shape))
    nothing = jnp.zeros(drawn.shape, bool)
    settings = {name: jnp.float32(0) for name in Settings._fields}
    return Obs(
        logits=jnp.broadcast_to(jnp.asarray(logits, jnp.float32), rows.shape),
        draw_logits=rows,
        tokens=drawn,
        drawn=drawn,
        decided=nothing,
        new=nothing,
        confidence=jnp.zeros(drawn.shape),
        pool=~nothing,
        quality=None,
        planned=jnp.int32(0),
        num_remask=jnp.int32(0),
        step=jnp.int32(1),
        num_steps=jnp.int32(4),
        settings=Settings(**settings | {"alg_temp": jnp.float32(alg_temp)}),
    )


def dream_confidence(alg, logits, temp):
    """The published score of each position, in float64."""
    scaled = logits / temp if temp else logits
    p = np.exp(scaled - scaled.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    if alg == "maskgit":
        return p.max(-1)
    if alg == "topk_margin":
        falling = -np.sort(-p, axis=-1)
        return falling[:, 0] - falling[:, 1]
    return np.sum(p * np.log(p + 1e-10), axis=-1)


@pytest.mark.parametrize("alg", ORDERS)
@pytest.mark.parametrize("temp", [0.0, 0.4])
def test_scores_are_of_the_tempered_law(alg, temp):
    logits = np.random.default_rng(3).normal(size=(6, 9)) * 2
    obs = observation(logits, temp, 0.0)
    keys = jax.random.split(jax.random.key(0), 1)
    score = get_strategy(alg).order(obs, keys)[0]
    np.testing.assert_allclose(score, dream_confidence(alg, logits, temp), atol=2e-6)


@pytest.mark.parametrize("alg", ORDERS)
def test_alg_temp_draws_positions_without_replacement(alg):
    """First and second position at alg_temp 0.5 against softmax(score / 0.5), in 20,000 rows."""
    rows, alg_temp = 20_000, 0.5
    logits = np.random.default_rng(5).normal(size=(4, 7)) * 2
    obs = observation(logits, 0.0, alg_temp, rows)
    score = get_strategy(alg).order(obs, jax.random.split(jax.random.key(1), rows))
    first, second = np.argsort(-np.asarray(score), axis=1)[:, :2].T
    p = np.exp(dream_confidence(alg, logits, 0.0) / alg_temp)
    p /= p.sum()
    for i in range(4):
        for j in range(4):
            expected = 0.0 if i == j else p[i] * p[j] / (1 - p[i])
            counted = np.mean((first == i) & (second == j))
            assert abs(counted - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / rows)


def test_origin_reveals_each_mask_with_the_same_probability():
    """1 - s / t = (0.999 / 4) / (1 - 0.999 / 4) at step 1 of 4, counted from 0; 1 at the last."""
    rows = 20_000
    order = get_strategy("origin").order
    obs = observation(np.zeros((5, 3)), 0.0, 0.0, rows)
    keys = jax.random.split(jax.random.key(2), rows)
    hit = np.asarray(order(obs, keys)) > -np.inf
    share = 0.24975 / (1 - 0.24975)
    error = np.sqrt(share * (1 - share) / rows)
    np.testing.assert_allclose(hit.mean(axis=0), share, atol=4.5 * error)
    pairs = np.mean(hit[:, :-1] & hit[:, 1:], axis=0)
    np.testing.assert_allclose(pairs, share**2, atol=4.5 * error)  # positions are independent
    assert np.all(order(obs._replace(step=jnp.int32(3)), keys) > -np.inf)


def test_unmask_temp_is_the_temperature_of_the_order_alone(draw):
    """At token_temp 0 tokens are argmaxes whatever the order; unmask_temp stands for alg_temp."""
    by_default = draw(SamplerConfig(16, 8, "maskgit", 0.5))
    named = draw(SamplerConfig(16, 8, "maskgit", 0.0, alg_temp=0.5))
    np.testing.assert_array_equal(by_default.tokens, named.tokens)
    cold = draw(SamplerConfig(16, 8, "maskgit", 0.0))
    assert np.any(np.asarray(cold.tokens) != np.asarray(named.tokens))
    seeds = [draw(SamplerConfig(16, 8, "maskgit", 0.0), width=0, seed=s).tokens for s in (0, 1)]
    np.testing.assert_array_equal(*seeds)
