"""Gradient sums of a bank: which rows go in, and when there are none."""

import jax
import numpy as np
import pytest

from dlmeval.evals.scoring.distance_scores import gradient_number
from dlmeval.evals.scoring.gradients import bank_gradients
from dlmeval.evals.scoring.score_settings import ScoreSettings
from dlmeval.evals.scoring.scored import Scored
from dlmeval.models import load_scorer

SETTINGS = ScoreSettings("toy", "0" * 64, 6, gradient_batches=4, gradient_sketch=64)


@pytest.fixture(scope="module")
def scorer():
    return load_scorer("embedded:kjv-scorer")


@pytest.fixture(scope="module")
def bank():
    """Eleven rows; row 3 has one token, hence no target."""
    rng = np.random.default_rng(0)
    lengths = np.full(11, 6, np.int32)
    lengths[3] = 1
    ids = rng.integers(5, 200, (11, 6)).astype(np.int32)
    nothing = np.zeros(11)
    return Scored(np.arange(11), ids, lengths, nothing, nothing, ids[:, :2], [b""] * 11)


def test_equal_batches_of_the_rows_that_have_targets(bank, scorer):
    found = bank_gradients(bank, scorer, SETTINGS)
    rows = [0, 1, 2, 4, 5, 6, 7, 8]
    expected = scorer.gradient_stats(bank.ids[rows], bank.lengths[rows], batch_size=2, sketch=64)
    assert found.num_rows == 8
    assert found.stats.num_batches == 4
    for ours, theirs in zip(jax.tree.leaves(found.stats), jax.tree.leaves(expected), strict=True):
        assert isinstance(ours, np.ndarray | float | int | np.generic), "sums stay on the host"
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


def test_nothing_where_nothing_is_asked_for_and_a_reason_where_texts_are_too_few(bank, scorer):
    unset = ScoreSettings("toy", "0" * 64, 6)
    assert bank_gradients(bank, scorer, unset) is None
    assert bank_gradients(bank, object(), SETTINGS) is None
    few = Scored(*(part[:4] for part in bank))  # three rows with targets, four batches
    none = bank_gradients(few, scorer, SETTINGS)
    assert none == (None, 3)
    name, score = gradient_number(
        none._replace(num_rows=9), none._replace(num_rows=8), "", SETTINGS
    )
    assert (name, score.value) == ("gradient_moment", None)
    assert score.reason == "8 texts with a target cannot be cut into 4 mini-batches"
