"""What a run costs: golden counts, and an independent count by the network itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.samplers import SamplerConfig, get_strategy, sample, strategy_names

# Strategies that put back after the commits, and look again when they did.
TWO_PASS = [name for name in strategy_names("remask") if get_strategy(name).select is not None]


def two_blocks(strategy):
    return SamplerConfig(16, 8, strategy, 0.7, block_length=8, remask_fraction=0.3)


def flat(params, tokens, token_mask, region):
    """The cheapest network there is: logits by position alone."""
    length = region.stop - region.start
    return jnp.broadcast_to(params, (tokens.shape[0], length, params.shape[-1]))


@pytest.fixture(scope="module")
def cost():
    """(nfe, launches) of one sample of 128 tokens."""
    params = jax.random.normal(jax.random.key(3), (128, 9))
    keys = jax.random.split(jax.random.key(0), 1)
    empty = np.zeros((1, 0), np.int32)

    def run(strategy, num_steps, **kwargs):
        config = SamplerConfig(128, num_steps, strategy, 0.5, **kwargs)
        result = sample(flat, params, empty, empty, keys, config, mask_id=9)
        return int(result.nfe[0]), int(result.launches)

    return run


@pytest.mark.parametrize(
    ("num_steps", "nfe"), [(1, 1), (64, 64), (100, 100), (128, 128), (256, 128), (512, 128)]
)
def test_without_remasking_the_cost_saturates_at_the_length(cost, num_steps, nfe):
    assert cost("none", num_steps) == (nfe, nfe)


def test_idle_steps_are_charged_when_they_are_run(cost):
    assert cost("none", 256, skip_idle=False) == (256, 256)


@pytest.mark.parametrize("strategy", TWO_PASS)
def test_remasking_costs_between_one_and_two_forwards_a_step(cost, strategy):
    for num_steps in (1, 40, 128, 200):
        nfe, launches = cost(strategy, num_steps)
        assert launches == nfe
        assert min(num_steps, 128) <= nfe <= 2 * num_steps + 1


def test_remasking_decided_tokens_every_step_costs_2n_plus_1(cost):
    """With pool="decided" something is remasked in every step, so each step costs two."""
    assert cost("random", 16, pool="decided") == (33, 33)
    assert cost("random", 16, pool="decided", refresh_reuse=True) == (17, 17)


def test_a_fraction_of_zero_costs_what_no_remasking_costs(cost):
    assert cost("random", 64, remask_fraction=0.0) == (64, 64)


@pytest.mark.parametrize("strategy", strategy_names())
def test_a_sample_is_charged_every_forward_the_network_saw(draw, recorder, strategy):
    network = recorder()
    for row in (0, 1):
        result = draw(two_blocks(strategy), rows=[row], logits_fn=network.logits_fn)
        launches = network.take()
        assert result.nfe.tolist() == [len(launches)]
        assert int(result.launches) == len(launches)
        assert len(launches) >= 2, "two blocks"
        changes = sum(np.any(a != b) for a, b in zip(launches[1:], launches[:-1], strict=True))
        # No forward sees the canvas of the one before, but for the step after a refresh.
        repeats = len(launches) - 1 - changes
        if strategy in TWO_PASS:
            assert repeats <= 8
        elif strategy not in ("mdlm_ddpm", "mdlm_analytic", "origin"):
            assert repeats == 0


@pytest.mark.parametrize("strategy", ["none", *TWO_PASS])
def test_commits_refreshes_and_fills_add_up(draw, recorder, strategy):
    network = recorder()
    result = draw(two_blocks(strategy), rows=[0], logits_fn=network.logits_fn)
    masks = np.array([(tokens == 12).sum() for tokens in network.take()] + [0])
    commits = (np.diff(masks) < 0).sum()
    assert commits <= 10, "8 steps and a fill for each block"
    if strategy == "none":
        assert result.nfe.tolist() == [8] == [commits]
    else:
        assert 8 <= int(result.nfe[0]) <= 18


def test_a_batch_launches_together_and_charges_apart(draw, recorder):
    """Each sample pays what it pays alone, though a refresh for one runs for all."""
    network = recorder()
    config = SamplerConfig(16, 8, "random", 0.8, block_length=8)
    together = draw(config, rows=range(3), logits_fn=network.logits_fn)
    launches = len(network.take())
    alone = [int(draw(config, rows=[row]).nfe[0]) for row in range(3)]
    assert together.nfe.tolist() == alone
    assert int(together.launches) == launches >= max(alone)


def test_guidance_costs_two_evaluations_in_one_launch(draw, recorder):
    network = recorder()
    config = SamplerConfig(8, 4, "none", 0.0, cfg_scale=1.0)
    result = draw(config, rows=[0, 1], logits_fn=network.logits_fn)
    launches = network.take()
    assert (int(result.launches), result.nfe.tolist()) == (4, [8, 8])
    assert [tokens.shape[0] for tokens in launches] == [4] * 4
    blank = np.stack(launches)[:, 2:, :3]
    np.testing.assert_array_equal(blank, np.full_like(blank, 12))
