"""Objectives: exact expectations on models small enough to enumerate."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from dlmeval.models import decoder, objectives

CONFIG = decoder.DecoderConfig(6, 8, 1, 2, 2, 12, causal=False, tie_embeddings=True)
MASK_ID = 5


def params_of(config, seed=0):
    params = decoder.init_params(config, jax.random.key(seed))
    return jax.tree.map(lambda x: x * 3.0, params)  # sharper than at initialisation


def exact_bound(params, row):
    """E over k of E over k-subsets of the mean loss of the masked tokens, by enumeration."""
    t = len(row)
    total = 0.0
    for k in range(1, t + 1):
        losses = []
        for subset in itertools.combinations(range(t), k):
            canvas = row.at[jnp.array(subset)].set(MASK_ID)
            logits = decoder.region_logits(
                CONFIG, params, canvas[None], jnp.ones((1, t), bool), slice(0, t)
            )[0]
            log_p = jax.nn.log_softmax(logits[:, :MASK_ID])
            losses.append(-np.mean([log_p[i, row[i]] for i in subset]))
        total += np.mean(losses) / t
    return total


def test_the_bound_is_unbiased():
    params = params_of(CONFIG)
    row = jnp.array([3, 0, 4, 1])
    rows = jnp.tile(row, (4096, 1))
    draws = jax.jit(objectives.masked_bound, static_argnums=(0,))(
        CONFIG, params, rows, jax.random.key(0), MASK_ID
    )
    stderr = draws.std() / 64
    assert abs(draws.mean() - exact_bound(params, row)) < 4 * stderr


def test_the_bound_lies_above_the_likelihood_it_bounds():
    # With exact conditionals of independent tokens every order gives the same likelihood.
    config = decoder.DecoderConfig(6, 8, 1, 2, 2, 12, causal=False, tie_embeddings=True)
    params = params_of(config)
    params["blocks"] = jax.tree.map(jnp.zeros_like, params["blocks"])  # logits see one token only
    rows = jax.random.randint(jax.random.key(2), (8, 4), 0, 5)
    bound = objectives.masked_bound(config, params, rows, jax.random.key(1), MASK_ID)
    hidden = decoder.rms_norm(params["embed"][MASK_ID], params["final_norm"], config.rms_norm_eps)
    log_p = jax.nn.log_softmax((params["embed"] @ hidden)[:MASK_ID])
    assert np.all(bound >= -log_p.max() - 1e-5)
    assert np.all(bound <= -log_p.min() + 1e-5)


def test_masks_have_stratified_sizes_and_hide_the_tokens():
    rows = jnp.arange(32 * 16).reshape(32, 16) % 5
    batch = objectives.mask_tokens(rows, jax.random.key(3), MASK_ID)
    assert (batch.mask.sum(axis=1) == batch.count).all()
    assert (np.sort(batch.count) == np.repeat(np.arange(1, 17), 2)).all()
    assert ((batch.canvas == MASK_ID) == batch.mask).all()
    assert (jnp.where(batch.mask, rows, batch.canvas) == rows).all()


def test_every_position_is_masked_equally_often():
    rows = jnp.zeros((4096, 8), int)
    mask = objectives.mask_tokens(rows, jax.random.key(4), MASK_ID).mask
    np.testing.assert_allclose(mask.mean(axis=0), 4.5 / 8, atol=4 * 0.5 / 64)


def test_causal_nll_is_the_chain_rule():
    config = decoder.DecoderConfig(5, 8, 1, 2, 2, 12, causal=True)
    params = params_of(config)
    # All strings of two tokens behind one given token: probabilities sum to one.
    rows = jnp.array([[2, a, b] for a in range(5) for b in range(5)])
    nll = objectives.causal_nll(config, params, rows)
    assert nll.shape == (25, 2)
    np.testing.assert_allclose(jnp.exp(-nll.sum(axis=1)).sum(), 1.0, rtol=1e-5)
