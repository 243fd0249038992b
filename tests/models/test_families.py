"""The decoder's families against logits recorded from the public codes."""

import dataclasses
import functools
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from dlmeval import samplers
from dlmeval.models import (
    architectures,
    decoder,
    load_denoiser,
    load_scorer,
    moe,
    rotary,
    weight_table,
)

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def load(golden):
    """Model and arrays of a fixture, loaded once."""
    kinds = {"llada_moe": load_denoiser, "smdm": load_denoiser}

    @functools.cache
    def model_and_arrays(name):
        architecture = "smdm" if name == "smdm" else None
        model = kinds.get(name, load_scorer)(str(golden(name)), architecture=architecture)
        return model, dict(np.load(golden(name) / "forward.npz"))

    return model_and_arrays


@functools.cache
def compiled(logits_fn, width):
    return jax.jit(lambda params, *rows: logits_fn(params, *rows, slice(0, width)))


def run(model, ids, mask=None):
    mask = np.ones_like(ids, bool) if mask is None else mask.astype(bool)
    return np.asarray(compiled(model.logits_fn, ids.shape[1])(model.params, ids, mask))


def network(model, family):
    return architectures.read_config(model.card.config, architectures.ARCHITECTURES[family], "here")


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("llada_moe", ""),
        ("llada_moe", "left_"),
        ("llama_llama3rope", ""),
        ("llama_llama3rope", "left_"),
        ("qwen2", ""),
        ("qwen2", "left_"),
        ("smdm", ""),
    ],
)
def test_logits_are_the_published_ones(load, name, prefix):
    model, arrays = load(name)
    ids = arrays[f"{prefix}input_ids"]
    mask = arrays.get(f"{prefix}attention_mask", np.ones_like(ids)).astype(bool)
    logits = run(model, ids, mask)
    assert np.isfinite(logits).all()
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits[mask], arrays[f"{prefix}logits"][mask], atol=TOLERANCE)


@pytest.mark.parametrize("name", ["llama_llama3rope", "qwen2"])
def test_scorers_give_the_published_log_probabilities_and_states(load, name):
    model, arrays = load(name)
    ids, mask = arrays["input_ids"], arrays["attention_mask"].astype(bool)
    lengths = mask.sum(axis=1)
    nll, num_tokens = model.nll(ids, lengths)
    scored = mask[:, 1:]
    expected = -np.where(scored, arrays["token_logprobs"], 0).sum(axis=1)
    np.testing.assert_allclose(nll, expected, rtol=1e-5)
    np.testing.assert_array_equal(num_tokens, scored.sum(axis=1))
    hidden = np.asarray(model.hidden(ids, lengths))[:, : ids.shape[1]]
    np.testing.assert_allclose(hidden[mask], arrays["last_hidden_state"][mask], atol=TOLERANCE)


@pytest.mark.parametrize("name", ["llama_llama3rope", "qwen2"])
def test_rotary_frequencies_are_the_published_ones(load, name):
    model, arrays = load(name)
    config = network(model, "llama" if name.startswith("llama") else name).network
    ours = rotary.frequencies(config.width_per_head, config.rope_theta, config.rope_scaling)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, arrays["rope_inv_freq"], rtol=1e-6)
    unscaled = rotary.frequencies(config.width_per_head, config.rope_theta)
    lowest = 1 if config.rope_scaling is None else 1 / config.rope_scaling.factor
    assert (ours / unscaled)[0] == 1
    assert np.isclose((ours / unscaled)[-1], lowest)


# --- LLaDA-MoE ---------------------------------------------------------------------------------


def test_routers_see_and_say_what_the_published_ones_do(load):
    """A layer's router reads the normed stream before its experts add to it: cut there."""
    model, arrays = load("llada_moe")
    config, ids = network(model, "llada_moe").network, arrays["input_ids"]
    for layer in range(2):
        blocks = {name: x[: layer + 1] for name, x in model.params["blocks"].items()}
        blocks["expert_down_proj"] = blocks["expert_down_proj"].at[layer].set(0.0)
        params = model.params | {"blocks": blocks, "final_norm": blocks["mlp_norm"][layer]}
        cut = dataclasses.replace(config, num_layers=layer + 1)
        x = hidden_states(cut, params, ids).reshape(-1, 48)
        expected = arrays[f"router_logits.L{layer}"].reshape(-1, 8)
        router = blocks["router_proj"][layer]
        np.testing.assert_allclose(x @ router, expected, atol=TOLERANCE)
        shares, chosen = moe.route(x, router, None, 2)
        published = np.asarray(jax.nn.softmax(expected))
        np.testing.assert_array_equal(chosen, np.argsort(-published, axis=1)[:, :2])
        np.testing.assert_allclose(shares, -np.sort(-published, axis=1)[:, :2], atol=1e-5)
    whole = hidden_states(config, model.params, ids)
    np.testing.assert_allclose(whole, arrays["hidden_states"][-1], atol=TOLERANCE)


