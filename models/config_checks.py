"""What no shape and no id may be, whatever the family: checks behind every adapter's own."""

import math
import types
import typing
from typing import Any

from .family import ModelSpec, NetworkConfig

# Numbers of a shape that may be 0: a decoder without experts, the first id.
_MAY_BE_ZERO = frozenset({"num_experts", "experts_per_token", "mask_id", "position_pad_id"})


def shape_problems(network: NetworkConfig) -> list[str]:
    """Fields of a network's config that are of another type than theirs, or out of range."""
    return _number_problems(network) or _head_problems(network)


def normalized_ids(spec: ModelSpec) -> ModelSpec:
    """Special ids as single ids of the vocabulary.

    Of a list, as newer configs give for `eos_token_id`, the first. An id that the embedding does
    not have (some configs write -1, or keep the default of a larger vocabulary) cannot occur in a
    text and counts as not declared; but a mask must have an embedding.

    Raises:
        ValueError: an id that is no whole number, or a mask beyond the embedding.
    """
    ids = {}
    for name in ("mask_id", "eos_id", "pad_id", "bos_id"):
        value = getattr(spec, name)
        if isinstance(value, list | tuple):
            value = value[0] if value else None
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise ValueError(f"{name}={value!r} must be a whole number")
        inside = value is not None and 0 <= value < spec.network.vocab_size
        if name == "mask_id" and value is not None and not inside:
            raise ValueError(
                f"the mask id {value} has no embedding: ids lie in 0..{spec.network.vocab_size - 1}"
            )
        ids[name] = value if inside else None
    if not isinstance(spec.num_ids, int) or not 1 <= spec.num_ids <= spec.network.vocab_size:
        raise ValueError(
            f"a vocabulary of {spec.num_ids!r} ids does not fit the {spec.network.vocab_size}"
            " embeddings"
        )
    return spec._replace(**ids)


def _number_problems(fields: Any) -> list[str]:
    problems = []
    for name, hint in typing.get_type_hints(type(fields)).items():
        value: Any = getattr(fields, name)
        kinds = _kinds(hint)
        if value is None and type(None) in kinds:
            continue
        if hasattr(value, "_fields"):
            problems += _number_problems(value)
        elif int in kinds or float in kinds:
            least = 0 if name in _MAY_BE_ZERO else 1 if int in kinds else math.ulp(0.0)
            allowed = int if int in kinds else int | float
            if (
                isinstance(value, bool)
                or not isinstance(value, allowed)
                or not (least <= value < math.inf)
            ):
                kind = "a whole number" if int in kinds else "a number"
                bound = "of at least 0" if least == 0 else "above 0"
                problems.append(f"{name}={value!r} must be {kind} {bound}")
    return problems


def _head_problems(network: NetworkConfig) -> list[str]:
    """Heads that do not divide what they share."""
    heads, problems = getattr(network, "num_heads", 1), []
    shared = getattr(network, "num_kv_heads", heads)
    width = getattr(network, "head_dim", None)
    if heads % shared:
        problems.append(f"num_heads={heads} is not a multiple of num_kv_heads={shared}")
    if width is None and network.hidden_size % heads:
        problems.append(f"hidden_size={network.hidden_size} is not a multiple of {heads} heads")
    wide = width or network.hidden_size // heads
    if hasattr(network, "rope_theta") and wide % 2:
        problems.append(f"a head is {wide} wide; rotary attention needs an even number")
    return problems


def _kinds(hint: Any) -> tuple[Any, ...]:
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if union else (hint,)
