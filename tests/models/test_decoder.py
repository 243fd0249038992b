"""The decoder against logits recorded from the public reference codes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.models import decoder, load_denoiser, load_scorer, rotary

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def llada(golden):
    return load_denoiser(str(golden("llada"))), np.load(golden("llada/forward.npz"))


@pytest.fixture(scope="module")
def llama(golden):
    return load_scorer(str(golden("llama"))), np.load(golden("llama/forward.npz"))


@pytest.mark.parametrize("prefix", ["", "left_", "right_", "solo_"])
def test_llada_logits(llada, prefix):
    model, arrays = llada
    ids = arrays[f"{prefix}input_ids"]
    name = f"{prefix}attention_mask"
    mask = arrays[name].astype(bool) if name in arrays else np.ones_like(ids, bool)
    logits = np.asarray(model.logits_fn(model.params, ids, mask, slice(0, ids.shape[1])))
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(logits[mask], arrays[f"{prefix}logits"][mask], atol=TOLERANCE)


def test_llama_logits_on_right_and_left_padding(llama):
    model, arrays = llama
    for prefix in ("", "left_"):
        ids, mask = arrays[f"{prefix}input_ids"], arrays[f"{prefix}attention_mask"].astype(bool)
        logits = np.asarray(model.logits_fn(model.params, ids, mask, slice(0, ids.shape[1])))
        np.testing.assert_allclose(logits[mask], arrays[f"{prefix}logits"][mask], atol=TOLERANCE)


def test_a_region_is_a_slice_of_the_whole(llada):
    model, arrays = llada
    ids = arrays["input_ids"]
    mask = np.ones_like(ids, bool)
    whole = model.logits_fn(model.params, ids, mask, slice(0, 13))
    part = model.logits_fn(model.params, ids, mask, slice(4, 9))
    np.testing.assert_allclose(part, whole[:, 4:9], atol=1e-6)


def test_positions_count_valid_tokens_alone():
    mask = jnp.array([[False, False, True, True], [True, True, True, False]])
    assert rotary.positions(mask).tolist() == [[0, 0, 0, 1], [0, 1, 2, 2]]


def test_rotation_keeps_norms_and_depends_on_distance_alone():
    q, k = jax.random.normal(jax.random.key(0), (2, 1, 6, 1, 8))

    def turn(x, shift):
        return rotary.rotate(x, shift + jnp.arange(6)[None], 100.0)

    scores = [jnp.einsum("bthd,bshd->ts", turn(q, s), turn(k, s)) for s in (0, 17)]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        jnp.linalg.norm(turn(q, 3), axis=-1), jnp.linalg.norm(q, axis=-1), rtol=1e-5
    )


def test_a_causal_decoder_does_not_look_ahead():
    config = decoder.DecoderConfig(11, 16, 2, 2, 1, 24, causal=True)
    params = decoder.init_params(config, jax.random.key(0))
    ids = jax.random.randint(jax.random.key(1), (1, 7), 0, 11)
    changed = ids.at[0, 5].set((ids[0, 5] + 1) % 11)

    def run(x):
        return decoder.hidden_states(config, params, x, jnp.ones((1, 7), bool))

    np.testing.assert_array_equal(run(ids)[:, :5], run(changed)[:, :5])
    assert not np.allclose(run(ids)[:, 5:], run(changed)[:, 5:])


def test_a_tied_head_is_the_transposed_embedding():
    config = decoder.DecoderConfig(11, 16, 1, 2, 2, 24, causal=False, tie_embeddings=True)
    params = decoder.init_params(config, jax.random.key(0))
    assert "head" not in params
    hidden = jax.random.normal(jax.random.key(1), (2, 3, 16))
    expected = hidden @ params["embed"].T
    np.testing.assert_allclose(decoder.project(config, params, hidden), expected, rtol=1e-5)


def test_bfloat16_parameters_give_float32_logits(golden):
    model = load_denoiser(str(golden("llada")), dtype="bfloat16")
    arrays = np.load(golden("llada/forward.npz"))
    ids = arrays["input_ids"]
    logits = model.logits_fn(model.params, ids, np.ones_like(ids, bool), slice(0, 13))
    assert logits.dtype == jnp.float32
    # bf16 keeps 8 bits: the error grows with depth but stays far below the logits' spread.
    assert 1e-4 < np.abs(logits - arrays["logits"]).mean() < 2e-2 * arrays["logits"].std()
