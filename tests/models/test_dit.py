"""The DiT of MDLM and SEDD against recorded outputs and closed forms; its loaders."""

import functools
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from flax import nnx

from dlmeval.models import dit, load_denoiser

TOLERANCE = 1e-4
CONFIG = dit.DiTConfig(11, 16, 6, 2, 2, mask_id=10, time_conditioning=True)


@pytest.fixture(scope="module")
def mdlm(golden):
    model = load_denoiser(str(golden("mdlm")), architecture="mdlm")
    return model, np.load(golden("mdlm/forward.npz"))


@pytest.fixture(scope="module")
def sedd(golden):
    model = load_denoiser(str(golden("sedd")), architecture="sedd")
    return model, np.load(golden("sedd/forward.npz"))


@pytest.fixture
def folder(golden, tmp_path):
    shutil.copytree(golden("mdlm"), tmp_path / "model")
    return tmp_path / "model"


def edit_config(folder, edit):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    edit(config)
    path.write_text(json.dumps(config))
    return config


@functools.cache
def compiled(logits_fn, start, stop):
    """One compilation a region and shape: op by op, every call compiles its scan anew."""
    region = slice(start, stop)
    return jax.jit(lambda params, *rows, **kw: logits_fn(params, *rows, region, **kw))


def run(model, ids, mask=None, region=None, **kwargs):
    mask = np.ones_like(ids, bool) if mask is None else mask
    region = region or slice(0, ids.shape[1])
    logits_fn = compiled(model.logits_fn, region.start, region.stop)
    return np.asarray(logits_fn(model.params, ids, mask, **kwargs))


def subs(logits, ids, mask_id):
    """MDLM's parametrisation of the masked positions: the mask has no probability."""
    without_mask = np.where(np.arange(logits.shape[-1]) == mask_id, -np.inf, logits)
    return np.asarray(jax.nn.log_softmax(without_mask))[ids == mask_id][:, :mask_id]


def test_raw_logits_at_sigma_zero_whatever_sigma_is_given(mdlm):
    model, arrays = mdlm
    ids = arrays["input_ids"]
    logits = run(model, ids)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, arrays["raw_logits_sigma0"], atol=TOLERANCE)
    np.testing.assert_array_equal(run(model, ids, sigma=arrays["sigma"]), logits)
    expected = arrays["subs_logprobs_time_conditioning_false"][ids == 61][:, :61]
    np.testing.assert_allclose(subs(logits, ids, 61), expected, atol=TOLERANCE)


def test_time_conditioned_logits_depend_on_sigma(folder, mdlm):
    arrays = mdlm[1]
    edit_config(folder, lambda c: c.update(time_conditioning=True))
    model = load_denoiser(str(folder), architecture="mdlm")
    ids = arrays["input_ids"]
    logits = run(model, ids, sigma=arrays["sigma"])
    np.testing.assert_allclose(logits, arrays["raw_logits_sigma"], atol=TOLERANCE)
    expected = arrays["subs_logprobs_time_conditioning_true"][ids == 61][:, :61]
    np.testing.assert_allclose(subs(logits, ids, 61), expected, atol=TOLERANCE)
    # The default is the level at which the expected masked share is the canvas's own.
    share = np.minimum((ids == 61).mean(axis=1), 0.999)
    np.testing.assert_allclose(
        run(model, ids), run(model, ids, sigma=-np.log(1 - share)), atol=1e-4
    )


def test_sigma_embedding_and_condition(mdlm):
    model, arrays = mdlm
    embedding = dit.sigma_embedding(jnp.asarray(arrays["sigma"]))
    np.testing.assert_allclose(embedding, arrays["timestep_embedding"], atol=1e-5)
    config = dit.DiTConfig(62, 48, 16, 2, 4, mask_id=61)
    shape = nnx.graphdef(nnx.eval_shape(lambda: dit.DiT(config, nnx.Rngs(0))))
    network = nnx.merge(shape, model.params)
    condition = network.condition(jnp.asarray(arrays["sigma"]))
    np.testing.assert_allclose(condition, arrays["cond_silu_sigma"], atol=1e-5)
    np.testing.assert_allclose(
        network.condition(jnp.zeros(1)), arrays["cond_silu_sigma0"][:1], atol=1e-5
    )


