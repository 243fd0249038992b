"""A tiny world for pipeline tests: letters as tokens, random networks, text from a word list.

Run as a script it is a small quickstart run, for tests that kill it:

    python tests/evals/toy_world.py WORKDIR
"""

import dataclasses
import functools
import sys
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dlmeval.evals.corpora.corpus import Corpus, documents_digest
from dlmeval.evals.pipeline import run_experiment
from dlmeval.evals.sources import Sources
from dlmeval.models import Recipe

NUM_LETTERS = 95  # the printable ASCII characters
EOS_ID, MASK_ID, VOCAB = 95, 96, 97
WIDTH = 16
WORDS = "and the lord said unto moses speak thou of all this people in their land".split()
TOY_CONFIG = {
    "denoiser": "toy:denoiser",
    "scorer": "toy:scorer",
    "reference": "toy:heldout",
    "training": "toy:train",
    "gen_length": 16,
    "num_samples": 16,
    "seeds": (0, 1),
    "strategies": ("none", "high_entropy"),
    "unmask_temps": (0.0, 1.0),
    "num_steps": (8,),
    "topk_iid": 8,
    "mirror": 8,
    "periodic": 8,
    "phrase_bank": 20,
    "num_null_banks": 1,
    "num_trajectories": 2,
    "num_mauve_seeds": 2,
    "batch_size": 8,
    "shard_size": 8,
}

# Banks of the rebenchmark that no denoiser draws: a corpus of its own and naive samplers.
CONTENDERS = {
    "denoiser": None,
    "scorer": "toy:scorer",
    "reference": "toy:heldout",
    "training": "toy:train",
    "autoregressive": False,
    "external": ("copied=toy:elsewhere",),
    "gen_length": 16,
    "num_samples": 8,
    "num_null_banks": 0,
    "topk_iid": (8,),
    "mirror": (),
    "periodic": (4,),
    "phrase_bank": (),
    "num_mauve_seeds": 1,
    "batch_size": 8,
}


class Letters(NamedTuple):
    """A tokenizer whose tokens are printable characters."""

    def encode(self, text):
        return [ord(letter) - 32 for letter in text if 32 <= ord(letter) < 127]

    def decode(self, ids):
        return "".join(chr(i + 32) if i < NUM_LETTERS else "<|endoftext|>" for i in ids)


def neighbour_logits(params, tokens, token_mask, region):
    """A denoiser that looks at both neighbours of a position."""
    hidden = params["embed"][tokens] * token_mask[..., None]
    left = jnp.pad(hidden, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    right = jnp.pad(hidden, ((0, 0), (0, 1), (0, 0)))[:, 1:]
    return ((left @ params["left"] + right @ params["right"]) @ params["embed"].T)[:, region]


def causal_logits(params, tokens, token_mask, region):
    """A causal network that looks at the last token only."""
    hidden = params["embed"][tokens] * token_mask[..., None]
    return (hidden @ params["left"] @ params["embed"].T)[:, region]


def toy_params(seed):
    rng = np.random.default_rng(seed)
    shapes = {"embed": (VOCAB, WIDTH), "left": (WIDTH, WIDTH), "right": (WIDTH, WIDTH)}
    params = {k: rng.normal(size=s).astype(np.float32) / WIDTH**0.25 for k, s in shapes.items()}
    params["embed"][EOS_ID] = 0.0
    return jax.tree.map(jnp.asarray, params)


def toy_denoiser(seed=0):
    return SimpleNamespace(
        logits_fn=neighbour_logits,
        params=toy_params(seed),
        mask_id=MASK_ID,
        eos_id=EOS_ID,
        num_ids=EOS_ID + 1,
        tokenizer=Letters(),
        card=SimpleNamespace(digests={"model.safetensors": f"{seed:064x}"}),
    )


def toy_scorer(seed=1):
    params = toy_params(seed)

    @jax.jit
    def nll(ids, lengths, mask):
        logits = causal_logits(params, ids, jnp.ones_like(ids, bool), slice(0, ids.shape[1] - 1))
        losses = -jnp.take_along_axis(jax.nn.log_softmax(logits), ids[:, 1:, None], -1)[..., 0]
        scored = mask[:, 1:] & (jnp.arange(1, ids.shape[1]) < lengths[:, None])
        return (losses * scored).sum(1), scored.sum(1)

    @jax.jit
    def hidden(ids, lengths):
        embedded = params["embed"][ids]
        left = jnp.pad(embedded, ((0, 0), (1, 0), (0, 0)))[:, :-1]
        return jnp.tanh(embedded + left @ params["left"])

    return SimpleNamespace(
        nll=nll,
        hidden=hidden,
        logits_fn=causal_logits,
        params=params,
        bos_id=None,
        eos_id=EOS_ID,
        num_ids=EOS_ID + 1,
        tokenizer=Letters(),
        card=SimpleNamespace(digests={"model.safetensors": f"{seed:064x}"}),
    )


def toy_encoder(seed=2, width=12):
    """Counts of letters, projected and scaled to length 1; an empty text has no features."""
    projection = np.random.default_rng(seed).normal(size=(NUM_LETTERS, width))

    def encode(texts):
        assert all(texts)
        counts = [np.bincount(Letters().encode(t), minlength=NUM_LETTERS) for t in texts]
        rows = np.asarray(counts) @ projection
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    return SimpleNamespace(
        encode=encode,
        recipe=Recipe("mean", True, "", 512),
        card=SimpleNamespace(digests={"model.safetensors": f"{seed:064x}"}),
    )


def toy_corpus(source, num_documents=30):
    if not source.startswith("toy:"):
        raise ValueError(f"corpus {source!r} is unknown")
    rng = np.random.default_rng(len(source))
    documents = tuple(" ".join(rng.choice(WORDS, 60)) for _ in range(num_documents))
    return Corpus(source, documents, documents_digest(documents))


def toy_sources(**loaders):
    """Loaders of the toy world, any of them replaced."""
    known = {
        "load_denoiser": lambda source: toy_denoiser(),
        "load_scorer": lambda source: toy_scorer(),
        "load_encoder": lambda source: toy_encoder(),
        "load_corpus": functools.cache(toy_corpus),
    }
    return Sources(**(known | loaders))


def silent_sources():
    """Loaders of the toy world whose networks must not be run."""

    def unused(*_):
        raise AssertionError("this needs no forward")

    def silenced(maker):
        model = maker()
        model.logits_fn = model.nll = model.hidden = unused
        return model

    return toy_sources(
        load_denoiser=lambda _: silenced(toy_denoiser), load_scorer=lambda _: silenced(toy_scorer)
    )


def config_of(experiment, **changes):
    """Settings of the toy world that an experiment has, some of them changed."""
    known = {field.name for field in dataclasses.fields(experiment.Config)}
    return {name: value for name, value in TOY_CONFIG.items() if name in known} | changes


SMALL_CONFIG = TOY_CONFIG | {
    "seeds": (0,),
    "strategies": ("high_entropy",),
    "unmask_temps": (1.0,),
    "shard_size": 4,
    "batch_size": 4,
}

if __name__ == "__main__":
    run_experiment("quickstart", SMALL_CONFIG, sys.argv[1], "sample,score", sources=toy_sources())
