"""Sharding over eight devices of one process: the same numbers, and really less on each device.

The devices are virtual, and must be asked for before JAX starts: the file runs itself once more,
as a script, and the tests below judge what that run measured.
"""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

from dlmeval.models import decoder, load_denoiser, load_encoder, load_scorer, sharding

ALL, SOME = ((8, 1), (1, 8), (4, 2), (2, 4)), ((8, 1), (2, 4))
DENOISERS = ("llada", "llada_moe", "mdlm")
SCORERS = ("llama", "gpt2")
# Every mesh for a network with plain and one with grouped attention, which share all rules.
MESHES = {"llada": ALL, "llama": ALL, "llada_moe": SOME, "mdlm": SOME, "gpt2": SOME, "bert": SOME}
CASES = [(name, "{}x{}".format(*shape)) for name, shapes in MESHES.items() for shape in shapes]


def measure(golden: pathlib.Path) -> dict[str, Any]:
    """Everything that needs eight devices, as plain numbers."""
    found: dict[str, Any] = {"devices": len(jax.devices()), "models": {}}
    for name, meshes in MESHES.items():
        numbers = found["models"][name] = {}
        expected = None
        for shape in (None, *meshes):
            mesh = None if shape is None else sharding.make_mesh(*shape)
            params, values, moved = outputs(golden, name, mesh)
            if expected is None:
                expected, numbers["bytes"] = values, bytes_a_device(params)
                numbers["size"] = [float(np.abs(x).max()) for x in expected]
                continue
            numbers["{}x{}".format(*shape)] = {
                "difference": max(float(np.abs(a - b).max()) for a, b in zip(values, expected)),
                "bytes": bytes_a_device(params),
                "told": sharding.local_bytes(params, "float32", mesh),
                "split": split_leaves(params),
                "rows": moved,
            }
    found["gradients"] = gradients(golden)
    found["tokens"] = sampled(golden)
    found["whole"] = whole_sides()
    with jax.default_device(jax.devices()[5]):
        params = load_denoiser(str(golden / "llada")).params
    found["default"] = sorted({d.id for x in jax.tree.leaves(params) for d in x.devices()})
    return found


def outputs(golden, name, mesh):
    """Parameters of a model, what it computes of eight rows, and how the result lies."""
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 55, (8, 12)).astype(np.int32)
    lengths = rng.integers(3, 13, 8)
    token_mask = np.arange(12) < lengths[:, None]
    source = str(golden / name)
    if name in DENOISERS:
        override = "mdlm" if name == "mdlm" else None
        model = load_denoiser(source, mesh=mesh, architecture=override)
        run = jax.jit(lambda params, *rows: model.logits_fn(params, *rows, slice(2, 9)))
        logits = run(model.params, *sharding.shard_rows((ids, token_mask), mesh))
        valid = np.where(token_mask[:, 2:9, None], np.asarray(logits), 0.0)
        return model.params, [np.maximum(valid, -1e3)], logits.sharding.num_devices
    if name in SCORERS:
        model = load_scorer(source, mesh=mesh)
        nll, count = model.nll(ids, lengths)
        assert count.tolist() == (lengths - 1).tolist()
        return model.params, [nll / 12], None
    model = load_encoder(source, mesh=mesh)
    return loaded_params(model), [model.hidden(ids, lengths)], None


def loaded_params(model):
    return model.hidden.args[0].params


def bytes_a_device(params) -> list[int]:
    held = dict.fromkeys(jax.devices(), 0)
    for leaf in jax.tree.leaves(params):
        for shard in leaf.addressable_shards:
            held[shard.device] += shard.data.nbytes
    return list(held.values())


def split_leaves(params) -> dict[str, list[int]]:
    """Into how many parts each side of a parameter is split."""
    parts = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        shard = leaf.addressable_shards[0].data.shape
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        parts[name] = [whole // part for whole, part in zip(leaf.shape, shard)]
    return parts


def gradients(golden) -> list[float]:
    """Largest relative difference of the gradient sums of each mesh from one device's."""
    rng = np.random.default_rng(1)
    ids, lengths = rng.integers(5, 55, (4, 9)), np.array([9, 4, 2, 9])
    stats = []
    for mesh in (None, sharding.make_mesh(2, 4)):
        model = load_scorer(str(golden / "llama"), mesh=mesh)
        stats.append(model.gradient_stats(ids, lengths, batch_size=4))
    leaves = [[np.asarray(x) for x in jax.tree.leaves(s.total)] for s in stats]
    scale = max(np.abs(x).max() for x in leaves[0])
    found = [float(np.abs(a - b).max() / scale) for a, b in zip(*leaves, strict=True)]
    return [*found, abs(float(stats[1].squared_norm / stats[0].squared_norm) - 1)]


def sampled(golden) -> list[list[list[int]]]:
    """Tokens that one device and a mesh draw under the same keys."""
    from dlmeval.samplers import SamplerConfig, sample

    config = SamplerConfig(8, 4, "low_confidence", 1.0)
    prompt = np.arange(5, 29, dtype=np.int32).reshape(8, 3)
    drawn = []
    for mesh in (None, sharding.make_mesh(4, 2)):
        model = load_denoiser(str(golden / "llada_peaked"), mesh=mesh)
        keys = jax.random.split(jax.random.key(3), 8)
        inputs = sharding.shard_rows((prompt, np.ones_like(prompt, bool)), mesh)
        samples = sample(
            model.logits_fn,
            model.params,
            *inputs,
            keys,
            config,
            mask_id=model.mask_id,
            num_ids=model.num_ids,
        )
        drawn.append(np.asarray(samples.tokens).tolist())
    return drawn


def whole_sides() -> list[list[int]]:
    """Shards of parameters with sides that a mesh does not divide."""
    mesh = sharding.make_mesh(4, 2)
    shapes = {"q_proj": (3, 12, 7), "down_proj": (3, 6, 10), "embed": (9, 8), "norm": (8,)}
    return [
        list(sharding.placement((name,), shape, mesh).shard_shape(shape))
        for name, shape in shapes.items()
    ]


@pytest.fixture(scope="module")
def measured(golden):
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, __file__, str(golden("."))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("name", "mesh"), CASES)
def test_a_mesh_computes_what_one_device_computes(measured, name, mesh):
    assert measured["devices"] == 8
    numbers = measured["models"][name]
    assert all(size > 0.1 for size in numbers["size"])
    assert numbers[mesh]["difference"] < 1e-5
    if name in DENOISERS:
        assert numbers[mesh]["rows"] == 8


