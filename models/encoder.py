"""Encoders: texts to one feature vector each, pooled the way their authors pool."""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from . import registry, sources, text_tokens
from .batches import check_rows
from .family import NetworkConfig
from .loading import LoadedNetwork, load_network
from .network import Network, Params
from .states import Bound, bind, launch_states, stream_states
from .streaming import stream

Pooling = Literal["cls", "mean", "last"]
POOLINGS = ("cls", "mean", "last")


class Recipe(NamedTuple):
    """How a text becomes a vector; part of what a feature means, hence recorded with it.

    Attributes:
        pooling: the first token's state, the mean over tokens, or the last token's.
        normalize: whether vectors are scaled to length 1.
        prefix: put before every text.
        max_length: tokens a text is cut to, special ones included.
    """

    pooling: Pooling
    normalize: bool
    prefix: str
    max_length: int


class Encoder(NamedTuple):
    """A network that turns texts into features.

    Attributes:
        encode: (texts) -> float32 features Float["n d"]. Special tokens are added as the
            tokenizer says; texts are cut to `recipe.max_length` tokens. An empty text has its
            special tokens alone, and must have some. Rows run in buckets of like lengths, in
            batches as large as memory allows; neither changes a row beyond float32 rounding.
        hidden: (ids Int["n t"], lengths Int["n"], *, token_types=None) -> final hidden states
            Float["n t d"]; ids as given, zeros beyond a row's length.
        recipe: how texts are pooled.
        tokenizer: None where the folder has no tokenizer file; `encode` then refuses.
        card: source, digests, sizes.
    """

    encode: Callable[[Sequence[str]], Float[np.ndarray, "n d"]]
    hidden: Callable[..., Float[np.ndarray, "n t d"]]
    recipe: Recipe
    tokenizer: text_tokens.Tokenizer | None
    card: sources.ModelCard


def load_encoder(
    source: str,
    *,
    dtype: str = "float32",
    mesh: jax.sharding.Mesh | None = None,
    architecture: str | None = None,
    matmul_precision: str = "highest",
    digests: Mapping[str, str] | None = None,
    pooling: Pooling | None = None,
    normalize: bool | None = None,
    prefix: str | None = None,
    max_length: int | None = None,
) -> Encoder:
    """Loads an encoder; what is not given below is as `load_denoiser`.

    Args:
        pooling, normalize, prefix, max_length: as in `Recipe`. Default: what the registry says of
            this source, else the folder's sentence-transformers files, else the family's own
            (no normalisation, no prefix). Length: 512 tokens or the context if that is shorter,
            for all alike, whatever sentence_bert_config.json says.

    Raises:
        ValueError: as `load_denoiser`; an unknown pooling, a length beyond the context.
    """
    loaded = load_network(
        source,
        "encoder",
        dtype,
        mesh,
        architecture,
        matmul_precision=matmul_precision,
        digests=digests,
    )
    given = {
        "pooling": pooling,
        "normalize": normalize,
        "prefix": prefix,
        "max_length": max_length,
    }
    recipe = _recipe(loaded, {name: value for name, value in given.items() if value is not None})
    bound = bind(loaded)
    return Encoder(
        functools.partial(_encode, bound, recipe, loaded.tokenizer, str(source)),
        functools.partial(_hidden, bound, str(source)),
        recipe,
        loaded.tokenizer,
        loaded.card,
    )


def _recipe(loaded: LoadedNetwork, given: dict[str, Any]) -> Recipe:
    """Each setting from the first that gives it: caller, registry, folder, family."""
    native = {"pooling": loaded.family.pooling, "normalize": False, "prefix": "", "max_length": 512}
    settings = native | _folder_recipe(loaded) | registry.encoder_recipe(loaded.card.source) | given
    context = loaded.spec.network.max_length
    if context is not None and settings["max_length"] > context:
        if "max_length" in given:
            raise ValueError(
                f"max_length={given['max_length']} is beyond the context of {context} tokens of"
                f" {loaded.card.source}"
            )
        settings["max_length"] = context
    if settings["pooling"] not in POOLINGS:
        raise ValueError(
            f"pooling {settings['pooling']!r} is not accepted; use one of {', '.join(POOLINGS)}"
        )
    if settings["max_length"] < 1:
        raise ValueError(f"max_length={settings['max_length']} must be at least 1")
    return Recipe(**settings)


