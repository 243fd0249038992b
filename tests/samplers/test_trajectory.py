"""Churn, stability and cell classes of hand-made and of real histories."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.samplers import (
    CELL_CLASSES,
    History,
    SamplerConfig,
    StepNotes,
    classify_cells,
    eos_use,
    never_settled,
    recommit_change,
    replacement_rate,
    sample,
    stable_cells,
    step_notes,
    tie_rate,
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


def test_second_thoughts_by_hand():
    assert never_settled(BY_HAND).tolist() == [2]  # put back at the end; decided in the last step
    # 2 became 3 in place; 4 was put back and came again; 1 never came back.
    np.testing.assert_allclose(recommit_change(BY_HAND), [1 / 2])
    still = History(jnp.full((3, 2, 4), M), M)
    assert recommit_change(still).tolist() == [0, 0]


def test_eos_use_by_hand():
    use = eos_use(jnp.array([[5, 0, 3, 0], [0, 0, 0, 0], [1, 2, 3, 4]]), 0)
    assert use.empty.tolist() == [False, True, False]
    assert use.length.tolist() == [1, 0, 4]
    assert use.share.tolist() == [0.5, 1, 0]
    with pytest.raises(ValueError, match=r"shape \[4\]"):
        eos_use(jnp.zeros(4), 0)


def positional(logits, num_steps, **options):
    """The history of one sample from fixed logits by position."""

    def fixed(params, tokens, token_mask, region):
        return jnp.broadcast_to(params, (tokens.shape[0], *params.shape))

    empty = np.zeros((1, 0), int)
    keys = jax.random.split(jax.random.key(0), 1)
    strategy = options.pop("strategy", "none")
    config = SamplerConfig(len(logits), num_steps, strategy, 0.0, record_history=True, **options)
    mask_id = logits.shape[-1]
    return sample(fixed, logits, empty, empty, keys, config, mask_id=mask_id).history


def test_notes_say_what_the_network_thought():
    p = np.array([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.9, 0.05, 0.05], [0.6, 0.2, 0.2]])
    notes = step_notes(positional(jnp.log(jnp.asarray(p, jnp.float32)), 2))
    h = -(p * np.log(p)).sum(axis=1)
    assert notes.ran[:, 0].tolist() == [True, True]
    np.testing.assert_allclose(notes.entropy[:, 0], [h.mean(), h[[1, 3]].mean()], rtol=1e-5)
    np.testing.assert_allclose(notes.confidence[:, 0], [0.8, 0.55], rtol=1e-5)
    assert notes.tied[:, 0].tolist() == [False, False]
    idle = step_notes(positional(jnp.log(jnp.asarray(p, jnp.float32)), 6))
    assert idle.ran[:, 0].tolist() == [True] * 4 + [False] * 2
    assert idle.entropy[4:, 0].tolist() == [0, 0]


def test_ties_are_counted_where_they_decide():
    """Saturated confidences: positions 0, 1 and 3 are certain, 2 is not."""
    logits = jnp.array([[200.0, 0, 0], [200.0, 0, 0], [1.0, 0, 0], [200.0, 0, 0]])
    history = positional(logits, 4)
    # Steps 0 and 1 choose among equals; step 2 has one certain position left, step 3 one at all.
    assert step_notes(history).tied[:, 0].tolist() == [True, True, False, False]
    np.testing.assert_allclose(tie_rate(history), [0.5])
    order = np.asarray(history.canvas[:, 0] != 3).argmax(axis=0)
    assert order.tolist() == [0, 1, 3, 2]
    assert positional(logits, 1).notes.tied.tolist() == [[False]], "all revealed: nothing to choose"


@pytest.mark.parametrize("strategy", ["p2", "threshold", "high_entropy"])
def test_notes_of_other_strategies_are_finite(strategy):
    logits = jax.random.normal(jax.random.key(2), (8, 5))
    notes = step_notes(positional(logits, 4, strategy=strategy))
    assert isinstance(notes, StepNotes)
    assert notes.ran.any()
    assert np.all(np.isfinite(notes.entropy))
    assert np.all(np.asarray(notes.entropy) >= 0)
    ran = np.asarray(notes.ran)
    assert np.all(np.asarray(notes.entropy)[ran] > 0)


def test_refusals():
    with pytest.raises(ValueError, match="no notes"):
        tie_rate(BY_HAND)
    with pytest.raises(ValueError, match="at least two"):
        replacement_rate(History(BY_HAND.canvas[:1], M))
    with pytest.raises(ValueError, match="record_history=True"):
        stable_cells(None)
    with pytest.raises(ValueError, match=r"shape \[4, 4\]"):
        classify_cells(History(BY_HAND.canvas[:, 0], M))
