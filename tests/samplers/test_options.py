"""Options of the loop: end-of-sequence policies, fixed churn, confidence kinds, truncation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.samplers import SamplerConfig, sample, stable_cells
from dlmeval.samplers.eos import ended, fill_after_eos
from dlmeval.samplers.truncation import keep_nucleus, keep_top_k, keep_top_p, truncate

EOS, MASK = 1, 12


def test_ended_needs_everything_before_the_first_eos():
    canvas = jnp.array([[3, EOS, 5, MASK], [MASK, EOS, 5, EOS], [3, 4, 5, 6], [EOS, 2, 3, MASK]])
    assert ended(canvas, EOS, MASK).tolist() == [True, False, False, True]
    assert fill_after_eos(canvas, EOS, MASK).tolist() == [
        [3, EOS, EOS, EOS],
        [MASK, EOS, 5, EOS],
        [3, 4, 5, 6],
        [EOS] * 4,
    ]


@pytest.fixture(scope="module")
def positional():
    """Samples of 8 tokens from fixed logits per position, left to right."""
    table = np.full((8, 6), 0.0, np.float32)
    table[np.arange(8), [4, 3, EOS, 5, 4, EOS, 3, 2]] = [9, 8, 7, 6, 5, 4, 3, 2]

    def logits_fn(params, tokens, token_mask, region):
        return jnp.broadcast_to(params, (tokens.shape[0], *params.shape))

    empty = np.zeros((2, 0), np.int32)
    keys = jax.random.split(jax.random.key(0), 2)

    def run(strategy="none", **options):
        config = SamplerConfig(8, 8, strategy, 0.0, **options)
        return sample(
            logits_fn, jnp.asarray(table), empty, empty, keys, config, mask_id=6, eos_id=EOS
        )

    return run


@pytest.mark.parametrize("options", [{}, {"skip_idle": False}, {"block_length": 4}])
def test_early_exit_fills_the_rest_and_saves_forwards(positional, options):
    samples = positional(eos_policy="early_exit", **options)
    assert samples.tokens[0].tolist() == [4, 3, EOS, EOS, EOS, EOS, EOS, EOS]
    assert samples.nfe.tolist() == [3, 3]
    assert int(samples.launches) == 3
    plain = positional(eos_policy="truncate", **options)
    assert plain.tokens[0].tolist() == [4, 3, EOS, 5, 4, EOS, 3, 2]
    assert plain.nfe.tolist() == [8, 8]


def test_suppressed_eos_is_never_drawn(positional):
    assert EOS not in np.asarray(positional(eos_policy="suppress").tokens)


def test_deferred_eos_comes_last(positional):
    samples = positional(eos_policy="defer", record_history=True)
    decided = np.asarray(samples.history.canvas[:, 0] != 6)
    assert decided.argmax(axis=0).tolist() == [0, 1, 6, 2, 3, 7, 4, 5]
    np.testing.assert_array_equal(samples.tokens, positional().tokens)


def test_deferred_eos_waits_although_an_order_would_reveal_it(positional):
    """The order wants position 2 in the third step and 5 later, both EOS, and nothing else."""
    samples = positional("threshold", eos_policy="defer", threshold=1.0, record_history=True)
    decided = np.asarray(samples.history.canvas[:, 0] != 6)
    assert decided.argmax(axis=0).tolist() == [0, 1, 5, 2, 3, 6, 4, 5]
    sure = positional("threshold", eos_policy="defer", threshold=0.0, record_history=True)
    assert (np.asarray(sure.history.canvas[0, 0]) != 6).all(), "nothing else is left at once"
    some = positional("threshold", eos_policy="defer", threshold=0.95, record_history=True)
    first = np.asarray(some.history.canvas[0, 0]) != 6
    assert not first[[2, 5]].any()
    assert first[[0, 1]].all()


def test_a_sample_that_just_ended_is_not_looked_at_again():
    """All is revealed, the last position put back, but the text ended before it."""

    def ends(params, tokens, token_mask, region):
        return jnp.broadcast_to(params, (tokens.shape[0], *params.shape))

    logits = jnp.zeros((4, 6)).at[:, EOS].set(jnp.array([9.0, 9.0, 9.0, 1.0]))
    empty = np.zeros((1, 0), np.int32)
    keys = jax.random.split(jax.random.key(0), 1)
    options = {"remask_fraction": 0.25, "pool": "decided"}
    for policy, nfe in (("truncate", 3), ("early_exit", 1)):
        config = SamplerConfig(4, 1, "high_entropy", 0.0, eos_policy=policy, **options)
        samples = sample(ends, logits, empty, empty, keys, config, mask_id=6, eos_id=EOS)
        assert samples.tokens.tolist() == [[EOS] * 4]
        assert samples.nfe.tolist() == [nfe]


def test_stored_noise_keeps_its_precision():
    """1 - 1e-9 is 1 in float32, whose noise would be infinite and win."""

    def fixed(params, tokens, token_mask, region):
        return jnp.broadcast_to(params, (tokens.shape[0], 2, 4))

    uniforms = np.full((2, 1, 2, 4), 0.5)
    uniforms[..., 2] = 1 - 1e-9
    config = SamplerConfig(2, 2, "none", 1.0, noise="gumbel_fp64")
    empty = np.zeros((1, 0), np.int32)
    keys = jax.random.split(jax.random.key(0), 1)
    samples = sample(
        fixed, jnp.array([40.0, 0, 0, 0]), empty, empty, keys, config, mask_id=3, uniforms=uniforms
    )
    assert samples.tokens.tolist() == [[0, 0]]


def test_policies_that_read_eos_need_its_id(positional):
    config = SamplerConfig(4, 4, "none", 0.0, eos_policy="suppress")
    empty = np.zeros((1, 0), np.int32)
    with pytest.raises(ValueError, match="eos_policy='suppress' needs eos_id"):
        sample(lambda *a: a, 0, empty, empty, jax.random.split(jax.random.key(0), 1), config,
               mask_id=6)  # fmt: skip


@pytest.mark.parametrize(
    ("num_steps", "nfe"),
    [(64, 111), (73, 127), (74, 129), (128, 219), (150, 257), (256, 437), (300, 513)],
)
def test_fixed_churn_costs_what_the_paper_lists(flat_cost, num_steps, nfe):
    assert flat_cost("high_entropy", num_steps, loop="fixed_churn") == (nfe, nfe)


def test_fixed_churn_forces_stable_cells(flat_cost):
    samples = flat_cost.samples("random", 128, loop="fixed_churn", record_history=True)
    assert int(stable_cells(samples.history)[0]) >= 4005
    decided = np.asarray(samples.history.canvas[:, 0] != 9).sum(axis=1)
    np.testing.assert_array_equal(decided[:109], np.arange(1, 110))
    np.testing.assert_array_equal(decided[109:], 109)


def test_pace_target_keeps_the_decided_count_on_a_line(flat_cost):
    options = {"pace": "target", "pool": "decided", "record_history": True}
    samples = flat_cost.samples("random", 64, **options)
    decided = np.asarray(samples.history.canvas[:, 0] != 9).sum(axis=1)
    np.testing.assert_array_equal(decided[9:], 2 * np.arange(10, 65) - 19)
    assert samples.nfe.tolist() == [129]


@pytest.fixture(scope="module")
def flat_cost():
    """(nfe, launches) of one sample of 128 tokens from logits by position."""
    params = jax.random.normal(jax.random.key(3), (128, 9))
    keys = jax.random.split(jax.random.key(0), 1)
    empty = np.zeros((1, 0), np.int32)

    def flat(params, tokens, token_mask, region):
        return jnp.broadcast_to(params, (tokens.shape[0], *params.shape))

    def samples(strategy, num_steps, **options):
        config = SamplerConfig(128, num_steps, strategy, 0.5, **options)
        return sample(flat, params, empty, empty, keys, config, mask_id=9)

    def run(*arguments, **options):
        result = samples(*arguments, **options)
        return int(result.nfe[0]), int(result.launches)

    run.samples = samples
    return run


@pytest.mark.parametrize("strategy", ["high_entropy", "random", "running_confidence"])
def test_steps_beyond_the_length_cost_in_proportion(flat_cost, strategy):
    nfe = [flat_cost(strategy, steps)[0] for steps in (128, 256)]
    assert nfe[1] > 1.2 * nfe[0]


@pytest.mark.parametrize(("num_steps", "nfe"), [(64, 129), (128, 257), (256, 513)])
def test_running_confidence_remasks_in_every_step(flat_cost, num_steps, nfe):
    assert flat_cost("running_confidence", num_steps) == (nfe, nfe)


def test_revealing_one_by_one_leaves_8129_stable_cells(flat_cost):
    samples = flat_cost.samples("none", 128, record_history=True)
    assert stable_cells(samples.history).tolist() == [8129]


@pytest.mark.parametrize("kind", ["probability", "entropy", "margin"])
def test_confidence_kinds_set_the_order_of_reveals(kind):
    p = np.array([[0.5, 0.3, 0.2], [0.45, 0.44, 0.11], [0.48, 0.26, 0.26], [0.4, 0.35, 0.25]])
    expected = {
        "probability": p.max(1),
        "entropy": (p * np.log(p)).sum(1),
        "margin": np.sort(p)[:, 2] - np.sort(p)[:, 1],
    }[kind]

    def logits_fn(params, tokens, token_mask, region):
        return jnp.broadcast_to(params, (tokens.shape[0], *params.shape))

    config = SamplerConfig(4, 4, "none", 0.0, confidence=kind, record_history=True)
    empty = np.zeros((1, 0), np.int32)
    keys = jax.random.split(jax.random.key(0), 1)
    samples = sample(
        logits_fn, jnp.log(jnp.asarray(p, jnp.float32)), empty, empty, keys, config, mask_id=3
    )
    decided = np.asarray(samples.history.canvas[:, 0] != 3)
    np.testing.assert_array_equal(decided.argmax(axis=0), np.argsort(np.argsort(-expected)))


def test_truncations_keep_what_their_sources_keep():
    p = jnp.array([0.1, 0.4, 0.2, 0.3])
    logits = jnp.log(p)
    assert keep_top_k(logits, jnp.int32(2)).tolist() == [False, True, False, True]
    assert keep_top_k(jnp.zeros(3), jnp.int32(1)).tolist() == [True] * 3  # ties stay
    # 0.4, 0.7, 0.9, 1.0: top_p keeps the one that crosses, ReMDM's nucleus drops it.
    assert keep_top_p(logits, jnp.float32(0.6)).tolist() == [False, True, False, True]
    assert keep_nucleus(logits, jnp.float32(0.6)).tolist() == [False, True, False, False]
    assert keep_nucleus(logits, jnp.float32(0.1)).tolist() == [False, True, False, False]
    cut = truncate(logits, top_p=jnp.float32(0.95), top_k=jnp.int32(2))
    assert (cut > -jnp.inf).tolist() == [False, True, False, True]


@pytest.mark.parametrize("options", [{"top_k": 2}, {"top_p": 0.55}])
def test_truncated_draws_stay_inside(options):
    def logits_fn(params, tokens, token_mask, region):
        return jnp.broadcast_to(params, (tokens.shape[0], 8, 4))

    keys = jax.random.split(jax.random.key(0), 32)
    empty = np.zeros((32, 0), np.int32)
    for temp, kept in ((1.0, {1, 3}), (100.0, {1, 3} if "top_k" in options else {1, 2, 3})):
        config = SamplerConfig(8, 1, "none", temp, **options)
        logits = jnp.log(jnp.array([0.1, 0.4, 0.2, 0.3]))
        tokens = sample(logits_fn, logits, empty, empty, keys, config, mask_id=4).tokens
        assert set(np.unique(tokens)) == kept
