"""A small network that really attends, and ways to count how often it runs."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

from dlmeval.samplers import sample

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


@pytest.fixture(scope="session")
def tiny():
    """Weights chosen so that samples differ and no comparison is closer than rounding."""
    rng = np.random.default_rng(17)
    width = 16
    shapes = {"embed": (VOCAB, width), "head": (width, VOCAB), "offset": (17,)}
    shapes |= {name: (width, width) for name in ("query", "key", "value")}
    scale = {"head": 0.7, "offset": 4.0, "query": 0.3, "key": 0.3, "value": 0.5}
    params = {
        name: jnp.asarray(rng.normal(size=shape) * scale.get(name, 1.0), jnp.float32)
        for name, shape in shapes.items()
    }
    return TinyNetwork(attend, params)


@pytest.fixture(scope="session")
def draw(tiny):
    """sample() on the tiny network.

    `rows` picks samples of a notional batch of 7 with prompts of `width`; `pad` adds columns of
    padding on the left.
    """

    def run(config, *, rows=(0, 1), seed=0, width=3, pad=0, logits_fn=None, **kwargs):
        rows = list(rows)
        prompt = np.random.default_rng(seed).integers(0, MASK, size=(7, width))[rows]
        mask = np.ones_like(prompt, dtype=bool)
        return sample(
            logits_fn or tiny.logits_fn,
            tiny.params,
            np.pad(prompt, ((0, 0), (pad, 0)), constant_values=5),
            np.pad(mask, ((0, 0), (pad, 0))),
            jax.random.split(jax.random.key(seed), 7)[np.array(rows)],
            config,
            mask_id=MASK,
            **kwargs,
        )

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
def recorder(tiny):
    """Makes a fresh recorder around the tiny network."""
    return lambda: Recorder(tiny.logits_fn)
