"""Streaming of weights: chunks, types, fused tensors, memory that is not shared, peak memory."""

import json
import os
import pathlib
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from dlmeval.models import architectures, decoder, sharding, stored, weight_table, weights

FILE = "weights.safetensors"
FAMILIES = {"gpt2": "scorer", "llada_moe": "denoiser", "smdm": "denoiser", "mdlm": "denoiser"}


@pytest.fixture(scope="module")
def specs(golden):
    """Family, config and open tensors of a golden model."""

    def read(name):
        config = json.loads((golden(name) / "config.json").read_text())
        override = name if "model_type" not in config else None
        family = architectures.architecture_of(config, override, name, FAMILIES[name])
        spec = architectures.read_config(config, family, name)
        return family, spec.network, stored.open_safetensors([golden(name) / FILE])[0]

    return {name: read(name) for name in FAMILIES}


def place(spec, dtype="float32", mesh=None, tensors=None):
    family, config, found = spec
    found = found if tensors is None else tensors
    return weights.place_params(found, family, config, dtype, mesh, where="it")


def leaves(params):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(params)]


def assert_equal_bits(left, right):
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(leaves(left), leaves(right), strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()


def expected_params(spec, dtype=np.float32):
    """The parameters by the table, tensor by tensor, with plain NumPy."""
    family, config, found = spec
    held = weight_table.canonical_names(found, family, config)
    params, shapes = {}, family.network.abstract_params(config)
    for row in family.tensors:
        shape = shapes
        for key in row.path:
            shape = shape.get(key, {}) if isinstance(shape, dict) else shape
        if isinstance(shape, dict):
            continue  # not of this shape: a tied head
        names = [row.name]
        for mark, size in (("{i}", config.num_layers), ("{e}", getattr(config, "num_experts", 0))):
            if mark in row.name:
                names = [name.replace(mark, str(i)) for name in names for i in range(size)]
        pieces = []
        for name in names:
            value = np.empty(held[name].shape, held[name].dtype)
            held[name].read(value)
            value = value if row.part is None else row.part(config, value)
            pieces.append((value.T if row.transpose else value).astype(np.float32))
        node = params
        for key in row.path[:-1]:
            node = node.setdefault(key, {})
        node[row.path[-1]] = np.stack(pieces).reshape(shape.shape).astype(dtype)
    return params


@pytest.mark.parametrize("name", FAMILIES)
def test_parameters_are_the_table_applied(specs, name):
    params = place(specs[name])
    assert_equal_bits(params, expected_params(specs[name]))
    half = place(specs[name], "bfloat16")
    assert_equal_bits(half, expected_params(specs[name], ml_dtypes.bfloat16))


def test_fused_rows_are_cut_and_transposed(specs):
    # SMDM stacks, for each group of heads, its queries, its key and its value as rows.
    _, config, found = specs["smdm"]
    fused = np.empty(found["transformer.h.1.attn.attn.weight"].shape, np.float32)
    found["transformer.h.1.attn.attn.weight"].read(fused)
    blocks = place(specs["smdm"])["blocks"]
    width, ratio = config.width_per_head, config.num_heads // config.num_kv_heads
    for head in range(config.num_heads):
        group, place_in_group = divmod(head, ratio)
        start = (group * (ratio + 2) + place_in_group) * width
        ours = np.asarray(blocks["q_proj"])[1][:, head * width : (head + 1) * width]
        np.testing.assert_array_equal(ours, fused[start : start + width].T)
    for name, offset in (("k_proj", 0), ("v_proj", 1)):
        for group in range(config.num_kv_heads):
            start = (group * (ratio + 2) + ratio + offset) * width
            ours = np.asarray(blocks[name])[1][:, group * width : (group + 1) * width]
            np.testing.assert_array_equal(ours, fused[start : start + width].T)


@pytest.mark.parametrize("name", FAMILIES)
def test_chunks_of_layers_give_the_same_bits(specs, name, monkeypatch):
    whole = place(specs[name], "bfloat16")
    inserted = []
    insert = weights._insert
    monkeypatch.setattr(weights, "_insert", lambda *args: inserted.append(1) or insert(*args))
    monkeypatch.setattr(weights, "_BUFFER", 1 << 10)  # one layer at a time
    assert_equal_bits(place(specs[name], "bfloat16"), whole)
    assert len(inserted) >= 6
    mesh = sharding.make_mesh()
    on_mesh = place(specs[name], "bfloat16", mesh)
    assert_equal_bits(on_mesh, whole)
    for keys, leaf in jax.tree_util.tree_leaves_with_path(on_mesh):
        path = tuple(key.key for key in keys)
        assert leaf.sharding == sharding.placement(path, leaf.shape, mesh)


def test_types_may_be_mixed_within_a_stack(specs, tmp_path, monkeypatch):
    family, config, found = specs["gpt2"]
    kinds = (np.float32, np.float16, ml_dtypes.bfloat16)
    mixed = {}
    for name, entry in found.items():
        value = np.empty(entry.shape, entry.dtype)
        entry.read(value)
        kind = (len(name) + (".0." in name)) % 3
        mixed[name] = value.astype(kinds[kind])
    safetensors.numpy.save_file(mixed, tmp_path / FILE)
    spec = family, config, stored.open_safetensors([tmp_path / FILE])[0]
    types = [spec[2][f"transformer.h.{i}.mlp.c_fc.weight"].type_name for i in range(2)]
    assert types[0] != types[1]
    for dtype in ("float32", "float16"):
        expected = expected_params(spec, np.dtype(dtype))
        assert_equal_bits(place(spec, dtype), expected)
    monkeypatch.setattr(weights, "_BUFFER", 1 << 10)
    assert_equal_bits(place(spec, "float16"), expected)


@pytest.fixture
def aligned(monkeypatch):
    """Gives the loader buffers that JAX on CPU would take over; call it to overwrite them."""
    buffers = {}
    place_one = weights._place

    def with_aligned_buffer(*args):
        key = threading.get_ident(), args[-1].nbytes
        if key not in buffers:
            raw = np.empty(key[1] + 64, np.uint8)
            buffers[key] = raw[-raw.ctypes.data % 64 :][: key[1]]
        return place_one(*args[:-1], buffers[key])

    def overwrite():
        assert buffers
        for buffer in buffers.values():
            buffer[:] = 0xFF

    monkeypatch.setattr(weights, "_place", with_aligned_buffer)
    return overwrite


@pytest.mark.parametrize("size", [1 << 29, 1 << 10])
@pytest.mark.parametrize("name", FAMILIES)
def test_no_parameter_lies_in_the_buffer(specs, name, size, aligned, monkeypatch):
    monkeypatch.setattr(weights, "_BUFFER", size)
    for dtype in ("float32", "bfloat16"):
        params = place(specs[name], dtype)
        aligned()
        assert_equal_bits(params, expected_params(specs[name], jnp.dtype(dtype)))


def test_not_even_one_whose_transpose_is_in_its_own_order(aligned, tmp_path):
    # A matrix of one column, transposed, is C-contiguous; JAX would take it over.
    config = decoder.DecoderConfig(32, 16, 1, 2, 2, 1, causal=True)
    family = architectures.ARCHITECTURES["llama"]
    rng = np.random.default_rng(0)
    shapes = decoder.abstract_params(config)
    params = jax.tree.map(lambda x: rng.random(x.shape).astype(ml_dtypes.bfloat16), shapes)
    weights.save_params(tmp_path / FILE, family, config, params)
    loaded = place((family, config, stored.open_safetensors([tmp_path / FILE])[0]), "bfloat16")
    aligned()
    assert_equal_bits(loaded, params)


def test_names_that_mean_the_same_are_stored_twice(specs):
    found = specs["gpt2"][2]
    name = "transformer.ln_f.bias"
    with pytest.raises(ValueError, match=r"stored twice ln_f\.bias, under names that mean"):
        place(specs["gpt2"], tensors={**found, "ln_f.bias": found[name]})
    # A tied head is not read, however often it is there.
    head = {"lm_head.weight": found["transformer.wte.weight"]}
    assert_equal_bits(place(specs["gpt2"], tensors={**found, **head}), place(specs["gpt2"]))


def test_a_constant_of_other_values_is_refused(specs):
    family, config, found = specs["mdlm"]
    name = "backbone.rotary_emb.inv_freq"
    values = np.asarray(family.constants[name](config), np.float32)

    def holding(values):
        entry = stored.Stored(
            pathlib.Path(__file__),
            "F32",
            np.dtype(np.float32),
            values.shape,
            lambda out: np.copyto(out, values),
        )
        return {**found, name: entry}

    assert_equal_bits(place(specs["mdlm"], tensors=holding(values)), place(specs["mdlm"]))
    with pytest.raises(ValueError, match=r"inv_freq does not hold the values"):
        place(specs["mdlm"], tensors=holding(values * 2))
    with pytest.raises(ValueError, match=r"inv_freq does not hold the values"):
        place(specs["mdlm"], tensors=holding(values[:-1]))


MEMORY = """
import json, pathlib, sys
from dlmeval.models import loading

def status(field):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) << 10

small, large = sys.argv[1:]
for dtype in ("float32", "bfloat16"):
    loading.load_network(small, "scorer", dtype).card.digests
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = status("VmRSS")
    loaded = loading.load_network(large, "scorer", dtype)
    print(json.dumps({"peak": status("VmHWM") - before, "held": status("VmRSS") - before}))
    del loaded
"""


def write_llama(folder, hidden, inner, layers, shards):
    """A checkpoint of float32 shards, dealt in order; parameters and the largest file in bytes."""
    config = decoder.DecoderConfig(1024, hidden, layers, 8, 8, inner, causal=True)
    family = architectures.ARCHITECTURES["llama"]
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(family.write(config, {})))
    names = weight_table.expected_tensors(family, config)
    order = sorted(names, key=lambda name: [int(p) if p.isdigit() else 0 for p in name.split(".")])
    weight_map = {}
    for i in range(shards):
        part = order[i * len(order) // shards : (i + 1) * len(order) // shards]
        file = f"model-{i}.safetensors"
        held = {name: np.full(names[name], 0.5, np.float32) for name in part}
        safetensors.numpy.save_file(held, folder / file)
        weight_map |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    params = 4 * sum(int(np.prod(shape)) for shape in names.values())
    return params, max(path.stat().st_size for path in folder.glob("*.safetensors"))


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs Linux")
def test_peak_memory_of_loading(tmp_path):
    write_llama(tmp_path / "small", 64, 128, 2, 1)
    params, largest = write_llama(tmp_path / "large", 1024, 2816, 6, 4)
    assert 280e6 < params < 320e6
    # Memory that is freed goes back at once, so that the peak is that of what is held.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": str(1 << 16)}
    command = [sys.executable, "-c", MEMORY, tmp_path / "small", tmp_path / "large"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    for line, size in zip(done.stdout.splitlines(), (params, params // 2), strict=True):
        found = json.loads(line)
        assert abs(found["held"] - size) < 40e6  # beside programs compiled meanwhile
        assert found["peak"] < size + 1.5 * largest
