"""Matched compute: the search, what each mode does with the rest, and what is charged."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.evals import InputError, match_nfe, run_matched, sample_best_of
from dlmeval.evals.sampling.best_of import DRAWS, likelihood_bound
from dlmeval.evals.sampling.matching import _first
from dlmeval.samplers import SamplerConfig, sample

LENGTH, VOCAB = 16, 6


class Positional(NamedTuple):
    """A network whose logits depend on the position alone."""

    params: Any
    logits_fn: Any
    mask_id: int = VOCAB
    num_ids: int = VOCAB
    eos_id: int | None = None


def by_position(params, tokens, token_mask, region):
    rows = params[: region.stop - region.start]
    return jnp.broadcast_to(rows, (tokens.shape[0], *rows.shape))


@pytest.fixture(scope="module")
def network():
    logits = jax.random.normal(jax.random.key(0), (64, VOCAB)) * 2
    return Positional(logits, by_position)


def run(network, match, count=8, seed=9):
    empty = np.zeros((count, 0), np.int32)
    keys = jax.random.split(jax.random.key(seed), count)
    return run_matched(network, match, empty, empty.astype(bool), keys)


@pytest.mark.parametrize("shape", [lambda n: n, lambda n: n**3, lambda n: min(n, 40), np.sqrt])
def test_first_crossing_of_rising_functions(shape):
    for answer in (1, 2, 37, 400, 999, 1000):
        asked = []

        def excess(n, answer=answer, asked=asked):
            asked.append(n)
            return float(shape(n) - shape(answer))

        first = min(n for n in range(1, 1001) if shape(n) >= shape(answer))
        assert _first(excess, low=1, high=1000) == first
        assert len(set(asked)) <= 22
        if shape(answer) > shape(1):
            assert _first(lambda n: excess(n) + 0.001, low=1, high=1000, above=True) == first


@pytest.mark.parametrize("strategy", ["random", "high_entropy", "running_confidence"])
def test_remasking_is_matched_within_the_tolerance(network, strategy):
    config = SamplerConfig(LENGTH, 1, strategy, 0.7, remask_fraction=0.3)
    match = match_nfe(network, config, 24)
    assert not match.saturated
    assert match.agrees(match.nfe)
    assert abs(match.nfe - 24) <= match.tolerance == 1.0
    more = dataclasses.replace(match.config, num_steps=match.config.num_steps + 1)
    assert match_nfe(network, more, 24) == match, "the given num_steps is ignored"
    real = run(network, match)
    assert abs(float(real.nfe.mean()) - 24) <= 3


def test_without_remasking_the_budget_is_flagged_as_unspent(network):
    match = match_nfe(network, SamplerConfig(LENGTH, 1, "none", 0.7), 40)
    assert (match.config.num_steps, match.nfe, match.saturated) == (LENGTH, LENGTH, True)
    assert match.agrees(16)
    assert not match.agrees(50)
    exact = match_nfe(network, SamplerConfig(LENGTH, 1, "none", 0.7), LENGTH)
    assert (exact.config.num_steps, exact.saturated) == (LENGTH, False)


def test_idle_spends_the_budget_on_the_same_text(network):
    config = SamplerConfig(LENGTH, 1, "none", 0.7)
    idle = match_nfe(network, config, 40, mode="idle")
    assert (idle.nfe, idle.saturated, idle.config.skip_idle) == (40, False, False)
    cap = match_nfe(network, config, 40)
    spent, saved = run(network, idle), run(network, cap)
    np.testing.assert_array_equal(spent.tokens, saved.tokens)
    assert spent.nfe.tolist() == [40] * 8
    assert int(spent.launches) == 40


def test_length_spends_it_on_longer_texts(network):
    match = match_nfe(network, SamplerConfig(LENGTH, 1, "none", 0.7), 40, mode="length")
    assert (match.config.gen_length, match.nfe, match.saturated) == (40, 40, False)
    assert run(network, match).tokens.shape == (8, 40)
    blocks = SamplerConfig(LENGTH, 2, "none", 0.7, block_length=8)
    with pytest.raises(InputError, match=r"mode='length' at target=42.*block_length=8"):
        match_nfe(network, blocks, 42, mode="length")


def test_best_of_keeps_the_likeliest_and_charges_everything(network):
    match = match_nfe(network, SamplerConfig(LENGTH, 1, "none", 1.5), 80, mode="best_of")
    assert match.num_candidates == 4
    assert match.agrees(match.nfe)
    assert match.nfe == 4 * (LENGTH + DRAWS)
    best = run(network, match, count=64)
    assert best.nfe.tolist() == [int(match.nfe)] * 64
    assert int(best.launches) == int(match.nfe)
    empty = np.zeros((64, 0), np.int32)
    keys = jax.random.split(jax.random.key(9), 64)
    one = sample(network.logits_fn, network.params, empty, empty, keys, match.config, mask_id=VOCAB)
    log_p = jax.nn.log_softmax(network.params[:LENGTH])

    def mean_log_p(tokens):
        return float(jnp.take_along_axis(log_p[None], tokens[..., None], axis=2).sum(1).mean())

    assert mean_log_p(best.tokens) > mean_log_p(one.tokens) + 0.5
    assert np.all((np.asarray(best.tokens) >= 0) & (np.asarray(best.tokens) < VOCAB))


def test_best_of_one_history_is_that_of_the_sample_kept(network):
    config = SamplerConfig(LENGTH, LENGTH, "none", 1.0, record_history=True)
    empty = np.zeros((8, 0), np.int32)
    keys = jax.random.split(jax.random.key(3), 8)
    best = sample_best_of(network, config, empty, empty.astype(bool), keys, 3)
    np.testing.assert_array_equal(best.history.canvas[-1], best.tokens)


def test_likelihood_bound_of_independent_positions_is_unbiased(network):
    """Positions are independent, so the bound is the likelihood itself."""
    rows = 512
    tokens = jnp.asarray(np.tile(np.arange(LENGTH) % VOCAB, (rows, 1)), jnp.int32)
    keys = jax.random.split(jax.random.key(1), rows)
    mask = np.ones((rows, LENGTH), bool)
    bound = likelihood_bound(network, tokens, mask, LENGTH, keys)
    log_p = jax.nn.log_softmax(network.params[:LENGTH])
    exact = float(log_p[jnp.arange(LENGTH), tokens[0]].sum())
    assert abs(bound.mean() - exact) < 4 * bound.std() / np.sqrt(rows)
    assert bound.std() > 0


def test_prompts_reach_the_pilot(network):
    config = SamplerConfig(LENGTH, 1, "random", 0.7, remask_fraction=0.3)
    prompt = np.ones((16, 3), np.int32)
    match = match_nfe(network, config, 24, prompt=prompt, prompt_mask=prompt == 1)
    assert match.agrees(match.nfe)


def test_guidance_halves_what_the_budget_buys(network):
    config = SamplerConfig(LENGTH, 1, "none", 0.7, cfg_scale=1.0)
    for mode in ("idle", "length"):
        assert match_nfe(network, config, 64, mode=mode).nfe == 64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "bon"}, "mode='bon' is not one of cap, idle, length, best_of"),
        ({"target": 0}, "target=0"),
        ({"target": 12.5}, "target=12.5"),
        ({"num_pilot": 0}, "num_pilot=0"),
        ({"prompt": np.zeros((3, 2), int)}, "3 rows for num_pilot=16"),
    ],
)
def test_refusals(network, options, message):
    with pytest.raises(InputError, match=message):
        match_nfe(network, SamplerConfig(LENGTH, 1, "none", 0.0), **({"target": 20} | options))


def test_a_budget_below_the_least_cost_is_refused(network):
    blocks = SamplerConfig(LENGTH, 8, "random", 0.5, block_length=2, pool="decided",
                           remask_fraction=0.5)  # fmt: skip
    with pytest.raises(InputError, match="target=4: the least that strategy 'random' can cost is"):
        match_nfe(network, blocks, 4)
