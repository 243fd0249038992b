"""Files that are whole or absent: written beside their place, synced, then renamed."""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from .errors import InputError

_PART = ".part"


def write_bytes(path: pathlib.Path, data: bytes) -> None:
    """Writes a file so that after a crash or a full disk it is either complete or as before."""
    temporary = path.with_name(path.name + _PART)
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes indented JSON with sorted keys; NaN is refused, so a reader never meets one.

    Raises:
        ValueError: a number that is not finite.
    """
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    write_bytes(path, (text + "\n").encode("utf-8"))


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        InputError: the file is missing or no JSON object.
    """
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); it was edited or damaged") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} holds no JSON object; it was edited or damaged")
    return value


def sha256_hex(data: bytes) -> str:
    """sha256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sync_folder(folder: pathlib.Path) -> None:
    """Makes renames inside a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: pathlib.Path) -> None:
    """Deletes temporary files that a killed run left anywhere below a folder."""
    for path in folder.rglob(f"*{_PART}"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def exclusive(folder: pathlib.Path) -> Iterator[None]:
    """Holds a folder for this process; the lock sits on the folder itself and leaves no file.

    Raises:
        InputError: another process holds it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"--workdir={folder} is in use by another run; wait for it or name another folder"
            ) from error
        yield
    finally:
        os.close(descriptor)
