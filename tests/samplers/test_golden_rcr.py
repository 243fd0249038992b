"""Canvases recorded from MDPO's diffusion_generate, with and without RCR, and its schedule."""

import numpy as np
import pytest

from dlmeval.models import load_denoiser
from dlmeval.samplers import SamplerConfig, get_strategy

RUNS = (
    "low_confidence_n8_b16",
    "entropy_n8_b16",
    "topk_margin_n8_b16",
    "low_confidence_n6_b8",
    "low_confidence_cosine_n8_b16",
    "low_confidence_n16_b16",
)
CONFIDENCE = {"low_confidence": "probability", "entropy": "entropy", "topk_margin": "margin"}


@pytest.fixture(scope="module")
def peaked(golden):
    return load_denoiser(str(golden("llada_peaked")), architecture="llada")


@pytest.mark.parametrize("run", RUNS)
def test_rcr_reproduces_every_canvas(run, peaked, recorded, replay):
    arrays, settings = recorded("mdpo_rcr")
    run, settings = f"rcr_{run}", settings[f"rcr_{run}"]
    samples = replay(
        peaked,
        arrays[f"{run}/prompt"],
        "rcr_mdpo",
        settings["steps"],
        16,
        block_length=settings["block_length"],
        confidence=CONFIDENCE[settings["conf_alg"]],
        schedule=settings["mode"],
    )
    canvases = arrays[f"{run}/canvases"][:, :, -16:]
    np.testing.assert_array_equal(samples.history.canvas, canvases[1:])
    np.testing.assert_array_equal(samples.tokens[:, -16:], arrays[f"{run}/final"])
    assert samples.nfe.tolist() == [settings["n_forward_calls"]] == [int(samples.launches)]


def test_finished_blocks_are_reopened(recorded):
    """The recorded run itself puts back a token of the first block during the second."""
    arrays, _ = recorded("mdpo_rcr")
    first = arrays["rcr_low_confidence_n6_b8/canvases"][3:, 0, 6:14]
    assert not np.any(first[0] == 60)
    assert np.any(first[1:] == 60)


@pytest.mark.parametrize("alg", CONFIDENCE)
def test_without_rcr_it_is_lladas_order_by_another_confidence(alg, peaked, recorded, replay):
    arrays, settings = recorded("mdpo_rcr")
    run = f"plain_{alg}_n8_b16"
    samples = replay(peaked, arrays[f"{run}/prompt"], "none", 8, 16, confidence=CONFIDENCE[alg])
    canvases = arrays[f"{run}/canvases"][:, :, -16:]
    np.testing.assert_array_equal(samples.history.canvas, canvases[1:])
    assert samples.nfe.tolist() == [settings[run]["n_forward_calls"]]


def mdpo_left(length, steps, mode):
    """Masks left after each step, in Python floats, one number at a time."""
    left = []
    for i in range(steps):
        ratio = 1 - (i + 1) / steps if mode == "linear" else np.cos(np.pi / 2 * ((i + 1) / steps))
        left.append(int(np.floor(length * min(max(ratio, 1e-6), 1.0))))
    return [*left[:-1], 0]


@pytest.mark.parametrize("mode", ["linear", "cosine"])
@pytest.mark.parametrize(("length", "steps"), [(12, 12), (16, 5), (16, 8), (100, 37), (128, 200)])
def test_counts_are_mdpos(length, steps, mode):
    config = SamplerConfig(length, steps, "rcr_mdpo", 0.0, schedule=mode)
    plan = get_strategy("rcr_mdpo").plan(config)
    assert plan.tolist() == mdpo_left(length, steps, mode)
    assert plan.dtype == np.int32
    if mode == "linear" and length == steps == 12:
        assert plan[4] == 6, "12 (1 - 5 / 12) is 6.999999999999999 in float64"


def test_counts_are_those_of_the_recorded_runs(recorded):
    arrays, settings = recorded("mdpo_rcr")
    for run in RUNS:
        run, setting = f"rcr_{run}", settings[f"rcr_{run}"]
        config = SamplerConfig(
            16,
            setting["steps"],
            "rcr_mdpo",
            0.0,
            block_length=setting["block_length"],
            schedule=setting["mode"],
        )
        later = (16 - (np.arange(config.num_blocks) + 1) * config.tokens_per_block)[:, None]
        expected = get_strategy("rcr_mdpo").plan(config) + later
        masks = np.sum(arrays[f"{run}/canvases"][1:, 0] == 60, axis=-1)
        np.testing.assert_array_equal(masks, expected.ravel())
