"""The worked example of docs/add_a_model.md, and the config of docs/models.md, do what they say."""

import json
import math
import pathlib
import re

import numpy as np
import pytest
import safetensors.numpy

from dlmeval.models import architectures, inspection, load_denoiser, load_scorer, registry

# A fraction of the shape of Qwen3-0.6B, in the fields of its published config.json: heads are
# wider than hidden_size / num_attention_heads there too.
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 3,
    "eos_token_id": 5,
    "head_dim": 6,
    "hidden_act": "silu",
    "hidden_size": 12,
    "initializer_range": 0.02,
    "intermediate_size": 20,
    "max_position_embeddings": 32,
    "max_window_layers": 28,
    "model_type": "qwen3",
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 1e6,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "transformers_version": "4.51.0",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 23,
}
# The rest of the published one.
LARGE = {
    "head_dim": 128,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "max_position_embeddings": 40960,
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "tie_word_embeddings": True,
    "vocab_size": 151936,
}


DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def page(name):
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(name, kind):
    return re.findall(rf"```{kind}\n(.*?)```", page(name), flags=re.DOTALL)


@pytest.fixture
def example(monkeypatch):
    """The page's block, and the names it defines once run; what it registers ends with the test."""
    before = {k: v for k, v in architectures.ARCHITECTURES.items() if k != "qwen3"}
    monkeypatch.setattr(architectures, "ARCHITECTURES", before)
    (block,) = blocks("add_a_model.md", "python")
    names = {}
    exec(compile(block, "add_a_model.md", "exec"), names)
    return block, names


@pytest.fixture
def tensors():
    """A checkpoint under Qwen3's own names, matrices [out, in]."""
    d, f, v, q, kv, w = 12, 20, 23, 24, 12, 6
    shapes = {"model.embed_tokens": (v, d), "model.norm": (d,), "lm_head": (v, d)}
    for i in range(2):
        layer = f"model.layers.{i}."
        shapes |= {layer + "input_layernorm": (d,), layer + "post_attention_layernorm": (d,)}
        shapes |= {f"{layer}self_attn.{x}_norm": (w,) for x in "qk"}
        shapes |= {f"{layer}self_attn.{x}_proj": (n, d) for x, n in (("q", q), ("k", kv))}
        shapes |= {layer + "self_attn.v_proj": (kv, d), layer + "self_attn.o_proj": (d, q)}
        shapes |= {f"{layer}mlp.{x}_proj": (f, d) for x in ("gate", "up")}
        shapes |= {layer + "mlp.down_proj": (d, f)}
    rng = np.random.default_rng(0)
    drawn = {f"{name}.weight": rng.standard_normal(shape) for name, shape in shapes.items()}
    return {
        name: (x / math.sqrt(x.shape[1]) if x.ndim == 2 else 1 + 0.3 * x).astype(np.float32)
        for name, x in drawn.items()
    }


