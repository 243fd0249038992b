"""The scorer: exact sums, masks, batching, bad rows."""

import numpy as np
import pytest

from dlmeval.models import load_scorer
from dlmeval.models import scorer as scorer_module


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
    alone = [model.nll(ids[i : i + 1, : lengths[i]], lengths[i : i + 1]) for i in range(7)]
    np.testing.assert_allclose(together[0], [a[0][0] for a in alone], rtol=1e-5)
    monkeypatch.setattr(scorer_module, "_TOKENS_PER_LAUNCH", 36)  # three rows a launch, one spare
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
