"""A small network that really attends, and ways to count how often it runs."""

import functools
import json
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

from dlmeval.samplers import SamplerConfig, sample

VOCAB, MASK = 13, 12


class TinyNetwork(NamedTuple):
    """logits_fn and params of a one-layer attention network with relative positions."""

    logits_fn: Any
    params: Any
    mask_id: int = MASK
    vocab: int = VOCAB


def attend(params, tokens, token_mask, region):
    x = params["embed"][tokens]
    q, k, v = (x @ params[name] for name in ("query", "key", "value"))
    offset = jnp.arange(tokens.shape[1])
    bias = params["offset"][jnp.clip(offset[:, None] - offset[None, :], -8, 8) + 8]
    scores = jnp.where(token_mask[:, None, :], q @ k.transpose(0, 2, 1) + bias, -jnp.inf)
    # Rows of padding may look at padding; they are ignored but must stay finite.
    scores = jnp.where(token_mask[:, :, None], scores, 0.0)
    x = x + jax.nn.softmax(scores, axis=-1) @ v
    return (jnp.tanh(x) @ params["head"])[:, region]


def judge(params, tokens, token_mask, region):
    """The same network with a quality head: how probable it finds each token it is shown."""
    logits = attend(params, tokens, token_mask, region)
    shown = tokens[:, region, None]
    quality = jnp.take_along_axis(jax.nn.log_softmax(logits), shown, axis=-1)
    return logits, {"quality": quality[..., 0]}


def weights():
    """Weights chosen so that samples differ and no comparison is closer than rounding."""
    rng = np.random.default_rng(17)
    width = 16
    shapes = {"embed": (VOCAB, width), "head": (width, VOCAB), "offset": (17,)}
    shapes |= {name: (width, width) for name in ("query", "key", "value")}
    scale = {"head": 0.7, "offset": 4.0, "query": 0.3, "key": 0.3, "value": 0.5}
    return {
        name: jnp.asarray(rng.normal(size=shape) * scale.get(name, 1.0), jnp.float32)
        for name, shape in shapes.items()
    }


def draw_rows(
    logits_fn, params, config, *, rows=(0, 1), seed=0, width=3, pad=0, place=lambda x: x, **kwargs
):
    """sample() for some `rows` of a notional batch of 7 with prompts of `width`.

    `pad` adds columns of padding on the left; `place` puts the keys on devices.
    """
    rows = list(rows)
    prompt = np.random.default_rng(seed).integers(0, MASK, size=(7, width))[rows]
    return sample(
        logits_fn,
        params,
        np.pad(prompt, ((0, 0), (pad, 0)), constant_values=5),
        np.pad(np.ones_like(prompt, dtype=bool), ((0, 0), (pad, 0))),
        place(jax.random.split(jax.random.key(seed), 7)[np.array(rows)]),
        config,
        mask_id=MASK,
        **kwargs,
    )


def standard_config(name, **changes):
    """Two blocks of 8 tokens and 4 steps, hot enough that samples differ."""
    settings = {"block_length": 8, "remask_fraction": 0.3} | changes
    return SamplerConfig(16, 8, name, 0.7, **settings)


@pytest.fixture(scope="session")
def tiny():
    return TinyNetwork(attend, weights())


@pytest.fixture(scope="session")
def draw(tiny):
    """draw_rows() on the tiny network, or on another of the same parameters."""

    def run(config, *, logits_fn=None, **kwargs):
        return draw_rows(logits_fn or tiny.logits_fn, tiny.params, config, **kwargs)

    return run


@pytest.fixture(scope="session")
def standard(tiny):
    """The recorded run of three samples that the tests of all strategies look at, made once."""

    @functools.cache
    def run(name):
        config = standard_config(name, record_history=True)
        return draw_rows(judge, tiny.params, config, rows=[0, 1, 2])

    return run


class Recorder:
    """Wraps a logits function; notes the tokens of every launch that really happened."""

    def __init__(self, logits_fn):
        self.seen, self.traces = [], 0

        def wrapped(params, tokens, token_mask, region):
            self.traces += 1
            io_callback(self._note, None, tokens, ordered=True)
            return logits_fn(params, tokens, token_mask, region)

        self.logits_fn = wrapped

    def _note(self, tokens):
        self.seen.append(np.array(tokens))

    def take(self):
        """The launches since the last call, as a list of token arrays."""
        jax.effects_barrier()
        seen, self.seen = self.seen, []
        return seen


@pytest.fixture(scope="session")
def recorder():
    """Makes a fresh recorder around the tiny network with its quality head."""
    return lambda: Recorder(judge)


@pytest.fixture(scope="session")
def recorded(golden):
    """Arrays and settings of one folder of recorded canvases."""

    def load(folder):
        with np.load(golden(f"{folder}/canvases.npz")) as arrays:
            contents = dict(arrays)
        return contents, json.loads(golden(f"{folder}/settings.json").read_text())

    return load


@pytest.fixture(scope="session")
def replay():
    """sample() from a denoiser without suppressing its mask token, as published codes run."""

    def run(denoiser, prompt, name, steps, length, *, mask=None, logits_fn=None, **settings):
        prompt = np.asarray(prompt)
        changes = {"record_history": True, "suppress_mask_token": False} | settings
        return sample(
            logits_fn or denoiser.logits_fn,
            denoiser.params,
            prompt,
            np.ones_like(prompt, dtype=bool) if mask is None else np.asarray(mask, bool),
            jax.random.split(jax.random.key(0), len(prompt)),
            SamplerConfig(length, steps, name, 0.0, **changes),
            mask_id=denoiser.mask_id,
        )

    return run
