"""Churn, stability and cell classes of hand-made and of real histories."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.samplers import (
    CELL_CLASSES,
    History,
    SamplerConfig,
    classify_cells,
    replacement_rate,
    sample,
    stable_cells,
)

M = 9
BY_HAND = History(
    jnp.array([[[1, M, M, 4]], [[1, 2, M, M]], [[1, 3, M, 4]], [[M, 3, 5, 4]]]), mask_id=M
)


def test_classes_by_hand():
    masked, unmasked, stable, replaced = range(4)
    assert CELL_CLASSES == ("masked", "unmasked", "stable", "replaced")
    assert classify_cells(BY_HAND)[:, 0].tolist() == [
        [stable, masked, masked, stable],  # decided in the first canvas counts as stable
        [stable, unmasked, masked, replaced],
        [stable, replaced, masked, unmasked],  # changed in place
        [replaced, stable, unmasked, stable],
    ]


def test_rate_and_stability_by_hand():
    np.testing.assert_allclose(replacement_rate(BY_HAND), [3 / (3 * 4)])
    assert stable_cells(BY_HAND).tolist() == [6]


def test_one_by_one_over_128_steps_gives_8129_stable_cells():
    logits = jax.random.normal(jax.random.key(0), (128, 5)) * 4

    def fixed(params, tokens, token_mask, region):
        return jnp.broadcast_to(params, (tokens.shape[0], *params.shape))

    empty = np.zeros((1, 0), int)
    config = SamplerConfig(128, 128, "none", 0.0, record_history=True)
    keys = jax.random.split(jax.random.key(0), 1)
    history = sample(fixed, logits, empty, empty, keys, config, mask_id=5).history
    assert stable_cells(history).tolist() == [8129]
    assert replacement_rate(history).tolist() == [0]
    counts = np.bincount(np.asarray(classify_cells(history)).ravel(), minlength=4)
    assert counts.tolist() == [128 * 127 // 2, 127, 8129, 0]


def test_refusals():
    with pytest.raises(ValueError, match="at least two"):
        replacement_rate(History(BY_HAND.canvas[:1], M))
    with pytest.raises(ValueError, match="record_history=True"):
        stable_cells(None)
    with pytest.raises(ValueError, match=r"shape \[4, 4\]"):
        classify_cells(History(BY_HAND.canvas[:, 0], M))
