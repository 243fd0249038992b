"""MPNet against recorded hidden states; its relative positions, padding and loader."""

import functools
import json
import math
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from dlmeval.models import mpnet
from dlmeval.models.loading import load_network

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def model(golden):
    return load_network(str(golden("mpnet")), "encoder")


@pytest.fixture(scope="module")
def arrays(golden):
    return np.load(golden("mpnet/forward.npz"))


@pytest.fixture
def folder(golden, tmp_path):
    return shutil.copytree(golden("mpnet"), tmp_path / "model")


@functools.partial(jax.jit, static_argnums=0)
def forward(config, params, ids, mask):
    return mpnet.hidden_states(config, params, ids, mask)


def run(model, ids, mask, **changed):
    mask = np.asarray(mask, bool)
    return np.asarray(forward(model.spec.network, model.params | changed, ids, mask))


def edit_config(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def edit_tensors(folder, edit):
    path = folder / "weights.safetensors"
    safetensors.numpy.save_file(edit(safetensors.numpy.load_file(path)), path)


def bucket(relative):
    """The published rule by a logarithm, a hair added where it must reach a whole number."""
    later = 16 if relative > 0 else 0
    distance = abs(relative)
    if distance < 8:
        return later + distance
    steps = math.log(distance / 8) / math.log(128 / 8) * 8
    return later + min(8 + int(steps + 1e-9), 15)


def test_hidden_states(model, arrays):
    mask = arrays["attention_mask"].astype(bool)
    hidden = run(model, arrays["input_ids"], mask)
    assert np.isfinite(hidden).all()
    np.testing.assert_allclose(hidden[mask], arrays["last_hidden_state"][mask], atol=TOLERANCE)


def test_buckets():
    distances = [*range(-300, 301), 5000, -5000, 2**31 - 1, -(2**31) + 1]
    buckets = mpnet.relative_buckets(jnp.array(distances)).tolist()
    assert buckets == [bucket(d) for d in distances]
    assert set(buckets) == set(range(32)) - {16}  # a distance of 0 is on one side alone


def test_the_bias_is_of_distances_between_valid_tokens():
    table = jnp.asarray(np.random.default_rng(0).normal(size=(32, 3)), jnp.float32)
    mask = np.array([[1, 1, 1, 1, 0], [0, 1, 0, 1, 1], [0, 0, 0, 0, 0]], bool)
    bias = np.asarray(mpnet.position_bias(table, jnp.asarray(mask)))
    assert bias.shape == (3, 3, 5, 5)
    for row in range(3):
        valid = np.flatnonzero(mask[row])
        for i, query in enumerate(valid):
            for j, key in enumerate(valid):
                np.testing.assert_array_equal(bias[row, :, query, key], table[bucket(j - i)])


def test_every_layer_adds_the_bias(model, arrays):
    """Without it states change; a bias alike at all distances changes nothing, as in a softmax."""
    ids, mask = arrays["input_ids"], arrays["attention_mask"].astype(bool)
    zero = jnp.zeros((32, 4))
    without = run(model, ids, mask, relative_bias=zero)
    assert np.abs(without - run(model, ids, mask))[mask].max() > 0.1
    alike = run(model, ids, mask, relative_bias=zero + jnp.arange(4.0))
    np.testing.assert_allclose(alike, without, atol=1e-5)


def test_a_row_does_not_depend_on_its_padding(model, arrays):
    ids = arrays["input_ids"][:1, :12]
    expected = run(model, np.repeat(ids, 3, axis=0), np.ones((3, 12), bool))
    padded, mask = np.full((3, 20), 7), np.zeros((3, 20), bool)
    for row, places in enumerate((range(12), range(8, 20), [*range(2, 9), *range(12, 17)])):
        padded[row, list(places)] = ids[0]
        mask[row, list(places)] = True
    hidden = run(model, padded, mask)
    np.testing.assert_allclose(hidden[mask].reshape(3, 12, -1), expected, atol=2e-5)
    assert np.isfinite(run(model, padded, np.zeros_like(mask))).all()


def test_bfloat16_stays_finite_and_close(golden, arrays):
    model = load_network(str(golden("mpnet")), "encoder", "bfloat16")
    mask = arrays["attention_mask"].astype(bool)
    hidden = run(model, arrays["input_ids"], mask)
    assert hidden.dtype == jnp.bfloat16
    assert np.isfinite(hidden.astype(np.float32)).all()
    difference = np.abs(hidden.astype(np.float32) - arrays["last_hidden_state"])[mask]
    assert 1e-4 < difference.mean() < 3e-2


def test_a_fresh_network_has_the_declared_shapes():
    config = mpnet.MPNetConfig(11, 12, 1, 3, 20, num_positions=9)
    params = jax.jit(mpnet.init_params, static_argnums=0)(config, jax.random.key(0))
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, mpnet.abstract_params(config))
    assert params["relative_bias"].shape == (32, 3)
    assert config.max_length == 7


def test_a_prefix_and_a_head(folder, model):
    def rename(tensors):
        named = {f"mpnet.{name}": x for name, x in tensors.items()}
        named["mpnet.embeddings.position_ids"] = np.arange(40)[None]
        return named | {"lm_head.bias": np.zeros(83, np.float32)}

    edit_tensors(folder, rename)
    again = load_network(str(folder), "encoder")
    assert again.spec == model.spec
    for one, other in zip(jax.tree.leaves(again.params), jax.tree.leaves(model.params)):
        np.testing.assert_array_equal(one, other)


def test_rows_beyond_the_buckets_are_not_used(folder, model, arrays):
    def grow(tensors):
        name = "encoder.relative_attention_bias.weight"
        return tensors | {name: np.pad(tensors[name], ((0, 3), (0, 0)), constant_values=9)}

    edit_tensors(folder, grow)
    edit_config(folder, relative_attention_num_buckets=35)
    ids, mask = arrays["input_ids"], arrays["attention_mask"]
    again = run(load_network(str(folder), "encoder"), ids, mask)
    np.testing.assert_array_equal(again, run(model, ids, mask))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("relative_attention_num_buckets", 31, "relative_attention_num_buckets=31 is not impl"),
        ("hidden_act", "silu", "hidden_act='silu' is not implemented"),
        ("pad_token_id", None, "pad_token_id=None must be an id"),
        ("num_attention_heads", 7, "hidden_size=48 is not a multiple"),
        ("type_vocab_size", 2, "unknown field 'type_vocab_size'"),
    ],
)
def test_settings_that_would_change_the_states_are_refused(folder, field, value, message):
    edit_config(folder, **{field: value})
    with pytest.raises(ValueError, match=message):
        load_network(str(folder), "encoder")


def test_ids_pooling_and_context(model):
    spec = model.spec
    assert (spec.pad_id, spec.bos_id, spec.eos_id, spec.num_ids) == (1, 0, 2, 83)
    assert spec.network.max_length == 38
    assert model.family.pooling == "mean"
    with pytest.raises(ValueError, match="MPNetConfig does not offer this"):
        model.family.network.project(spec.network, model.params, np.zeros((1, 1, 48)))
