"""Config files of the decoder's families: what is read, what is refused, what it amounts to."""

import dataclasses
import json
import math

import jax
import numpy as np
import pytest

from dlmeval.models import decoder
from dlmeval.models.architectures import ARCHITECTURES, architecture_of, read_config
from dlmeval.models.rotary import RopeScaling, frequencies

LLAMA = {
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "vocab_size": 32,
}
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
SCALING = RopeScaling("llama3", 8.0, 1.0, 4.0, 64)
SMDM = {
    "name": "a name",
    "block_size": 2048,
    "vocab_size": 32000,
    "padding_multiple": 64,
    "n_layer": 20,
    "n_head": 14,
    "n_embd": 1792,
    "rotary_percentage": 1.0,
    "parallel_residual": False,
    "bias": False,
    "_norm_class": "FusedRMSNorm",
    "norm_eps": 1e-5,
    "_mlp_class": "LLaMAMLP",
    "intermediate_size": 7168,
    "n_query_groups": 14,
}


def read(family, **fields):
    return read_config(fields, ARCHITECTURES[family], "here")


def refusal(family, fields):
    with pytest.raises(ValueError, match=f"config.json of a {family} model: ") as caught:
        read(family, **fields)
    return str(caught.value)


def golden_config(golden, name):
    return json.loads((golden(name) / "config.json").read_text())


def shaped(d, layers, heads, kv, ffn, vocab, **more):
    """A config in Llama's fields."""
    names = "hidden_size num_hidden_layers num_attention_heads num_key_value_heads".split()
    sizes = dict(zip(names, (d, layers, heads, kv), strict=True))
    rest = {"intermediate_size": ffn, "vocab_size": vocab, "rms_norm_eps": 1e-6}
    return sizes | rest | {"rope_theta": 1e6, "tie_word_embeddings": False} | more


def moe_shape():
    shape = shaped(2048, 16, 16, 16, 0, 157184, moe_layer_freq=[1] * 16, num_experts=64)
    del shape["intermediate_size"]
    experts = {"num_experts_per_tok": 8, "expert_intermediate_size": 1024, "qk_layernorm": True}
    return shape | experts | {"moe_router_enable_expert_bias": False}


@pytest.mark.parametrize(
    ("family", "fields", "millions"),
    [
        ("dream", shaped(3584, 28, 28, 4, 18944, 152064, mask_token_id=151666), 7616),
        ("llama", shaped(4096, 32, 32, 8, 14336, 128256), 8030),
        ("llada_moe", moe_shape(), 7357),
        ("open_dcoder", shaped(896, 24, 14, 2, 4864, 151936, tie_word_embeddings=True), 494),
        ("smdm", SMDM, 1142),
    ],
)
def test_published_shapes_have_the_published_numbers_of_parameters(family, fields, millions):
    shapes = decoder.abstract_params(read(family, **fields).network)
    total = sum(math.prod(x.shape) for x in jax.tree.leaves(shapes))
    assert round(total / 1e6) == millions


@pytest.mark.parametrize("name", ["llada", "dream", "llama", "qwen2", "smdm", "llada_moe"])
def test_the_longest_row_is_the_configs(golden, name):
    config = golden_config(golden, name)
    fields = ("max_position_embeddings", "max_sequence_length", "block_size")
    longest = next(config[field] for field in fields if field in config)
    assert read(name, **config).network.max_length == longest


@pytest.mark.parametrize(
    ("fields", "theta", "scaling"),
    [
        ({}, 10_000.0, None),  # as Llama 2 is published
        ({"rope_theta": 5e5, "rope_scaling": None}, 5e5, None),
        ({"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **LLAMA3}}, 5e5, SCALING),
        (
            {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3}},
            5e5,
            SCALING,
        ),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, 1e4, RopeScaling("linear", 2.0)),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 7e3}}, 7e3, None),
    ],
)
def test_rotary_fields_in_every_spelling(fields, theta, scaling):
    network = read("llama", **LLAMA, **fields).network
    assert (network.rope_theta, network.rope_scaling) == (theta, scaling)


def test_llama3_keeps_blends_and_lowers():
    half = 4
    theta = 8 ** (half / (half - 1))  # wavelengths 2 pi times 1, 2, 4, 8
    full = frequencies(2 * half, theta)
    np.testing.assert_allclose(full, [1, 0.5, 0.25, 0.125], rtol=1e-6)
    scaling = RopeScaling("llama3", 4.0, 1.0, 4.0, original_length=2 * math.pi * 8)
    # Turns within the context: 8, 4, 2, 1; kept from 4 on, lowered up to 1, 2 is a third between.
    expected = [1, 0.5, 0.25 * (1 / 3 + 2 / 3 / 4), 0.125 / 4]
    np.testing.assert_allclose(frequencies(2 * half, theta, scaling), expected, rtol=1e-6)
    linear = frequencies(2 * half, theta, RopeScaling("linear", 4.0))
    np.testing.assert_allclose(linear, full / 4, rtol=1e-6)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "'yarn', 'factor': 4.0} is not impl"),
        ({"rope_scaling": {"factor": 4.0}}, "rope_type 'default' or 'linear' or 'llama3'"),
        ({"rope_parameters": {"rope_type": "default", "mscale": 1.0}}, "rope_parameters="),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "must have the fields factor, "),
        (
            {
                "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
                "rope_scaling": {"rope_type": "linear", "factor": 2.0},
            },
            "contradicts rope_theta=None, rope_scaling=",
        ),
        ({"rope_interleaved": True}, "rope_interleaved=True"),
        ({"attention_bias": True}, "attention_bias=True"),
        ({"sliding_window": 4096}, "unknown field 'sliding_window'"),
    ],
)
def test_llamas_that_are_not_implemented(fields, part):
    assert part in refusal("llama", LLAMA | fields)


