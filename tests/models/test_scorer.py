"""The scorer: exact sums, masks, batching, bad rows."""

import functools
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from dlmeval.models import load_scorer, streaming
from dlmeval.samplers.autoregressive import sample_autoregressive


@pytest.fixture(scope="module")
def llama(golden):
    return load_scorer(str(golden("llama"))), np.load(golden("llama/forward.npz"))


def test_nll_matches_the_recorded_log_probabilities(llama):
    model, arrays = llama
    mask = arrays["attention_mask"]
    nll, count = model.nll(arrays["input_ids"], mask.sum(axis=1))
    expected = -(arrays["token_logprobs"] * mask[:, 1:]).sum(axis=1)
    np.testing.assert_allclose(nll, expected, rtol=1e-5)
    assert count.tolist() == (mask.sum(axis=1) - 1).tolist()


def test_hidden_states_match_and_vanish_beyond_a_row(llama):
    model, arrays = llama
    mask = arrays["attention_mask"].astype(bool)
    hidden = model.hidden(arrays["input_ids"], mask.sum(axis=1))
    np.testing.assert_allclose(hidden[mask], arrays["last_hidden_state"][mask], atol=1e-4)
    assert (hidden[~mask] == 0).all()


def test_rows_do_not_depend_on_their_batch(llama, monkeypatch):
    model, _ = llama
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 71, (7, 12))
    lengths = rng.integers(2, 13, 7)
    together = model.nll(ids, lengths)
    alone = [model.nll(ids[i : i + 1, : lengths[i]], lengths[i : i + 1]) for i in range(3)]
    np.testing.assert_allclose(together[0][:3], [a[0][0] for a in alone], rtol=1e-5)
    monkeypatch.setattr(streaming, "_TOKENS_ON_CPU", 36)  # three rows a launch, two spare
    np.testing.assert_allclose(model.nll(ids, lengths)[0], together[0], rtol=1e-5)
    assert model.hidden(ids, lengths).shape == (7, 12, 48)


def test_a_mask_selects_targets(llama):
    model, _ = llama
    ids = np.random.default_rng(1).integers(0, 71, (2, 12))
    lengths = np.array([12, 9])
    left, right = np.zeros((2, 2, 12), bool)
    left[:, :5], right[:, 5:] = True, True
    parts = [model.nll(ids, lengths, m) for m in (left, right)]
    whole = model.nll(ids, lengths)
    np.testing.assert_allclose(parts[0][0] + parts[1][0], whole[0], rtol=1e-5)
    assert (parts[0][1] + parts[1][1]).tolist() == whole[1].tolist() == [11, 8]


def test_rows_of_one_token_score_nothing(llama):
    model, _ = llama
    nll, count = model.nll(np.array([[5, 6]]), np.array([1]))
    assert nll.tolist() == [0.0]
    assert count.tolist() == [0]


@pytest.mark.parametrize(
    ("ids", "lengths", "message"),
    [
        (np.zeros((2, 3)), np.array([3, 3]), "ids must be a non-empty 2-D integer"),
        (np.zeros((0, 3), int), np.zeros(0, int), "non-empty"),
        (np.zeros((2, 3), int), np.array([3]), "lengths must hold 2 integers"),
        (np.zeros((2, 3), int), np.array([3, 4]), r"lengths must lie in 0\.\.3"),
        (np.full((1, 3), 71), np.array([3]), r"ids must lie in 0\.\.70"),
        (np.full((1, 3), -1), np.array([3]), r"ids must lie in 0\.\.70"),
    ],
)
def test_bad_rows(llama, ids, lengths, message):
    with pytest.raises(ValueError, match=message):
        llama[0].nll(ids, lengths)


@pytest.mark.parametrize(
    ("tokens", "token_mask", "message"),
    [
        (np.zeros((3, 4)), np.ones((3, 4), bool), r"tokens must be a 2-D integer array, not float"),
        (np.zeros(4, int), np.ones(4, bool), r"tokens must be .* not int32\(4,\)"),
        (np.zeros((3, 4), int), np.ones((3, 1), bool), r"shape \(3, 1\), tokens \(3, 4\)"),
        (np.zeros((3, 4), int), np.ones((4, 3), bool), r"token_mask has shape \(4, 3\)"),
        (np.zeros((3, 4), int), np.ones((3, 4)), "token_mask must hold truth values, not float32"),
    ],
)
def test_what_the_logits_function_refuses(llama, tokens, token_mask, message):
    model, _ = llama
    call = functools.partial(model.logits_fn, region=slice(0, 1))
    for function in (call, jax.jit(call)):
        with pytest.raises(ValueError, match=message):
            function(model.params, tokens, token_mask)


def test_bad_mask(llama):
    with pytest.raises(ValueError, match="mask has shape"):
        llama[0].nll(np.zeros((1, 3), int), np.array([3]), np.ones((1, 2), bool))


