"""kill -9 at any moment costs time and nothing else."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

TOY_PATH = pathlib.Path(__file__).with_name("toy_world.py")


def contents(workdir):
    files = (path for path in workdir.rglob("*") if path.is_file())
    return {p.relative_to(workdir): p.read_bytes() for p in files if p.name != "events.jsonl"}


def file_names(workdir):
    return [path for path in workdir.rglob("*") if path.is_file()] if workdir.exists() else []


@pytest.mark.slow
def test_three_kills_give_the_same_bytes(tmp_path):
    # Compiled programs are kept, so that each restart spends its time where it can be killed.
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }

    def start(workdir):
        command = [sys.executable, str(TOY_PATH), str(workdir)]
        return subprocess.Popen(command, env=os.environ | cache, stdout=subprocess.DEVNULL)

    assert start(tmp_path / "whole").wait() == 0
    rng = random.Random(0)
    killed, total = tmp_path / "killed", len(contents(tmp_path / "whole"))
    for share in sorted(rng.uniform(0.05, 0.95) for _ in range(3)):
        process = start(killed)
        # A moment is a number of files, so that it falls inside the work on any machine.
        while process.poll() is None and len(file_names(killed)) < share * total:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert start(killed).wait() == 0
    assert contents(killed) == contents(tmp_path / "whole")
