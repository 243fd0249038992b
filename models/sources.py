"""Where a model comes from: `embedded:NAME`, a local folder, or `hf:OWNER/REPO@REVISION`."""

import hashlib
import json
import pathlib
import re
from typing import Any, NamedTuple

_EMBEDDED = pathlib.Path(__file__).parent / "embedded"
_HUB = re.compile(r"hf:([\w.-]+/[\w.-]+)@([\w./-]+)")


class ModelCard(NamedTuple):
    """What was loaded.

    Attributes:
        source: the string that loads it again.
        architecture: family whose tables read it.
        dtype: type of the parameters in memory.
        digests: sha256 of every file that was read.
        num_params: parameters, tied ones counted once.
        config: the checkpoint's own config.json.
    """

    source: str
    architecture: str
    dtype: str
    digests: dict[str, str]
    num_params: int
    config: dict[str, Any]


def embedded_names() -> list[str]:
    """Names of the models that ship with the package."""
    return sorted(path.parent.name for path in _EMBEDDED.glob("*/config.json"))


def resolve(source: str) -> pathlib.Path:
    """The folder that holds a model's files; `hf:` downloads safetensors and JSON files alone.

    Raises:
        ValueError: unknown embedded name, no such folder, `hf:` without a pinned revision, or a
            scheme that is not implemented.
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
                f"model {source!r} must pin a revision: hf:OWNER/REPO@REVISION (a commit hash)"
            )
        return _download(source, *match.groups())
    if source.startswith("gguf:"):
        raise ValueError(f"model {source!r}: GGUF files cannot be read yet; use safetensors")
    folder = pathlib.Path(source)
    if not (folder / "config.json").is_file():
        raise ValueError(
            f"model {source!r} is no folder with a config.json; accepted: embedded:NAME,"
            " hf:OWNER/REPO@REVISION or a folder of config.json and *.safetensors"
        )
    return folder


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        ValueError: the file is not a JSON object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} must hold a JSON object")
    return value


def file_digests(folder: pathlib.Path) -> dict[str, str]:
    """sha256 of the files a loader reads: config, tokenizer and weights."""
    files = [folder / "config.json", folder / "tokenizer.json", *folder.glob("*.safetensors")]
    digests = {}
    for path in sorted(path for path in files if path.is_file()):
        with path.open("rb") as handle:
            digests[path.name] = hashlib.file_digest(handle, "sha256").hexdigest()
    return digests


def _download(source: str, repository: str, revision: str) -> pathlib.Path:
    import huggingface_hub  # only this branch needs a network stack

    try:
        folder = huggingface_hub.snapshot_download(
            repository, revision=revision, allow_patterns=["*.safetensors", "*.json"]
        )
    except Exception as error:  # the hub raises many kinds; all mean the same to the user
        raise ValueError(
            f"model {source!r} could not be fetched ({type(error).__name__}: {error}); check the"
            " name and the network, or download it elsewhere and name the folder"
        ) from error
    return pathlib.Path(folder)
