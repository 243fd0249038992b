"""GPT-2 against recorded outputs and closed forms; its loader."""

import functools
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from dlmeval.models import gpt2, load_scorer
from dlmeval.models.loading import load_network

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def loaded(golden):
    return load_network(str(golden("gpt2")), "scorer")


@pytest.fixture(scope="module")
def arrays(golden):
    return np.load(golden("gpt2/forward.npz"))


@pytest.fixture
def folder(golden, tmp_path):
    shutil.copytree(golden("gpt2"), tmp_path / "model")
    return tmp_path / "model"


@functools.partial(jax.jit, static_argnums=0)
def forward(config, params, ids, mask):
    hidden = gpt2.hidden_states(config, params, ids, mask)
    return hidden, gpt2.project(config, params, hidden)


def run(loaded, ids, mask):
    hidden, logits = forward(loaded.spec.network, loaded.params, ids, np.asarray(mask, bool))
    return np.asarray(hidden), np.asarray(logits)


def edit_config(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def edit_tensors(folder, edit):
    path = folder / "weights.safetensors"
    safetensors.numpy.save_file(edit(safetensors.numpy.load_file(path)), path)


def leaves(params):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(params)]


def test_logits_on_right_padding(loaded, arrays):
    mask = arrays["attention_mask"].astype(bool)
    hidden, logits = run(loaded, arrays["input_ids"], mask)
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(hidden[mask], arrays["last_hidden_state"][mask], atol=TOLERANCE)
    np.testing.assert_allclose(logits[mask], arrays["logits"][mask], atol=TOLERANCE)


def test_logits_on_left_padding(loaded, arrays):
    mask = arrays["left_attention_mask"].astype(bool)
    logits = run(loaded, arrays["left_input_ids"], mask)[1]
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(logits[mask], arrays["left_logits"][mask], atol=TOLERANCE)


def test_scorer_sums_the_recorded_log_probabilities(golden, arrays):
    scorer = load_scorer(str(golden("gpt2")))
    lengths = arrays["attention_mask"].sum(axis=1)
    nll, num_targets = scorer.nll(arrays["input_ids"], lengths)
    inside = np.arange(13) < lengths[:, None] - 1
    expected = -np.where(inside, arrays["token_logprobs"], 0).sum(axis=1)
    np.testing.assert_allclose(nll, expected, atol=TOLERANCE * 13)
    np.testing.assert_array_equal(num_targets, lengths - 1)
    assert (scorer.eos_id, scorer.bos_id, scorer.num_ids) == (78, 78, 79)
    mask = arrays["attention_mask"].astype(bool)
    logits = scorer.logits_fn(scorer.params, arrays["input_ids"], mask, slice(2, 7))
    expected = arrays["logits"][:, 2:7]
    np.testing.assert_allclose(logits[mask[:, 2:7]], expected[mask[:, 2:7]], atol=TOLERANCE)


def test_a_row_does_not_depend_on_its_padding(loaded, arrays):
    ids = arrays["input_ids"][:, :9]
    padded = [
        run(
            loaded,
            np.pad(ids, ((0, 0), (before, after)), constant_values=5),
            np.pad(np.ones_like(ids), ((0, 0), (before, after))),
        )[1][:, before : before + 9]
        for before, after in ((0, 5), (5, 0), (2, 3))
    ]
    for logits in padded[1:]:
        np.testing.assert_allclose(logits, padded[0], atol=2e-5)


def test_a_canvas_wider_than_the_context_may_be_padded(loaded, arrays):
    ids = arrays["input_ids"][:1, :9]
    wide = np.pad(ids, ((0, 0), (30, 5)))
    logits = run(loaded, wide, np.pad(np.ones_like(ids), ((0, 0), (30, 5))))[1]
    np.testing.assert_allclose(logits[:, 30:39], arrays["logits"][:1, :9], atol=TOLERANCE)


def test_rows_without_valid_tokens_stay_finite(loaded, arrays):
    ids = arrays["input_ids"]
    assert np.isfinite(run(loaded, ids, np.zeros_like(ids))[1]).all()


def test_no_position_looks_ahead(loaded, arrays):
    ids = arrays["input_ids"]
    changed = ids.copy()
    changed[:, 6] = (changed[:, 6] + 1) % 79
    mask = np.ones_like(ids)
    before, after = run(loaded, ids, mask)[1], run(loaded, changed, mask)[1]
    np.testing.assert_array_equal(before[:, :6], after[:, :6])
    assert (np.abs(before - after)[:, 6:].max(axis=-1) > 1e-3).all()


def test_layer_norm_keeps_small_differences_of_large_numbers():
    x = 1000 + np.random.default_rng(0).normal(size=(4, 32)).astype(np.float32)
    weight, bias = np.random.default_rng(1).normal(size=(2, 32)).astype(np.float32)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    expected = centred / np.sqrt(wide.var(axis=-1, keepdims=True) + 1e-3) * weight + bias
    value = gpt2.layer_norm(jnp.asarray(x), weight, bias, 1e-3)
    np.testing.assert_allclose(value, expected, atol=2e-3)
    assert gpt2.layer_norm(jnp.asarray(x, jnp.bfloat16), weight, bias, 1e-3).dtype == jnp.bfloat16


