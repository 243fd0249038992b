"""Inspection: what a loader would accept or refuse, and what it takes, without reading weights."""

import json
import shutil

import jax
import numpy as np
import pytest
import safetensors.numpy

from dlmeval.models import inspection, load_denoiser, registry, text_tokens


@pytest.fixture
def llada(golden, tmp_path):
    """A copy of a small LLaDA whose files a test may spoil."""
    for name in ("config.json", "weights.safetensors"):
        shutil.copy(golden("llada") / name, tmp_path / name)
    return tmp_path


def edit(folder, **fields):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | fields))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("llada", "denoiser"), ("mdlm", "denoiser"), ("dream", "denoiser"), ("llama", "scorer")],
)
def test_a_sound_folder_has_no_problems(golden, name, kind):
    architecture = {"mdlm": "mdlm"}.get(name)
    found = inspection.inspect_source(str(golden(name)), kind=kind, architecture=architecture)
    assert found.problems == ()
    assert found.unread == ()
    assert found.family.name == name
    assert found.tokenizer_size is None
    held = safetensors.numpy.load_file(next(golden(name).glob("*.safetensors")))
    assert sum(found.types.values()) == sum(x.size for x in held.values())


def test_counts_and_memory_are_those_of_the_loaded_model():
    found = inspection.inspect_source("embedded:kjv-denoiser", kind="denoiser")
    model = load_denoiser("embedded:kjv-denoiser", dtype="bfloat16")
    assert found.num_params == model.card.num_params == sum(found.types.values())
    assert found.tokenizer_size == model.tokenizer.vocab_size
    memory = inspection.memory_per_device(found, dtype="bfloat16", batch_size=3, length=5)
    assert memory.params == sum(x.nbytes for x in jax.tree.leaves(model.params))
    tokens = np.zeros((3, 5), np.int32)
    logits = jax.eval_shape(
        lambda params: model.logits_fn(params, tokens, tokens == 0, slice(0, 5)), model.params
    )
    assert memory.logits == logits.size * logits.dtype.itemsize
    assert memory.total == memory.params + memory.logits


def test_matrices_and_rows_are_spread_over_devices_that_need_not_be_there():
    found = inspection.inspect_entry(registry.find_model("llada-8b-base"))
    one = inspection.memory_per_device(found, dtype="bfloat16", batch_size=8)
    spread = inspection.memory_per_device(found, dtype="bfloat16", batch_size=8, fsdp=4, tensor=2)
    norms = (2 * 32 + 1) * 4096 * 2  # bytes that every device holds
    assert one.params == 2 * 8_015_581_184
    assert spread.params == (one.params - norms) // 8 + norms
    assert spread.logits * 4 == one.logits == 8 * 128 * 126_464 * 4
    uneven = inspection.memory_per_device(found, dtype="bfloat16", batch_size=3, fsdp=4)
    assert uneven.logits == 3 * 128 * 126_464 * 4  # rows that do not divide stay whole
    with pytest.raises(ValueError, match="tensor=0 must be at least 1"):
        inspection.memory_per_device(found, tensor=0)


def test_encoders_have_no_logits():
    found = inspection.inspect_entry(registry.find_model("gpt2-large-encoder"))
    assert inspection.memory_per_device(found).logits == 0
    scorer = inspection.inspect_entry(registry.find_model("gpt2-large"))
    assert inspection.memory_per_device(scorer).logits == 128 * 50257 * 4


def test_a_shape_on_record_says_what_was_not_looked_at():
    found = inspection.inspect_entry(registry.find_model("dream-7b-base"))
    assert found.problems == ()
    assert found.unread == ("tensors", "tokenizer")
    with pytest.raises(ValueError, match="no shape of illada-8b-base on record"):
        inspection.inspect_entry(registry.find_model("illada-8b-base"))


def test_all_faults_of_tensors_are_listed_at_once(llada):
    held = safetensors.numpy.load_file(llada / "weights.safetensors")
    held["model.transformer.ln_f.weight"] = held["model.transformer.ln_f.weight"][:-1]
    del held["model.transformer.wte.weight"]
    held["surplus"] = np.zeros(3, np.float32)
    held["model.transformer.ff_out.weight"] = held["model.transformer.ff_out.weight"].astype(int)
    safetensors.numpy.save_file(held, llada / "weights.safetensors")
    found = inspection.inspect_source(str(llada))
    text = "; ".join(found.problems)
    assert len(found.problems) == 4
    assert "missing model.transformer.wte.weight" in text
    assert "unexpected surplus" in text
    assert "model.transformer.ln_f.weight has shape" in text
    assert "model.transformer.ff_out.weight has type I64" in text
    assert found.types["I64"] > 0


