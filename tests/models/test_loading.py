"""Loaders: what they refuse, and that a written model reads back."""

import json
import shutil

import jax
import numpy as np
import pytest
import safetensors.numpy

from dlmeval.models import (
    architectures,
    decoder,
    list_models,
    load_denoiser,
    load_scorer,
    model_files,
    published,
    sources,
    text_tokens,
    weight_table,
)


@pytest.fixture
def folder(golden, tmp_path):
    shutil.copytree(golden("llada"), tmp_path / "model")
    return tmp_path / "model"


def edit_config(folder, **changes):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config.update(changes)
    path.write_text(json.dumps({k: v for k, v in config.items() if v != "DROP"}))


def test_all_faults_of_the_tensors_come_in_one_message(folder):
    path = folder / "weights.safetensors"
    tensors = safetensors.numpy.load_file(path)
    del tensors["model.transformer.ln_f.weight"]
    tensors["model.transformer.blocks.0.q_proj.weight"] = np.zeros((48, 47), np.float32)
    tensors["surprise"] = np.zeros(3, np.float32)
    tensors["model.transformer.wte.weight"] = np.zeros((64, 48), np.int8)
    safetensors.numpy.save_file(tensors, path)
    with pytest.raises(ValueError) as caught:
        load_denoiser(str(folder))
    for part in ("missing model.transformer.ln_f", "unexpected surprise", "[48, 47]", "type I8"):
        assert part in str(caught.value)


def test_a_tensor_stored_twice_is_refused(folder):
    shutil.copy(folder / "weights.safetensors", folder / "again.safetensors")
    with pytest.raises(ValueError, match="stored twice"):
        load_denoiser(str(folder))


def test_unknown_and_unimplemented_settings_come_in_one_message(folder):
    edit_config(folder, alibi=True, quantum=3, d_model="DROP")
    with pytest.raises(ValueError) as caught:
        load_denoiser(str(folder))
    for part in ("alibi=True", "unknown field 'quantum'", "missing field 'd_model'"):
        assert part in str(caught.value)


def test_scaled_rope_is_refused_rather_than_ignored(golden, tmp_path):
    shutil.copytree(golden("llama"), tmp_path / "model")
    edit_config(tmp_path / "model", rope_parameters={"rope_type": "yarn", "rope_theta": 1e4})
    with pytest.raises(ValueError, match=r"'yarn'.* is not implemented"):
        load_scorer(str(tmp_path / "model"))


def test_the_architecture_argument_replaces_model_type(folder):
    edit_config(folder, model_type="DROP")
    with pytest.raises(ValueError, match=r"accepted: .*dream.*llada.*smdm"):
        load_denoiser(str(folder))
    assert load_denoiser(str(folder), architecture="llada").mask_id == 60


def test_a_family_serves_its_own_kind_alone(golden):
    with pytest.raises(ValueError, match="cannot serve as a scorer"):
        load_scorer(str(golden("llada")))
    with pytest.raises(ValueError, match="cannot serve as a denoiser"):
        load_denoiser(str(golden("llama")))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("embedded:nobody", "embedded models:"),
        ("no/such/folder", "no folder with a config.json"),
        ("hf:owner/name", "pin a revision"),
        ("gguf:model.gguf", "there is no file 'model.gguf'"),
    ],
)
def test_sources_that_cannot_be_resolved(source, message):
    with pytest.raises(ValueError, match=message):
        load_denoiser(source)


def test_a_folder_without_weights_or_with_broken_files(folder):
    (folder / "weights.safetensors").write_bytes(b"not a tensor file")
    with pytest.raises(ValueError, match="cannot read"):
        load_denoiser(str(folder))
    (folder / "weights.safetensors").unlink()
    with pytest.raises(ValueError, match=r"no \*\.safetensors"):
        load_denoiser(str(folder))
    (folder / "config.json").write_text("[1]")
    with pytest.raises(ValueError, match="JSON object"):
        load_denoiser(str(folder))


def test_dtype_is_checked(golden):
    with pytest.raises(ValueError, match="dtype 'int8'"):
        load_denoiser(str(golden("llada")), dtype="int8")


def test_without_tokenizer_files_the_tokenizer_is_none(golden):
    model = load_denoiser(str(golden("llada")))
    assert model.tokenizer is None
    assert (model.num_ids, model.mask_id, model.eos_id, model.pad_id) == (61, 60, 57, 57)
    assert (
        model.card.digests["weights.safetensors"]
        == model_files.file_digests(golden("llada"))["weights.safetensors"]
    )
    assert model.card.num_params == 52464


@pytest.mark.parametrize(
    ("family", "choices"),
    [
        ("dream", {"causal": False, "qkv_bias": True, "shift": True}),
        ("llada", {"causal": False}),
        ("llama", {"causal": True}),
    ],
)
@pytest.mark.parametrize("tied", [True, False])
def test_a_written_model_reads_back(tmp_path, family, choices, tied):
    config = decoder.DecoderConfig(300, 16, 2, 2, 1, 24, tie_embeddings=tied, **choices)
    params = decoder.init_params(config, jax.random.key(0))
    tokenizer = text_tokens.train_bpe(["a small text"], 290)
    causal = config.causal
    ids = {"eos_token_id": 0} if causal else {"eos_token_id": 0, "mask_token_id": 299}
    published.save_pretrained(tmp_path, family, config, params, tokenizer, ids)
    model = (load_scorer if causal else load_denoiser)(str(tmp_path))
    assert model.eos_id == 0
    assert model.num_ids == tokenizer.vocab_size < 300
    assert model.tokenizer.encode("small") == tokenizer.encode("small")
    for ours, theirs in zip(jax.tree.leaves(params), jax.tree.leaves(model.params), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2**-8)
    table = weight_table.expected_tensors(architectures.ARCHITECTURES[family], config)
    assert len(table) == 2 * (9 + 3 * config.qkv_bias) + 2 + (not tied)


def test_a_shape_that_a_family_cannot_express_is_not_written(tmp_path):
    config = decoder.DecoderConfig(300, 16, 1, 2, 1, 24, causal=True)
    params = decoder.init_params(config, jax.random.key(0))
    tokenizer = text_tokens.train_bpe(["a small text"], 290)
    ids = {"eos_token_id": 0, "mask_token_id": 299}
    with pytest.raises(ValueError, match="cannot express"):
        published.save_pretrained(tmp_path, "dream", config, params, tokenizer, ids)
    with pytest.raises(ValueError, match="cannot be written"):
        published.save_pretrained(tmp_path, "mdlm", config, params, tokenizer, ids)


def test_params_can_be_replicated_over_a_mesh(golden):
    mesh = jax.make_mesh((1,), ("data",))
    model = load_denoiser(str(golden("llada")), mesh=mesh)
    assert all(
        x.sharding.device_set == set(jax.devices()[:1]) for x in jax.tree.leaves(model.params)
    )


def test_one_logits_function_per_shape(golden):
    first, second = (load_denoiser(str(golden("llada"))) for _ in range(2))
    assert first.logits_fn is second.logits_fn


def test_the_registry_lists_models_that_load():
    entries = [entry for entry in list_models() if entry.tier == "embedded"]
    assert {e.name for e in entries} == {"kjv-denoiser", "kjv-scorer"}
    for entry in entries:
        load = load_scorer if entry.kind == "scorer" else load_denoiser
        card = load(entry.source).card
        assert card.num_params == entry.params_total
        published_card = json.loads((sources.resolve(entry.source) / "card.json").read_text())
        assert card.digests == published_card["digests"]
