"""Attention by blocks against its definition in float64, and against the other program."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.models import attention
from dlmeval.models.attention import attend

WIDTH = 4


def inputs(t, heads, groups, *, b=2, seed=0):
    rng = np.random.default_rng(seed)
    q, k, v = (
        rng.standard_normal((b, t, n, WIDTH)).astype(np.float32) for n in (heads, groups, groups)
    )
    return 2 * q, 2 * k, v


def compiled(causal):
    return jax.jit(functools.partial(attend, causal=causal))


def padding(t, side, b=2):
    """One row whole, the others padded on a side."""
    mask = np.ones((b, t), bool)
    pads = max(1, t // 3)
    if side == "left":
        mask[1:, :pads] = False
    if side == "right":
        mask[1:, -pads:] = False
    return mask


def definition(q, k, v, token_mask, causal):
    """softmax(q kᵀ / √w) v in float64, head by head; NaN where a query sees no key."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    b, t, heads, width = q.shape
    seen = np.broadcast_to(token_mask[:, None, :], (b, t, t))
    seen = seen & np.tril(np.ones((t, t), bool)) if causal else seen
    out = np.empty(q.shape)
    for h in range(heads):
        g = h // (heads // k.shape[2])
        scores = q[:, :, h] @ k[:, :, g].swapaxes(1, 2) / np.sqrt(width)
        with np.errstate(invalid="ignore", divide="ignore"):
            weight = np.where(seen, np.exp(scores - scores.max(-1, keepdims=True)), 0.0)
            out[:, :, h] = weight / weight.sum(-1, keepdims=True) @ v[:, :, g]
    return out


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of eight queries from the first length on, so that short rows show all cases."""
    monkeypatch.setattr(attention, "_BLOCK", 8)
    monkeypatch.setattr(attention, "_SHORT", 1)


# Whole blocks, one query more or less; grouped queries; an odd number of heads, and a prime one.
SHAPES = [(7, 2, 2), (8, 6, 2), (9, 3, 1), (16, 4, 4), (17, 5, 5), (1, 9, 3), (23, 4, 1)]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("t", "heads", "groups"), SHAPES)
def test_blocks_equal_the_definition(t, heads, groups, causal):
    q, k, v = inputs(t, heads, groups)
    run = compiled(causal)
    for side in ("none", "left", "right"):
        token_mask = padding(t, side)
        found = np.asarray(run(q, k, v, token_mask))
        assert found.shape == q.shape
        assert found.dtype == np.float32
        assert np.isfinite(found).all()
        expected = definition(q, k, v, token_mask, causal)
        told = np.isfinite(expected)
        assert told[token_mask].all()
        np.testing.assert_allclose(found[told], expected[told], atol=2e-6, rtol=2e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("t", [191, 192, 256, 257])
def test_lengths_about_the_thresholds(t, causal):
    q, k, v = inputs(t, 2, 1, b=1)
    token_mask = padding(t, "none", b=1)
    token_mask[:, 100:130] = False
    found = compiled(causal)(q, k, v, token_mask)
    expected = definition(q, k, v, token_mask, causal)
    np.testing.assert_allclose(found, expected, atol=2e-6, rtol=2e-5)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("causal", [False, True])
def test_both_programs_agree_with_gradients(causal, monkeypatch):
    q, k, v = inputs(19, 6, 2)
    token_mask = jnp.asarray(padding(19, "left"))
    weight = (
        np.random.default_rng(1).standard_normal(q.shape) * np.asarray(token_mask)[:, :, None, None]
    )

    def both():
        def loss(q, k, v):
            return (attend(q, k, v, token_mask, causal=causal) * weight).sum()

        return jax.jit(jax.value_and_grad(loss, (0, 1, 2)))(q, k, v)

    blocks = both()
    monkeypatch.setattr(attention, "_SHORT", 1 << 30)
    whole = both()
    for a, b in zip(jax.tree.leaves(blocks), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5)
    for gradient in blocks[1]:
        assert np.abs(gradient).max() > 0.1


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("causal", [False, True])
def test_rows_without_any_valid_key_stay_finite(causal):
    q, k, v = (jnp.asarray(x) for x in inputs(11, 2, 2))
    token_mask = jnp.asarray(padding(11, "none")).at[1].set(False)

    def loss(q, k, v):
        out = attend(q, k, v, token_mask, causal=causal)
        return jnp.where(token_mask[:, :, None, None], out, 0.0).sum(), out

    (_, out), gradients = jax.jit(jax.value_and_grad(loss, (0, 1, 2), has_aux=True))(q, k, v)
    assert np.isfinite(out).all()
    for gradient in gradients:
        assert np.isfinite(gradient).all()
        assert (np.asarray(gradient)[1] == 0).all()


@pytest.mark.usefixtures("small_blocks")
def test_a_row_does_not_depend_on_what_its_pads_hold():
    q, k, v = inputs(17, 4, 2)
    token_mask = padding(17, "left")
    run = compiled(True)
    clean = np.asarray(run(q, k, v, token_mask))
    for x in (q, k, v):
        x[~token_mask] = 1e4
    np.testing.assert_array_equal(
        np.asarray(run(q, k, v, token_mask))[token_mask], clean[token_mask]
    )


@pytest.mark.usefixtures("small_blocks")
def test_large_scores_do_not_overflow():
    q, k, v = inputs(9, 2, 2)
    found = compiled(False)(100 * q, 100 * k, v, padding(9, "none"))
    expected = definition(100 * q, 100 * k, v, padding(9, "none"), False)
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("short", [1, 1 << 30])
def test_bfloat16_in_bfloat16_out_with_scores_in_float32(short, monkeypatch):
    monkeypatch.setattr(attention, "_BLOCK", 8)
    monkeypatch.setattr(attention, "_SHORT", short)
    q, k, v = (jnp.asarray(x, jnp.bfloat16) for x in inputs(21, 4, 2))
    token_mask = padding(21, "right")
    found = compiled(True)(q, k, v, token_mask)
    assert found.dtype == jnp.bfloat16
    wide = (np.asarray(x.astype(jnp.float32)) for x in (q, k, v))
    expected = definition(*wide, token_mask, True)
    told = np.broadcast_to(token_mask[:, :, None, None], expected.shape)
    np.testing.assert_allclose(np.asarray(found, np.float32)[told], expected[told], atol=0.03)
