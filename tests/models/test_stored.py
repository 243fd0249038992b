"""Files of tensors: what is read, and how faults are told."""

import json
import pickle
import shutil
import struct

import jax
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from dlmeval.models import loading, stored

INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(golden, tmp_path):
    shutil.copytree(golden("llama"), tmp_path / "model")
    return tmp_path / "model"


def shard(folder, number):
    """Splits the one file of a folder into shards with an index; names are dealt in turn."""
    source = folder / "weights.safetensors"
    tensors = safetensors.numpy.load_file(source)
    source.unlink()
    weight_map = {}
    for i in range(number):
        name = f"model-{i + 1:05}-of-{number:05}.safetensors"
        held = dict(list(tensors.items())[i::number])
        safetensors.numpy.save_file(held, folder / name)
        weight_map |= dict.fromkeys(held, name)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return sorted(set(weight_map.values()))


def write_raw(path, header, body):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def load(folder):
    return loading.load_network(str(folder), "scorer")


def test_shards_equal_one_file_bit_by_bit(folder, golden):
    names = shard(folder, 3)
    shutil.copy(golden("llama/weights.safetensors"), folder / "not-in-the-index.safetensors")
    whole, parts = load(golden("llama")), load(folder)
    for a, b in zip(jax.tree.leaves(whole.params), jax.tree.leaves(parts.params), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert {*names, INDEX, "config.json"} <= parts.card.digests.keys()


def test_missing_shards_are_named(folder):
    names = shard(folder, 3)
    (folder / names[0]).unlink()
    (folder / names[2]).unlink()
    with pytest.raises(ValueError) as caught:
        load(folder)
    message = str(caught.value)
    for part in ("2 of the 3 files", names[0], names[2], INDEX, "fetch them again"):
        assert part in message
    assert names[1] not in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "no index of tensors"),
        ("{}", "no index of tensors.*weight_map"),
        ('{"weight_map": {}}', "names no tensor in its weight_map: fetch it again"),
        ('{"weight_map": 3}', "no index of tensors"),
        ("{", "no index of tensors"),
        ('{"weight_map": {"a": "../weights.safetensors"}}', "of its own folder"),
        ('{"weight_map": {"a": "pytorch_model.bin"}}', "only safetensors"),
    ],
)
def test_a_broken_index(folder, text, message):
    (folder / INDEX).write_text(text)
    with pytest.raises(ValueError, match=rf"{INDEX}.*{message}"):
        load(folder)


@pytest.mark.parametrize("kept", [4, 300, -1])
def test_a_truncated_shard_is_named_with_the_remedy(folder, kept):
    names = shard(folder, 2)
    content = (folder / names[1]).read_bytes()[:kept]
    (folder / names[1]).write_bytes(content)
    with pytest.raises(ValueError) as caught:
        load(folder)
    for part in (names[1], f"{len(content)} bytes", "fetch it again"):
        assert part in str(caught.value)
    assert names[0] not in str(caught.value)


def test_a_file_that_shrinks_while_it_is_read(folder):
    path = folder / "weights.safetensors"
    tensors, _ = stored.open_safetensors([path])
    last = max(tensors.values(), key=lambda entry: entry.read.args[2])
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(ValueError, match=r"weights\.safetensors ends 7 bytes early: fetch it"):
        last.read(np.empty(last.shape, last.dtype))
    with pytest.raises(ValueError, match="do not fill"):
        last.read(np.empty(3, last.dtype))


def test_a_git_lfs_pointer_is_told(folder):
    (folder / "weights.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:12ab\nsize 988097824\n"
    )
    with pytest.raises(ValueError, match=r"weights\.safetensors.*Git LFS pointer.*git lfs pull"):
        load(folder)


class Bomb:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return (open, (str(self.trace), "w"))


