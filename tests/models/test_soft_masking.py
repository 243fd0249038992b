"""Soft masks against three steps worked by hand, closed forms, and the networks they wrap."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.models import load_denoiser
from dlmeval.models.soft_masking import (
    SoftMasking,
    feedback,
    soft_masked,
    soft_masked_logits,
)

VOCAB, MASK, WIDTH = 6, 5, 4
REGION = slice(2, 6)


def small(params, tokens, token_mask, region, *, embeddings=None):
    """Each position looks at itself and at the mean of the tokens."""
    x = params["embed"][tokens] if embeddings is None else embeddings
    real = token_mask[..., None]
    mean = jnp.sum(x * real, axis=1, keepdims=True) / jnp.sum(real, axis=1, keepdims=True)
    return (jnp.tanh(x + mean) @ params["head"])[:, region]


@pytest.fixture(scope="module")
def params():
    rng = np.random.default_rng(5)
    shapes = {"embed": (VOCAB, WIDTH), "head": (WIDTH, VOCAB)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def by_hand(params, canvases, settings):
    """The logits of successive canvases in float64, from whole distributions of the last ones."""
    table, head = (params[name].astype(np.float64) for name in ("embed", "head"))
    past, results = None, []
    for canvas in canvases:
        x = np.array([table[token] for token in canvas])
        for i, token in enumerate(canvas):
            if past is None or token != MASK or i not in past:
                continue
            p = past[i]
            entropy = -sum(q * np.log(q) for q in p)
            mix = 1 / (1 + np.exp(-settings.steepness * (-entropy - settings.centre)))
            mix *= settings.scale
            best = sorted(range(VOCAB), key=lambda j: -p[j])[: settings.top_k]
            remembered = sum(p[j] * table[j] for j in best) / sum(p[j] for j in best)
            x[i] = (1 - mix) * table[MASK] + mix * remembered
        logits = np.tanh(x + x.mean(axis=0)) @ head
        weights = np.exp(logits)
        laws = weights / weights.sum(axis=1, keepdims=True)
        # What stood at a decided position is not remembered.
        inside = range(REGION.start, REGION.stop)
        past = {i: laws[i] for i in inside if canvas[i] == MASK}
        results.append(logits[REGION])
    return results


@pytest.mark.parametrize(
    "settings", [SoftMasking(), SoftMasking(0.9, -1.5, 2.0, 3), SoftMasking.from_raw(1.2, 0.3, 0.5)]
)
def test_steps_agree_with_those_worked_by_hand(params, settings):
    """A token is revealed, then put back, on the way."""
    canvases = np.array(
        [
            [[1, 3, 5, 5, 5, 5], [1, 3, 5, 2, 5, 5], [1, 3, 4, 5, 5, 5], [1, 3, 4, 5, 0, 5]],
            [[0, 2, 5, 5, 5, 5], [0, 2, 5, 5, 5, 1], [0, 2, 3, 3, 5, 1], [0, 2, 3, 5, 5, 1]],
        ]
    )
    stateful = soft_masked_logits(small, MASK, settings)
    carry = settings.initial_carry(2, 4)
    expected = [by_hand(params, rows, settings) for rows in canvases]
    for step in range(4):
        canvas = canvases[:, step]
        logits, carry = stateful(params, canvas, np.ones((2, 6), bool), REGION, carry=carry)
        np.testing.assert_allclose(logits, [rows[step] for rows in expected], atol=2e-6)
    hard = small(params, canvases[:, 3], jnp.ones((2, 6), bool), REGION)
    assert np.abs(logits - hard).max() > 0.01


def test_the_share_follows_entropy():
    settings = SoftMasking(0.4, -1.0, 5.0, 2)
    logits = np.full((1, 4, 8), -np.inf, np.float32)
    logits[0, 0, 3] = 7.0  # certain: H = 0
    logits[0, 1, :] = 2.0  # knows nothing: H = ln 8
    logits[0, 2, [1, 6]] = [0.0, np.log(3.0)]  # H of (1/4, 3/4)
    logits[0, 3, 3] = 7.0  # certain, but decided
    given = feedback(jnp.asarray(logits), jnp.array([[True, True, True, False]]), settings)

    def mixing(entropy):
        return 0.4 / (1 + np.exp(-5.0 * (1.0 - entropy)))

    entropy = np.log(4) - 0.75 * np.log(3)
    np.testing.assert_allclose(given.share.sum(-1)[0, 0], mixing(0.0), rtol=1e-5)
    np.testing.assert_allclose(given.share.sum(-1)[0, 1], mixing(np.log(8)), rtol=1e-5)
    expected = mixing(entropy) * np.array([0.75, 0.25])
    np.testing.assert_allclose(given.share[0, 2], expected, rtol=1e-5)
    assert given.ids[0, 2].tolist() == [6, 1]
    assert int(given.ids[0, 0, 0]) == 3
    assert given.share[0, 3].tolist() == [0, 0]


@pytest.mark.parametrize("name", ["llada", "dream"])
def test_with_nothing_left_of_the_mask_the_canvas_is_as_good_as_filled(golden, name):
    """λ = 1 and k = 1 make a mask the embedding of the likeliest token, shifted logits or not."""
    model = load_denoiser(str(golden(name)))
    settings = SoftMasking(1.0, -1e6, 1.0, 1)
    soft = soft_masked(model, settings)
    assert soft.logits_fn is soft_masked(model, settings).logits_fn
    tokens = np.random.default_rng(0).integers(0, 20, size=(2, 9))
    tokens[:, 4:] = model.mask_id
    tokens[1, 6] = 7
    mask = np.ones_like(tokens, bool)
    mask[0, :2] = False
    region = slice(4, 9)
    softly, plainly = (
        jax.jit(functools.partial(m.logits_fn, region=region)) for m in (soft, model)
    )
    first, carry = softly(soft.params, tokens, mask, carry=settings.initial_carry(2, 5))
    hard = plainly(model.params, tokens, mask)
    np.testing.assert_allclose(first, hard, atol=1e-5)
    second, _ = softly(soft.params, tokens, mask, carry=carry)
    held = tokens[:, region]
    filled = tokens.copy()
    filled[:, region] = np.where(held == model.mask_id, np.argmax(hard, axis=-1), held)
    expected = plainly(model.params, filled, mask)
    np.testing.assert_allclose(second, expected, atol=1e-5)
    assert np.abs(expected - hard).max() > 1e-2


def test_rows_do_not_depend_on_their_batch_or_padding(golden):
    model = load_denoiser(str(golden("dream")), dtype="bfloat16")
    settings = SoftMasking(0.8, -3.0, 1.0, 3)
    soft = soft_masked(model, settings)
    tokens = np.full((3, 10), model.mask_id)
    tokens[:, :4] = np.random.default_rng(1).integers(0, 20, size=(3, 4))
    mask = np.ones_like(tokens, bool)

    @jax.jit
    def two_steps(tokens, mask):
        region = slice(tokens.shape[1] - 6, tokens.shape[1])
        carry = settings.initial_carry(len(tokens), 6)
        for _ in range(2):
            logits, carry = soft.logits_fn(soft.params, tokens, mask, region, carry=carry)
        return logits

    together = two_steps(tokens, mask)
    assert together.dtype == np.float32
    assert np.isfinite(together).all()
    pads = ((0, 0), (3, 0))
    alone = two_steps(np.pad(tokens[1:2], pads), np.pad(mask[1:2], pads))
    np.testing.assert_allclose(alone[0], together[1], atol=0.02)


def test_raw_numbers_become_settings_as_in_training():
    raw = np.array([-2.0, 3.0, 0.5])
    settings = SoftMasking.from_raw(*raw)
    assert settings.top_k == 3
    sigmoid, softplus = jax.nn.sigmoid(raw), jax.nn.softplus(raw)
    np.testing.assert_allclose(
        [settings.scale, settings.centre, settings.steepness],
        [sigmoid[0], -softplus[1], softplus[2]],
        rtol=1e-6,
    )
    extreme = SoftMasking.from_raw(1e4, 1e4, -1e4)
    assert (extreme.scale, extreme.centre, extreme.steepness) == (1.0, -1e4, 0.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale": 1.5}, "scale=1.5"),
        ({"centre": np.inf}, "centre=inf"),
        ({"steepness": -1.0}, "steepness=-1.0"),
        ({"top_k": 0}, "top_k=0"),
        ({"top_k": 2.0}, "top_k=2.0"),
    ],
)
def test_settings_out_of_range_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        SoftMasking(**changes)


def test_what_cannot_be_masked_softly_is_refused(golden, params):
    with pytest.raises(ValueError, match="mdlm model; soft masking needs a decoder"):
        soft_masked(load_denoiser(str(golden("mdlm")), architecture="mdlm"))
    settings = SoftMasking(top_k=2)
    stateful = soft_masked_logits(small, MASK, settings)
    canvas, mask = np.full((1, 6), MASK), np.ones((1, 6), bool)
    for carry in (None, settings.initial_carry(1, 3), SoftMasking().initial_carry(1, 4)):
        with pytest.raises(ValueError, match=r"region \[1, 4\] with top_k=2"):
            stateful(params, canvas, mask, REGION, carry=carry)
    with pytest.raises(ValueError, match="top_k=9 exceeds the 6 logits"):
        feedback(jnp.zeros((1, 2, 6)), jnp.ones((1, 2), bool), SoftMasking(top_k=9))


def test_the_card_holds_the_settings():
    settings = SoftMasking(scale=0.5, top_k=2)
    denoiser = load_denoiser("embedded:kjv-denoiser")
    config = soft_masked(denoiser, settings).card.config
    assert config.pop("soft_masking") == {
        "scale": 0.5,
        "centre": -1.0,
        "steepness": 5.0,
        "top_k": 2,
    }
    assert config == denoiser.card.config
