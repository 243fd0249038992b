"""The benchmark script: what it reports, and that its two sides do the same work."""

import functools
import json
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from dlmeval.launch.benchmarks import sampler, timing
from dlmeval.models import decoder

ROOT = pathlib.Path(__file__).resolve().parents[2]


def row(ratio, target):
    return timing.Row("a loop", "ms", 2.0, None, ratio, target, "why")


def test_targets():
    assert row(1.05, "<= 1.05").met is True
    assert row(1.06, "<= 1.05").met is False
    assert row(3.9, ">= 4").met is False
    assert row(4.0, ">= 4").met is True
    assert row(None, ">= 4").met is None  # the peer is not installed
    assert row(2.0, "").met is None


def test_table():
    table = timing.markdown([row(1.2345678, "<= 1.05"), row(None, ">= 4")]).splitlines()
    assert table[2] == "| a loop | ms | 2 |  | 1.235 | <= 1.05 | NO | why |"
    assert table[3] == "| a loop | ms | 2 |  |  | >= 4 |  | why |"


def test_sides_alternate_after_one_run_each():
    calls = []
    sides = {name: functools.partial(calls.append, name) for name in "ab"}
    seconds = timing.interleave(sides, 2)
    assert calls == ["a", "b", "a", "b", "a", "b"]
    assert [len(clock) for side in seconds.values() for clock in side] == [2, 2, 2, 2]
    assert timing.median_ratio([1.0, 6.0, 9.0], [1.0, 2.0, 1.0]) == 3.0


@pytest.mark.slow
def test_small_suite_from_the_command_line(tmp_path):
    out = tmp_path / "figures.json"
    arguments = ["--suite=sampler", "--small", "--repeats=1", f"--out={out}"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "launch" / "bench.py"), *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    report = json.loads(out.read_text())
    rows = report["rows"]["sampler"]
    assert len(rows) >= 7
    for entry in rows:
        assert entry["name"] in done.stdout
        assert entry["target"] == ""  # targets belong to the full sizes
        assert entry["ours"] > 0
        assert entry["ratio"] is not None or "not installed" in entry["note"]
    memory = [entry["ratio"] for entry in rows if "memory" in entry["name"]]
    assert all(ratio > 1 for ratio in memory)  # at least the logits themselves
    assert report["versions"]["jax"] == jax.__version__


@pytest.mark.parity
def test_torch_peer_runs_the_same_network_and_loop():
    pytest.importorskip("torch")
    import torch  # pyright: ignore[reportMissingImports]

    from dlmeval.launch.benchmarks import llada_torch

    shape = decoder.DecoderConfig(
        vocab_size=50,
        hidden_size=24,
        num_layers=2,
        num_heads=4,
        num_kv_heads=2,
        intermediate_size=40,
        causal=False,
    )
    case = sampler.Case(shape, batch=2, width=5, length=12)
    tokens = np.concatenate([case.prompt, np.full((2, 12), case.mask_id)], axis=1)
    ours = case.logits_fn(case.params, tokens, np.ones(tokens.shape, bool), slice(0, 17))
    model = llada_torch.TorchDecoder(shape, case.params)
    np.testing.assert_allclose(model(torch.from_numpy(tokens)), ours, atol=2e-4)

    model.head[case.mask_id] = 0.0  # never the best, as in our sampler
    theirs = llada_torch.generate(model, case.prompt, 12, 5, 0.0, case.mask_id)
    drawn = np.asarray(case.sample("none", 5, 0.0).tokens)
    assert np.mean(theirs == drawn) > 0.9  # but for near ties
    hot = llada_torch.generate(model, case.prompt, 12, 5, 1.0, case.mask_id)
    assert np.all(hot[:, :5] == case.prompt)
    assert np.any(hot != theirs)
