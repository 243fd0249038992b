"""The registry: whole, honest about what is on record, and counted from the shapes it carries."""

import math
import re

import jax
import pytest

from dlmeval.models import architectures, encoder, list_models, registry, sources

ENTRIES = list_models()
NAMES = [entry.name for entry in ENTRIES]


def test_names_are_unique_and_found():
    assert len(set(NAMES)) == len(NAMES)
    assert registry.find_model("llada-8b-base") in ENTRIES
    with pytest.raises(ValueError, match=r"'llama-4' is not registered; known: kjv-denoiser,"):
        registry.find_model("llama-4")


def test_the_leaderboard_has_six_models_in_each_tier():
    tiers = [[e.name for e in ENTRIES if e.tier == tier] for tier in "12"]
    assert [len(names) for names in tiers] == [6, 6]
    assert {"llada-8b-base", "llada-moe-7b-a1b-base", "dream-7b-base"} <= set(tiers[0])
    assert all(e.kind == "denoiser" for e in ENTRIES if e.tier in ("1", "2", "extra"))
    assert all(e.tier in ("", "embedded") for e in ENTRIES if e.kind != "denoiser")


@pytest.mark.parametrize("entry", ENTRIES, ids=NAMES)
def test_entries_are_complete(entry):
    families = architectures.ARCHITECTURES
    assert entry.kind in families[entry.architecture].kinds
    assert entry.status in registry.STATUSES
    assert entry.licence
    assert 0 < entry.params_active <= entry.params_total
    assert set(entry.modes) <= {"generate", "loglik", "score", "features"}
    assert entry.modes
    if entry.tier == "embedded":
        assert entry.source == f"embedded:{entry.name}"
    elif entry.revision is None:
        assert re.fullmatch(r"hf:[\w.-]+/[\w.-]+", entry.source)
        with pytest.raises(ValueError, match="must pin a revision"):
            sources.resolve(entry.source)
    else:
        assert re.fullmatch(r"[0-9a-f]{40}", entry.revision)
        assert re.fullmatch(rf"hf:[\w.-]+/[\w.-]+@{entry.revision}", entry.source)


@pytest.mark.parametrize(
    "entry", [e for e in ENTRIES if e.config], ids=[e.name for e in ENTRIES if e.config]
)
def test_parameters_are_those_of_the_shape(entry):
    family = architectures.architecture_of(entry.config, entry.architecture, entry.name, entry.kind)
    config = architectures.read_config(entry.config, family, entry.name).network
    shapes = family.network.abstract_params(config)
    assert entry.params_total == sum(math.prod(x.shape) for x in jax.tree.leaves(shapes))
    idle = 0
    if "num_experts" in entry.config:
        experts = sum(math.prod(x.shape) for k, x in shapes["blocks"].items() if "expert_" in k)
        chosen = entry.config["num_experts_per_tok"] / entry.config["num_experts"]
        idle = round(experts * (1 - chosen))
    assert entry.params_active == entry.params_total - idle


def test_published_sizes_are_met():
    """Counts that the authors of the models publish."""
    counts = {entry.name: entry.params_total for entry in ENTRIES}
    assert counts["llama-3-8b"] == 8_030_261_248
    assert counts["gpt2"] == 124_439_808
    assert counts["smollm2-135m"] == 134_515_008
    assert counts["dream-7b-base"] == 7_615_616_512  # Qwen2.5-7B's
    assert round(counts["mdlm-owt"], -6) == 170_000_000
    moe = registry.find_model("llada-moe-7b-a1b-base")
    embedding = moe.config["vocab_size"] * moe.config["hidden_size"]
    assert round((moe.params_active - embedding) / 1e9, 1) == 1.4


def test_only_the_shape_that_is_not_on_record_is_missing():
    assert [entry.name for entry in ENTRIES if entry.config is None] == ["illada-8b-base"]


def test_encoders_pool_as_their_authors_do_whatever_the_revision():
    recipes = {e.name: registry.encoder_recipe(e.source) for e in ENTRIES if e.kind == "encoder"}
    assert all(recipe["max_length"] == 512 for recipe in recipes.values())
    assert all(recipe.keys() <= set(encoder.Recipe._fields) for recipe in recipes.values())
    assert {name: (r["pooling"], r["normalize"]) for name, r in recipes.items()} == {
        "gpt2-large-encoder": ("last", False),
        "bert-base-uncased": ("cls", False),
        "roberta-base": ("cls", False),
        "all-mpnet-base-v2": ("mean", True),
        "e5-base-v2": ("mean", True),
        "all-minilm-l6-v2": ("mean", True),
    }
    assert recipes["e5-base-v2"]["prefix"] == "query: "
    assert registry.encoder_recipe("hf:intfloat/e5-base-v2@another") == recipes["e5-base-v2"]
    assert registry.encoder_recipe("hf:intfloat/e5-base@main") == {}
    assert registry.encoder_recipe("hf:meta-llama/Meta-Llama-3-8B@main") == {}
