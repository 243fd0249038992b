"""Ancestral samplers: the loop follows the laws, and counts what it costs."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.samplers import SamplerConfig, sample
from dlmeval.samplers.ancestral import transition_probabilities

MASK, VOCAB = 12, 13
END = 1e-5


def posterior(tiny, canvas, temp=1.0):
    """The law tokens are drawn from at every position, float64 on the host."""
    logits = tiny.logits_fn(
        tiny.params, jnp.asarray(canvas), jnp.ones(canvas.shape, bool), slice(0, canvas.shape[1])
    )
    logits = np.array(logits, np.float64)
    logits[..., MASK] = -np.inf
    p = np.exp((logits - logits.max(-1, keepdims=True)) / temp)
    return p / p.sum(-1, keepdims=True)


def replayed_law(name, tiny, canvases, temp, options):
    """Rows of the law of each recorded step, from the canvas before it."""
    steps = len(canvases) - 1
    confidence = np.full(canvases[0].shape, -np.inf, np.float32)
    dt = (1 - END) / steps
    for step, (before, after) in enumerate(itertools.pairwise(canvases)):
        p_x0 = posterior(tiny, before, temp).astype(np.float32)
        yield np.asarray(
            transition_probabilities(
                name,
                p_x0,
                before,
                1 - step * dt,
                dt,
                mask_id=MASK,
                confidence=confidence,
                **options,
            ),
            np.float64,
        )
        held = -np.take_along_axis(p_x0, after[..., None], -1)[..., 0]
        confidence = np.where((before == MASK) & (after != MASK), held, confidence)
        confidence = np.where(after == MASK, -np.inf, confidence)


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("mdlm", {}),
        ("mdlm_analytic", {}),
        ("remdm_cap", {"nucleus_p": 0.7}),
        ("remdm_rescale", {"noise": "gumbel_fp64"}),
        ("remdm_conf", {}),
        ("remdm_loop", {}),
        ("remdm_forward_backward", {}),
    ],
)
def test_steps_follow_the_law_and_forwards_are_counted(name, extra, tiny, recorder):
    """600 samples of 6 tokens in 5 steps: what each step did against the law of its canvas."""
    batch, length, steps, temp = 600, 6, 5, 0.8
    options = {"eta": 0.3, "t_on": 0.8, "t_off": 0.3, "alpha_on": 0.6}
    seen = recorder()
    result = sample(
        seen.logits_fn,
        tiny.params,
        np.zeros((batch, 0), np.int32),
        np.zeros((batch, 0), bool),
        jax.random.split(jax.random.key(1), batch),
        SamplerConfig(length, steps, name, temp, record_history=True, **options, **extra),
        mask_id=MASK,
    )
    blank = np.full((1, batch, length), MASK, np.int32)
    canvases = np.concatenate([blank, np.asarray(result.history.canvas)])
    options |= {k: v for k, v in extra.items() if k == "nucleus_p"}
    for step, law in enumerate(replayed_law(name, tiny, canvases, temp, options)):
        law = np.maximum(law, 0)
        law /= law.sum(-1, keepdims=True)
        after = np.eye(VOCAB)[canvases[step + 1]]
        assert np.all(law[after > 0] > 0), "something happened that never may"
        for group in (canvases[step] == MASK, canvases[step] != MASK):
            observed, expected = after[group].sum(0), law[group].sum(0)
            variance = (law[group] * (1 - law[group])).sum(0)
            usual = variance > 4
            z = (observed - expected)[usual] / np.sqrt(variance[usual])
            assert np.all(np.abs(z) < 4.5), (step, z)
    if name.startswith("remdm"):
        assert np.any((canvases[:-1] != MASK) & (canvases[1:] == MASK)), "some were put back"

    # Noise removal.
    tokens, last = np.asarray(result.tokens), canvases[-1]
    assert np.all((tokens >= 0) & (tokens < MASK))
    np.testing.assert_array_equal(tokens[last != MASK], last[last != MASK])
    best = posterior(tiny, last).argmax(-1)
    left = last == MASK
    if name == "mdlm_analytic":
        assert not left.any() or np.all(posterior(tiny, last)[left, tokens[left]] > 0)
    else:
        np.testing.assert_array_equal(tokens[left], best[left])

    # Cost: a forward for who has masks, and a new canvas where forwards are reused.
    charged, stale = [], np.ones(batch, bool)
    for before, after in zip(canvases, [*canvases[1:], tokens], strict=True):
        charge = np.any(before == MASK, axis=-1) & (stale | (name == "mdlm_analytic"))
        stale = (stale & ~charge) | np.any(before != after, axis=-1)
        charged.append(charge)
    np.testing.assert_array_equal(result.nfe, np.sum(charged, axis=0))
    assert int(result.launches) == np.any(charged, axis=1).sum() == len(seen.take())


def test_analytic_noise_removal_is_a_draw(tiny):
    """One step of length 1 - 1e-5 leaves few masks; with given noise they are found and counted."""
    batch = 500
    uniforms = np.random.default_rng(0).random((2, batch, 4, VOCAB), np.float32)
    uniforms[0, ..., :MASK] = 1e-6  # the step itself reveals nothing: the mask wins
    uniforms[0, ..., MASK] = 1 - 1e-7
    result = sample(
        tiny.logits_fn,
        tiny.params,
        np.zeros((batch, 0), np.int32),
        np.zeros((batch, 0), bool),
        jax.random.split(jax.random.key(1), batch),
        SamplerConfig(4, 1, "mdlm_analytic", 1.0, noise="gumbel_fp64", record_history=True),
        mask_id=MASK,
        uniforms=uniforms,
    )
    assert np.all(np.asarray(result.history.canvas) == MASK)
    law = posterior(tiny, np.full((batch, 4), MASK))
    observed = np.eye(VOCAB)[np.asarray(result.tokens)].sum(0)
    expected, variance = law.sum(0), (law * (1 - law)).sum(0)
    usual = variance > 2
    assert np.all(np.abs(observed - expected)[usual] < 4.5 * np.sqrt(variance[usual]))
    np.testing.assert_array_equal(result.nfe, 2)


def test_independent_of_batch_padding_and_history(draw):
    config = functools.partial(SamplerConfig, 8, 12, "remdm_conf", 1.0, block_length=4)
    whole = draw(config(), rows=range(5))
    part = draw(config(), rows=[3, 1], pad=2)
    np.testing.assert_array_equal(part.tokens[:, 2:], np.asarray(whole.tokens)[[3, 1]])
    np.testing.assert_array_equal(part.nfe, np.asarray(whole.nfe)[[3, 1]])
    recorded = draw(config(record_history=True), rows=range(5))
    np.testing.assert_array_equal(recorded.tokens, whole.tokens)
    np.testing.assert_array_equal(recorded.nfe, whole.nfe)
    assert int(recorded.launches) == int(whole.launches)

    # Blocks: the second waits for the first, whose noise removal shows in the step after.
    canvas, tokens = np.asarray(recorded.history.canvas), np.asarray(whole.tokens)[:, 3:]
    assert canvas.shape == (12, 5, 8)
    assert np.all(canvas[:6, :, 4:] == MASK)
    np.testing.assert_array_equal(canvas[6:, :, :4], tokens[None, :, :4].repeat(6, 0))
    prompt = np.random.default_rng(0).integers(0, MASK, size=(7, 3))[:5]
    np.testing.assert_array_equal(whole.tokens[:, :3], prompt)


def test_eta_zero_samples_as_mdlm_does_and_one_program_serves_all_values(draw, recorder):
    seen = recorder()
    config = functools.partial(SamplerConfig, 8, strategy="remdm_cap")
    run = functools.partial(draw, rows=range(3), logits_fn=seen.logits_fn)
    capped = run(config(num_steps=9, unmask_temp=1.0, eta=0.0))
    traces = seen.traces
    plain = draw(SamplerConfig(8, 9, "mdlm", 1.0), rows=range(3))
    np.testing.assert_array_equal(capped.tokens, plain.tokens)
    np.testing.assert_array_equal(capped.nfe, plain.nfe)
    seen.take()
    for num_steps, temp, eta in ((1, 1.0, None), (40, 0.3, 0.5), (200, 1.0, 1.0)):
        result = run(config(num_steps=num_steps, unmask_temp=temp, eta=eta))
        assert int(result.launches) == len(seen.take()) <= num_steps + 1
        assert not np.any(np.asarray(result.tokens) == MASK)
    assert seen.traces == traces
    # The mask's share belongs to the law, whether or not the network may emit it.
    emitting = draw(SamplerConfig(8, 9, "mdlm", 1.0, suppress_mask_token=False), rows=range(3))
    np.testing.assert_array_equal(emitting.tokens, plain.tokens)


def test_temperature_zero_reveals_the_most_likely(draw, tiny):
    result = draw(SamplerConfig(6, 8, "mdlm", 0.0, record_history=True), rows=range(4))
    tokens = np.asarray(result.tokens)
    prompt = tokens[:, :3]
    canvases = np.concatenate([np.full((1, 4, 6), MASK), np.asarray(result.history.canvas)])
    for before, after in itertools.pairwise(canvases):
        best = posterior(tiny, np.concatenate([prompt, before], 1)).argmax(-1)[:, 3:]
        new = (before == MASK) & (after != MASK)
        np.testing.assert_array_equal(after[new], best[new])


def test_guidance_costs_two(draw, recorder):
    seen = recorder()
    config = SamplerConfig(6, 4, "remdm_rescale", 1.0, cfg_scale=1.5)
    result = draw(config, rows=[2], logits_fn=seen.logits_fn)
    launches = seen.take()
    assert int(result.nfe[0]) == 2 * int(result.launches) == 2 * len(launches)
    assert all(len(tokens) == 2 for tokens in launches)


def test_early_exit_freezes_and_fills(draw):
    """A sample whose first end token has nothing undecided before it is over."""
    config = functools.partial(SamplerConfig, 8, 16, "remdm_cap", 1.0, eta=0.3)
    whole = draw(config(), rows=range(7))
    eos = int(np.bincount(np.asarray(whole.tokens)[:, 3:].ravel()).argmax())
    result = draw(config(eos_policy="early_exit", record_history=True), rows=range(7), eos_id=eos)
    canvas, tokens = np.asarray(result.history.canvas), np.asarray(result.tokens)[:, 3:]
    over = 0
    for row in range(7):
        for step in range(15):
            held = canvas[step, row]
            first = np.argmax(held == eos) if np.any(held == eos) else 8
            if first < 8 and not np.any(held[:first] == MASK):
                np.testing.assert_array_equal(held[first:], eos)
                np.testing.assert_array_equal(canvas[step:, row], held[None].repeat(16 - step, 0))
                np.testing.assert_array_equal(tokens[row], held)
                over += 1
                break
    assert over > 0
    assert int(np.sum(result.nfe)) < int(np.sum(whole.nfe))


def test_stored_noise_needs_a_column_for_the_mask(tiny):
    keys = jax.random.split(jax.random.key(0), 1)
    config = SamplerConfig(4, 2, "mdlm", 1.0, noise="gumbel_fp64")
    with pytest.raises(ValueError, match="one column an id, that of mask_id=13"):
        sample(
            tiny.logits_fn,
            tiny.params,
            np.zeros((1, 0), np.int32),
            np.zeros((1, 0), bool),
            keys,
            config,
            mask_id=13,
            num_ids=13,
            uniforms=np.full((2, 1, 4, VOCAB), 0.5, np.float32),
        )
