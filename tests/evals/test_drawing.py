"""Rows of a bank: keys by index, cut at the end of text, the same in any pieces."""

import dataclasses

import jax
import numpy as np
import pytest

from dlmeval.evals import Cell
from dlmeval.evals.sampling.drawing import drawer, sample_keys, sampler_config, truncate

COMMON = {"gen_length": 16, "num_samples": 16, "seed": 1, "model": "toy:x", "corpus": "toy:train"}
DENOISED = Cell(
    role="generated", strategy="none", num_steps=4, unmask_temp=1.0, pace="ceil", **COMMON
)
WINDOWS = Cell(role="reference", strategy="reference", part=0, offset=16, **COMMON)
CAUSAL = Cell(role="autoregressive", strategy="autoregressive", unmask_temp=1.0, **COMMON)


def naive(strategy):
    return Cell(role="heuristic", strategy=strategy, size=8, **COMMON)


def same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other):
        assert (a.text, a.nfe, a.accepted, list(a.ids)) == (b.text, b.nfe, b.accepted, list(b.ids))


@pytest.mark.parametrize(
    "cell",
    [DENOISED, CAUSAL, WINDOWS, *map(naive, ("topk_iid", "mirror", "periodic", "phrase_bank"))],
    ids=lambda cell: cell.strategy,
)
def test_rows_do_not_depend_on_the_pieces(toy, cell):
    whole = drawer(cell, toy.toy_sources(), batch_size=8)(range(16)).samples
    draw = drawer(cell, toy.toy_sources(), batch_size=8)
    same(draw(range(3)).samples + draw(range(3, 16)).samples, whole)
    assert len({sample.text for sample in whole}) > 1 or cell.strategy == "periodic"


def test_seeds_differ(toy):
    other = dataclasses.replace(DENOISED, seed=2)
    one, two = (drawer(c, toy.toy_sources(), batch_size=8)(range(8)) for c in (DENOISED, other))
    assert [s.text for s in one.samples] != [s.text for s in two.samples]


def test_launches_are_counted_per_batch(toy):
    drawn = drawer(DENOISED, toy.toy_sources(), batch_size=8)(range(12))
    assert drawn.launches == 2 * 4
    assert [sample.nfe for sample in drawn.samples] == [4] * 12


def test_keys_are_folds_of_the_index():
    keys = sample_keys(7, range(5, 8))
    expected = [jax.random.fold_in(jax.random.key(7), index) for index in (5, 6, 7)]
    for key, other in zip(keys, expected):
        assert (jax.random.key_data(key) == jax.random.key_data(other)).all()


def test_settings_reach_the_sampler():
    config = sampler_config(dataclasses.replace(DENOISED, remask_fraction=0.3, block_length=4))
    assert (config.gen_length, config.num_steps, config.unmask_temp) == (16, 4, 1.0)
    assert (config.pace, config.remask_fraction, config.block_length) == ("ceil", 0.3, 4)
    assert sampler_config(DENOISED).remask_fraction == 0.15


@pytest.mark.parametrize(
    ("ids", "eos_id", "kept"),
    [([1, 0, 2, 0], 0, [1]), ([0, 1], 0, []), ([1, 2], 0, [1, 2]), ([1, 0], None, [1, 0])],
)
def test_text_ends_before_the_first_end_of_text(ids, eos_id, kept):
    assert truncate(np.array(ids), eos_id).tolist() == kept


def test_the_causal_arm_starts_at_a_token_of_the_corpus(toy):
    sources = toy.toy_sources()
    samples = drawer(CAUSAL, sources, batch_size=8)(range(16)).samples
    present = set(np.concatenate(sources.encoded("toy:train", "toy:x", kind="scorer")))
    first = [sample.ids[0] for sample in samples]
    assert set(first) <= present
    assert len(set(first)) > 1
    assert {sample.nfe for sample in samples} == {15}
