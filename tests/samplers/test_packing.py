"""Needed rows in chunks, runs of the vocabulary, and the confidences built on them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

from dlmeval.samplers import packing
from dlmeval.samplers.packing import map_needed
from dlmeval.samplers.ranking import confidence
from dlmeval.samplers.runs import largest, two_largest


@pytest.mark.parametrize("entries", [1, 24, 40, 1000])
def test_needed_rows_get_their_own_result(entries):
    rng = np.random.default_rng(entries)
    x = rng.normal(size=(3, 7, 4)).astype(np.float32)
    needed = rng.random((3, 7)) < 0.5
    needed[1], needed[2] = False, True  # a sample that needs nothing, one that needs all
    for wanted in (needed, None):
        got = map_needed(lambda a: (a[0].sum(-1), a[1]), (x, x[..., 0]), wanted, entries=entries)
        which = needed if wanted is not None else np.ones_like(needed)
        np.testing.assert_allclose(np.asarray(got[0])[which], x.sum(-1)[which], rtol=1e-6)
        np.testing.assert_array_equal(np.asarray(got[1])[which], x[..., 0][which])


def test_rows_that_nobody_needs_are_not_touched():
    seen = []

    def noted(rows):
        io_callback(lambda r: seen.extend(r[:, 0].tolist()), None, rows)
        return rows.sum(-1)

    x = jnp.arange(24.0).reshape(2, 12, 1) * jnp.ones(5)
    needed = np.zeros((2, 12), bool)
    needed[0, [1, 5, 8]] = True
    needed[1, [0, 2]] = True
    jax.block_until_ready(jax.jit(lambda x: map_needed(noted, x, needed, entries=20))(x))
    jax.effects_barrier()
    # Chunks of two positions a sample: two chunks, for the three of the first sample.
    assert len(seen) == 8
    assert {1, 5, 8, 12, 14} <= set(seen)
    seen.clear()
    jax.block_until_ready(jax.jit(lambda x: map_needed(noted, x, needed & False, entries=20))(x))
    jax.effects_barrier()
    assert seen == []


@pytest.mark.parametrize("vocab", [1, 5, 128, 1100, 1280])
def test_largest_entries(vocab):
    rng = np.random.default_rng(vocab)
    rows = rng.integers(0, 2 + vocab // 3, size=(40, vocab)).astype(np.float32)  # many ties
    rows[0] = -np.inf
    rows[1, : vocab // 2] = -np.inf
    best, peak = largest(jnp.asarray(rows))
    assert best.dtype == jnp.int32
    np.testing.assert_array_equal(best, rows.argmax(-1))
    np.testing.assert_array_equal(peak, rows.max(-1))
    first, second = two_largest(jnp.asarray(rows))
    ranked = np.sort(np.pad(rows, ((0, 0), (1, 0)), constant_values=-np.inf), axis=-1)
    np.testing.assert_array_equal(first, ranked[:, -1])
    np.testing.assert_array_equal(second, ranked[:, -2])


@pytest.mark.parametrize("vocab", [6, 1300])
def test_confidences_against_float64(vocab, monkeypatch):
    rng = np.random.default_rng(vocab)
    logits = rng.normal(size=(2, 9, vocab)).astype(np.float32).astype(float) * 4
    logits[:, :, 2:4] = -np.inf
    logits[0, 0, 1:] = -np.inf  # certain
    logits[1, 1, :2] = logits[1, 1].max() + 1  # tied
    logits[1, 2, 0] = 40.0  # all but certain
    tokens = rng.integers(0, vocab, size=(2, 9))
    p = np.exp(logits - logits.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    ranked = np.sort(p, axis=-1)
    expected = {
        "probability": np.take_along_axis(p, tokens[..., None], axis=-1)[..., 0],
        "entropy": np.where(p > 0, p * np.log(np.where(p > 0, p, 1.0)), 0.0).sum(-1),
        "margin": ranked[..., -1] - ranked[..., -2],
    }
    monkeypatch.setitem(packing._ENTRIES, "cpu", 4 * 2 * vocab)  # chunks of four positions
    needed = rng.random((2, 9)) < 0.5
    scores, ids = jnp.asarray(logits, jnp.float32), jnp.asarray(tokens, jnp.int32)
    norm = jax.nn.logsumexp(scores, axis=-1)
    for kind, values in expected.items():
        got = confidence(kind, scores, ids)
        assert got.dtype == jnp.float32
        np.testing.assert_allclose(got, values, rtol=2e-5, atol=1e-9)
        some = confidence(kind, scores, ids, log_norm=norm, needed=needed)
        np.testing.assert_allclose(np.asarray(some)[needed], values[needed], rtol=2e-5, atol=1e-9)
    with pytest.raises(ValueError, match=r"'top'.*choose probability"):
        confidence("top", scores, ids)


@pytest.mark.parametrize("kind", ["probability", "entropy", "margin"])
def test_confidences_hold_no_second_copy_of_the_logits(kind):
    logits = jax.ShapeDtypeStruct((1, 256, 49_152), jnp.float32)
    tokens = jax.ShapeDtypeStruct((1, 256), jnp.int32)
    compiled = jax.jit(confidence, static_argnums=0).lower(kind, logits, tokens).compile()
    extra = compiled.memory_analysis().temp_size_in_bytes
    assert extra < 0.5 * logits.size * 4