@functools.partial(jax.jit, static_argnums=0)
def hidden_states(config, params, ids):
    return decoder.hidden_states(config, params, ids, jnp.ones(ids.shape, bool))


def test_a_row_of_experts_depends_on_neither_padding_nor_company(load):
    model, arrays = load("llada_moe")
    ids, mask = arrays["left_input_ids"], arrays["left_attention_mask"].astype(bool)
    whole = run(model, ids, mask)
    np.testing.assert_allclose(run(model, ids[::-1], mask[::-1])[::-1], whole, atol=5e-6)
    other = run(model, np.where(mask, ids, 7), mask)
    np.testing.assert_allclose(other[mask], whole[mask], atol=5e-6)
    row = int(np.flatnonzero(~mask.all(axis=1))[0])
    pads = int((~mask[row]).sum())
    moved_ids, moved = (np.roll(x[row], -pads)[None].repeat(2, 0) for x in (ids, mask))
    np.testing.assert_allclose(
        run(model, moved_ids, moved)[0, :-pads], whole[row, pads:], atol=5e-6
    )
    solo = arrays["solo_logits"][0]
    np.testing.assert_allclose(whole[row, pads:], solo, atol=TOLERANCE)


def test_embeddings_may_be_given_in_place_of_tokens(load):
    model, arrays = load("llada_moe")
    config, ids = network(model, "llada_moe").network, arrays["input_ids"]
    embedded = decoder.embed(config, model.params, ids)
    np.testing.assert_array_equal(embedded, arrays["hidden_states"][0])
    region = jax.jit(
        lambda embeddings: model.logits_fn(
            model.params, np.zeros_like(ids), ids >= 0, slice(2, 5), embeddings=embeddings
        )
    )
    np.testing.assert_allclose(region(embedded), arrays["logits"][:, 2:5], atol=TOLERANCE)


def test_gradients_are_finite(load):
    model, arrays = load("llada_moe")
    config, ids = network(model, "llada_moe").network, jnp.asarray(arrays["input_ids"])

    @jax.jit
    @jax.grad
    def gradient(params):
        logits = decoder.region_logits(config, params, ids, ids >= 0, slice(0, 11))
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), ids[..., None], -1).mean()

    found = gradient(model.params)
    for x in jax.tree.leaves(found):
        assert np.isfinite(x).all()
        assert np.abs(x).max() > 0


def test_tensors_that_only_some_shapes_have(load, golden, tmp_path):
    model, arrays = load("llada_moe")
    family = architectures.ARCHITECTURES["llada_moe"]
    changes = {"qk_layernorm": False, "moe_router_enable_expert_bias": True}
    changed = architectures.read_config(model.card.config | changes, family, "here").network
    names = weight_table.expected_tensors(family, changed).keys()
    assert "model.layers.1.mlp.expert_bias" in names
    assert not any("_norm.weight" in name for name in names if "self_attn" in name)

    shutil.copytree(golden("llada_moe"), tmp_path / "model")
    edit(tmp_path / "model" / "config.json", moe_router_enable_expert_bias=True)
    with pytest.raises(ValueError, match=r"missing model\.layers\.0\.mlp\.expert_bias"):
        load_denoiser(str(tmp_path / "model"))
    path = tmp_path / "model" / "weights.safetensors"
    tensors = safetensors.numpy.load_file(path)
    # As much for all: the choice stays, and every weight grows by it.
    for layer in range(2):
        tensors[f"model.layers.{layer}.mlp.expert_bias"] = np.full(8, 0.5, np.float32)
    safetensors.numpy.save_file(tensors, path)
    biased = load_denoiser(str(tmp_path / "model"))
    assert biased.params["blocks"]["router_bias"].shape == (2, 8)
    ids = arrays["input_ids"]
    assert np.abs(run(biased, ids) - run(model, ids)).max() > 0.1


# --- SMDM --------------------------------------------------------------------------------------


def test_the_rounded_rotary_cache_is_what_the_published_code_holds(load):
    model, arrays = load("smdm")
    config, ids = network(model, "smdm").network, arrays["input_ids"]
    frequency = rotary.frequencies(config.width_per_head, config.rope_theta)
    by = rotary.rotation(jnp.arange(64)[None], frequency, config.rope_cache_dtype)
    for ours, name in ((by.cos, "cos"), (by.sin, "sin")):
        published = arrays[f"rope_{name}_bf16_as_f32"]
        np.testing.assert_allclose(ours[0, :, 0], published, rtol=2**-7, atol=1e-7)
        assert (ours[0, :, 0] == published).mean() > 0.99
    exact = dataclasses.replace(config, rope_cache_dtype="float32")
    mask = np.ones_like(ids, bool)
    logits = decoder.region_logits(exact, model.params, ids, mask, slice(0, 12))
    np.testing.assert_allclose(logits, arrays["logits_fp32_rope_cache"], atol=TOLERANCE)
    assert np.abs(logits - arrays["logits"]).max() > 1e-3