def test_what_smollm2_and_qwen2_files_say_without_effect():
    notes = {"is_llama_config": True, "rope_interleaved": False, "pretraining_tp": 1}
    assert read("llama", **LLAMA, **notes) == read("llama", **LLAMA)
    window = {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 1}
    layers = {"layer_types": ["full_attention"] * 2, "use_mrope": False}
    assert read("qwen2", **LLAMA, **window, **layers) == read("qwen2", **LLAMA)
    mask = {"mask_token_id": 31}
    assert read("dream", **LLAMA, **mask, **window) == read("dream", **LLAMA, **mask)


def test_windows_are_refused():
    text = refusal("qwen2", LLAMA | {"use_sliding_window": True, "use_mrope": True})
    assert "use_sliding_window=True" in text
    assert "use_mrope=True" in text
    text = refusal("qwen2", LLAMA | {"layer_types": ["full_attention", "sliding_attention"]})
    assert "layer_types with ['sliding_attention']" in text


def test_mixtures_that_are_not_implemented(golden):
    config = golden_config(golden, "llada_moe")
    wrong = {
        "attention_bias": True,
        "clip_qkv": 8.0,
        "moe_router_score_function": "sigmoid",
        "norm_topk_prob": True,
        "partial_rotary_factor": 0.5,
        "routed_scaling_factor": 2.5,
        "router_num_group": 8,
        "router_topk_group": 4,
        "shared_expert_intermediate_size": 24,
    }
    text = refusal("llada_moe", config | wrong)
    for field, value in wrong.items():
        assert f"{field}={value!r} is not implemented" in text
    text = refusal("llada_moe", config | {"moe_layer_freq": [0, 1]})
    assert "moe_layer_freq=[0, 1] is not implemented (accepted: 1 a layer)" in text
    text = refusal("llada_moe", config | {"num_experts_per_tok": 9})
    assert "num_experts_per_tok=9 must lie in 1..num_experts=8" in text


@pytest.mark.parametrize(
    ("fields", "kind", "family"),
    [
        ({"model_type": "llada", "architectures": ["LLaDAModelLM"]}, "denoiser", "llada"),
        ({"model_type": "llada"}, "denoiser", "llada"),
        ({"model_type": "llada", "architectures": ["LLaDAMoEModelLM"]}, "denoiser", "llada_moe"),
        ({"model_type": "lladamoe", "architectures": None}, "denoiser", "llada_moe"),
        ({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}, "denoiser", "open_dcoder"),
        ({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}, "scorer", "qwen2"),
    ],
)
def test_families_of_one_model_type_are_told_apart(fields, kind, family):
    assert architecture_of(fields, None, "here", kind).name == family


def test_the_mask_of_a_mixture_may_be_left_to_the_tokenizer(golden):
    config = golden_config(golden, "llada_moe")
    assert read("llada_moe", **config).mask_id == 60
    del config["mask_token_id_used"]
    assert read("llada_moe", **config).mask_id is None
    assert read("llada_moe", **config, mask_token_id=59).mask_id == 59


def test_smdm_pads_its_vocabulary_and_masks_beyond_it():
    spec = read("smdm", **SMDM | {"vocab_size": 31990})
    assert (spec.mask_id, spec.num_ids) == (32000, 31990)
    assert (spec.network.vocab_size, spec.network.num_outputs) == (32001, 32000)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"rotary_percentage": 0.25}, "rotary_percentage=0.25"),
        ({"_norm_class": "LayerNorm"}, "_norm_class='LayerNorm'"),
        ({"parallel_residual": True}, "parallel_residual=True"),
        ({"mask_token_id": 5}, "mask_token_id=5 must be the padded vocabulary's size 32000"),
        ({"bias": "DROP"}, "missing field 'bias'"),
    ],
)
def test_lit_gpt_models_that_are_not_smdm(fields, part):
    config = {k: v for k, v in (SMDM | fields).items() if v != "DROP"}
    assert part in refusal("smdm", config)


@pytest.mark.parametrize(
    ("family", "choices"),
    [
        ("dream", {"causal": False, "qkv_bias": True, "shift": True, "max_length": 99}),
        ("llada", {"causal": False, "max_length": 99}),
        ("llama", {"causal": True, "rope_scaling": SCALING, "head_dim": 16}),
        ("llama", {"causal": True, "rope_scaling": RopeScaling("linear", 4.0)}),
        ("qwen2", {"causal": True, "qkv_bias": True, "max_length": 99, "rope_scaling": SCALING}),
    ],
)
def test_what_is_written_is_read_back(family, choices):
    config = decoder.DecoderConfig(300, 16, 2, 2, 1, 24, **choices)
    ids = {"eos_token_id": 0} | ({} if config.causal else {"mask_token_id": 299})
    written = json.loads(json.dumps(ARCHITECTURES[family].write(config, ids)))
    assert read(family, **written).network == config
    normed = ARCHITECTURES[family].write(dataclasses.replace(config, qk_norm=True), ids)
    assert read(family, **normed).network == config  # so `save_pretrained` refuses it
