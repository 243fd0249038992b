"""Code lengths of a corpus: closed forms, an oracle by hand, and agreement of their parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.evals.corpora import heldout
from dlmeval.evals.corpora.corpus import Corpus
from dlmeval.models import decoder, load_denoiser, load_scorer, published, text_tokens

TEXTS = ("the cat sat on the mat, and the cat slept", "a dog ran", "the dog sat " * 9)
CORPUS = Corpus("texts", TEXTS, "")
NUM_BYTES = sum(len(t) for t in TEXTS)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    tokenizer = text_tokens.train_bpe(TEXTS, 280)
    loaded = []
    for family, causal in (("llama", True), ("llada", False)):
        folder = tmp_path_factory.mktemp(family)
        config = decoder.DecoderConfig(
            281, 16, 1, 2, 2, 24, causal=causal, tie_embeddings=True, rope_theta=100.0
        )
        params = decoder.init_params(config, jax.random.key(1))
        params["embed"] = params["embed"] * 30  # far from uniform
        ids = {"eos_token_id": 0} | ({} if causal else {"mask_token_id": 280})
        published.save_pretrained(folder, family, config, params, tokenizer, ids)
        loaded.append((load_scorer if causal else load_denoiser)(str(folder)))
    return loaded


def flat(model):
    """The same model with a head that ignores everything: uniform over its ids."""
    params = dict(model.params, embed=jnp.zeros_like(model.params["embed"]))
    return params


def test_the_stream_puts_end_of_text_around_every_document(models):
    scorer, _ = models
    stream = heldout.token_stream(CORPUS, scorer.tokenizer, 0)
    assert (stream == 0).sum() == len(TEXTS) + 1
    assert stream[0] == stream[-1] == 0
    assert scorer.tokenizer.decode(stream).split("<|endoftext|>")[1:-1] == list(TEXTS)


def test_one_window_is_the_chain_rule(models):
    scorer, _ = models
    stream = heldout.token_stream(CORPUS, scorer.tokenizer, 0)
    result = heldout.causal_code_length(scorer, CORPUS, length=len(stream), stride=1)
    nll, count = scorer.nll(stream[None], np.array([len(stream)]))
    assert result.num_tokens == count[0] == len(stream) - 1
    assert result.num_bytes == NUM_BYTES
    np.testing.assert_allclose(result.bits_per_byte, nll[0] / np.log(2) / NUM_BYTES, rtol=1e-5)


@pytest.mark.parametrize(("length", "stride"), [(16, 8), (16, 15), (24, 5), (64, 1)])
def test_every_token_is_coded_once_with_enough_context(models, length, stride):
    scorer, _ = models
    stream = heldout.token_stream(CORPUS, scorer.tokenizer, 0)
    seen = []

    def nll(rows, lengths, mask):
        for row, n, m in zip(rows, lengths, mask, strict=True):
            targets = np.flatnonzero(m)
            assert (targets < n).all()
            assert not seen or targets.size == 0 or targets.min() >= length - stride
            seen.extend(row[targets])
        return np.ones(len(rows)), mask.sum(axis=1)

    result = heldout.causal_code_length(
        scorer._replace(nll=nll), CORPUS, length=length, stride=stride
    )
    assert seen == stream[1:].tolist()
    assert result.num_tokens == len(stream) - 1


def test_a_uniform_denoiser_needs_log_v_a_token(models):
    _, denoiser = models
    uniform = denoiser._replace(params=flat(denoiser))
    result = heldout.masked_code_length(uniform, CORPUS, length=16, draws=2)
    np.testing.assert_allclose(result.nats_per_token, np.log(280), rtol=1e-5)  # no mask id
    assert result.stderr < 1e-6
    stream = heldout.token_stream(CORPUS, denoiser.tokenizer, 0)
    assert result.num_tokens == len(stream)


def test_the_bound_is_reproducible_and_its_error_covers_other_masks(models):
    _, denoiser = models
    run = [
        heldout.masked_code_length(denoiser, CORPUS, length=16, draws=8, seed=s) for s in (0, 0, 1)
    ]
    assert run[0] == run[1] != run[2]
    assert abs(run[0].bits_per_byte - run[2].bits_per_byte) < 4 * run[0].stderr


def test_bad_arguments(models):
    scorer, denoiser = models
    with pytest.raises(ValueError, match=r"stride must lie in 1\.\.15"):
        heldout.causal_code_length(scorer, CORPUS, length=16, stride=16)
    with pytest.raises(ValueError, match="needs a tokenizer"):
        heldout.masked_code_length(denoiser._replace(tokenizer=None), CORPUS)
