"""BERT and RoBERTa against recorded hidden states; positions, padding, and their loaders."""

import functools
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from dlmeval.models import bert
from dlmeval.models.loading import load_network

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def models(golden):
    """Each fixture's network and arrays, loaded once."""

    @functools.cache
    def load(name):
        return load_network(str(golden(name)), "encoder"), np.load(golden(f"{name}/forward.npz"))

    return load


@pytest.fixture
def folder(golden, tmp_path):
    def copy(name):
        return shutil.copytree(golden(name), tmp_path / "model")

    return copy


@functools.partial(jax.jit, static_argnums=0)
def forward(config, params, ids, mask, token_types):
    return bert.hidden_states(config, params, ids, mask, token_types=token_types)


def run(model, ids, mask, token_types=None):
    mask = np.asarray(mask, bool)
    return np.asarray(forward(model.spec.network, model.params, ids, mask, token_types))


def edit_config(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def edit_tensors(folder, edit):
    path = folder / "weights.safetensors"
    safetensors.numpy.save_file(edit(safetensors.numpy.load_file(path)), path)


def assert_same_network(one, other):
    assert one.spec == other.spec
    assert jax.tree.structure(one.params) == jax.tree.structure(other.params)
    for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(other.params), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["bert", "bert_model", "roberta"])
def test_hidden_states(models, name):
    model, arrays = models(name)
    mask = arrays["attention_mask"].astype(bool)
    hidden = run(model, arrays["input_ids"], mask, arrays["token_type_ids"])
    assert np.isfinite(hidden).all()
    np.testing.assert_allclose(hidden[mask], arrays["last_hidden_state"][mask], atol=TOLERANCE)


def test_token_types_are_zero_unless_given(models):
    model, arrays = models("bert")
    ids, mask = arrays["input_ids"], arrays["attention_mask"]
    plain = run(model, ids, mask)
    np.testing.assert_array_equal(plain, run(model, ids, mask, np.zeros_like(ids)))
    assert np.abs(plain - run(model, ids, mask, np.ones_like(ids))).max() > 0.1
    with pytest.raises(ValueError, match=r"token_types has shape \(11,\).* \(3, 11\)"):
        run(model, ids, mask, np.zeros(11, int))


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_a_row_does_not_depend_on_its_padding(models, name):
    model, arrays = models(name)
    ids = arrays["input_ids"][:1, :8].repeat(3, axis=0)
    expected = run(model, ids[:, :8], np.ones((3, 8), bool))
    padded, mask = np.full((3, 11), 7), np.zeros((3, 11), bool)
    for row, start in enumerate((0, 3, 1)):
        padded[row, start : start + 8] = ids[row]
        mask[row, start : start + 8] = True
    hidden = run(model, padded, mask)
    np.testing.assert_allclose(hidden[mask].reshape(3, 8, -1), expected, atol=2e-5)
    assert np.isfinite(run(model, padded, np.zeros_like(mask))).all()


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_a_canvas_wider_than_the_context_may_be_padded(models, name):
    model = models(name)[0]
    context = model.spec.network.max_length
    assert context == 32
    ids = np.random.default_rng(0).integers(3, 83, (1, context))
    expected = run(model, ids, np.ones_like(ids))
    assert np.isfinite(expected).all()
    wide = np.pad(ids, ((0, 0), (0, 4)), constant_values=1)
    hidden = run(model, wide, np.arange(36)[None] < context)
    np.testing.assert_allclose(hidden[:, :context], expected, atol=2e-5)


def test_positions_behind_the_pad():
    ids = jnp.array([[0, 5, 6, 1, 1], [1, 1, 0, 9, 2], [0, 1, 4, 7, 7]])
    mask = jnp.array([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [1, 1, 1, 1, 0]], bool)
    positions = bert.positions_after_pad(ids, mask, 1)
    # A valid token with the pad's id is not counted; a masked one is not, whatever its id.
    assert positions.tolist() == [[2, 3, 4, 1, 1], [1, 1, 2, 3, 4], [2, 1, 3, 4, 1]]


def test_order_and_position_matter(models):
    model, arrays = models("bert")
    ids, mask = arrays["input_ids"], np.ones((3, 11), bool)
    backwards = run(model, ids[:, ::-1], mask)[:, ::-1]
    assert np.abs(run(model, ids, mask) - backwards).max() > 0.1


