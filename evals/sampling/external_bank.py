"""Banks of texts that another program generated: imported once, then read like any bank."""

import os
import pathlib
from typing import Any, NamedTuple

import numpy as np

from ... import models
from ...models import gguf_config, model_files, text_tokens
from ...models import sources as model_sources
from ..banks.bank import MANIFEST, Sample
from ..banks.bank_writer import write_bank
from ..corpora.text_files import TextRows, read_source
from ..corpora.text_filter import english_filter
from ..corpora.text_source import TextSource, parse_source
from ..environment import environment
from ..errors import BankExistsError, InputError, naming

_ASCII_MIN, _CJK_MAX = 0.85, 0.02
# Files that say what a tokenizer does, in folders and on the hub.
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer.model",
)


class NamedTokenizer(NamedTuple):
    """A tokenizer, the source that loads it again and the sha256 of its files."""

    tokenizer: models.Tokenizer
    source: str
    digests: dict[str, str]


class Imported(NamedTuple):
    """What was imported.

    Attributes:
        file: name of the file.
        field: the field that was read; None where entries are texts themselves.
        sha256: of the file.
        num_texts: rows of the bank.
        num_dropped: empty texts that were left out.
        num_accepted: texts that pass the language filter.
        num_duplicates: texts that an earlier row has as well.
        mean_characters: length of the texts as stored.
        mean_tokens: their tokens; None without a tokenizer.
        num_short: texts of fewer than `num_tokens` tokens; None where nothing was cut.
        digest: of the bank.
    """

    file: str
    field: str | None
    sha256: str
    num_texts: int
    num_dropped: int
    num_accepted: int
    num_duplicates: int
    mean_characters: float
    mean_tokens: float | None
    num_short: int | None
    digest: str


def import_bank(
    source: str,
    output: str | pathlib.Path,
    *,
    tokenizer: str | None = None,
    num_tokens: int | None = None,
    nfe: int | None = None,
    generator: str | None = None,
) -> Imported:
    """Writes the texts of a file as a bank.

    Args:
        source: `FILE[#FIELD][&split=MARKER][&empty=RULE]`, see `text_files`.
        output: folder of the bank; new or empty.
        tokenizer: gives the ids of the rows, see `load_tokenizer`; without one rows have no ids.
            The ids are those of the text, which a generator may have spelled otherwise.
        num_tokens: keeps the first tokens of each text, and their decoding as its text; None
            leaves texts as they are.
        nfe: forward evaluations spent on each text, as the generating program counts them. None:
            unknown; rows then hold 0 and the manifest null.
        generator: name of what wrote the texts; default: the name of the file up to its first dot.

    Raises:
        InputError: an unusable file or tokenizer, a number below its range, `num_tokens` without a
            tokenizer, or an output folder that holds something (`BankExistsError` for a bank).
    """
    output = pathlib.Path(output)
    _check_numbers(tokenizer, num_tokens, nfe)
    _check_output(output)
    with naming(f"--texts={source}"):
        file = parse_source(source)
        if file.join is not None:
            raise ValueError("&join= would make one sample of all texts; leave it out")
        rows = read_source(file)
    named = None
    if tokenizer is not None:
        with naming(f"--tokenizer={tokenizer}"):
            named = load_tokenizer(tokenizer)
    samples, num_short = _samples(rows, named, num_tokens, nfe)
    name = generator or file.path.name.split(".")[0]
    manifest = _manifest(file, rows, named, num_tokens, nfe, name)
    with naming(f"--output={output}"):
        digest = write_bank(output, manifest, samples)
    return Imported(
        file=file.path.name,
        field=rows.field,
        sha256=rows.sha256,
        num_texts=len(samples),
        num_dropped=rows.num_dropped,
        num_accepted=sum(sample.accepted for sample in samples),
        num_duplicates=len(samples) - len({sample.text for sample in samples}),
        mean_characters=float(np.mean([len(sample.text) for sample in samples])),
        mean_tokens=None if named is None else float(np.mean([len(s.ids) for s in samples])),
        num_short=num_short,
        digest=digest,
    )