@pytest.fixture
def folder(tensors, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    safetensors.numpy.save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path


def edit(folder, **changes):
    config = {**CONFIG, **changes}
    written = {name: value for name, value in config.items() if value != "DROP"}
    (folder / "config.json").write_text(json.dumps(written))


def qwen3(tensors, ids):
    """Logits of one row by Qwen3's published formulas, in float64 and head by head."""
    weights = {name.removesuffix(".weight"): x.astype(np.float64) for name, x in tensors.items()}

    def norm(x, name):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6) * weights[name]

    def turn(x):
        half = x.shape[-1] // 2
        angles = np.arange(len(x))[:, None] / 1e6 ** (np.arange(half) / half)
        first, second = x[:, :half], x[:, half:]
        sine, cosine = np.sin(angles), np.cos(angles)
        return np.hstack([first * cosine - second * sine, second * cosine + first * sine])

    def silu(x):
        return x / (1 + np.exp(-x))

    hidden = weights["model.embed_tokens"][ids]
    later = np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
    for i in range(2):
        at, mlp = f"model.layers.{i}.self_attn.", f"model.layers.{i}.mlp."
        x = norm(hidden, f"model.layers.{i}.input_layernorm")
        q, k, v = (x @ weights[f"{at}{y}_proj"].T for y in "qkv")
        heads = []
        for head in range(4):
            mine, shared = (
                slice(6 * head, 6 * head + 6),
                slice(6 * (head // 2), 6 * (head // 2) + 6),
            )
            turned = [
                turn(norm(x, f"{at}{y}_norm")) for x, y in ((q[:, mine], "q"), (k[:, shared], "k"))
            ]
            scores = np.exp(turned[0] @ turned[1].T / math.sqrt(6) + later)
            heads.append(scores / scores.sum(axis=1, keepdims=True) @ v[:, shared])
        hidden = hidden + np.hstack(heads) @ weights[at + "o_proj"].T
        x = norm(hidden, f"model.layers.{i}.post_attention_layernorm")
        gated = silu(x @ weights[mlp + "gate_proj"].T) * (x @ weights[mlp + "up_proj"].T)
        hidden = hidden + gated @ weights[mlp + "down_proj"].T
    return norm(hidden, "model.norm") @ weights["lm_head"].T


def test_the_example_is_one_block_of_at_most_fifty_lines(example):
    block, names = example
    assert len(block.splitlines()) <= 50
    assert max(map(len, block.splitlines())) <= 100
    assert architectures.ARCHITECTURES["qwen3"] is names["QWEN3"]


def test_a_checkpoint_gives_the_logits_of_the_published_formulas(example, folder, tensors):
    scorer = load_scorer(str(folder))
    assert (scorer.card.architecture, scorer.eos_id, scorer.bos_id) == ("qwen3", 5, 3)
    assert scorer.card.num_params == sum(x.size for x in tensors.values())
    ids = np.random.default_rng(1).integers(0, 23, (2, 9))
    mask = np.arange(9) < np.array([[9], [6]])
    logits = np.asarray(scorer.logits_fn(scorer.params, ids, mask, slice(0, 9)))
    for row, length in enumerate((9, 6)):
        expected = qwen3(tensors, ids[row, :length])
        np.testing.assert_allclose(logits[row, :length], expected, atol=2e-5)
    assert expected.std() > 0.5


def test_the_published_shape_has_the_published_number_of_parameters(example):
    found = inspection.inspect_config(CONFIG | LARGE, "Qwen3-0.6B", kind="scorer")
    assert found.problems == ()
    embedding = 151936 * 1024
    assert found.num_params == 596_049_920
    assert round((found.num_params - embedding) / 1e9, 2) == 0.44


def test_all_faults_of_a_config_come_in_one_message(example, folder):
    edit(folder, novelty=1, use_sliding_window=True, head_dim="DROP")
    with pytest.raises(ValueError) as caught:
        load_scorer(str(folder))
    for part in (
        "config.json of a qwen3 model",
        "unknown field 'novelty'",
        "use_sliding_window=True is not implemented",
        "missing field 'head_dim'",
    ):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types=.* is not impl"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "'yarn'.* is not implemented"),
        ({"attention_bias": True}, "attention_bias=True is not implemented"),
    ],
)
def test_settings_that_would_change_the_logits_are_refused(example, folder, changes, message):
    edit(folder, **changes)
    with pytest.raises(ValueError, match=message):
        load_scorer(str(folder))


def test_all_faults_of_the_tensors_come_in_one_message(example, folder, tensors):
    del tensors["model.layers.1.self_attn.k_norm.weight"]
    tensors["model.layers.0.self_attn.q_proj.bias"] = np.zeros(24, np.float32)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ValueError) as caught:
        load_scorer(str(folder))
    assert "missing model.layers.1.self_attn.k_norm.weight" in str(caught.value)
    assert "unexpected model.layers.0.self_attn.q_proj.bias" in str(caught.value)


def test_names_and_model_types_are_taken_once(example, folder):
    family = example[1]["QWEN3"]
    register = architectures.register_architecture
    with pytest.raises(ValueError, match="'qwen3' is already registered"):
        register(family)
    with pytest.raises(ValueError, match="model_type 'qwen3' is already read as 'qwen3'"):
        register(family._replace(name="qwen3_again"))
    register(family._replace(name="by_argument", model_types=()))
    assert load_scorer(str(folder), architecture="by_argument").card.architecture == "by_argument"
    register(family._replace(name="by_class", classes=("Qwen3ForCausalLM",)))
    assert load_scorer(str(folder)).card.architecture == "by_class"
    with pytest.raises(ValueError, match="already read as 'by_class'"):
        register(family._replace(name="by_class_again", classes=("Qwen3ForCausalLM",)))
    register(family._replace(name="of_another_kind", kinds=frozenset({"encoder"})))


def test_what_is_registered_serves_its_kind_alone(example, folder):
    with pytest.raises(ValueError, match="qwen3 model and cannot serve as a denoiser"):
        load_denoiser(str(folder))


def test_the_config_that_the_page_of_models_gives_for_smdm_is_whole():
    (block,) = blocks("models.md", "json")
    found = inspection.inspect_config(json.loads(block), "mdm-1028M", architecture="smdm")
    assert found.problems == ()
    assert found.spec.mask_id == 32_000
    assert found.num_params == registry.find_model("smdm-1028m").params_total


def test_the_page_of_models_lists_every_family():
    table = page("models.md").partition("| `architecture` |")[2]
    rows = re.findall(r"^\| (`.*?`) \|.*\| (.*?) \| .*? \|$", table, flags=re.MULTILINE)
    listed = {
        (name, kind)
        for names, kinds in rows
        for name in re.findall(r"`(\w+)`", names)
        for kind in kinds.split(", ")
    }
    families = [f for f in architectures.ARCHITECTURES.values() if f.name != "qwen3"]
    assert listed == {(family.name, kind) for family in families for kind in family.kinds}
