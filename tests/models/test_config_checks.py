"""Configs that no family can mean: all of them refused by name, in one line each."""

import json
import shutil

import numpy as np
import pytest

from dlmeval.models import architectures, inspection, load_denoiser

READ = architectures.read_config
LLAMA = {
    "model_type": "llama",
    "vocab_size": 20,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}


def llama(**changes):
    return READ({**LLAMA, **changes}, architectures.ARCHITECTURES["llama"], "here")


def of_golden(golden, name, family=None, **changes):
    config = json.loads((golden(name) / "config.json").read_text())
    return READ(config | changes, architectures.ARCHITECTURES[family or name], "here")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", None),
        ("hidden_size", "16"),
        ("num_attention_heads", 0),
        ("num_attention_heads", None),
        ("num_hidden_layers", 0),
        ("num_hidden_layers", -1),
        ("rms_norm_eps", None),
        ("rms_norm_eps", "x"),
        ("rms_norm_eps", float("inf")),
        ("vocab_size", 0),
        ("rope_theta", -1),
        ("max_position_embeddings", "x"),
        ("head_dim", True),
        ("head_dim", 5),
        ("tie_word_embeddings", "false"),
        ("num_key_value_heads", 3),
        ("hidden_size", 18),
        ("rope_scaling", "linear"),
        ("rope_scaling", {"type": ["linear"], "factor": 2}),
        ("rope_scaling", {"type": "linear", "factor": 0}),
        ("rope_scaling", {"type": "linear", "factor": "2"}),
        ("eos_token_id", "2"),
    ],
)
def test_values_that_cannot_be_are_refused(field, value):
    with pytest.raises(ValueError, match=r"here: config\.json of a llama model: "):
        llama(**{field: value})


def test_the_message_names_field_value_and_range():
    with pytest.raises(ValueError, match="vocab_size=0 must be a whole number above 0"):
        llama(vocab_size=0)
    with pytest.raises(ValueError, match="tie_word_embeddings='false' must be true or false"):
        llama(tie_word_embeddings="false")
    with pytest.raises(ValueError, match="num_heads=4 is not a multiple of num_kv_heads=3"):
        llama(num_key_value_heads=3)


def test_all_missing_fields_come_at_once():
    with pytest.raises(ValueError) as caught:
        READ({"model_type": "llama"}, architectures.ARCHITECTURES["llama"], "here")
    missing = LLAMA.keys() - {"model_type", "num_key_value_heads"}
    assert all(f"missing field {name!r}" in str(caught.value) for name in missing)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("gpt2", "layer_norm_epsilon", None),
        ("gpt2", "n_head", None),
        ("bert", "num_attention_heads", 0),
        ("mdlm", "mask_index", "a"),
        ("llada_moe", "moe_layer_freq", None),
        ("llada_moe", "moe_layer_freq", 1),
        ("sedd", "graph", "absorb"),
        ("sedd", "tokens", None),
        ("mpnet", "relative_attention_num_buckets", "x"),
    ],
)
def test_other_families_too(golden, name, field, value):
    of_golden(golden, name)
    with pytest.raises(ValueError, match=f"config.json of a {name} model: "):
        of_golden(golden, name, **{field: value})


@pytest.mark.parametrize("mask_id", [151_666, -1, "5", 2.0])
def test_a_mask_without_an_embedding_is_refused(golden, mask_id):
    for name in ("dream", "llada", "llada_moe"):
        with pytest.raises(ValueError, match="mask"):
            of_golden(golden, name, mask_token_id=mask_id)


def test_of_several_end_tokens_the_first_counts():
    assert llama(eos_token_id=[3, 4]).eos_id == 3
    assert llama(eos_token_id=[]).eos_id is None
    # Ids that no text can hold are not declared.
    spec = llama(eos_token_id=50_256, pad_token_id=-1, bos_token_id=19)
    assert (spec.eos_id, spec.pad_id, spec.bos_id) == (None, None, 19)


def test_fields_that_ask_for_nothing_pass():
    rope = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0}
    assert llama(_num_labels=2, attn_implementation="sdpa", rope_parameters=rope) == llama()


def test_a_plain_qwen2_is_no_denoiser_without_a_mask(golden):
    config = json.loads((golden("qwen2") / "config.json").read_text())
    assert inspection.inspect_config(config, "here").family.name == "qwen2"
    assert inspection.inspect_config(config, "here", kind="denoiser").family.name == "open_dcoder"


def test_mdlm_has_a_context(golden, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(golden("mdlm"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_length": 14}))
    model = load_denoiser(str(folder), architecture="mdlm")
    tokens = np.zeros((1, 15), np.int32)
    with pytest.raises(ValueError, match=r"15 tokens .* more than the context of 14"):
        model.logits_fn(model.params, tokens, tokens == 0, slice(0, 15))
