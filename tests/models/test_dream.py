"""Dream: biases, the shift to same-position logits, and padding."""

import functools
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from dlmeval.models import decoder, load_denoiser, load_scorer

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def dream(golden):
    return load_denoiser(str(golden("dream"))), np.load(golden("dream/forward.npz"))


@pytest.fixture
def folder(golden, tmp_path):
    shutil.copytree(golden("dream"), tmp_path / "model")
    return tmp_path / "model"


@functools.cache
def compiled(logits_fn, start, stop):
    """One compilation a region and shape: op by op, every call compiles its scan anew."""
    region = slice(start, stop)
    return jax.jit(lambda params, *rows: logits_fn(params, *rows, region))


def run(model, ids, mask, region=None):
    region = region or slice(0, ids.shape[1])
    logits_fn = compiled(model.logits_fn, region.start, region.stop)
    return np.asarray(logits_fn(model.params, ids, mask))


def test_logits_are_the_published_ones_moved_one_place_to_the_right(dream):
    model, arrays = dream
    ids = arrays["input_ids"]
    logits = run(model, ids, np.ones_like(ids, bool))
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, arrays["shifted_logits"], atol=TOLERANCE)
    np.testing.assert_allclose(logits[:, 1:], arrays["logits"][:, :-1], atol=TOLERANCE)
    np.testing.assert_allclose(logits[:, 0], arrays["logits"][:, 0], atol=TOLERANCE)


def test_left_padded_rows_agree_with_the_published_code(dream):
    model, arrays = dream
    ids, mask = arrays["left_input_ids"], arrays["left_attention_mask"].astype(bool)
    logits = run(model, ids, mask)
    assert np.isfinite(logits).all()
    # The published code predicts a row's first token from a pad; from there on it agrees with us.
    inner = mask & np.pad(mask, ((0, 0), (1, 0)))[:, :-1]
    np.testing.assert_allclose(logits[inner], arrays["left_shifted_logits"][inner], atol=TOLERANCE)
    first = np.arange(len(ids)), mask.argmax(axis=1)
    np.testing.assert_allclose(logits[first], arrays["left_logits"][first], atol=TOLERANCE)


def test_a_row_does_not_depend_on_its_padding_nor_on_what_is_under_it(dream):
    model, arrays = dream
    solo, padded = arrays["solo_input_ids"], arrays["left_input_ids"][2:]
    mask = arrays["left_attention_mask"][2:].astype(bool)
    alone = run(model, solo, np.ones_like(solo, bool))
    np.testing.assert_allclose(run(model, padded, mask)[mask], alone[0], atol=2e-5)
    other = np.where(mask, padded, 3)
    np.testing.assert_array_equal(run(model, other, mask)[mask], run(model, padded, mask)[mask])
    right, right_mask = np.roll(padded, -6, axis=1), np.roll(mask, -6, axis=1)
    np.testing.assert_allclose(run(model, right, right_mask)[right_mask], alone[0], atol=2e-5)


def test_a_row_of_padding_alone_stays_finite(dream):
    model, arrays = dream
    ids = arrays["input_ids"]
    mask = np.ones_like(ids, bool)
    whole = run(model, ids, mask)
    mask[1] = False
    logits = run(model, ids, mask)
    assert np.isfinite(logits).all()
    np.testing.assert_array_equal(logits[[0, 2]], whole[[0, 2]])


@pytest.mark.parametrize("region", [slice(0, 1), slice(5, 12)])
def test_a_region_is_a_slice_of_the_whole(dream, region):
    model, arrays = dream
    ids = arrays["left_input_ids"]
    mask = arrays["left_attention_mask"].astype(bool)
    np.testing.assert_allclose(
        run(model, ids, mask, region), run(model, ids, mask)[:, region], atol=1e-5
    )


def test_shifting_starts_at_the_first_valid_token():
    hidden = jnp.arange(8.0).reshape(2, 4, 1)
    mask = jnp.array([[True, True, True, True], [False, False, True, True]])
    shifted = decoder.shift_right(hidden, mask)[..., 0]
    assert shifted[0].tolist() == [0, 0, 1, 2]
    assert shifted[1, 2:].tolist() == [6, 6]


def test_a_lone_token_shows_the_bias_of_its_value_alone():
    """It attends to itself with weight one, whatever its query and its key are."""
    config = decoder.DecoderConfig(9, 8, 1, 2, 1, 12, causal=False, qkv_bias=True)
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda x: rng.normal(size=x.shape).astype(np.float32), decoder.abstract_params(config)
    )
    # An MLP of weight zero: the block adds o_proj of the value, bias included.
    params["blocks"]["down_proj"] = np.zeros_like(params["blocks"]["down_proj"])
    blocks = params["blocks"]
    embedded = params["embed"][5]
    normed = decoder.rms_norm(embedded, blocks["attn_norm"][0], config.rms_norm_eps)
    value = normed @ blocks["v_proj"][0] + blocks["v_bias"][0]
    summed = embedded + jnp.tile(value, 2) @ blocks["o_proj"][0]
    expected = decoder.rms_norm(summed, params["final_norm"], config.rms_norm_eps)
    hidden = decoder.hidden_states(config, params, jnp.array([[5]]), jnp.ones((1, 1), bool))
    np.testing.assert_allclose(hidden[0, 0], expected, atol=1e-5)


def test_the_peaked_dream_of_the_sampler_goldens_loads(golden):
    model = load_denoiser(str(golden("dream_peaked")))
    assert (model.mask_id, model.pad_id, model.eos_id, model.num_ids) == (66, 60, 60, 67)
    assert model.card.architecture == "dream"
    assert model.card.num_params == 44464
    again = load_denoiser(str(golden("dream_peaked")), architecture="dream")
    assert again.logits_fn is model.logits_fn


def test_settings_that_would_change_the_logits_are_refused(folder):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config |= {"use_sliding_window": True, "rope_scaling": {"factor": 2.0}, "quantum": 1}
    del config["mask_token_id"]
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match="of a dream model") as caught:
        load_denoiser(str(folder))
    for part in (
        "use_sliding_window=True",
        "rope_scaling=",
        "unknown field 'quantum'",
        "missing field 'mask_token_id'",
    ):
        assert part in str(caught.value)


def test_biases_are_required_where_they_belong_and_nowhere_else(folder):
    path = folder / "weights.safetensors"
    tensors = safetensors.numpy.load_file(path)
    del tensors["model.layers.1.self_attn.k_proj.bias"]
    tensors["model.layers.0.self_attn.o_proj.bias"] = np.zeros(48, np.float32)
    tensors["model.layers.0.self_attn.v_proj.bias"] = np.zeros(48, np.float32)
    safetensors.numpy.save_file(tensors, path)
    with pytest.raises(ValueError) as caught:
        load_denoiser(str(folder))
    for part in (
        "missing model.layers.1.self_attn.k_proj.bias",
        "unexpected model.layers.0.self_attn.o_proj.bias",
        "model.layers.0.self_attn.v_proj.bias has shape [48], not [16]",
    ):
        assert part in str(caught.value)


def test_dream_is_no_scorer(golden):
    with pytest.raises(ValueError, match="cannot serve as a scorer"):
        load_scorer(str(golden("dream")))
