"""Where a model comes from, and the card of what was loaded.

`embedded:NAME`, a folder, `gguf:FILE`, `hf:OWNER/REPO@REVISION`, or a folder of any filesystem that
epath knows, such as `gs://BUCKET/FOLDER`.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

from .model_files import NESTED, PATTERNS, Hashing

_EMBEDDED = pathlib.Path(__file__).parent / "embedded"
_HUB = re.compile(r"hf:([\w.-]+/[\w.-]+)@([0-9a-fA-F]{7,40})")


class ModelCard(NamedTuple):
    """What was loaded.

    Attributes:
        source: the string that loads it again.
        architecture: family whose tables read it.
        dtype: type of the parameters in memory.
        num_params: parameters, tied ones counted once.
        config: the checkpoint's own config.json.
        precision: of matrix products: "highest", "high" or "default" (see `precision`).
        hashing: the running computation of `digests`.
    """

    source: str
    architecture: str
    dtype: str
    num_params: int
    config: dict[str, Any]
    precision: str
    hashing: "Hashing"

    @property
    def digests(self) -> dict[str, str]:
        """sha256 of every file that was read; waits for the hashing that loading began.

        Raises:
            ValueError: a file changed while it was loaded, so that its bytes now are not known to
                be those that were read.
        """
        return self.hashing.result()


def embedded_names() -> list[str]:
    """Names of the models that ship with the package."""
    return sorted(path.parent.name for path in _EMBEDDED.glob("*/config.json"))


def resolve(source: str, patterns: Sequence[str] = PATTERNS) -> pathlib.Path:
    """The folder (for `gguf:`, the file) that holds a model, fetched first where it is remote.

    Args:
        source: one of the forms above.
        patterns: names of the files that are fetched from a remote source.

    Raises:
        ValueError: unknown embedded name, no such folder or file, `hf:` without the hash of a
            commit, a remote source that cannot be reached.
    """
    if source.startswith("embedded:"):
        name = source.removeprefix("embedded:")
        if name not in embedded_names():
            known = ", ".join(f"embedded:{n}" for n in embedded_names())
            raise ValueError(f"model {source!r} is unknown; embedded models: {known}")
        return _EMBEDDED / name
    if source.startswith("hf:"):
        match = _HUB.fullmatch(source)
        if match is None:
            raise ValueError(
                f"model {source!r} must pin a revision: hf:OWNER/REPO@REVISION, the hash of a"
                " commit (40 hexadecimal digits, at least 7 of them): a branch or tag can move. The"
                " repository's list of commits shows it, and `git ls-remote` prints it"
            )
        return _download(source, match[1], match[2], patterns)
    if source.startswith("gguf:"):
        path = _local(source.removeprefix("gguf:"))
        if not os.path.isfile(path):
            raise ValueError(f"model {source!r}: there is no file {str(path)!r}")
        return path
    if "://" in source:
        return _copy(source, patterns)
    folder = _local(source)
    if os.path.isfile(folder):
        raise ValueError(
            f"model {source!r} is a file; name its folder, or gguf:{source} if it is a GGUF file"
        )
    if not os.path.isfile(folder / "config.json"):
        raise ValueError(
            f"model {source!r} is no folder with a config.json; accepted: embedded:NAME,"
            " hf:OWNER/REPO@REVISION, gguf:FILE or a folder of config.json and *.safetensors"
        )
    return folder


def _local(path: str) -> pathlib.Path:
    """A path of this machine; any text is one, and `~` of nobody stays as it stands."""
    return pathlib.Path(os.path.expanduser(path))


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        ValueError: the file is not a JSON object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} must hold a JSON object")
    return value


def _download(source: str, repository: str, revision: str, patterns: Sequence[str]) -> pathlib.Path:
    import huggingface_hub  # only this branch needs a network stack

    try:
        folder = huggingface_hub.snapshot_download(
            repository, revision=revision, allow_patterns=[*patterns, *NESTED]
        )
    except Exception as error:  # the hub raises many kinds; all mean the same to the user
        offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
        how = "HF_HUB_OFFLINE is set and it is not in the local cache" if offline else "no answer"
        raise ValueError(
            f"model {source!r} could not be fetched ({how}; {type(error).__name__}: {error}); check"
            f" the name and the network, or download it elsewhere (`hf download {repository}"
            f" --revision {revision}`) and name the folder"
        ) from error
    return pathlib.Path(folder)


def _copy(source: str, patterns: Sequence[str]) -> pathlib.Path:
    """A remote folder's files in the local cache, each copied once and renamed when complete.

    A file is copied again when its size or its time of change is another than that of the copy (a
    filesystem that tells no times is trusted by size); copies of files that are gone are removed.
    """
    from etils import epath  # its remote backends are imported on use

    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "dlmeval"
    # The digest tells apart names that look alike once they are names of folders.
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    folder = cache / f"{re.sub(r'[^.a-zA-Z0-9-]+', '_', source)}-{digest}"
    try:
        remote = epath.Path(source)
        found = [path for pattern in (*patterns, *NESTED) for path in remote.glob(pattern)]
        if not any(path.name == "config.json" for path in found):
            raise FileNotFoundError(f"no config.json in {source}")
        copies = {folder / path.relative_to(remote): path for path in found}
        for gone in {old for pattern in (*patterns, *NESTED) for old in folder.glob(pattern)}:
            if gone not in copies:
                gone.unlink()
        for local, path in copies.items():
            told = path.stat()
            if local.is_file() and _state(local.stat()) == (told.length, told.mtime):
                continue
            local.parent.mkdir(parents=True, exist_ok=True)
            # A name of its own, since other processes may be copying too.
            part = local.with_name(f"{local.name}.{uuid.uuid4().hex}.part")
            try:
                with path.open("rb") as start, part.open("wb") as end:
                    shutil.copyfileobj(start, end, 1 << 24)
                if part.stat().st_size != told.length:
                    raise OSError(f"{path} broke off after {part.stat().st_size} bytes")
                os.utime(part, (told.mtime, told.mtime))
                part.replace(local)
            finally:
                part.unlink(missing_ok=True)
    except Exception as error:  # each filesystem raises its own kinds
        raise ValueError(
            f"model {source!r} could not be read ({type(error).__name__}: {error}); check the name,"
            " your credentials and that the filesystem's package is installed (gcsfs for gs://)"
        ) from error
    return folder


def _state(copy: os.stat_result) -> tuple[int, int]:
    return copy.st_size, int(copy.st_mtime)
