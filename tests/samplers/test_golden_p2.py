"""Canvases recorded from Open-dLLM's P2 (and its Dream-like orders) on tiny random weights."""

import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.models import load_denoiser
from dlmeval.samplers import SamplerConfig, get_strategy


@pytest.fixture(scope="module")
def peaked(golden):
    return load_denoiser(str(golden("dream_peaked")), architecture="dream")


RUNS = (
    *("p2_n5", "p2_n8", "p2_n16", "p2_n20"),
    *("maskgit_plus_n32", "entropy_n32", "topk_margin_n32"),
)


@pytest.mark.parametrize("run", RUNS)
def test_every_canvas_is_reproduced(run, peaked, recorded, replay):
    """The published loop stops when no mask is left; until then it runs idle steps, we do not."""
    arrays, settings = recorded("p2_generate")
    settings, canvases = settings[run], arrays[f"{run}/canvases"]
    name = {"maskgit_plus": "maskgit"}.get(settings["alg"], settings["alg"])
    samples = replay(peaked, canvases[0][:, :5], name, settings["steps"], 16)
    calls = len(canvases) - 1
    kept = np.asarray(samples.history.canvas)
    np.testing.assert_array_equal(kept[:calls], canvases[1:, :, 5:])
    np.testing.assert_array_equal(kept[calls:], np.broadcast_to(kept[-1], kept[calls:].shape))
    np.testing.assert_array_equal(samples.tokens, canvases[-1])
    revealing = np.any(canvases[1:] != canvases[:-1], axis=(1, 2)).sum()
    assert samples.nfe.tolist() == [calls if name == "p2" else revealing]


def test_p2_counts_editable_positions(peaked, recorded, replay):
    """The second row ends in three fixed tokens: to the sampler, part of the network."""
    arrays, _ = recorded("p2_generate")
    canvases = arrays["p2_n8_batch2_unequal/canvases"][:, 1:]
    suffix = canvases[0, :, -3:]

    def with_suffix(params, tokens, token_mask, region):
        tokens = jnp.concatenate([tokens, jnp.asarray(suffix)], axis=1)
        token_mask = jnp.concatenate([token_mask, jnp.ones_like(suffix, dtype=bool)], axis=1)
        return peaked.logits_fn(params, tokens, token_mask, region)

    samples = replay(peaked, canvases[0][:, :5], "p2", 8, 13, logits_fn=with_suffix)
    np.testing.assert_array_equal(samples.history.canvas, canvases[1:, :, 5:-3])


def test_the_count_is_rounded_in_float32():
    plan = get_strategy("p2").plan
    counts = plan(SamplerConfig(20, 10, "p2", 0.0))
    assert counts[8] == 2, "20 (1 - 0.9) is 1.9999999999999996 in float64"
    for length, steps in ((16, 5), (128, 96), (7, 40)):
        counts = plan(SamplerConfig(length, steps, "p2", 0.0))
        kappa = [(i + 1) / steps for i in range(steps)]
        expected = [int(np.float32(length) * np.float32(1 - k)) for k in kappa]
        assert counts.tolist() == expected
        assert counts[-1] == 0, "no mask is left behind"


def test_p2_ends_without_masks_at_any_temperature(draw):
    for steps, temp in ((5, 0.0), (7, 1.0)):
        config = SamplerConfig(16, steps, "p2", temp, record_history=True)
        samples = draw(config)
        masks = np.sum(np.asarray(samples.history.canvas) == 12, axis=-1)
        assert np.all(masks[-1] == 0)
        assert np.all(np.asarray(samples.nfe) == steps), "no fill is needed"
        planned = get_strategy("p2").plan(config)[:, None]
        np.testing.assert_array_equal(masks, np.broadcast_to(planned, masks.shape))
