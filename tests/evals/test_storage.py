"""Files are whole or absent, and a folder serves one process at a time."""

import errno
import json
import os
import subprocess
import sys

import pytest

from dlmeval.evals import storage
from dlmeval.evals.errors import InputError, disk_full, naming


def test_json_round_trip_is_stable(tmp_path):
    path = tmp_path / "x.json"
    storage.write_json(path, {"b": [1, None], "a": "é"})
    first = path.read_bytes()
    storage.write_json(path, {"a": "é", "b": [1, None]})
    assert path.read_bytes() == first
    assert storage.read_json(path) == {"a": "é", "b": [1, None]}


def test_nan_never_reaches_a_file(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        storage.write_json(tmp_path / "x.json", {"a": float("nan")})
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x"
    storage.write_bytes(path, b"old")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(storage.os, "fsync", full)
    with pytest.raises(OSError, match="space") as caught:
        storage.write_bytes(path, b"new")
    assert disk_full(caught.value)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"x": b"old"}


def test_leftovers_of_a_killed_run_go(tmp_path):
    (tmp_path / "banks").mkdir()
    (tmp_path / "banks" / "samples.jsonl.part").write_text("half")
    (tmp_path / "kept.json").write_text("{}")
    storage.remove_leftovers(tmp_path)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["kept.json"]


@pytest.mark.parametrize("text", ["", "{", b"\xff"])
def test_damaged_json_is_named(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=r"x\.json"):
        storage.read_json(path)


def test_a_held_folder_is_refused_to_another_process_and_leaves_no_file(tmp_path):
    code = (
        "import fcntl, os, sys; d = os.open(sys.argv[1], os.O_RDONLY);"
        "fcntl.flock(d, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], **pipes) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match="in use"), storage.exclusive(tmp_path):
            pass
        holder.kill()
        holder.wait()
    with storage.exclusive(tmp_path):
        assert not list(tmp_path.iterdir())


def test_naming_points_at_the_flag_on_one_line():
    with (
        pytest.raises(InputError, match=r"^--reference=x: broken file \(mend it\)$"),
        naming("--reference=x", "mend it"),
    ):
        raise ValueError("broken\n  file")


def test_naming_lets_a_full_disk_through():
    with pytest.raises(OSError) as caught, naming("--reference=x"):
        raise OSError(errno.ENOSPC, json.dumps("full"))
    assert not isinstance(caught.value, ValueError)
