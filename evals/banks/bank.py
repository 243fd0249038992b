"""Sample banks: append-only shards behind a manifest that is written before any work.

    bank/manifest.json                    what is planned, then what was written and its hashes
    bank/samples-00000-of-0000N.jsonl     one sample a line: index, ids, text, nfe, accepted

The manifest is the commit record: a shard counts once the manifest lists its hash, so a killed
writer loses at most the shard in hand. A complete bank is never overwritten. Nothing in a bank
depends on the time of day, so equal cells give equal bytes.
"""

import hashlib
import json
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from .. import storage
from ..errors import InputError

MANIFEST = "manifest.json"


class Sample(NamedTuple):
    """One generated text.

    Attributes:
        ids: tokens of the generator, cut at the end-of-sequence token.
        text: their decoding.
        nfe: forward evaluations charged to this sample; 0 where no network ran.
        accepted: verdict of the language filter.
    """

    ids: Sequence[int] | np.ndarray
    text: str
    nfe: int
    accepted: bool


class SampleBank(NamedTuple):
    """A bank in memory; row i is sample i.

    Attributes:
        ids: rows padded on the right with 0.
        lengths: valid tokens per row.
        texts: decoded rows.
        nfe: forward evaluations per row.
        accepted: verdict of the language filter per row.
        manifest: the manifest as stored.
        digest: `bank_digest(texts)`.
    """

    ids: Int[np.ndarray, "n t"]
    lengths: Int[np.ndarray, "n"]
    texts: tuple[str, ...]
    nfe: Int[np.ndarray, "n"]
    accepted: Bool[np.ndarray, "n"]
    manifest: dict[str, Any]
    digest: str


def bank_digest(texts: Iterable[str]) -> str:
    """sha256 over the texts in order, each as UTF-8 behind its byte length (uint64, little endian).

    It names the content of a bank whatever the file format.

    Raises:
        ValueError: a text with lone surrogates, which UTF-8 cannot hold.
    """
    digest = hashlib.sha256()
    for row, text in enumerate(texts):
        data = utf8_bytes(text, row)
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def read_bank(path: str | pathlib.Path, strict: bool = True) -> SampleBank:
    """Reads a bank.

    Args:
        path: folder of the bank.
        strict: re-hash every file, count rows against the manifest's n, compare the digest and
            refuse files that the manifest does not list. False reads what is there, for a look
            at an unfinished or edited bank.

    Raises:
        ValueError: no manifest, an unfinished bank or any difference (strict), or no rows.
    """
    path = pathlib.Path(path)
    manifest = storage.read_json(path / MANIFEST)
    if not isinstance(manifest.get("files"), dict):
        raise edited(path, f"its {MANIFEST} lists no files")
    if strict:
        _verify_files(path, manifest)
    rows = read_rows(path, manifest)
    if not rows:
        raise InputError(f"bank {path} holds no samples")
    texts = tuple(row["text"] for row in rows)
    digest = bank_digest(texts)
    if strict:
        _verify_content(path, manifest, rows, digest)
    lengths = np.array([len(row["ids"]) for row in rows], np.int32)
    ids = np.zeros((len(rows), max(1, int(lengths.max()))), np.int32)
    for row, target in zip(rows, ids):
        target[: len(row["ids"])] = row["ids"]
    return SampleBank(
        ids=ids,
        lengths=lengths,
        texts=texts,
        nfe=np.array([row["nfe"] for row in rows], np.int32),
        accepted=np.array([row["accepted"] for row in rows], bool),
        manifest=manifest,
        digest=digest,
    )


def is_complete(path: pathlib.Path) -> bool:
    """Whether a bank is finished, by its manifest alone."""
    manifest = path / MANIFEST
    return manifest.exists() and storage.read_json(manifest).get("status") == "complete"


def shard_names(n: int, shard_size: int) -> list[str]:
    """File names of the shards of a bank of n samples."""
    count = -(-n // shard_size)
    return [f"samples-{index:05d}-of-{count:05d}.jsonl" for index in range(count)]


def _verify_files(path: pathlib.Path, manifest: dict[str, Any]) -> None:
    if manifest.get("status") != "complete":
        raise InputError(f"bank {path} is unfinished; run the sample stage again to complete it")
    lacking = sorted({"n", "shard_size", "bank_digest", "measured"} - set(manifest))
    if lacking:
        raise edited(path, f"its {MANIFEST} lacks {lacking}")
    files = manifest["files"]
    present = {entry.name for entry in path.iterdir()} - {MANIFEST}
    if present != set(files):
        odd = ", ".join(sorted(present ^ set(files)))
        raise edited(path, f"files missing or not in the manifest: {odd}")
    check_files(path, manifest)
    expected = set(shard_names(manifest["n"], manifest["shard_size"]))
    if {name for name, entry in files.items() if "rows" in entry} != expected:
        raise edited(path, "its shards are not those of n and shard_size")


def check_files(path: pathlib.Path, manifest: dict[str, Any]) -> None:
    for name, entry in manifest["files"].items():
        if not (path / name).is_file():
            raise edited(path, f"{name} is missing")
        recorded = entry.get("sha256") if isinstance(entry, dict) else None
        if storage.sha256_hex((path / name).read_bytes()) != recorded:
            raise edited(path, f"{name} does not match its sha256")


def _verify_content(
    path: pathlib.Path, manifest: dict[str, Any], rows: list[dict[str, Any]], digest: str
) -> None:
    if len(rows) != manifest["n"]:
        raise edited(path, f"it holds {len(rows)} rows and the manifest says n={manifest['n']}")
    if digest != manifest["bank_digest"]:
        raise edited(path, f"its texts have digest {digest[:12]}…")
    if measured_totals(rows, manifest) != manifest["measured"]:
        raise edited(path, "the measured totals of its manifest are not those of its rows")


def measured_totals(rows: list[dict[str, Any]], manifest: dict[str, Any]) -> dict[str, Any]:
    nfe = [row["nfe"] for row in rows]
    return {
        "nfe_mean": float(np.mean(nfe)),
        "nfe_min": min(nfe),
        "nfe_max": max(nfe),
        "launches": sum(entry.get("launches", 0) for entry in manifest["files"].values()),
        "accepted": sum(row["accepted"] for row in rows),
        "tokens": sum(len(row["ids"]) for row in rows),
    }


def read_rows(path: pathlib.Path, manifest: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    shards = (name for name, entry in manifest["files"].items() if "rows" in entry)
    for name in sorted(shards):
        # bytes.splitlines breaks at \n and \r alone, and JSON escapes both inside strings.
        for number, line in enumerate((path / name).read_bytes().splitlines(), start=1):
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise edited(path, f"{name}, line {number} is not JSON") from error
    return rows


def utf8_bytes(text: str, row: int) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"text of sample {row} holds a lone surrogate at character {error.start}; decode"
            " bytes with errors='replace'"
        ) from error


def edited(path: pathlib.Path, what: str) -> InputError:
    return InputError(
        f"bank {path} was edited or damaged: {what}; restore it, or delete the folder and sample"
        " again"
    )