@pytest.mark.parametrize("tied", [True, False])
def test_head_and_number_of_parameters(tied):
    config = gpt2.GPT2Config(11, 12, 2, 3, 20, max_length=8, tie_embeddings=tied)
    draw = np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: draw.normal(size=leaf.shape).astype(leaf.dtype), gpt2.abstract_params(config)
    )
    d, f = 12, 20
    block = 4 * d + d * 3 * d + 3 * d + d * d + d + d * f + f + f * d + d
    expected = (11 + 8) * d + 2 * block + 2 * d + (0 if tied else 11 * d)
    assert sum(x.size for x in leaves(params)) == expected
    hidden = draw.normal(size=(2, 3, d)).astype(np.float32)
    head = params["embed"].T if tied else params["head"]
    np.testing.assert_allclose(gpt2.project(config, params, hidden), hidden @ head, atol=1e-4)


def test_bfloat16_parameters_give_float32_logits(golden, arrays):
    model = load_network(str(golden("gpt2")), "scorer", "bfloat16")
    ids, mask = arrays["input_ids"], arrays["attention_mask"].astype(bool)
    hidden, logits = run(model, ids, mask)
    assert (hidden.dtype, logits.dtype) == (jnp.bfloat16, np.float32)
    assert np.isfinite(logits).all()
    difference = np.abs(logits - arrays["logits"])[mask]
    assert 1e-4 < difference.mean() < 2e-2 * arrays["logits"].std()


def test_names_without_prefix_and_old_buffers(folder, loaded):
    def strip(tensors):
        bare = {name.removeprefix("transformer."): x for name, x in tensors.items()}
        for i in range(2):
            bare[f"h.{i}.attn.bias"] = np.tril(np.ones((1, 1, 40, 40), np.uint8))
            bare[f"h.{i}.attn.masked_bias"] = np.full(1, -1e4, np.float32)
        return bare

    edit_tensors(folder, strip)
    for kind in ("scorer", "encoder"):
        again = load_network(str(folder), kind)
        assert again.spec == loaded.spec
        for one, other in zip(leaves(again.params), leaves(loaded.params), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_stored_alias_of_the_tied_head_is_not_needed(folder, loaded):
    edit_tensors(folder, lambda t: t | {"lm_head.weight": t["transformer.wte.weight"].copy()})
    again = load_network(str(folder), "scorer")
    assert again.params.keys() == loaded.params.keys()
    np.testing.assert_array_equal(again.params["embed"], loaded.params["embed"])


def test_an_untied_head_is_read_and_must_be_there(folder):
    edit_config(folder, tie_word_embeddings=False)
    with pytest.raises(ValueError, match=r"missing lm_head\.weight"):
        load_network(str(folder), "scorer")
    head = np.random.default_rng(0).normal(size=(79, 48)).astype(np.float32)
    edit_tensors(folder, lambda tensors: tensors | {"lm_head.weight": head})
    np.testing.assert_array_equal(load_network(str(folder), "scorer").params["head"], head.T)


def test_missing_unexpected_and_misshapen_tensors_are_reported_together(folder):
    def spoil(tensors):
        del tensors["transformer.h.1.ln_1.bias"]
        tensors["transformer.h.0.attn.c_attn.weight"] = np.zeros((144, 48), np.float32)
        return tensors | {"transformer.h.0.attn.rotary": np.zeros(2, np.float32)}

    edit_tensors(folder, spoil)
    with pytest.raises(ValueError) as caught:
        load_network(str(folder), "scorer")
    for part in ("missing h.1.ln_1.bias", "attn.rotary", "[144, 48]"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("activation_function", "relu", "activation_function='relu' is not implemented"),
        ("scale_attn_by_inverse_layer_idx", True, "scale_attn_by_inverse_layer_idx=True"),
        ("reorder_and_upcast_attn", True, "reorder_and_upcast_attn=True"),
        ("scale_attn_weights", False, "scale_attn_weights=False"),
        ("add_cross_attention", True, "add_cross_attention=True"),
        ("n_ctx", 41, "n_ctx=41 contradicts n_positions=40"),
        ("n_head", 5, "n_embd=48 is not a multiple of n_head=5"),
        ("alibi", True, "unknown field 'alibi'"),
    ],
)
def test_settings_that_would_change_the_logits_are_refused(folder, field, value, message):
    edit_config(folder, **{field: value})
    with pytest.raises(ValueError, match=message):
        load_network(str(folder), "scorer")


def test_all_bad_settings_are_named_at_once(folder):
    edit_config(folder, n_ctx=7, scale_attn_weights=False, alibi=True, n_head=5)
    with pytest.raises(ValueError, match=r"scale_attn_weights.*alibi.*n_head.*n_ctx"):
        load_network(str(folder), "scorer")


def test_inner_width_and_equal_context(folder):
    edit_config(folder, n_inner=192, n_ctx=40)
    network = load_network(str(folder), "scorer").spec.network
    assert (network.intermediate_size, network.max_length) == (192, 40)
    edit_config(folder, n_inner=100)
    with pytest.raises(ValueError, match=r"c_fc.weight has shape \[48, 192\], not \[48, 100\]"):
        load_network(str(folder), "scorer")
