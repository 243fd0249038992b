"""The files a model is made of, and the digests that say which ones were loaded."""

import concurrent.futures
import hashlib
import pathlib
from collections.abc import Iterable, Mapping, Sequence

# All a model is made of: weights and their index, configs, tokenizers. Never pickles, never code.
PATTERNS = ("*.safetensors", "*.json", "merges.txt", "vocab.txt", "tokenizer.model")
# Pooling of a sentence-transformers model lies one folder down.
NESTED = ("1_Pooling/config.json",)
# Size and time of change of files, None for one that is gone.
States = Mapping[pathlib.Path, tuple[int, int] | None]


class Hashing:
    """Digests that may still be computed in a thread; two are equal if they come out equal."""

    def __init__(self, future: "concurrent.futures.Future[dict[str, str]]"):
        self._future = future

    def result(self) -> dict[str, str]:
        return self._future.result()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashing) and self.result() == other.result()

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.result().items())))


def model_files(place: pathlib.Path, patterns: Sequence[str] = PATTERNS) -> list[pathlib.Path]:
    """The files of a model that decide what it computes: weights, configs and tokenizer."""
    if place.is_file():
        return [place]
    found = {path for pattern in (*patterns, *NESTED) for path in place.glob(pattern)}
    return sorted(path for path in found if path.name != "card.json" and path.is_file())


def file_digests(
    place: pathlib.Path, files: Iterable[pathlib.Path] | None = None
) -> dict[str, str]:
    """sha256 of some files (default: all `model_files`), by their path below the folder."""
    digests = {}
    for path in model_files(place) if files is None else files:
        name = path.name if place.is_file() else path.relative_to(place).as_posix()
        with path.open("rb") as handle:
            digests[name] = hashlib.file_digest(handle, "sha256").hexdigest()
    return digests


def file_states(place: pathlib.Path, patterns: Sequence[str] = PATTERNS) -> States:
    """Size in bytes and time of change in nanoseconds of each of `model_files`, as they are now."""
    return {path: _size_and_time(path) for path in model_files(place, patterns)}


def check_unchanged(before: States) -> None:
    """Refuses files that are not as `file_states` saw them before loading began.

    Raises:
        ValueError: a file is gone, or has another size or time of change.
    """
    for path, state in before.items():
        if _size_and_time(path) != state:
            raise ValueError(
                f"{path} changed while the model was loaded; load it again once nothing"
                " writes to it"
            )


def start_hashing(place: pathlib.Path, before: States | None = None) -> Hashing:
    """Hashes the files of a model in a thread.

    Args:
        place: folder or file.
        before: the files to hash, as `file_states` saw them before any was read: digests of a file
            that has changed since are refused when they are asked for, as `check_unchanged` does.
            Default: all files, as they are now.
    """
    pool = concurrent.futures.ThreadPoolExecutor(1, "digests")
    before = file_states(place) if before is None else before
    future = pool.submit(_unchanged_digests, place, before)
    pool.shutdown(wait=False)
    return Hashing(future)


def _unchanged_digests(place: pathlib.Path, before: States) -> dict[str, str]:
    try:
        return file_digests(place, before)
    finally:  # a file that is gone is told this way too
        check_unchanged(before)


def _size_and_time(path: pathlib.Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:  # gone
        return None
    return found.st_size, found.st_mtime_ns


def check_pins(place: pathlib.Path, pinned: Mapping[str, str]) -> Hashing:
    """Hashes the files of a model now and holds them against the digests that were pinned.

    Raises:
        ValueError: a pinned file is missing or holds something else.
    """
    found = file_digests(place)
    wrong = [
        f"{name} has sha256 {found.get(name, 'nothing: it is missing')}, not {digest}"
        for name, digest in sorted(pinned.items())
        if found.get(name) != digest
    ]
    if wrong:
        raise ValueError(
            f"{place}: files other than those that were pinned: {'; '.join(wrong)}; fetch the"
            " pinned revision again, or pin what you mean to use"
        )
    return settled(found)


def settled(digests: Mapping[str, str]) -> Hashing:
    """Digests that are known already, in the form a card holds them."""
    future: concurrent.futures.Future[dict[str, str]] = concurrent.futures.Future()
    future.set_result(dict(digests))
    return Hashing(future)