def test_default_sigma_counts_valid_tokens_and_stays_finite():
    ids = jnp.array([[10, 1, 10, 2], [10, 10, 10, 10], [1, 2, 3, 4], [10, 10, 1, 1]])
    mask = jnp.ones((4, 4), bool).at[3, :2].set(False)
    sigma = dit.masked_sigma(CONFIG, ids, mask)
    np.testing.assert_allclose(
        sigma, -np.log([0.5, 1e-3, 1 - 1e-5, 1 - 1e-5]), rtol=1e-4, atol=1e-7
    )
    assert dit.masked_sigma(CONFIG, ids, jnp.zeros((4, 4), bool)).max() < 1e-4


def test_a_row_does_not_depend_on_its_padding_nor_on_its_batch(mdlm):
    model, arrays = mdlm
    ids = arrays["input_ids"][:, :9]
    alone = run(model, ids[2:3])[0]
    for before, after in ((5, 0), (0, 5), (2, 3)):
        padded = np.pad(ids, ((0, 0), (before, after)), constant_values=61)
        mask = np.pad(np.ones_like(ids, bool), ((0, 0), (before, after)))
        logits = run(model, padded, mask)
        assert np.isfinite(logits).all()
        np.testing.assert_allclose(logits[2, before : before + 9], alone, atol=2e-5)
    assert np.isfinite(run(model, ids, np.zeros_like(ids, bool))).all()


@pytest.mark.parametrize("region", [slice(0, 1), slice(3, 13)])
def test_a_region_is_a_slice_of_the_whole(mdlm, sedd, region):
    for model, arrays in (mdlm, sedd):
        ids = arrays["input_ids"]
        whole = run(model, ids)[:, region]
        np.testing.assert_allclose(run(model, ids, region=region), whole, atol=1e-5)


def test_the_mdlm_of_the_sampler_goldens_loads(golden):
    model = load_denoiser(str(golden("mdlm_sampler")), architecture="mdlm")
    assert (model.mask_id, model.num_ids, model.eos_id) == (40, 41, None)
    assert model.card.num_params == 75801
    assert run(model, np.full((2, 10), 40)).shape == (2, 10, 41)
    again = load_denoiser(str(golden("mdlm_sampler")), architecture="mdlm")
    assert again.logits_fn is model.logits_fn


def test_a_fresh_network_passes_its_embedding_through():
    """adaLN-zero: every gate and modulation starts at zero."""
    params = jax.jit(dit.init_params, static_argnums=0)(CONFIG, jax.random.key(0))
    ids, mask = jnp.array([[3, 10, 7]]), jnp.ones((1, 3), bool)
    logits_fn = jax.jit(lambda p: dit.region_logits(CONFIG, p, ids, mask, slice(0, 3)))
    assert not logits_fn(params).any()
    head = jax.random.normal(jax.random.key(1), params["head_proj"].shape)
    embedded = np.asarray(params["embed"][ids], np.float64)
    centred = embedded - embedded.mean(axis=-1, keepdims=True)
    expected = centred / np.sqrt(embedded.var(axis=-1, keepdims=True) + 1e-5) @ head
    np.testing.assert_allclose(logits_fn({**params, "head_proj": head}), expected, atol=1e-5)


def test_sigma_must_be_one_number_a_row(mdlm):
    model, arrays = mdlm
    for wrong in (0.5, np.ones(3), np.ones((4, 1))):
        with pytest.raises(ValueError, match=r"sigma has shape .* 4 rows"):
            run(model, arrays["input_ids"], sigma=wrong)


def test_bfloat16_parameters_give_float32_logits(golden, mdlm):
    model = load_denoiser(str(golden("mdlm")), architecture="mdlm", dtype="bfloat16")
    expected = mdlm[1]["raw_logits_sigma0"]
    logits = run(model, mdlm[1]["input_ids"])
    assert logits.dtype == np.float32
    assert 1e-4 < np.abs(logits - expected).mean() < 2e-2 * expected.std()


def test_sedd_log_score(sedd, golden, tmp_path):
    model, arrays = sedd
    ids, sigma = arrays["input_ids"], arrays["sigma"]
    np.testing.assert_allclose(run(model, ids, sigma=sigma), arrays["log_score"], atol=TOLERANCE)
    shutil.copytree(golden("sedd"), tmp_path / "model")
    edit_config(tmp_path / "model", lambda c: c["model"].update(scale_by_sigma=False))
    plain = load_denoiser(str(tmp_path / "model"), architecture="sedd")
    expected = arrays["log_score_without_sigma_scaling"]
    np.testing.assert_allclose(run(plain, ids, sigma=sigma), expected, atol=TOLERANCE)


def test_sedd_is_finite_on_canvases_without_and_full_of_masks(sedd):
    model = sedd[0]
    ids = np.array([[60] * 6, [1] * 6], np.int32)
    assert np.isfinite(run(model, ids)).all()