def load_tokenizer(source: str) -> NamedTokenizer:
    """The tokenizer of a model's source, without its weights.

    Args:
        source: a source of a model (`embedded:NAME`, a folder, `hf:OWNER/REPO@REVISION`,
            `gguf:FILE`), a tokenizer.json, or a folder of tokenizer files alone.

    Raises:
        ValueError: no such source, or no tokenizer there.
    """
    local = pathlib.Path(os.path.expanduser(source))
    if source.startswith("gguf:"):
        place = model_sources.resolve(source)
        backend = gguf_config.open_gguf(place).tokenizer
        found = None if backend is None else models.Tokenizer(backend)
        files = [place]
    elif local.suffix == ".json" and local.is_file():
        found, place, files = text_tokens.load(local), local, [local]
    else:
        small = tuple(p for p in model_sources.PATTERNS if p != "*.safetensors")
        place = local if local.is_dir() else model_sources.resolve(source, small)
        found = text_tokens.load_folder(place)
        files = [place / name for name in _TOKENIZER_FILES if (place / name).is_file()]
    if found is None:
        raise ValueError(f"holds no tokenizer; accepted in a folder: {', '.join(_TOKENIZER_FILES)}")
    return NamedTokenizer(found, source, model_files.file_digests(place, files))


def _samples(
    rows: TextRows, named: NamedTokenizer | None, num_tokens: int | None, nfe: int | None
) -> tuple[list[Sample], int | None]:
    texts, num_short = list(rows.texts), None
    ids: list[list[int]] = [[] for _ in texts]
    if named is not None:
        ids = named.tokenizer.encode_batch(texts)
    if named is not None and num_tokens is not None:
        num_short = sum(len(row) < num_tokens for row in ids)
        for i, row in enumerate(ids):
            if len(row) > num_tokens:  # a whole text stays as it was written
                ids[i] = row[:num_tokens]
                texts[i] = named.tokenizer.decode(ids[i])
    verdicts = [english_filter(text, _ASCII_MIN, _CJK_MAX).accepted for text in texts]
    return [Sample(i, text, nfe or 0, v) for i, text, v in zip(ids, texts, verdicts)], num_short


def _manifest(
    file: TextSource,
    rows: TextRows,
    named: NamedTokenizer | None,
    num_tokens: int | None,
    nfe: int | None,
    generator: str,
) -> dict[str, Any]:
    return {
        "n": len(rows.texts),
        "arm": generator,
        "external": {
            "generator": generator,
            "file": file.path.name,
            "sha256": rows.sha256,
            "bytes": rows.num_bytes,
            "field": rows.field,
            "split_at": file.split_at,
            "empty": file.empty or "refuse",
            "num_dropped": rows.num_dropped,
            "num_tokens": num_tokens,
            "nfe": nfe,
        },
        "filter": {"name": "english", "ascii_min": _ASCII_MIN, "cjk_max": _CJK_MAX},
        "tokenizer": None if named is None else {"source": named.source, "files": named.digests},
        "environment": environment(),
    }


def _check_numbers(tokenizer: str | None, num_tokens: int | None, nfe: int | None) -> None:
    if num_tokens is not None and num_tokens < 1:
        raise InputError(f"--num_tokens={num_tokens} must be at least 1")
    if num_tokens is not None and tokenizer is None:
        raise InputError(f"--num_tokens={num_tokens} needs --tokenizer, which says what a token is")
    if nfe is not None and not 0 <= nfe < 2**31:
        raise InputError(
            f"--nfe={nfe} must be at least 0 and below 2^31; leave it out where it is unknown"
        )


def _check_output(output: pathlib.Path) -> None:
    """Refuses a folder in use before anything is read."""
    if (output / MANIFEST).exists():
        raise BankExistsError(f"--output={output} holds a bank; name another folder")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"--output={output} exists and is no empty folder; name another")
