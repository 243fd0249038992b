"""The whole loop at temperature 0 against a plain NumPy transcription of its definition."""

import math

import numpy as np
import pytest

from dlmeval.samplers import SamplerConfig

LENGTH, MASK = 16, 12


def softmax(logits):
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def remask_scores(strategy, p, canvas):
    if strategy == "high_entropy":
        return -np.sum(np.where(p > 0, p * np.log(np.maximum(p, 1e-300)), 0), axis=-1)
    held = np.where(canvas == MASK, p.argmax(-1), canvas)
    return -p[np.arange(LENGTH), held]


def reference(forward, config):
    """One sample: (canvases after each nominal step, final canvas, number of forwards)."""
    canvas = np.full(LENGTH, MASK)
    calls, canvases = 0, []
    blocks = LENGTH // (config.block_length or LENGTH)
    steps, size = config.num_steps // blocks, LENGTH // blocks
    for block in range(blocks):
        inside = np.arange(LENGTH) // size == block
        for step in range(steps):
            masked = inside & (canvas == MASK)
            if not masked.any():
                canvases.append(canvas.copy())
                continue
            p = softmax(forward(canvas))
            calls += 1
            left = steps - step
            if config.strategy == "none":
                count = math.ceil(masked.sum() / left)
            else:
                count = max(1, masked.sum() // left)
            best = np.where(masked, p.max(-1), -1)
            chosen = np.argsort(-best, kind="stable")[:count]
            canvas[chosen] = p.argmax(-1)[chosen]
            if config.strategy != "none":
                competing = inside if config.pool == "all" else inside & (canvas != MASK)
                score = np.where(competing, remask_scores(config.strategy, p, canvas), -np.inf)
                top = np.argsort(-score, kind="stable")[: int(config.remask_fraction * size)]
                top = [i for i in top if score[i] > -np.inf and canvas[i] != MASK]
                canvas[top] = MASK
                if top:
                    forward(canvas)
                    calls += 1
            canvases.append(canvas.copy())
        masked = inside & (canvas == MASK)
        if masked.any():
            canvas[masked] = forward(canvas).argmax(-1)[masked]
            calls += 1
    return np.stack(canvases), canvas, calls


@pytest.mark.parametrize(
    ("strategy", "num_steps", "options"),
    [
        ("none", 7, {}),
        ("none", 12, {"block_length": 4}),
        ("high_entropy", 8, {"remask_fraction": 0.2}),
        ("high_entropy", 8, {"block_length": 8, "pool": "decided"}),
        ("low_confidence", 16, {"block_length": 8, "remask_fraction": 0.3}),
        ("low_confidence", 6, {"remask_fraction": 0.3, "pool": "decided"}),
    ],
)
def test_loop_follows_its_definition(tiny, draw, strategy, num_steps, options):
    config = SamplerConfig(LENGTH, num_steps, strategy, 0.0, record_history=True, **options)
    result = draw(config, rows=[0, 1])
    params = {name: np.asarray(value, np.float64) for name, value in tiny.params.items()}
    for row in range(2):
        prompt = np.asarray(result.tokens)[row, :3]

        def forward(canvas, prompt=prompt):
            return network(params, np.concatenate([prompt, canvas]))[3:]

        canvases, final, calls = reference(forward, config)
        np.testing.assert_array_equal(result.history.canvas[:, row], canvases)
        np.testing.assert_array_equal(result.tokens[row, 3:], final)
        assert int(result.nfe[row]) == calls


def network(params, tokens):
    """The tiny network in float64, one sequence without padding, the mask suppressed."""
    x = params["embed"][tokens]
    q, k, v = (x @ params[name] for name in ("query", "key", "value"))
    offset = np.arange(len(tokens))
    bias = params["offset"][np.clip(offset[:, None] - offset[None, :], -8, 8) + 8]
    logits = np.tanh(x + softmax(q @ k.T + bias) @ v) @ params["head"]
    logits[:, MASK] = -np.inf
    return logits