def _folder_recipe(loaded: LoadedNetwork) -> dict[str, Any]:
    """What the files of a sentence-transformers model say.

    Raises:
        ValueError: a module, a pooling or lower-casing that is not implemented, a broken file.
    """
    folder, recipe = loaded.place, {}
    modules, pooling = folder / "modules.json", folder / "1_Pooling" / "config.json"
    if modules.is_file():
        try:
            listed = json.loads(modules.read_text(encoding="utf-8"))
            kinds = {module["type"].rsplit(".", 1)[-1]: module["path"] for module in listed}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{modules} is no list of modules: {error!r}") from error
        unknown = kinds.keys() - {"Transformer", "Pooling", "Normalize"}
        if unknown:
            raise ValueError(f"{modules}: modules {sorted(unknown)} are not implemented")
        if "Pooling" in kinds and (kinds["Pooling"] != "1_Pooling" or not pooling.is_file()):
            raise ValueError(
                f"{modules} leaves pooling to {kinds['Pooling']}/config.json; it is read from"
                f" {pooling}, which must be there"
            )
        recipe["normalize"] = "Normalize" in kinds
    if pooling.is_file():
        modes = {
            "pooling_mode_cls_token": "cls",
            "pooling_mode_mean_tokens": "mean",
            "pooling_mode_lasttoken": "last",
        }
        told = sources.read_json(pooling)
        chosen = [name for name in told if name.startswith("pooling_mode") and told[name]]
        if len(chosen) != 1 or chosen[0] not in modes:
            raise ValueError(f"{pooling}: pooling {chosen} is not implemented ({list(modes)} are)")
        recipe["pooling"] = modes[chosen[0]]
    cased = folder / "sentence_bert_config.json"
    if cased.is_file() and sources.read_json(cased).get("do_lower_case"):
        normalizer = loaded.tokenizer and loaded.tokenizer.backend.normalizer
        if not normalizer or normalizer.normalize_str("A") != "a":
            raise ValueError(f"{cased}: do_lower_case is not implemented for a cased tokenizer")
    prompts = folder / "config_sentence_transformers.json"
    told = sources.read_json(prompts) if prompts.is_file() else {}
    name = told.get("default_prompt_name")
    if name is not None:
        if name not in (told.get("prompts") or {}):
            raise ValueError(f"{prompts}: default_prompt_name {name!r} is not among its prompts")
        recipe["prefix"] = told["prompts"][name]
    return recipe


def _encode(
    bound: Bound,
    recipe: Recipe,
    tokenizer: text_tokens.Tokenizer | None,
    source: str,
    texts: Sequence[str],
) -> Float[np.ndarray, "n d"]:
    if tokenizer is None:
        raise ValueError(f"{source} has no tokenizer file: texts cannot be encoded")
    wrong = type(texts).__name__
    if not isinstance(texts, str | bytes | None):
        texts = list(texts)
        wrong = next((type(text).__name__ for text in texts if not isinstance(text, str)), "")
    if wrong:
        raise ValueError(f"texts must be a sequence of str, not (of) {wrong}")
    if not texts:
        raise ValueError("texts is empty: there is nothing to encode")
    rows = tokenizer.encode_special([recipe.prefix + text for text in texts], recipe.max_length)
    empty = [i for i, row in enumerate(rows) if not row]
    if empty:
        raise ValueError(
            f"{len(empty)} texts have no tokens (first: text {empty[0]}, {texts[empty[0]]!r}) and"
            f" {source} adds no special ones; leave them out and say so"
        )
    lengths = np.array([len(row) for row in rows])
    ids = np.zeros((len(rows), lengths.max()), np.int32)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    ids, lengths = check_rows(ids, lengths, bound.config.vocab_size, bound.config.max_length)
    launch = functools.partial(
        _launch_pooled, bound.network, bound.config, bound.precision, recipe.pooling
    )
    features = stream(launch, bound.params, ids, lengths)
    if not np.isfinite(features).all():
        bad = int(np.flatnonzero(~np.isfinite(features).all(axis=1))[0])
        raise ValueError(f"{source} gives text {bad} a feature that is not finite")
    if recipe.normalize:
        features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    return features


def _hidden(bound: Bound, source: str, ids, lengths, *, token_types=None):
    ids, lengths = check_rows(ids, lengths, bound.config.vocab_size, bound.config.max_length)
    more = ()
    if token_types is not None:
        if "token_types" not in bound.network.inputs:
            raise ValueError(f"{source} has no token types")
        if np.shape(token_types) != ids.shape:
            raise ValueError(
                f"token_types has shape {np.shape(token_types)}, ids {ids.shape}; they must agree"
            )
        types, rows = np.asarray(token_types), getattr(bound.config, "type_vocab_size", None)
        real = np.arange(ids.shape[1]) < lengths[:, None]
        valid = types[real]
        if not np.issubdtype(types.dtype, np.integer):
            raise ValueError(f"token_types must hold integers, not {types.dtype}")
        if rows is not None and valid.size and (valid.min() < 0 or valid.max() >= rows):
            raise ValueError(
                f"token_types must lie in 0..{rows - 1}, not {valid.min()}..{valid.max()}"
            )
        more = (np.where(real, types, 0).astype(np.int32),)
    return stream_states(bound, ids, lengths, *more)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _launch_pooled(
    network: Network,
    config: NetworkConfig,
    matmul_precision: str,
    pooling: Pooling,
    params: Params,
    ids: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
) -> Float[Array, "b d"]:
    states = launch_states(network, config, matmul_precision, params, ids, token_mask)
    if pooling == "cls":
        return states[:, 0]
    count = token_mask.sum(axis=1)
    if pooling == "last":
        return jnp.take_along_axis(states, (count - 1)[:, None, None], axis=1)[:, 0]
    return states.sum(axis=1) / count[:, None]
