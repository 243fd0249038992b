"""Canvases recorded from PRISM's llada_inference; RemeDi's step against a loop in NumPy.

The published code gives every row the same total length and starts blocks at each row's prompt,
so that its last block may be cut short. Ours are whole: columns beyond the recorded length are
hidden from the network, and the steps of whole blocks are compared.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.models.decoder import hidden_states, project
from dlmeval.models.denoiser import load_denoiser
from dlmeval.models.loading import load_network
from dlmeval.samplers import SamplerConfig, get_strategy

PAD, MASK = 57, 60


@pytest.fixture(scope="module")
def judged(golden, recorded):
    """Makes the peaked network with the recorded quality head, which sees columns below `ends`."""
    network = load_network(str(golden("llada_peaked")), "denoiser", "float32", None, "llada")
    arrays, _ = recorded("prism_llada")
    shape, head, bias = network.spec.network, arrays["head_w"][:, 0], arrays["head_b"]

    def make(ends):
        def logits_fn(params, tokens, token_mask, region):
            seen = token_mask & (jnp.arange(tokens.shape[1]) < jnp.asarray(ends)[:, None])
            hidden = hidden_states(shape, params, tokens, seen)[:, region]
            return project(shape, params, hidden), {"quality": hidden @ head + bias}

        return logits_fn

    return make


@pytest.fixture(scope="module")
def peaked(golden):
    return load_denoiser(str(golden("llada_peaked")), architecture="llada")


@pytest.mark.parametrize(
    ("run", "gen_length", "blocks"),
    [("r0", 18, 1), ("r5_n4_1blk", 18, 1), ("r4_n8_b8", 24, 2), ("r3_batch2", 24, 1)],
)
def test_every_canvas_of_whole_blocks(run, gen_length, blocks, peaked, judged, recorded, replay):
    arrays, settings = recorded("prism_llada")
    settings, padded = settings[run], arrays[f"{run}/prompt_right_padded"]
    lengths = np.sum(padded != PAD, axis=1)
    width = lengths.max()
    prompt = np.full((len(padded), width), PAD)
    for row, length in enumerate(lengths):
        prompt[row, width - length :] = padded[row, :length]
    block = min(settings["block_length"], gen_length)
    samples = replay(
        peaked,
        prompt,
        "prism",
        settings["steps"],
        gen_length,
        mask=prompt != PAD,
        logits_fn=judged(settings["max_length"] + width - lengths),
        block_length=block,
        remask_fraction=(settings["num_remasking"] + 0.5) / block,
    )
    steps, wide = blocks * settings["steps"] * block // gen_length, blocks * block
    kept = np.asarray(samples.history.canvas)[:steps, :, :wide]
    for row, length in enumerate(lengths):
        expected = arrays[f"{run}/canvases"][1 : steps + 1, row, length : length + wide]
        np.testing.assert_array_equal(kept[:, row], expected)
    if blocks * block == gen_length:
        assert samples.nfe.tolist() == [settings["n_forward_calls"]]


def test_the_budget_is_centred():
    def plan(steps, length, budget):
        config = SamplerConfig(length, steps, "prism", 0.0, remask_fraction=(budget + 0.5) / length)
        assert config.num_remask == budget
        return get_strategy("prism").plan(config).tolist()

    assert plan(6, 18, 5) == [1, 1, 1, 1, 1, 0]
    assert plan(8, 8, 4) == [0, 0, 1, 1, 1, 1, 0, 0]
    assert plan(5, 16, 7) == [1, 2, 2, 1, 1]
    assert plan(4, 16, 0) == [0] * 4


def test_prism_without_a_quality_head_is_refused(draw):
    with pytest.raises(ValueError, match=r"'prism'.*quality"):
        draw(SamplerConfig(8, 4, "prism", 0.0))


def test_remedi_holds_what_is_judged_best(judged, peaked, replay):
    """7 tokens a block over 3 steps: 2, 4 and 7 are held, the extra one in the last step."""
    network, prompt = judged([20]), np.array([[21, 6, 8, 32, 7, 1]])
    samples = replay(peaked, prompt, "remedi", 6, 14, block_length=7, logits_fn=network)
    canvas, seen = np.full((1, 14), MASK), []
    for step in range(6):
        start, held = 7 * (step // 3), (2, 4, 7)[step % 3]
        tokens = np.concatenate([prompt, canvas], axis=1)
        logits, aux = network(peaked.params, tokens, np.ones_like(tokens, bool), slice(6, 20))
        block = slice(start, start + 7)
        drawn = np.where(canvas == MASK, np.argmax(logits, axis=-1), canvas)[0, block]
        keep = np.argsort(-np.asarray(aux["quality"])[0, block], kind="stable")[:held]
        canvas = canvas.copy()
        canvas[0, block] = MASK
        canvas[0, start + keep] = drawn[keep]
        seen.append(canvas)
    np.testing.assert_array_equal(samples.history.canvas, seen)
    assert samples.nfe.tolist() == [6]
    before, after = np.array(seen[:-1]), np.array(seen[1:])
    assert np.any((before != MASK) & (after == MASK)), "some tokens went back"
