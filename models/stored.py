"""Tensors as they lie in files: names, shapes, types, and a way to read one into a buffer."""

import collections
import functools
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterable
from typing import IO, Any, NamedTuple

import ml_dtypes
import numpy as np
import safetensors

# The types that are read; others (integers, fp8) are refused by the name the file gives them.
_DTYPES = {
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
TYPES = tuple(_DTYPES)
_LARGEST_HEADER = 100 << 20  # as the format's own readers have it
_SAFE = re.compile(r".+\.safetensors")
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")


class Stored(NamedTuple):
    """One tensor of a file.

    Attributes:
        file: where it lies.
        type_name: what the file calls its type.
        dtype: the type it is read as; None if it cannot be read.
        shape: its shape in row-major order, as a Linear of PyTorch has it: [out, in].
        read: fills a C-contiguous array of that shape and dtype.
    """

    file: pathlib.Path
    type_name: str
    dtype: np.dtype | None
    shape: tuple[int, ...]
    read: Callable[[np.ndarray], None]


def weight_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """The safetensors files of a folder: those its index names, else all there are.

    Raises:
        ValueError: there is none (saying so of pickles, which are never opened), or the index
            names no file, or files that are missing, of another kind, or of another folder.
    """
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        try:
            listed = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            names = sorted(set(listed.values()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{index} is no index of tensors: {error!r}") from error
        others = [n for n in names if pathlib.PurePath(str(n)).name != n or not _SAFE.fullmatch(n)]
        if others:
            raise ValueError(
                f"{index} names {', '.join(map(repr, others))}; only safetensors files of its own"
                " folder are read"
            )
        if not names:
            raise ValueError(f"{index} names no tensor in its weight_map: fetch it again")
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            raise ValueError(
                f"{folder}: {len(missing)} of the {len(names)} files that {index.name} names are"
                f" missing: {', '.join(missing)}; fetch them again"
            )
        return [folder / name for name in names]
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        pickles = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
        if pickles:
            raise ValueError(
                f"{folder}: no *.safetensors file found, only {', '.join(pickles)}: a pickle can"
                " run code of its author and is never opened; take the repository's safetensors"
                " files, or convert it where you trust it with safetensors.torch.save_file"
            )
        raise ValueError(
            f"{folder}: no *.safetensors file found; fetch the model's weights into this folder"
        )
    return files


def open_safetensors(files: Iterable[pathlib.Path]) -> tuple[dict[str, Stored], list[str]]:
    """The tensors of some files by name, and what is stored more than once, pair by pair of files.

    Raises:
        ValueError: a file that cannot be read, is cut short, or is no safetensors file.
    """
    tensors: dict[str, Stored] = {}
    repeated = collections.defaultdict(list)
    for path in files:
        if path.is_dir():
            raise ValueError(f"cannot read {path}: it is a folder, not a file")
        try:
            with safetensors.safe_open(path, "numpy"):  # checks offsets, shapes and the length
                pass
            with path.open("rb") as handle:
                header, offset = read_header(handle)
        except (OSError, safetensors.SafetensorError, ValueError) as error:
            raise ValueError(f"cannot read {path}: {_reason(path, error)}") from error
        for name, entry in header.items():
            if name in tensors:
                repeated[tensors[name].file.name, path.name].append(name)
            start, end = (offset + place for place in entry["data_offsets"])
            tensors[name] = Stored(
                path,
                entry["dtype"],
                _DTYPES.get(entry["dtype"]),
                tuple(entry["shape"]),
                functools.partial(read_span, path, start, end),
            )
    return tensors, [_twice(names, *pair) for pair, names in repeated.items()]


def read_header(handle: IO[bytes]) -> tuple[dict[str, Any], int]:
    """What a safetensors file says of its tensors, by name, and where their bytes begin.

    Raises:
        ValueError: the file begins with no such header.
    """
    size = int.from_bytes(handle.read(8), "little")
    if size > _LARGEST_HEADER:
        raise ValueError(f"a header of {size} bytes")
    header = json.loads(handle.read(size))
    header.pop("__metadata__", None)
    return header, 8 + size


def _twice(names: list[str], first: str, second: str) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return (
        f"{names[0]}{more} (in {first} and in {second}; without an index all files are read:"
        " remove one of the two, or move it elsewhere)"
    )


def read_span(path: pathlib.Path, start: int, end: int, out: np.ndarray) -> None:
    """Fills an array with the bytes of a file from `start` to `end`.

    Raises:
        ValueError: the array has another size, or the file ends before.
    """
    view = memoryview(out.reshape(-1).view(np.uint8).data)
    if len(view) != end - start:
        raise ValueError(f"{path}: {end - start} bytes do not fill {len(view)}")
    with path.open("rb", buffering=0) as handle:
        handle.seek(start)
        while view:
            # One read call takes at most 2 GiB on Linux.
            count = handle.readinto(view[: 1 << 30])
            if not count:
                raise ValueError(f"{path} ends {len(view)} bytes early: fetch it again")
            view = view[count:]


def _reason(path: pathlib.Path, error: Exception) -> str:
    if isinstance(error, OSError):
        return str(error)
    start = b""
    if path.is_file():
        with path.open("rb") as handle:
            start = handle.read(40)
    if start.startswith(b"version https://git-lfs"):
        return "it is a Git LFS pointer, not the file itself; run `git lfs pull` in that repository"
    size = os.path.getsize(path)
    return f"{error} ({size} bytes; a download that broke off is the usual cause: fetch it again)"