@pytest.mark.parametrize(("name", "mesh"), CASES)
def test_each_device_holds_its_share(measured, name, mesh):
    alone, numbers = measured["models"][name]["bytes"], measured["models"][name][mesh]
    assert sum(held > 0 for held in alone) == 1
    assert numbers["bytes"] == [numbers["told"]] * 8
    assert numbers["told"] < 0.45 * max(alone)
    fsdp, tensor = map(int, mesh.split("x"))
    for parameter, parts in numbers["split"].items():
        kind = parameter.split(".")[-1]
        if kind.endswith(("o_proj", "down_proj")) or kind == "embed":
            assert parts[-1] in (1, fsdp)
            assert parts[-2] in (1, tensor)
        elif kind.endswith("_proj") or kind == "head":
            assert parts[-2] in (1, fsdp)
            assert parts[-1] in (1, tensor)
        elif not kind.endswith("_embed"):
            assert set(parts) == {1}
        assert parameter.count(".") == 0 or parts[0] == 1  # layers are never split
    assert max(np.prod(parts) for parts in numbers["split"].values()) == 8


def test_gradients_on_a_mesh(measured):
    assert len(measured["gradients"]) == 13
    assert max(measured["gradients"]) < 1e-5


def test_samples_do_not_depend_on_the_mesh(measured):
    alone, spread = measured["tokens"]
    assert alone == spread
    assert len({tuple(row[3:]) for row in alone}) > 1


def test_sides_that_a_mesh_does_not_divide_stay_whole(measured):
    assert measured["whole"] == [[3, 3, 7], [3, 3, 10], [9, 2], [8]]


def test_without_a_mesh_the_default_device_of_the_caller_holds_everything(measured):
    assert measured["default"] == [5]


def test_meshes_that_cannot_be():
    with pytest.raises(ValueError, match=r"fsdp=64 × tensor=2 needs 128 devices; there are \d+"):
        sharding.make_mesh(64, 2)
    with pytest.raises(ValueError, match="tensor=0 must be at least 1"):
        sharding.make_mesh(1, 0)


def test_a_mesh_of_other_axes_replicates(golden):
    mesh = jax.make_mesh((1,), ("data",))
    params = load_denoiser(str(golden("llada")), mesh=mesh).params
    assert sharding.mesh_of(params).axis_names == ("data",)
    assert all(leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves(params))
    assert sharding.partition_spec(("q_proj",), (2, 8, 8), mesh) == PartitionSpec(None, None, None)
    rows = sharding.shard_rows(np.zeros((4, 3)), mesh)
    assert rows.sharding.is_fully_replicated
    assert sharding.shard_rows(rows, None) is rows
    assert sharding.mesh_of(load_denoiser(str(golden("llada"))).params) is None


def test_bytes_of_a_large_model_need_no_devices():
    config = decoder.DecoderConfig(
        vocab_size=126464,
        hidden_size=4096,
        num_layers=32,
        num_heads=32,
        num_kv_heads=32,
        intermediate_size=12288,
        causal=False,
        tie_embeddings=False,
    )
    shapes = decoder.abstract_params(config)
    matrices = 32 * (4 * 4096**2 + 3 * 4096 * 12288) + 2 * 126464 * 4096
    vectors = (2 * 32 + 1) * 4096
    assert sharding.local_bytes(shapes, "bfloat16", None) == 2 * (matrices + vectors)
    mesh = AbstractMesh((4, 8), ("fsdp", "tensor"))
    assert sharding.local_bytes(shapes, "bfloat16", mesh) == 2 * (matrices // 32 + vectors)


if __name__ == "__main__":
    print(json.dumps(measure(pathlib.Path(sys.argv[1]))))
