"""Canvases recorded from Fast-dLLM's published generate.py (no cache) on tiny random weights."""

import numpy as np
import pytest

from dlmeval.models import load_denoiser


@pytest.fixture(scope="module")
def peaked(golden):
    return load_denoiser(str(golden("llada_peaked")), architecture="llada")


@pytest.mark.parametrize(
    "run", ["th35_b16", "th35_b8", "th60_b16", "th60_b8", "th90_b16", "th90_b8"]
)
def test_threshold_reproduces_every_canvas(run, peaked, recorded, replay):
    """The published loop leaves a block when it is full; skipped steps repeat the last canvas."""
    arrays, settings = recorded("fastdllm_generate")
    settings = settings[run]
    samples = replay(
        peaked,
        arrays[f"{run}/prompt"],
        "threshold",
        settings["steps"],
        settings["gen_length"],
        block_length=settings["block_length"],
        threshold=settings["threshold"],
    )
    assert samples.nfe.tolist() == [settings["nfe"]]
    assert int(samples.launches) == settings["nfe"]
    canvases = arrays[f"{run}/canvases"][:, 0, -settings["gen_length"] :]
    per_block = settings["steps"] * settings["block_length"] // settings["gen_length"]
    ran = np.concatenate(  # the steps that were due: the first ones of each block
        [block * per_block + np.arange(np.sum(arrays[f"{run}/block_of_call"] == block))
         for block in range(settings["steps"] // per_block)]
    )  # fmt: skip
    kept = np.asarray(samples.history.canvas)[:, 0]
    np.testing.assert_array_equal(kept[ran], canvases[1:])
    np.testing.assert_array_equal(samples.tokens, arrays[f"{run}/final"])


def test_without_a_threshold_it_is_lladas_order(peaked, recorded, replay):
    arrays, settings = recorded("fastdllm_generate")
    samples = replay(peaked, arrays["nothr_n8_b16/prompt"], "none", 8, 16)
    canvases = arrays["nothr_n8_b16/canvases"][:, :, -16:]
    np.testing.assert_array_equal(samples.history.canvas, canvases[1:])
    assert samples.nfe.tolist() == [settings["nothr_n8_b16"]["nfe"]]


def test_too_few_steps_end_in_the_fill(peaked, recorded, replay):
    """Three steps reveal what nine would begin with; the fill takes the rest at once."""
    arrays, _ = recorded("fastdllm_generate")
    prompt, canvases = arrays["th60_b16/prompt"], arrays["th60_b16/canvases"][:, :, -16:]
    samples = replay(peaked, prompt, "threshold", 3, 16, threshold=0.6)
    np.testing.assert_array_equal(samples.history.canvas, canvases[1:4])
    assert samples.nfe.tolist() == [4]
    assert not np.any(np.asarray(samples.tokens) == peaked.mask_id)
