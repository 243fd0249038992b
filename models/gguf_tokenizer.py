"""The tokenizer inside a GGUF file: byte-level BPE from `tokenizer.ggml.*` metadata.

A GGUF file names its pre-tokenizer instead of describing it; the ones below split as the
tokenizer.json of the models they are named after (and as llama.cpp, llama-vocab.cpp).
"""

import re
from collections.abc import Mapping
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from .vocabularies import LLAMA3_WORDS, QWEN2_WORDS

PRE_TOKENIZERS = ("gpt-2", "smollm", "qwen2", "llama-bpe")
# Kinds of tokens: text that is matched whole, as a special token or not, and filling of the table.
_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5
_KNOWN = re.compile(
    r"tokenizer\.ggml\.(model|pre|tokens|token_type|merges|scores|token_type_count"
    r"|add_(bos|eos|sep)_token|add_space_prefix|\w+_token_id)|tokenizer\.chat_templates?(\..+)?"
)


def build_tokenizer(metadata: Mapping[str, Any]) -> tokenizers.Tokenizer | None:
    """The tokenizer that a header's metadata describes; None if it describes none.

    It adds no special tokens of its own, but recognises them in a text.

    Raises:
        ValueError: a kind of tokenizer or pre-tokenizer, or a key, that is not implemented; lists
            that are missing, of unequal length or contradict each other.
    """
    kind = metadata.get("tokenizer.ggml.model", "none")
    if kind in ("none", "no_vocab"):
        return None
    if kind != "gpt2":
        name = f"{kind!r} (SentencePiece)" if kind == "llama" else repr(kind)
        raise ValueError(
            f"tokenizer.ggml.model={name} is not implemented (accepted: 'gpt2', byte-level BPE);"
            " load the model from safetensors with its tokenizer.json instead"
        )
    unknown = [k for k in metadata if k.startswith("tokenizer.") and not _KNOWN.fullmatch(k)]
    if unknown:
        raise ValueError(f"unknown keys of the tokenizer: {', '.join(sorted(unknown))}")
    if metadata.get("tokenizer.ggml.add_space_prefix", False):
        raise ValueError("tokenizer.ggml.add_space_prefix=True is not implemented")
    tokens, merges = (_strings(metadata, f"tokenizer.ggml.{x}") for x in ("tokens", "merges"))
    kinds = metadata.get("tokenizer.ggml.token_type", [1] * len(tokens))
    if not isinstance(kinds, list) or len(kinds) != len(tokens):
        raise ValueError("tokenizer.ggml.token_type does not have one number for each token")
    backend = tokenizers.Tokenizer(_bpe(metadata, tokens, merges, kinds))
    _split(backend, metadata.get("tokenizer.ggml.pre"))
    backend.decoder = decoders.ByteLevel()
    for special, of in ((True, _CONTROL), (False, _USER_DEFINED)):
        whole = [token for token, kind in zip(tokens, kinds, strict=True) if kind == of]
        backend.add_tokens(
            [tokenizers.AddedToken(token, special=special, normalized=False) for token in whole]
        )
    return backend


def _bpe(
    metadata: Mapping[str, Any], tokens: list[str], merges: list[str], kinds: list[int]
) -> models.BPE:
    used = [(token, i) for i, token in enumerate(tokens) if kinds[i] != _UNUSED]
    vocabulary = dict(used)
    if len(vocabulary) < len(used):
        twice = next(token for token, i in used if vocabulary[token] != i)
        raise ValueError(f"tokenizer.ggml.tokens holds {twice!r} twice")
    pairs = []
    for merge in merges:
        left, _, right = merge.partition(" ")
        if not {left, right, left + right} <= vocabulary.keys():
            raise ValueError(
                f"tokenizer.ggml.merges: {merge!r} does not join two tokens to a third"
            )
        pairs.append((left, right))
    # Llama 3 takes a piece that is a token as it is, even where no merges lead to it.
    ignore_merges = metadata.get("tokenizer.ggml.pre") == "llama-bpe"
    return models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=ignore_merges)


def _split(backend: tokenizers.Tokenizer, name: str | None) -> None:
    """Sets how a text is split into the pieces that BPE works on."""
    if name not in PRE_TOKENIZERS:
        raise ValueError(
            f"tokenizer.ggml.pre={name!r} is not implemented (accepted:"
            f" {', '.join(PRE_TOKENIZERS)}): token ids would be wrong; load the model from"
            " safetensors with its tokenizer.json instead"
        )
    if name in ("gpt-2", "smollm"):
        words = [pre_tokenizers.Digits(individual_digits=True)] if name == "smollm" else []
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    else:
        pattern = QWEN2_WORDS if name == "qwen2" else LLAMA3_WORDS
        words = [pre_tokenizers.Split(Regex(pattern), "isolated")]
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if name == "qwen2":
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence([*words, to_bytes])


def _strings(metadata: Mapping[str, Any], key: str) -> list[str]:
    value = metadata.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{key} is missing or no list of strings")
    return value