def test_a_fresh_network_has_the_declared_shapes():
    config = bert.BertConfig(11, 12, 2, 3, 20, num_positions=9, type_vocab_size=3)
    params = jax.jit(bert.init_params, static_argnums=0)(config, jax.random.key(0))
    shapes = bert.abstract_params(config)
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, shapes)
    d, f = 12, 20
    block = 4 * (d * d + d) + d * f + f + f * d + d + 4 * d
    expected = (11 + 9 + 3) * d + 2 * d + 2 * block
    assert sum(x.size for x in jax.tree.leaves(params)) == expected
    # Layers are drawn apart.
    assert not np.allclose(params["blocks"]["q_proj"][0], params["blocks"]["q_proj"][1])


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_bfloat16_stays_finite_and_close(golden, models, name):
    model = load_network(str(golden(name)), "encoder", "bfloat16")
    arrays = models(name)[1]
    mask = arrays["attention_mask"].astype(bool)
    hidden = run(model, arrays["input_ids"], mask, arrays["token_type_ids"])
    assert hidden.dtype == jnp.bfloat16
    assert np.isfinite(hidden.astype(np.float32)).all()
    difference = np.abs(hidden.astype(np.float32) - arrays["last_hidden_state"])[mask]
    assert 1e-4 < difference.mean() < 3e-2


def test_a_prefix_may_be_absent_or_present(folder, models):
    path = folder("bert_model")
    edit_tensors(path, lambda tensors: {f"bert.{name}": x for name, x in tensors.items()})
    assert_same_network(load_network(str(path), "encoder"), models("bert_model")[0])


def test_old_names_of_layer_norms(folder, models):
    def rename(tensors):
        old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        for new, name in old.items():
            tensors = {key.replace(new, name): x for key, x in tensors.items()}
        return tensors

    path = folder("bert")
    edit_tensors(path, rename)
    assert_same_network(load_network(str(path), "encoder"), models("bert")[0])


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_known_heads_and_buffers_are_not_unexpected(folder, models, name):
    heads = {
        "bert": ["bert.pooler.dense.weight", "cls.seq_relationship.bias", "classifier.weight"],
        "roberta": ["lm_head.dense.weight", "lm_head.bias", "classifier.out_proj.weight"],
    }[name]
    prefix = "bert." if name == "bert" else ""
    path = folder(name)
    extra = {head: np.zeros((2, 3), np.float32) for head in heads}
    buffer = {f"{prefix}embeddings.position_ids": np.arange(32)[None]}
    edit_tensors(path, lambda tensors: tensors | extra | buffer)
    assert_same_network(load_network(str(path), "encoder"), models(name)[0])


def test_missing_and_unexpected_tensors_are_reported_together(folder):
    def spoil(tensors):
        del tensors["encoder.layer.1.output.dense.bias"]
        tensors["encoder.layer.2.output.dense.bias"] = np.zeros(48, np.float32)
        return tensors | {"lm_head.bias": np.zeros(83, np.float32)}

    path = folder("roberta")
    edit_tensors(path, spoil)
    with pytest.raises(ValueError) as caught:
        load_network(str(path), "encoder")
    assert "missing encoder.layer.1.output.dense.bias" in str(caught.value)
    assert "unexpected encoder.layer.2.output.dense.bias" in str(caught.value)
    assert "lm_head" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "field", "value", "message"),
    [
        ("bert", "hidden_act", "relu", "hidden_act='relu' is not implemented"),
        ("bert", "hidden_act", "gelu_new", "hidden_act='gelu_new' is not implemented"),
        ("bert", "position_embedding_type", "relative_key", "position_embedding_type='relative"),
        ("roberta", "is_decoder", True, "is_decoder=True is not implemented"),
        ("roberta", "add_cross_attention", True, "add_cross_attention=True"),
        ("bert", "num_attention_heads", 5, "hidden_size=48 is not a multiple of num_attention_h"),
        ("roberta", "pad_token_id", None, "pad_token_id=None must be an id"),
        ("roberta", "pad_token_id", 33, "pad_token_id=33 .* max_position_embeddings - 1 = 33"),
        ("bert", "embedding_size", 24, "unknown field 'embedding_size'"),
    ],
)
def test_settings_that_would_change_the_states_are_refused(folder, name, field, value, message):
    path = folder(name)
    edit_config(path, **{field: value})
    with pytest.raises(ValueError, match=message):
        load_network(str(path), "encoder")


def test_an_encoder_is_no_scorer(golden):
    with pytest.raises(ValueError, match="bert model and cannot serve as a scorer"):
        load_network(str(golden("bert")), "scorer")


def test_fields_without_effect_and_special_ids(folder, models):
    path = folder("bert")
    edit_config(
        path,
        gradient_checkpointing=False,
        position_embedding_type="absolute",
        directionality="bidi",
        pooler_type="first_token_transform",
    )
    model = load_network(str(path), "encoder")
    assert_same_network(model, models("bert")[0])
    assert (model.spec.pad_id, model.spec.num_ids, model.family.pooling) == (0, 83, "cls")
    spec = models("roberta")[0].spec
    assert (spec.pad_id, spec.bos_id, spec.eos_id) == (1, 0, 2)
    assert spec.network.position_pad_id == 1
