"""Writing banks: shard by shard, each one vouched for by the manifest once it is stored."""

import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .. import storage
from ..errors import BankExistsError, InputError
from .bank import (
    MANIFEST,
    Sample,
    bank_digest,
    check_files,
    measured_totals,
    read_rows,
    shard_names,
    utf8_bytes,
)

SCHEMA_VERSION = 1
# Keys of a manifest that the writer fills in; everything else is the plan.
_WRITTEN = ("status", "files", "bank_digest", "measured")


def write_bank(
    path: str | pathlib.Path,
    manifest: Mapping[str, Any],
    samples: Iterable[Sample],
    *,
    shard_size: int = 256,
) -> str:
    """Writes a bank in one go, or completes a half-written one from the same samples.

    Args:
        path: folder of the bank; created.
        manifest: facts to store; `n`, if present, must equal the number of samples. Keys that the
            writer fills in (status, files, bank_digest, measured) are replaced.
        samples: row 0 first.
        shard_size: samples per file.

    Returns:
        The bank's digest.

    Raises:
        ValueError: `BankExistsError` when a complete bank is there; otherwise no samples, another
            count than `n`, a text that is not valid Unicode, or a half-written bank of another
            manifest.
    """
    rows = list(samples)
    planned = dict(manifest)
    if planned.setdefault("n", len(rows)) != len(rows):
        raise InputError(f"manifest says n={planned['n']} but {len(rows)} samples were given")
    for index, sample in enumerate(rows):
        _encode_row(index, sample)
    writer = BankWriter.open(path, planned, shard_size=shard_size)
    for shard in writer.missing():
        writer.write(shard, rows[shard.start : shard.stop])
    return writer.finish()


class BankWriter:
    """Writes a bank shard by shard; opening a half-written bank continues it."""

    def __init__(self, path: pathlib.Path, manifest: dict[str, Any]):
        self.path = path
        self.manifest = manifest

    @classmethod
    def open(
        cls, path: str | pathlib.Path, manifest: Mapping[str, Any], *, shard_size: int
    ) -> "BankWriter":
        """Creates the folder and its manifest, or takes up a half-written bank.

        Raises:
            ValueError: `BankExistsError` for a complete bank; otherwise `n` or `shard_size` below
                1, or a half-written bank whose plan differs or whose files were edited.
        """
        path = pathlib.Path(path)
        n = manifest.get("n")
        if not isinstance(n, int) or n < 1 or shard_size < 1:
            raise InputError(f"n={n!r} and shard_size={shard_size} must be whole numbers above 0")
        planned = {key: value for key, value in manifest.items() if key not in _WRITTEN}
        planned |= {"schema_version": SCHEMA_VERSION, "shard_size": shard_size}
        planned = json.loads(json.dumps(planned, allow_nan=False))
        if (path / MANIFEST).exists():
            stored = storage.read_json(path / MANIFEST)
            if stored.get("status") == "complete":
                raise BankExistsError(f"bank {path} is complete; write to another folder")
            differing = _differing(planned, stored)
            if differing:
                raise InputError(
                    f"bank {path} was begun with other {', '.join(differing)}; write to another"
                    " folder"
                )
            check_files(path, stored)
            return cls(path, stored)
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise InputError(f"bank folder {path} holds files but no {MANIFEST}; name an empty one")
        writer = cls(path, {**planned, "status": "started", "files": {}})
        storage.write_json(path / MANIFEST, writer.manifest)
        return writer

    def missing(self) -> list[range]:
        """Row ranges of the shards that are not stored yet, in order."""
        n, size = self.manifest["n"], self.manifest["shard_size"]
        shards = [range(start, min(start + size, n)) for start in range(0, n, size)]
        names = shard_names(n, size)
        return [s for s, name in zip(shards, names) if name not in self.manifest["files"]]

    def write(self, rows: range, samples: Sequence[Sample], *, launches: int = 0) -> None:
        """Stores one shard: file first, then its entry in the manifest.

        Args:
            rows: one of the ranges of `missing()`.
            samples: its samples, in order.
            launches: batched forward calls that made them.
        """
        if len(samples) != len(rows):
            raise InputError(f"rows {rows.start}..{rows.stop - 1} got {len(samples)} samples")
        lines = [_encode_row(index, sample) for index, sample in zip(rows, samples)]
        data = b"".join(lines)
        names = shard_names(self.manifest["n"], self.manifest["shard_size"])
        name = names[rows.start // self.manifest["shard_size"]]
        storage.write_bytes(self.path / name, data)
        self._commit(name, data, rows=len(rows), launches=launches)

    def attach(self, name: str, data: bytes) -> None:
        """Stores a file beside the shards, such as a history, hashed in the manifest like them."""
        storage.write_bytes(self.path / name, data)
        self._commit(name, data)

    def finish(self) -> str:
        """Checks that every shard is there, marks the bank complete and returns its digest."""
        if self.missing():
            raise InputError(f"bank {self.path} still lacks rows {self.missing()}")
        rows = read_rows(self.path, self.manifest)
        digest = bank_digest(row["text"] for row in rows)
        measured = measured_totals(rows, self.manifest)
        self.manifest |= {"status": "complete", "bank_digest": digest, "measured": measured}
        storage.write_json(self.path / MANIFEST, self.manifest)
        return digest

    def _commit(self, name: str, data: bytes, **facts: int) -> None:
        entry = {"sha256": storage.sha256_hex(data), "bytes": len(data), **facts}
        self.manifest["files"] = {**self.manifest["files"], name: entry}
        storage.write_json(self.path / MANIFEST, self.manifest)


def _encode_row(index: int, sample: Sample) -> bytes:
    utf8_bytes(sample.text, index)
    record = {
        "index": index,
        "ids": [int(token) for token in sample.ids],
        "text": sample.text,
        "nfe": int(sample.nfe),
        "accepted": bool(sample.accepted),
    }
    return (json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8")


def _differing(planned: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    keys = (set(planned) | set(stored)) - set(_WRITTEN)
    return sorted(key for key in keys if planned.get(key) != stored.get(key))