def test_faults_of_every_file_are_found(llada):
    edit(llada, novelty=1, rope=False)
    (llada / "tokenizer.json").write_text("{")
    shutil.move(llada / "weights.safetensors", llada / "pytorch_model.bin")
    found = inspection.inspect_source(str(llada))
    config, tokenizer, weights = found.problems
    assert "unknown field 'novelty'" in config
    assert "rope=False is not implemented" in config
    assert "cannot be read" in tokenizer
    assert "a pickle can run code" in weights
    assert found.num_params is None
    with pytest.raises(ValueError, match="without a shape"):
        inspection.memory_per_device(found)


def test_a_tokenizer_beyond_the_embedding_is_a_problem(llada):
    large = text_tokens.train_bpe(["some text to train on"], 300)
    large.save(llada / "tokenizer.json")
    found = inspection.inspect_source(str(llada))
    assert found.tokenizer_size == large.vocab_size
    assert len(found.problems) == 1
    assert "tokenizer and weights do not belong together" in found.problems[0]


def test_truncated_files_and_other_kinds_are_problems(llada):
    assert (
        "cannot serve as a scorer"
        in inspection.inspect_source(str(llada), kind="scorer").problems[0]
    )
    data = (llada / "weights.safetensors").read_bytes()
    (llada / "weights.safetensors").write_bytes(data[:-10])
    (problem,) = inspection.inspect_source(str(llada)).problems
    assert "weights.safetensors" in problem


def test_a_denoiser_without_a_mask_is_a_problem(golden, tmp_path):
    for name in ("config.json", "weights.safetensors"):
        shutil.copy(golden("qwen2") / name, tmp_path / name)
    scorer = inspection.inspect_source(str(tmp_path), kind="scorer")
    assert scorer.problems == ()
    denoiser = inspection.inspect_source(str(tmp_path), kind="denoiser")
    assert denoiser.family.name == "open_dcoder"
    assert denoiser.problems == ("neither config.json nor the tokenizer's files name a mask",)


def test_nothing_to_look_at_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"no folder with a config.json"):
        inspection.inspect_source(str(tmp_path))
    with pytest.raises(ValueError, match="must pin a revision"):
        inspection.inspect_source("hf:owner/repository")


class FakeHub:
    """Headers as the hub's client gives them, and nothing else."""

    def __init__(self, folder, offline=False):
        self.folder, self.offline, self.asked = folder, offline, []

    def get_safetensors_metadata(self, repository, *, revision):
        import huggingface_hub

        self.asked.append((repository, revision))
        if self.offline:
            raise huggingface_hub.errors.OfflineModeIsEnabled("offline")
        with (self.folder / "weights.safetensors").open("rb") as handle:
            header = json.loads(handle.read(int.from_bytes(handle.read(8), "little")))
        infos = {
            name: huggingface_hub.utils.TensorInfo(
                dtype=entry["dtype"], shape=entry["shape"], data_offsets=entry["data_offsets"]
            )
            for name, entry in header.items()
            if name != "__metadata__"
        }
        file = huggingface_hub.utils.SafetensorsFileMetadata(metadata={}, tensors=infos)
        return huggingface_hub.utils.SafetensorsRepoMetadata(
            metadata=None, sharded=False, weight_map={}, files_metadata={"model.safetensors": file}
        )


@pytest.mark.parametrize("offline", [False, True])
def test_hub_repositories_are_checked_by_headers_alone(llada, tmp_path, monkeypatch, offline):
    import huggingface_hub

    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    shutil.copy(llada / "config.json", snapshot / "config.json")
    patterns = []

    def snapshot_download(repository, *, revision, allow_patterns):
        patterns.extend(allow_patterns)
        return str(snapshot)

    hub = FakeHub(llada, offline)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    monkeypatch.setattr(huggingface_hub, "get_safetensors_metadata", hub.get_safetensors_metadata)
    found = inspection.inspect_source("hf:owner/name@abc1234")
    assert found.problems == ()
    assert "*.safetensors" not in patterns
    assert hub.asked == [("owner/name", "abc1234")]
    assert found.unread == (("tensors",) if offline else ())
    assert bool(found.types) is not offline
    local = inspection.inspect_source(str(llada))
    assert offline or found.types == local.types


def test_real_gguf_headers_are_read(real_weights):
    found = inspection.inspect_source(f"gguf:{real_weights('smollm2-135m.gguf')}", kind="scorer")
    assert found.problems == ()
    assert found.num_params == registry.find_model("smollm2-135m-instruct").params_total
    assert found.tokenizer_size == 49152


def test_a_broken_gguf_file_is_a_problem(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"GGUF but no more")
    found = inspection.inspect_source(f"gguf:{tmp_path / 'x.gguf'}")
    assert len(found.problems) == 1
    assert "x.gguf" in found.problems[0]
