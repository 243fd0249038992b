"""Networks that carry state: who moves it, what it costs, and what does not go with it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

from dlmeval.models.soft_masking import SoftMasking, soft_masked_logits
from dlmeval.samplers import SamplerConfig, sample

VOCAB, MASK = 13, 12


def start(batch, length=16):
    return {"last": jnp.zeros((batch, length, VOCAB)), "count": jnp.zeros(batch, jnp.int32)}


@pytest.fixture(scope="module")
def wandering(tiny):
    """The tiny network, pushed by its own last logits and by how often it has run."""

    def logits_fn(params, tokens, token_mask, region, *, carry):
        logits = tiny.logits_fn(params, tokens, token_mask, region)
        push = 3.0 * jnp.sin(2 * carry["count"][:, None, None] + jnp.arange(VOCAB))
        logits = logits + 0.5 * carry["last"] + push
        return logits, {"last": jnp.tanh(logits), "count": carry["count"] + 1}

    return logits_fn


def config_of(name, **changes):
    settings = {"block_length": 8, "remask_fraction": 0.3, "skip_idle": False} | changes
    return SamplerConfig(16, 8, name, 0.7, **settings)


def test_a_run_by_hand(tiny, wandering):
    """One token a step at temperature 0: the most probable of the most certain position."""
    config = SamplerConfig(4, 4, "none", 0.0, skip_idle=False)
    empty = np.zeros((2, 0), np.int32)
    keys = jax.random.split(jax.random.key(0), 2)
    result = sample(
        wandering, tiny.params, empty, empty, keys, config, mask_id=MASK, carry=start(2, 4)
    )
    canvas, carry = np.full((2, 4), MASK), start(2, 4)
    forward = jax.jit(functools.partial(wandering, region=slice(0, 4)))
    for _ in range(4):
        mask = jnp.ones((2, 4), bool)
        logits, carry = forward(tiny.params, jnp.asarray(canvas), mask, carry=carry)
        law = np.array(jax.nn.softmax(logits.at[..., MASK].set(-jnp.inf)))
        for row in range(2):
            best = np.where(canvas[row] == MASK, law[row].max(axis=-1), -1).argmax()
            canvas[row, best] = law[row, best].argmax()
    np.testing.assert_array_equal(result.tokens, canvas)
    assert result.nfe.tolist() == [4, 4]


# A refresh is charged to some samples of a batch only, a noise removal to all of them.
@pytest.mark.parametrize("name", ["high_entropy", "p2", "mdlm", "remdm_conf"])
def test_a_sample_depends_on_its_own_forwards_alone(draw, wandering, name):
    config = config_of(name)
    batch = draw(config, rows=range(7), logits_fn=wandering, carry=start(7))
    order = [3, 1, 6, 0, 5, 2, 4]
    padded = draw(config, rows=order, pad=4, logits_fn=wandering, carry=start(7))
    np.testing.assert_array_equal(padded.tokens[:, 4:], np.asarray(batch.tokens)[order])
    np.testing.assert_array_equal(padded.nfe, np.asarray(batch.nfe)[order])
    for row in (2, 4):
        alone = draw(config, rows=[row], logits_fn=wandering, carry=start(1))
        np.testing.assert_array_equal(alone.tokens[0], batch.tokens[row])
        assert int(alone.nfe[0]) == int(alone.launches) == int(batch.nfe[row])
    if name == "high_entropy":
        assert int(batch.launches) > int(batch.nfe.min())
    if name in ("mdlm", "remdm_conf"):
        assert set(batch.nfe.tolist()) == {10}, "no forward is reused: 4 and a removal a block"


def test_every_forward_is_given_what_the_one_before_returned(draw, wandering):
    """Commits, refreshes and fills alike."""
    seen = []

    def noted(params, tokens, token_mask, region, *, carry):
        io_callback(lambda count: seen.append(int(count[0])), None, carry["count"], ordered=True)
        return wandering(params, tokens, token_mask, region, carry=carry)

    config = config_of("random", pool="decided", block_length=None)
    result = draw(config, rows=[0], logits_fn=noted, carry=start(1))
    jax.effects_barrier()
    assert seen == list(range(int(result.launches)))
    assert len(seen) == 17, "8 commits, 8 refreshes, a fill"


def test_a_history_records_the_same_run_and_a_run_repeats(draw, wandering):
    config = config_of("high_entropy")
    first, again = (draw(config, logits_fn=wandering, carry=start(2)) for _ in range(2))
    recorded = config_of("high_entropy", record_history=True)
    kept = draw(recorded, logits_fn=wandering, carry=start(2))
    for other in (again, kept):
        np.testing.assert_array_equal(first.tokens, other.tokens)
        np.testing.assert_array_equal(first.nfe, other.nfe)
    assert kept.history.canvas.shape == (8, 2, 16)


def test_a_carry_without_influence_changes_neither_tokens_nor_cost(tiny, draw):
    def indifferent(params, tokens, token_mask, region, *, carry):
        return tiny.logits_fn(params, tokens, token_mask, region), jax.tree.map(jnp.cos, carry)

    config = config_of("high_entropy")
    carry = (jnp.zeros((2, 3)),)
    stateful, plain = draw(config, logits_fn=indifferent, carry=carry), draw(config)
    np.testing.assert_array_equal(stateful.tokens, plain.tokens)
    np.testing.assert_array_equal(stateful.nfe, plain.nfe)


def test_soft_masks_cost_what_hard_masks_cost(tiny, draw):
    def embedded(params, tokens, token_mask, region, *, embeddings):
        table = {"embed": embeddings.reshape(-1, embeddings.shape[-1])}
        ids = jnp.arange(tokens.size).reshape(tokens.shape)
        return tiny.logits_fn(params | table, ids, token_mask, region)

    settings = SoftMasking(0.9, -2.0, 2.0, 3)
    soft = soft_masked_logits(embedded, MASK, settings)
    config = config_of("random", pool="decided")
    softly = draw(config, logits_fn=soft, carry=settings.initial_carry(2, 16))
    plain = draw(config)
    np.testing.assert_array_equal(softly.nfe, plain.nfe)
    assert not np.array_equal(softly.tokens, plain.tokens)


def test_a_quality_head_may_carry_state(draw, wandering):
    def judged(params, tokens, token_mask, region, *, carry):
        logits, carry = wandering(params, tokens, token_mask, region, carry=carry)
        return (logits, {"quality": logits[..., 0]}), carry

    result = draw(config_of("prism"), logits_fn=judged, carry=start(2))
    assert np.all(np.asarray(result.tokens) != MASK)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"skip_idle": True}, "skip_idle=True, .* set skip_idle=False"),
        ({"refresh_reuse": True}, "refresh_reuse=True, .* set refresh_reuse=False"),
        ({"cfg_scale": 0.5}, "cfg_scale=0.5, .* set cfg_scale=0"),
        ({"loop": "fixed_churn", "skip_idle": True}, "loop='fixed_churn', .* set loop='care'"),
    ],
)
def test_settings_that_take_a_forward_for_a_function_of_tokens_are_refused(
    draw, wandering, changes, message
):
    with pytest.raises(ValueError, match=message):
        draw(config_of("high_entropy", **changes), logits_fn=wandering, carry=start(2))


def test_a_wrong_carry_is_refused(tiny, draw, wandering):
    config = config_of("none")
    for carry, message in (
        (start(3), r"carry\['count'\] is int32\[3\]; .* here 2 rows"),
        ({"last": 0.0}, r"carry\['last'\] is float; every leaf"),
    ):
        with pytest.raises(ValueError, match=message):
            draw(config, logits_fn=wandering, carry=carry)
    with pytest.raises(ValueError, match="logits_fn has no argument `carry`"):
        draw(config, carry=start(2))

    def forgetful(params, tokens, token_mask, region, *, carry):
        return tiny.logits_fn(params, tokens, token_mask, region)

    def growing(params, tokens, token_mask, region, *, carry):
        logits, carry = wandering(params, tokens, token_mask, region, carry=carry)
        return logits, carry | {"count": carry["count"].astype(jnp.float32)}

    with pytest.raises(ValueError, match="must return a pair"):
        draw(config, logits_fn=forgetful, carry=start(2))
    with pytest.raises(ValueError, match="a carry unlike the one it was given"):
        draw(config, logits_fn=growing, carry=start(2))
