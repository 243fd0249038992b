"""Tokenizers from the vocabulary files that came before tokenizer.json.

Byte-level BPE (vocab.json, merges.txt), WordPiece (vocab.txt) and sentencepiece's BPE
(tokenizer.model), with the tokens that tokenizer_config.json adds. What a class of tokenizer does
to text beyond its vocabulary is data of that class; an unknown class is refused, not guessed.
"""

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from . import sentencepieces

END_OF_TEXT = "<|endoftext|>"
_REMEDY = (
    "; where you trust the repository, save a tokenizer.json with transformers"
    " (AutoTokenizer.from_pretrained(...).save_pretrained(...)) and put it into the folder"
)
_GPT2, _QWEN2, _ROBERTA = "gpt2", "qwen2", "roberta"
_BYTE_LEVEL = {
    None: _GPT2,
    "GPT2Tokenizer": _GPT2,
    "Qwen2Tokenizer": _QWEN2,
    "DreamTokenizer": _QWEN2,
    "RobertaTokenizer": _ROBERTA,
}
_WORD_PIECE = (None, "BertTokenizer", "MPNetTokenizer")
_SENTENCE_PIECE = (None, "LlamaTokenizer")
# How Qwen2 and Llama 3 split text before BPE: letters with one leading mark, line breaks, and
# numbers by single digits (Qwen2) or up to three at a time (Llama 3).
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_WORDS, LLAMA3_WORDS = _WORDS % r"\p{N}", _WORDS % r"\p{N}{1,3}"
# Special tokens by their fields in tokenizer_config.json, and what they are where it is silent.
_SPECIAL_FIELDS = tuple(
    f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
)
_GPT2_TOKENS = {"eos_token": END_OF_TEXT}
_BERT_TOKENS = dict(zip(_SPECIAL_FIELDS[2:], ("[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]")))
_ROBERTA_TOKENS = dict(
    zip(_SPECIAL_FIELDS, ("<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"))
)


def read_folder(folder: pathlib.Path) -> tokenizers.Tokenizer | None:
    """The tokenizer of a folder without tokenizer.json; None where there is no vocabulary file.

    Raises:
        ValueError: a file that cannot be read, or a tokenizer class that is not implemented.
    """
    config = _read_json(folder / "tokenizer_config.json")
    added = _added_tokens(folder, config)
    kind = config.get("tokenizer_class")
    kind = kind.removesuffix("Fast") if isinstance(kind, str) else None
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        style = _known(kind, _BYTE_LEVEL, folder / "vocab.json")
        vocab = _vocabulary(_read_json(folder / "vocab.json"), folder / "vocab.json")
        if kind is None and {"<s>", "</s>"} <= vocab.keys():
            style = _ROBERTA
        merges = read_merges(folder / "merges.txt")
        return _checked(folder, byte_level_bpe, vocab, merges, added, style, config)
    if (folder / "vocab.txt").is_file():
        _known(kind, dict.fromkeys(_WORD_PIECE), folder / "vocab.txt")
        lines = _read_text(folder / "vocab.txt").rstrip("\n").split("\n")
        vocab = {line.rstrip("\r"): number for number, line in enumerate(lines)}
        return _checked(folder, word_piece, vocab, added, config)
    if (folder / "tokenizer.model").is_file():
        _known(kind, dict.fromkeys(_SENTENCE_PIECE), folder / "tokenizer.model")
        backend = sentencepieces.read(folder / "tokenizer.model")
        return _with_added(backend, _declared(added, config, backend.get_vocab(), {}))
    return None


def mask_token(folder: pathlib.Path) -> str | None:
    """The name of the mask in tokenizer_config.json, or else special_tokens_map.json."""
    for file in ("tokenizer_config.json", "special_tokens_map.json"):
        config = _read_json(folder / file)
        if config.get("mask_token"):
            return _content(config, "mask_token", "")
    return None


def byte_level_bpe(
    vocab: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    added: Mapping[tokenizers.AddedToken, int],
    style: str = _GPT2,
    config: Mapping[str, Any] | None = None,
) -> tokenizers.Tokenizer:
    """Byte-level BPE.

    Args:
        vocab, merges: the tables, over the byte alphabet of GPT-2.
        added: further tokens with their ids, matched before anything else.
        style: "gpt2", "roberta" (whose rows lie between <s> and </s>) or "qwen2" (another
            splitting into words, texts in NFC).
        config: tokenizer_config.json: further special tokens, `add_prefix_space`.
    """
    config = config or {}
    added = _declared(added, config, vocab, _ROBERTA_TOKENS if style == _ROBERTA else _GPT2_TOKENS)
    # In the model's own vocabulary an added token keeps its id even where ids have holes.
    full = dict(vocab) | {str(token.content): number for token, number in added.items()}
    backend = tokenizers.Tokenizer(models.BPE(full, list(merges)))
    space = bool(config.get("add_prefix_space", False))
    if style == _QWEN2:
        backend.normalizer = normalizers.NFC()
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(tokenizers.Regex(QWEN2_WORDS), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=space, use_regex=False),
            ]
        )
    else:
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=space)
    backend.decoder = decoders.ByteLevel()
    if style == _ROBERTA:
        backend.post_processor = processors.RobertaProcessing(
            ("</s>", full["</s>"]), ("<s>", full["<s>"]), add_prefix_space=space
        )
    return _with_added(backend, added)


