"""Canvases recorded from LLaDA's published generate.py on tiny random weights, step by step."""

import jax
import numpy as np
import pytest

from dlmeval.models import load_denoiser
from dlmeval.samplers import SamplerConfig, sample

CONFIDENCE_RUNS = (
    "n16_b16",
    "n8_b16",
    "n5_b16",
    "n8_b8",
    "n16_b4",
    "n6_b8",
    "n32_b16",
    "n8_b16_cfg15",
    "n8_b8_pad",
    "n8_b8_pad_cfg15",
)


@pytest.fixture(scope="module")
def peaked(golden):
    return load_denoiser(str(golden("llada_peaked")), architecture="llada")


def replay(denoiser, arrays, run, settings, config, uniforms=None):
    """Runs the sampler on a recorded prompt and returns (samples, recorded canvases)."""
    prompt = arrays[f"{run}/prompt"]
    mask = arrays.get(f"{run}/attention_mask", np.ones_like(prompt)).astype(bool)
    samples = sample(
        denoiser.logits_fn,
        denoiser.params,
        prompt,
        mask,
        jax.random.split(jax.random.key(0), len(prompt)),
        config,
        mask_id=60,
        uniforms=uniforms,
    )
    return samples, arrays[f"{run}/canvases"][:, :, prompt.shape[1] :]


@pytest.mark.parametrize("run", CONFIDENCE_RUNS)
def test_confidence_order_reproduces_every_canvas(run, peaked, recorded):
    arrays, settings = recorded("llada_generate")
    settings = settings[run]
    config = SamplerConfig(
        settings["gen_length"],
        settings["steps"],
        "none",
        0.0,
        block_length=settings["block_length"],
        cfg_scale=settings.get("cfg_scale", 0.0),
        suppress_mask_token=False,
        skip_idle=False,
        record_history=True,
    )
    samples, canvases = replay(peaked, arrays, run, settings, config)
    np.testing.assert_array_equal(samples.history.canvas, canvases[1:])
    np.testing.assert_array_equal(samples.tokens, arrays[f"{run}/final"])
    assert int(samples.launches) == settings["n_forward_calls"]
    per_launch = 2 if "cfg_scale" in settings else 1
    np.testing.assert_array_equal(samples.nfe, per_launch * settings["n_forward_calls"])


@pytest.mark.parametrize("pace", ["ceil", "table"])
def test_skipping_idle_steps_changes_the_cost_alone(pace, peaked, recorded):
    arrays, settings = recorded("llada_generate")
    config = SamplerConfig(
        16, 32, "none", 0.0, pace=pace, suppress_mask_token=False, record_history=True
    )
    samples, canvases = replay(peaked, arrays, "n32_b16", settings["n32_b16"], config)
    np.testing.assert_array_equal(samples.history.canvas, canvases[1:])
    assert samples.nfe.tolist() == [16]


@pytest.mark.parametrize("run", ["T0.1", "T0.25", "T0.5", "T1.0"])
def test_stored_noise_reproduces_every_canvas(run, peaked, recorded):
    arrays, settings = recorded("llada_generate_temperature")
    settings = settings[run]
    config = SamplerConfig(
        settings["gen_length"],
        settings["steps"],
        "none",
        settings["temperature"],
        block_length=settings["block_length"],
        noise="gumbel_fp64",
        suppress_mask_token=False,
        record_history=True,
    )
    uniforms = arrays[f"{run}/u"][:, None, -settings["gen_length"] :]
    samples, canvases = replay(peaked, arrays, run, settings, config, uniforms)
    np.testing.assert_array_equal(samples.history.canvas, canvases[1:])


@pytest.mark.parametrize("run", ["n8_b16", "n16_b8", "n32_b16"])
def test_emitted_masks_use_up_the_quota_and_may_survive(run, golden, recorded):
    denoiser = load_denoiser(str(golden("llada_generate_mask_emission")), architecture="llada")
    arrays, settings = recorded("llada_generate_mask_emission")
    settings = settings[run]
    config = SamplerConfig(
        settings["gen_length"],
        settings["steps"],
        "none",
        0.0,
        block_length=settings["block_length"],
        pace="table",
        suppress_mask_token=False,
        skip_idle=False,
        record_history=True,
    )
    samples, canvases = replay(denoiser, arrays, run, settings, config)
    np.testing.assert_array_equal(samples.history.canvas, canvases[1:])
    assert (np.asarray(samples.tokens) == 60).sum() == settings["masks_left_in_final"]
    assert int(samples.launches) == settings["n_forward_calls"]


def test_suppressing_the_mask_leaves_none_behind(golden, recorded):
    denoiser = load_denoiser(str(golden("llada_generate_mask_emission")), architecture="llada")
    arrays, settings = recorded("llada_generate_mask_emission")
    config = SamplerConfig(16, 8, "none", 0.0)
    samples, canvases = replay(denoiser, arrays, "n8_b16", settings["n8_b16"], config)
    assert not np.any(np.asarray(samples.tokens) == 60)
    assert np.any(np.asarray(samples.tokens[:, -16:]) != canvases[-1])
