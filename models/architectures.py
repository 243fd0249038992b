"""The families that are implemented, and their config.json files to and from our shapes.

`read_config` turns a config.json into our `ModelSpec` and refuses what it does not understand:
an unknown field, or a setting that is not implemented, could silently change the logits.
"""

from collections.abc import Mapping
from typing import Any

from . import adapters
from .config_checks import normalized_ids, shape_problems
from .family import Architecture, ModelSpec

ARCHITECTURES: dict[str, Architecture] = {
    family.name: family
    for family in (
        adapters.BERT,
        adapters.DREAM,
        adapters.GPT2,
        adapters.ILLADA,
        adapters.LLADA,
        adapters.LLADA_MOE,
        adapters.LLAMA,
        adapters.MDLM,
        adapters.MPNET,
        # Qwen2 before its relative: where nothing tells them apart, it is the plain one.
        adapters.QWEN2,
        adapters.OPEN_DCODER,
        adapters.ROBERTA,
        adapters.SEDD,
        adapters.SMDM,
    )
}

# Book-keeping of Hugging Face's PretrainedConfig: without effect on a forward pass.
_IGNORED = frozenset(
    """_attn_implementation_autoset _name_or_path _num_labels add_cross_attention architectures
    attention_dropout attn_implementation auto_map bad_words_ids begin_suppress_tokens bos_token_id
    chunk_size_feed_forward cross_attention_hidden_size decoder_start_token_id diversity_penalty
    do_sample dtype early_stopping embedding_dropout encoder_no_repeat_ngram_size
    exponential_decay_length_penalty finetuning_task forced_bos_token_id forced_eos_token_id
    id2label init_cutoff_factor init_device init_fn init_std initializer_range is_decoder
    is_encoder_decoder label2id length_penalty max_length max_position_embeddings
    max_sequence_length min_length mlp_ratio model_type no_repeat_ngram_size num_beam_groups
    num_beams num_return_sequences output_attentions output_hidden_states output_scores prefix
    pretraining_tp problem_type pruned_heads remove_invalid_values repetition_penalty
    residual_dropout return_dict return_dict_in_generate sep_token_id suppress_tokens
    task_specific_params temperature tf_legacy_loss tie_encoder_decoder tokenizer_class top_k
    top_p torch_dtype torchscript transformers_version typical_p use_bfloat16
    use_cache""".split()
)

# Where "false" in quotes would be taken for true.
_BOOLEANS = frozenset(
    """moe_router_enable_expert_bias qk_layernorm tie_word_embeddings time_conditioning
    weight_tying""".split()
)


def register_architecture(architecture: Architecture) -> None:
    """Adds a family of your own: every `load_*` and `inspection` of this process then knows it.

    Raises:
        ValueError: its name is taken; or a family already serves one of its kinds under one of
            its model types, and it has no `classes` of its own to be told apart by.
    """
    if not isinstance(architecture, Architecture):
        raise ValueError(f"expected an Architecture, got {type(architecture).__name__}")
    name = architecture.name
    if name in ARCHITECTURES:
        raise ValueError(f"architecture {name!r} is already registered; choose another name")
    for other in ARCHITECTURES.values():
        types = sorted(set(other.model_types).intersection(architecture.model_types))
        own = set(architecture.classes)
        apart = own and own.isdisjoint(other.classes)
        if types and other.kinds & architecture.kinds and not apart:
            raise ValueError(
                f"architecture {name!r}: model_type {types[0]!r} is already read as {other.name!r};"
                " give it `classes` of its own, as config.json names them, or no model_types (it is"
                " then chosen by the argument architecture=)"
            )
    ARCHITECTURES[name] = architecture


def architecture_of(
    config: Mapping[str, Any], override: str | None, where: str, kind: str | None = None
) -> Architecture:
    """The family of a config: `override`, or the one of its `model_type` that serves as `kind`.

    Raises:
        ValueError: neither names a family that is implemented, or that can serve as `kind`.
    """
    model_type = str(config.get("model_type"))
    if override is not None:
        found = [ARCHITECTURES[override]] if override in ARCHITECTURES else []
    else:
        found = [f for f in ARCHITECTURES.values() if model_type in f.model_types]
    if not found:
        accepted = ", ".join(sorted(ARCHITECTURES))
        code = ""
        if config.get("auto_map"):
            code = "; the repository brings code of its own (auto_map), which is never run"
        raise ValueError(
            f"{where}: architecture {str(override or model_type)!r} is not implemented; accepted:"
            f" {accepted} (model_type in config.json, or the argument architecture=){code}"
        )
    fit = [family for family in found if kind is None or kind in family.kinds]
    if not fit:
        names = " or ".join(family.name for family in found)
        raise ValueError(f"model {where!r} is a {names} model and cannot serve as a {kind}")
    named = {str(name) for name in config.get("architectures") or ()}
    return next((family for family in fit if named.intersection(family.classes)), fit[0])


def read_config(config: Mapping[str, Any], family: Architecture, where: str) -> ModelSpec:
    """Checks every field of a config and translates it.

    Raises:
        ValueError: lists all unknown fields, settings that are not implemented and missing fields.
    """
    problems = []
    for field, value in config.items():
        if field in family.accepted:
            if value not in family.accepted[field]:
                allowed = " or ".join(repr(v) for v in family.accepted[field])
                problems.append(f"{field}={value!r} is not implemented (accepted: {allowed})")
        elif field not in family.read and field not in _IGNORED:
            problems.append(f"unknown field {field!r}")
    problems += [
        f"{field}={config[field]!r} must be true or false"
        for field in sorted(_BOOLEANS & config.keys())
        if not isinstance(config[field], bool | None)
    ]
    spec, faults = _spec(config, family)
    problems += faults
    if spec is None or problems:
        raise ValueError(f"{where}: config.json of a {family.name} model: " + "; ".join(problems))
    return spec


def _spec(config: Mapping[str, Any], family: Architecture) -> tuple[ModelSpec | None, list[str]]:
    """The translation, or what hinders it: every missing field, else the first wrong ones."""
    missing: list[str] = []
    while True:
        try:
            # A stand-in for what is missing shows what else is.
            spec = family.spec({**config, **dict.fromkeys(missing, 1)})
            faults = shape_problems(spec.network)
            spec = spec if faults else normalized_ids(spec)
        except KeyError as error:
            if error.args[0] in missing:
                faults = [f"missing field {error.args[0]!r}"]
            else:
                missing.append(error.args[0])
                continue
        except ValueError as error:
            faults = [str(error)]
        except (TypeError, AttributeError, ArithmeticError) as error:
            faults = [f"a field holds what it cannot hold ({type(error).__name__}: {error})"]
        else:
            if not faults and not missing:
                return spec, []
        return None, [f"missing field {name!r}" for name in missing] or faults