def test_the_flat_config_describes_the_same_network(folder, mdlm):
    nested = edit_config(folder, lambda c: None)["model"]
    flat = {
        "model_type": "mdlm",
        "hidden_dim": nested["hidden_size"],
        "dropout": nested["dropout"],
        **{name: nested[name] for name in ("cond_dim", "n_blocks", "n_heads")},
        "vocab_size": 62,
        "time_conditioning": False,
        "return_dict": True,
    }
    (folder / "config.json").write_text(json.dumps(flat))
    model = load_denoiser(str(folder))
    assert model.mask_id == 61
    assert model.logits_fn is mdlm[0].logits_fn
    # Published configs also give a context, which the training code's do not.
    (folder / "config.json").write_text(json.dumps(flat | {"model_length": 14}))
    tokens = np.full((1, 15), 61, np.int32)
    limited = load_denoiser(str(folder))
    inside = limited.logits_fn(limited.params, tokens[:, :14], tokens[:, :14] > 0, slice(0, 14))
    same = model.logits_fn(model.params, tokens[:, :14], tokens[:, :14] > 0, slice(0, 14))
    np.testing.assert_array_equal(inside, same)
    with pytest.raises(ValueError, match="context of 14"):
        limited.logits_fn(limited.params, tokens, tokens > 0, slice(0, 15))


def test_the_rotary_buffer_may_be_absent_but_not_different(folder):
    path = folder / "weights.safetensors"
    tensors = safetensors.numpy.load_file(path)
    buffer = tensors.pop("backbone.rotary_emb.inv_freq")
    safetensors.numpy.save_file(tensors, path)
    assert load_denoiser(str(folder), architecture="mdlm").mask_id == 61
    for wrong in (buffer * 2, buffer[:3]):
        safetensors.numpy.save_file({**tensors, "backbone.rotary_emb.inv_freq": wrong}, path)
        with pytest.raises(ValueError, match="inv_freq does not hold the values"):
            load_denoiser(str(folder), architecture="mdlm")


def test_all_faults_of_the_tensors_come_in_one_message(folder):
    path = folder / "weights.safetensors"
    tensors = safetensors.numpy.load_file(path)
    del tensors["backbone.output_layer.linear.bias"]
    tensors["backbone.blocks.2.norm1.weight"] = np.ones(48, np.float32)
    tensors["backbone.blocks.0.attn_qkv.weight"] = np.zeros((48, 48), np.float32)
    safetensors.numpy.save_file(tensors, path)
    with pytest.raises(ValueError, match="of a mdlm model") as caught:
        load_denoiser(str(folder), architecture="mdlm")
    for part in (
        "missing backbone.output_layer.linear.bias",
        "unexpected backbone.blocks.2.norm1.weight",
        "backbone.blocks.0.attn_qkv.weight has shape [48, 48], not [144, 48]",
    ):
        assert part in str(caught.value)


def test_all_faults_of_a_config_come_in_one_message(folder):
    def spoil(config):
        config.update(parameterization="d3pm", backbone="dimamba", quantum=3, mask_index=62)
        config["model"].update(type="unet", depth=3)
        del config["model"]["cond_dim"]

    edit_config(folder, spoil)
    with pytest.raises(ValueError) as caught:
        load_denoiser(str(folder), architecture="mdlm")
    for part in (
        "parameterization='d3pm'",
        "backbone='dimamba'",
        "unknown field 'quantum'",
        "model.type='unet'",
        "unknown field 'model.depth'",
        "missing field 'model.cond_dim'",
        "mask id 62 is outside",
    ):
        assert part in str(caught.value)


def test_heads_must_divide_the_width(folder):
    edit_config(folder, lambda c: c["model"].update(n_heads=5))
    with pytest.raises(ValueError, match="hidden_size=48 is not a multiple of 2"):
        load_denoiser(str(folder), architecture="mdlm")


def test_a_fixture_without_model_type_needs_the_argument(golden):
    with pytest.raises(ValueError, match="argument architecture="):
        load_denoiser(str(golden("mdlm")))


def test_other_graphs_than_the_absorbing_one_are_refused(golden, tmp_path):
    shutil.copytree(golden("sedd"), tmp_path / "model")
    edit_config(tmp_path / "model", lambda c: c.update(graph={"type": "uniform"}, vocab_size=60))
    with pytest.raises(ValueError) as caught:
        load_denoiser(str(tmp_path / "model"), architecture="sedd")
    assert "graph.type='uniform'" in str(caught.value)
    assert "vocab_size=60 contradicts tokens=60" in str(caught.value)