def word_piece(
    vocab: Mapping[str, int],
    added: Mapping[tokenizers.AddedToken, int],
    config: Mapping[str, Any] | None = None,
) -> tokenizers.Tokenizer:
    """BERT's WordPiece; rows lie between the tokens `cls_token` and `sep_token`.

    Args:
        vocab: {piece: id}.
        added: further tokens with their ids.
        config: tokenizer_config.json: `do_lower_case` (default True), `strip_accents`,
            `tokenize_chinese_chars`, special tokens.
    """
    config = config or {}
    added = _declared(added, config, vocab, _BERT_TOKENS)
    full = dict(vocab) | {str(token.content): number for token, number in added.items()}
    backend = tokenizers.Tokenizer(
        models.WordPiece(full, unk_token=_content(config, "unk_token", "[UNK]"))
    )
    backend.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=bool(config.get("tokenize_chinese_chars", True)),
        strip_accents=config.get("strip_accents"),
        lowercase=bool(config.get("do_lower_case", True)),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    start, end = _content(config, "cls_token", "[CLS]"), _content(config, "sep_token", "[SEP]")
    missing = [name for name in (start, end) if name not in full]
    if missing:
        raise ValueError(f"the vocabulary lacks {' and '.join(missing)}, which frame every row")
    backend.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}", special_tokens=[(start, full[start]), (end, full[end])]
    )
    return _with_added(backend, added)


def read_merges(path: pathlib.Path) -> list[tuple[str, str]]:
    """The pairs of merges.txt in their order.

    Raises:
        ValueError: a line that is not two pieces, or a file that cannot be read as UTF-8.
    """
    merges = []
    for number, line in enumerate(_read_text(path).split("\n"), 1):
        line = line.rstrip("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.partition(" ")
        if not right or " " in right:
            raise ValueError(f"{path}: line {number} is not two pieces and a space: {line!r}")
        merges.append((left, right))
    return merges


def _known(kind: str | None, classes: Mapping[str | None, Any], path: pathlib.Path) -> Any:
    if kind not in classes:
        accepted = ", ".join(name for name in classes if name)
        raise ValueError(
            f"{path}: tokenizer_class {kind!r} of tokenizer_config.json is not implemented"
            f" (accepted with this file: {accepted}){_REMEDY}"
        )
    return classes[kind]


def _checked(folder: pathlib.Path, build, *arguments) -> tokenizers.Tokenizer:
    try:
        return build(*arguments)
    except Exception as error:  # the Rust side raises bare Exception
        raise ValueError(f"the tokenizer files of {folder} do not fit: {error}{_REMEDY}") from error


def _with_added(
    backend: tokenizers.Tokenizer, added: Mapping[tokenizers.AddedToken, int]
) -> tokenizers.Tokenizer:
    for token, number in sorted(added.items(), key=lambda item: item[1]):
        (backend.add_special_tokens if token.special else backend.add_tokens)([token])
        if backend.token_to_id(str(token.content)) != number:
            raise ValueError(
                f"added token {token.content!r} got id {backend.token_to_id(str(token.content))},"
                f" not {number}"
            )
    return backend


def _added_tokens(
    folder: pathlib.Path, config: Mapping[str, Any]
) -> dict[tokenizers.AddedToken, int]:
    """The tokens beyond the vocabulary that the files of a folder name."""
    found: dict[str, tuple[tokenizers.AddedToken, int]] = {}
    path = folder / "added_tokens.json"
    for content, number in _vocabulary(_read_json(path), path).items():
        found[content] = (tokenizers.AddedToken(content, normalized=False, special=True), number)
    path = folder / "tokenizer_config.json"
    for number, fields in (config.get("added_tokens_decoder") or {}).items():
        try:
            token = _token(fields, special=bool(fields.get("special", False)))
            found[str(token.content)] = (token, int(number))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"{path}: added_tokens_decoder[{number!r}] is no token: {error!r}"
            ) from error
    return dict(found.values())


def _declared(
    added: Mapping[tokenizers.AddedToken, int],
    config: Mapping[str, Any],
    vocab: Mapping[str, int],
    usual: Mapping[str, str],
) -> dict[tokenizers.AddedToken, int]:
    """Added tokens, and the special ones that config or custom name and the vocabulary has."""
    names = {str(token.content) for token in added}
    result = dict(added)
    values = [config.get(field) or usual.get(field) for field in _SPECIAL_FIELDS]
    values += config.get("additional_special_tokens") or []
    for value in filter(None, values):
        token = _token(value, special=True)
        content = str(token.content)
        if content not in names and content in vocab:
            names.add(content)
            result[token] = vocab[content]
    return result


def _token(value: str | Mapping[str, Any], *, special: bool) -> tokenizers.AddedToken:
    fields = {"content": value} if isinstance(value, str) else value
    content = fields["content"]
    options = {key: bool(fields.get(key, False)) for key in ("single_word", "lstrip", "rstrip")}
    normalized = bool(fields.get("normalized", not special))
    # BERT's and RoBERTa's masks take the space before them, whatever short configs say.
    options["lstrip"] |= content == "<mask>"
    return tokenizers.AddedToken(content, **options, normalized=normalized, special=special)


def _content(config: Mapping[str, Any], field: str, default: str) -> str:
    value = config.get(field) or default
    return value if isinstance(value, str) else value["content"]


def _vocabulary(value: Mapping[str, Any], path: pathlib.Path) -> dict[str, int]:
    wrong = [name for name, number in value.items() if type(number) is not int or number < 0]
    if wrong:
        raise ValueError(f"{path}: the ids of {wrong[:5]} are not whole numbers from 0")
    return dict(value)


def _read_text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as UTF-8: {error}") from error


def _read_json(path: pathlib.Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(_read_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} must hold a JSON object")
    return value
