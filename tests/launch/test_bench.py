"""The benchmark script: what it reports, and that its two sides do the same work."""

import functools
import importlib.util
import json
import pathlib
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.launch.benchmarks import metrics, sampler, timing
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
    assert table[2] == "| a loop | ms | 2 |  | 1.235 | <= 1.05 | NO |  | why |"
    assert table[3] == "| a loop | ms | 2 |  |  | >= 4 |  |  | why |"
    weighed = row(3.0, "")._replace(peer=6.0, ours_peak=12.4, peer_peak=80.0)
    assert timing.markdown([weighed]).endswith("| 2 | 6 | 3 |  |  | 12 / 80 | why |")


def test_sides_alternate_after_one_run_each():
    calls = []
    sides = {name: functools.partial(calls.append, name) for name in "ab"}
    seconds = timing.interleave(sides, 2)
    assert calls == ["a", "b", "a", "b", "a", "b"]
    assert [len(clock) for side in seconds.values() for clock in side] == [2, 2, 2, 2]
    timing.interleave(sides, 1, ready=("b",))
    assert calls[6:] == ["a", "a", "b"]
    assert timing.median_ratio([1.0, 6.0, 9.0], [1.0, 2.0, 1.0]) == 3.0


def test_peak_memory_is_the_rise_of_a_call():
    sizes = {"small": 1, "large": 64}
    peaks = {}
    for name, mib in sizes.items():
        watched = timing.PeakMemory(lambda mib=mib: np.ones(mib * 2**20, np.uint8).sum())
        assert watched() == mib * 2**20
        peaks[name] = watched.mib
    if peaks["large"] is None:
        pytest.skip("this system does not reset the high-water mark of a process")
    assert peaks["small"] < 32 < 60 < peaks["large"]
    assert timing.process_peak_mib() > 64


def test_data_of_the_metrics_suite():
    reference, generated = metrics.features(metrics.SMALL)
    assert reference.shape == generated.shape == (48, 24)
    assert reference.dtype == np.float32
    ids = metrics.tokens(metrics.SMALL._replace(rows=400, length=64))
    assert ids.dtype == np.int32
    assert 0 <= ids.min() < ids.max() < metrics.VOCABULARY
    # The most frequent token alone has one share in H(V) = 11.4.
    assert 0.05 < np.mean(ids == 0) < 0.15
    texts = metrics.documents(metrics.SMALL, 3)
    assert {len(text) for text in texts} == {200}
    assert texts == metrics.documents(metrics.SMALL, 3) != metrics.documents(metrics.SMALL, 4)


def test_a_missing_peer_leaves_our_own_figures():
    peer = ("no_such_package", lambda package: 0.0, "no-such-package")
    entry = metrics._against("a metric", lambda: 2.0, peer, 1, target=">= 2")
    assert entry.ours is not None
    assert entry.peer is entry.ratio is entry.met is None
    assert entry.note == "no-such-package is not installed: pip install 'dlmeval[bench]'"


def test_ratios_point_where_the_target_says():
    peer = ("json", lambda package: float(time.sleep(0.05) or 2.0), "json")
    faster = metrics._against("a metric", lambda: 2.0, peer, 1, target=">= 5")
    shorter = metrics._against("a metric", lambda: 2.0, peer, 1, target="<= 1", ours_first=True)
    assert faster.met
    assert shorter.met
    assert "values 2 and 2" in faster.note


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "least"), [("sampler", 7), ("metrics", 8), ("models", 5)])
def test_small_suite_from_the_command_line(suite, least, tmp_path):
    out = tmp_path / "figures.json"
    arguments = [f"--suite={suite}", "--small", "--repeats=1", f"--out={out}"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "launch" / "bench.py"), *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    report = json.loads(out.read_text())
    rows = report["rows"][suite]
    assert len(rows) >= least
    for entry in rows:
        assert entry["name"] in done.stdout
        assert entry["target"] == ""  # targets belong to the full sizes
        # Scoring is timed on the peer's own model: without it there is nothing to time.
        skipped = entry["note"].endswith("not installed: skipped")
        assert entry["ours"] is None if skipped else entry["ours"] > 0
        assert entry["ratio"] is not None or "not installed" in entry["note"]
    memory = [entry["ratio"] for entry in rows if entry["name"].startswith("memory")]
    assert all(ratio > 1 for ratio in memory)  # at least the logits themselves
    assert report["versions"]["jax"] == jax.__version__
    assert f"jax {jax.__version__}" in done.stdout
    assert report["peak_mib"] > 50


@pytest.mark.parity
def test_metrics_and_their_peers_give_one_value():
    """Read off the notes of a small run: what is timed is the same number on both sides."""
    reference, generated = metrics.features(metrics.SMALL)
    ids = metrics.tokens(metrics.SMALL)
    rows = [
        metrics.energy_against_cdist(reference, generated, 1),
        metrics.frechet_against_sqrtm(*metrics.features(metrics.SMALL._replace(width=8)), 1),
    ]
    if importlib.util.find_spec("fast_bleu"):
        rows += list(metrics.self_bleu_against_fast_bleu(ids, 1))[1:]
    for entry in rows:
        both = entry.note.split("values ")[1].split(";")[0].split(" and ")
        assert float(both[0]) == pytest.approx(float(both[1]), rel=1e-4), entry.name


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
    token_mask = jnp.ones(tokens.shape, bool)
    ours = case.logits_fn(case.params, jnp.asarray(tokens), token_mask, slice(0, 17))
    model = llada_torch.TorchDecoder(shape, case.params)
    np.testing.assert_allclose(model(torch.from_numpy(tokens)), ours, atol=2e-4)

    model.head[case.mask_id] = 0.0  # never the best, as in our sampler
    theirs = llada_torch.generate(model, np.asarray(case.prompt), 12, 5, 0.0, case.mask_id)
    drawn = np.asarray(case.sample("none", 5, 0.0).tokens)
    assert np.mean(theirs == drawn) > 0.9  # but for near ties
    hot = llada_torch.generate(model, np.asarray(case.prompt), 12, 5, 1.0, case.mask_id)
    assert np.all(hot[:, :5] == case.prompt)
    assert np.any(hot != theirs)
