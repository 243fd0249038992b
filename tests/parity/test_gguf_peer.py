"""GGUF files as the `gguf` package writes them: the container, and every block format."""

import numpy as np
import pytest

from dlmeval.models import gguf as ours

peer = pytest.importorskip("gguf")

pytestmark = pytest.mark.parity
QUANTIZED = ("Q8_0", "Q4_0", "Q4_1", "BF16", "F16", "F32")


def written(path, tensors, **metadata):
    """A file of the peer's writer; `tensors` are (name, type, array as the type stores it)."""
    writer = peer.GGUFWriter(path, "llama")
    for key, value in metadata.items():
        add = {str: writer.add_string, bool: writer.add_bool, list: writer.add_array}
        add.get(type(value), writer.add_uint32)(key, value)
    for name, kind, array in tensors:
        writer.add_tensor(name, array, raw_dtype=peer.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return ours.read_header(path)


def read(path, header, name):
    entry = ours.tensor(path, header.tensors[name])
    out = np.empty(entry.shape, entry.dtype)
    entry.read(out)
    return out


def test_values_equal_the_peers_own_to_the_last_bit(tmp_path):
    """Quantised by the peer, which has no quantiser for Q6_K: that one of random bytes."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(6, 512)).astype(np.float32)
    stored = {
        kind: peer.quants.quantize(weights, peer.GGMLQuantizationType[kind]) for kind in QUANTIZED
    }
    blocks = rng.integers(0, 256, (6, 2, 210), np.uint8)
    blocks[..., 208:] = rng.normal(size=(6, 2, 1)).astype("<f2").view(np.uint8)
    stored["Q6_K"] = blocks.reshape(6, 420)
    path = tmp_path / "peer.gguf"
    header = written(path, [(kind, kind, array) for kind, array in stored.items()])
    for kind, array in stored.items():
        expected = peer.quants.dequantize(array, peer.GGMLQuantizationType[kind])
        value = read(path, header, kind)
        assert value.shape == weights.shape
        np.testing.assert_array_equal(value.astype(np.float32), expected, err_msg=kind)


def test_metadata_is_read_as_written(tmp_path):
    said = {"a.text": "é", "a.flag": True, "a.count": 7, "a.names": ["x", "yz"], "a.kinds": [1, 3]}
    header = written(tmp_path / "peer.gguf", [("x", "F32", np.ones(3, np.float32))], **said)
    assert said.items() <= header.metadata.items()
    assert header.metadata["general.architecture"] == "llama"


def test_type_numbers_are_the_peers():
    numbers = {kind.value: kind.name for kind in peer.GGMLQuantizationType}
    assert ours.TYPE_NAMES.items() <= numbers.items()
