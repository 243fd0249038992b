"""SmolLM2-135M as published in GGUF: ids, likelihoods and perplexity of the real file."""

import json
import os
import pathlib

import jax
import numpy as np
import pytest

from dlmeval.models import load_scorer


@pytest.fixture(scope="module")
def scorer():
    folder = pathlib.Path(os.environ.get("DLMEVAL_WEIGHTS", "~/.cache/dlmeval/weights"))
    path = folder.expanduser() / "smollm2-135m.gguf"
    if not path.is_file():
        pytest.skip(f"{path.name} not found (set DLMEVAL_WEIGHTS to the folder that holds it)")
    return load_scorer(f"gguf:{path}")


@pytest.fixture(scope="module")
def reference(shared):
    """Three texts, and what transformers 5.24 on the same file said of their first 128 ids."""
    folder = shared("data/real-model-outputs")
    texts = json.loads((folder / "goldens.json").read_text(encoding="utf-8"))["lm_texts"]
    outputs = np.load(folder / "smollm2-135m-q4_1.npz")
    names = ("ids", "nll", "logits_last")
    return texts, {name: np.stack([outputs[f"{name}{i}"] for i in range(3)]) for name in names}


def test_ids_equal_those_of_transformers(scorer, reference):
    texts, expected = reference
    for text, ids in zip(texts, expected["ids"], strict=True):
        ours = scorer.tokenizer.encode(text)
        assert ours[: len(ids)] == ids.tolist()
        assert scorer.tokenizer.decode(ours) == text
    assert scorer.tokenizer.encode("<|im_end|>") == [scorer.eos_id]
    assert (scorer.bos_id, scorer.num_ids) == (1, 49152)


def test_likelihood_of_every_token_equals_that_of_transformers(scorer, reference):
    """To rounding: the largest difference measured is 4e-5 nats a token."""
    ids = reference[1]["ids"].astype(np.int32)
    everywhere = slice(0, ids.shape[1])
    logits = jax.jit(lambda *inputs: scorer.logits_fn(*inputs, everywhere))(
        scorer.params, ids, np.ones(ids.shape, bool)
    )
    np.testing.assert_allclose(logits[:, -1], reference[1]["logits_last"], atol=2e-3)
    logp = np.asarray(jax.nn.log_softmax(logits))
    nll = -np.take_along_axis(logp[:, :-1], ids[:, 1:, None], axis=-1)[..., 0]
    np.testing.assert_allclose(nll, reference[1]["nll"], atol=2e-3)
    sums, counts = scorer.nll(ids, np.full(3, ids.shape[1]))
    np.testing.assert_allclose(sums / counts, reference[1]["nll"].mean(axis=1), atol=2e-4)


def test_wikitext_is_far_likelier_than_its_words_shuffled(scorer, shared):
    lines = shared("data/wikitext-2/test.txt").read_text(encoding="utf-8").splitlines()
    texts = [line.strip() for line in lines if len(line) > 1100][:3]
    rng = np.random.default_rng(0)
    shuffled = [" ".join(rng.permutation(text.split(" "))) for text in texts]
    ids = np.array([scorer.tokenizer.encode(text)[:128] for text in texts + shuffled], np.int32)
    sums, counts = scorer.nll(ids, np.full(6, 128))
    perplexity = np.exp(sums.reshape(2, 3).sum(axis=1) / counts.reshape(2, 3).sum(axis=1))
    assert 40 < perplexity[0] < 100  # measured: 68 against 573
    assert perplexity[1] > 5 * perplexity[0]