def test_ids_beyond_a_row_are_ignored(llama):
    model, _ = llama
    ids = np.array([[3, 4, 5, -7, 999]])
    clean = np.array([[3, 4, 5, 0, 0]])
    np.testing.assert_array_equal(
        model.nll(ids, np.array([3]))[0], model.nll(clean, np.array([3]))[0]
    )


@pytest.fixture(scope="module")
def gpt2(golden):
    return load_scorer(str(golden("gpt2"))), np.load(golden("gpt2/forward.npz"))


def test_a_network_with_learned_positions_scores_its_own_records(gpt2):
    model, arrays = gpt2
    mask = arrays["attention_mask"]
    nll, count = model.nll(arrays["input_ids"], mask.sum(axis=1))
    expected = -(arrays["token_logprobs"] * mask[:, 1:]).sum(axis=1)
    np.testing.assert_allclose(nll, expected, rtol=1e-5)
    assert count.tolist() == (mask.sum(axis=1) - 1).tolist()


def test_a_row_does_not_depend_on_bucket_order_batch_or_what_lies_behind_it(gpt2, monkeypatch):
    model, _ = gpt2
    rng = np.random.default_rng(2)
    ids, lengths = rng.integers(0, 79, (6, 12)), np.array([12, 3, 9, 12, 1, 6])
    nll, count = model.nll(ids, lengths)
    assert nll.dtype == np.float32
    # Wider rows, hence another bucket, with anything behind them, even what is no id.
    wide = np.concatenate([ids, np.full((6, 28), -5)], axis=1)
    wide[:, 12:20] = 10**6
    again, same = model.nll(wide, lengths)
    np.testing.assert_allclose(again, nll, rtol=1e-5, atol=1e-6)
    assert same.tolist() == count.tolist()
    order = rng.permutation(6)
    np.testing.assert_allclose(
        model.nll(ids[order], lengths[order])[0], nll[order], rtol=1e-5, atol=1e-6
    )
    monkeypatch.setattr(streaming, "_TOKENS_ON_CPU", 12)  # one row a launch
    np.testing.assert_allclose(model.nll(ids, lengths)[0], nll, rtol=1e-5, atol=1e-6)


def test_a_text_longer_than_the_context_is_refused(gpt2):
    model, _ = gpt2
    ids = np.zeros((2, 41), int)
    for score in (model.nll, model.hidden, model.gradient_stats):
        with pytest.raises(ValueError) as caught:
            score(ids, np.array([5, 41]))
        for part in ("row 1 has 41 tokens", "the context of 40", "scoring_windows"):
            assert part in str(caught.value)
    # What lies behind a row does not count.
    assert model.nll(ids, np.array([5, 3]))[1].tolist() == [4, 2]
    with pytest.raises(ValueError, match=r"41 tokens \(prompt and generated\).* context of 40"):
        model.logits_fn(model.params, ids, ids == 0, slice(0, 1))


def test_greedy_text_is_the_argmax_of_each_prefix(gpt2):
    model, _ = gpt2
    prompt = np.array([[0, 0, 5, 9], [3, 7, 1, 2], [0, 0, 0, 4]])
    mask = np.array([[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]], bool)
    drawn = sample_autoregressive(
        model.logits_fn,
        model.params,
        prompt,
        mask,
        jax.random.split(jax.random.key(0), 3),
        gen_length=5,
        unmask_temp=0.0,
        num_ids=model.num_ids,
    )
    assert drawn.nfe.tolist() == [5, 5, 5]
    tokens = np.asarray(drawn.tokens)
    real = np.concatenate([mask, np.ones((3, 5), bool)], axis=1)
    # One forward over the finished text: each position predicts the token that follows it.
    logits = model.logits_fn(model.params, tokens, real, slice(3, 8))
    assert np.asarray(jnp.argmax(logits, axis=-1)).tolist() == tokens[:, 4:].tolist()
    # And the scorer gives that text the sum of those log-probabilities.
    log_p = np.asarray(jax.nn.log_softmax(logits).max(axis=-1)).sum(axis=1)
    row = tokens[1:2]
    targets = np.arange(9)[None] >= 4
    np.testing.assert_allclose(model.nll(row, np.array([9]), targets)[0], -log_p[1:2], rtol=1e-5)


def test_a_number_that_is_not_finite_is_named(golden, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(golden("gpt2"), folder)
    path = folder / "weights.safetensors"
    tensors = safetensors.numpy.load_file(path)
    name = "transformer.wte.weight"
    tensors[name] = np.where(np.arange(79)[:, None] == 7, np.inf, tensors[name])
    safetensors.numpy.save_file(tensors, path)
    with pytest.raises(ValueError, match="gives row 0 a log-likelihood that is not finite"):
        load_scorer(str(folder)).nll(np.full((6, 12), 7), np.full(6, 12))


@pytest.mark.parametrize("mask", [np.ones((1, 3)), np.full((1, 3), np.nan)])
def test_a_mask_holds_truth_values(llama, mask):
    with pytest.raises(ValueError, match="mask must hold truth values, got dtype float64"):
        llama[0].nll(np.zeros((1, 3), int), np.array([3]), mask)