def test_the_mask_of_smdm_is_an_input_without_a_column(load):
    model, arrays = load("smdm")
    assert (model.mask_id, model.num_ids, model.params["embed"].shape) == (61, 61, (62, 48))
    ids = np.full((3, 12), model.mask_id)
    ids[:, ::3] = arrays["input_ids"][:, ::3]
    logits = run(model, ids)
    assert logits.shape == (3, 12, 61)
    assert np.isfinite(logits).all()


def test_smdm_is_sampled_although_its_mask_has_no_column(load):
    model, _ = load("smdm")
    config = samplers.SamplerConfig(6, 3, "low_confidence", 1.0)
    drawn = samplers.sample(
        model.logits_fn,
        model.params,
        np.array([[3, 4, 5], [6, 7, 8]]),
        np.ones((2, 3), bool),
        jax.random.split(jax.random.key(0), 2),
        config,
        mask_id=model.mask_id,
        num_ids=model.num_ids,
    )
    assert (np.asarray(drawn.tokens) < model.num_ids).all()
    assert (np.asarray(drawn.nfe) >= 3).all()


def test_fused_rows_lie_group_by_group():
    """Six heads in two groups: q q q k v, twice."""
    family = architectures.ARCHITECTURES["smdm"]
    config = decoder.DecoderConfig(9, 24, 1, 6, 2, 8, causal=False)
    rows = {row.path[-1]: row for row in family.tensors if row.part}
    fused = np.repeat(np.arange(10), 4)[:, None] * np.ones(24)
    assert rows["q_proj"].stored(config) == fused.shape
    heads = {name: row.part(config, fused)[::4, 0].tolist() for name, row in rows.items()}
    assert heads == {"q_proj": [0, 1, 2, 5, 6, 7], "k_proj": [3, 8], "v_proj": [4, 9]}


# --- families that share another's weights ------------------------------------------------------


def edit(path, **changes):
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in config.items() if v != "DROP"}))


def test_open_dcoder_is_dream_under_the_name_of_qwen2(golden, tmp_path):
    shutil.copytree(golden("dream"), tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    edit(path, model_type="qwen2")
    arrays = np.load(golden("dream") / "forward.npz")
    model = load_denoiser(str(tmp_path / "model"))
    assert (model.card.architecture, model.mask_id) == ("open_dcoder", 66)
    np.testing.assert_allclose(
        run(model, arrays["input_ids"]), arrays["shifted_logits"], atol=TOLERANCE
    )
    edit(path, mask_token_id="DROP")
    with pytest.raises(ValueError, match="declares no mask token"):
        load_denoiser(str(tmp_path / "model"))
    edit(path, mask_token_id=67)
    with pytest.raises(ValueError, match="mask_token_id=67 is outside the vocabulary of 67"):
        load_denoiser(str(tmp_path / "model"))


def test_illada_is_llada_under_the_names_of_llama(golden, tmp_path):
    tensors = safetensors.numpy.load_file(golden("llada") / "weights.safetensors")
    theirs, ours = (
        weight_table.expected_tensors(architectures.ARCHITECTURES[name], config)
        for name, config in (("llada", LLADA), ("illada", LLADA))
    )
    tables = [architectures.ARCHITECTURES[name].tensors for name in ("llada", "llama")]
    new = {a.path: b.name for a in tables[0] for b in tables[1] if a.path == b.path}
    renamed = {}
    for row in tables[0]:
        for layer in range(2):
            name = row.name.replace("{i}", str(layer))
            renamed[new[row.path].replace("{i}", str(layer))] = tensors[name]
    assert len(theirs) == len(ours) == len(renamed)
    safetensors.numpy.save_file(renamed, tmp_path / "model.safetensors")
    config = architectures.ARCHITECTURES["llama"].write(LLADA, {"eos_token_id": 2})
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "illada"}))
    model = load_denoiser(str(tmp_path))
    assert model.mask_id == 5
    arrays = np.load(golden("llada") / "forward.npz")
    np.testing.assert_allclose(run(model, arrays["input_ids"]), arrays["logits"], atol=TOLERANCE)


LLADA = decoder.DecoderConfig(64, 48, 2, 4, 4, 96, causal=False, rope_theta=500_000.0)