def test_pickles_are_never_opened(folder, tmp_path):
    trace = tmp_path / "trace"
    (folder / "weights.safetensors").unlink()
    for name in ("pytorch_model.bin", "consolidated.00.pth", "model.ckpt"):
        (folder / name).write_bytes(pickle.dumps(Bomb(trace)))
    with pytest.raises(ValueError) as caught:
        load(folder)
    for part in ("pytorch_model.bin", "consolidated.00.pth", "model.ckpt", "never opened"):
        assert part in str(caught.value)
    assert "safetensors.torch.save_file" in str(caught.value)
    # Nor under the name of another kind of file.
    (folder / "weights.safetensors").write_bytes(pickle.dumps(Bomb(trace)))
    with pytest.raises(ValueError, match="cannot read"):
        load(folder)
    assert not trace.exists()
    pickle.loads((folder / "model.ckpt").read_bytes()).close()
    assert trace.exists()  # it would have gone off


def test_types_that_are_not_read_are_named(folder):
    path = folder / "weights.safetensors"
    tensors = safetensors.numpy.load_file(path)
    refused = {
        "model.norm.weight": ("F8_E4M3", ml_dtypes.float8_e4m3fn),
        "model.embed_tokens.weight": ("I32", np.int32),
        "lm_head.weight": ("F64", np.float64),
    }
    header, body = {}, b""
    for name, value in tensors.items():
        tag, dtype = refused.get(name, ("F32", np.float32))
        raw = value.astype(dtype).tobytes()
        offsets = [len(body), len(body) + len(raw)]
        header[name] = {"dtype": tag, "shape": list(value.shape), "data_offsets": offsets}
        body += raw
    write_raw(path, header, body)
    with pytest.raises(ValueError) as caught:
        load(folder)
    for name, (tag, _) in refused.items():
        assert f"{name} has type {tag}, not one of ('F32', 'F16', 'BF16')" in str(caught.value)
    assert "q_proj" not in str(caught.value)


def test_a_tensor_stored_in_two_files(folder):
    tensors = safetensors.numpy.load_file(folder / "weights.safetensors")
    extra = {"model.norm.weight": tensors["model.norm.weight"]}
    safetensors.numpy.save_file(extra, folder / "more.safetensors")
    with pytest.raises(ValueError) as caught:
        load(folder)
    for part in (
        "stored twice model.norm.weight (in more.safetensors and in weights.safetensors;",
        "remove one of the two",
    ):
        assert part in str(caught.value)


def test_a_model_stored_in_two_files_is_told_once(folder):
    shutil.copy(folder / "weights.safetensors", folder / "consolidated.safetensors")
    number = len(safetensors.numpy.load_file(folder / "weights.safetensors"))
    with pytest.raises(ValueError) as caught:
        load(folder)
    assert str(caught.value).count("stored twice") == 1
    assert f" and {number - 1} more (in consolidated.safetensors and in" in str(caught.value)


def test_a_folder_by_the_name_of_a_file(folder):
    (folder / "model.safetensors").mkdir()
    (folder / "spare.json").mkdir()  # no part of the model
    with pytest.raises(ValueError, match=r"model\.safetensors: it is a folder, not a file"):
        load(folder)
    (folder / "model.safetensors").rmdir()
    assert "spare.json" not in load(folder).card.digests


def test_every_tensor_is_read_as_it_was_written(tmp_path):
    rng = np.random.default_rng(0)
    tensors = {
        "a": rng.standard_normal((3, 5)).astype(np.float32),
        "b": rng.standard_normal((2, 0)).astype(np.float16),
        "c": rng.standard_normal((7,)).astype(ml_dtypes.bfloat16),
        "d": np.array(3.25, np.float32),
    }
    safetensors.numpy.save_file(tensors, tmp_path / "a.safetensors", metadata={"format": "pt"})
    found, twice = stored.open_safetensors([tmp_path / "a.safetensors"])
    assert found.keys() == tensors.keys()
    assert twice == []
    for name, value in tensors.items():
        out = np.empty(found[name].shape, found[name].dtype)
        found[name].read(out)
        assert (out.dtype, out.shape) == (value.dtype, value.shape)
        assert out.tobytes() == value.tobytes()
