"""Every wrong argument is refused by name, before anything is compiled where possible."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.samplers import SamplerConfig, sample

GOOD = SamplerConfig(4, 4, "none", 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gen_length": 0}, "gen_length=0"),
        ({"gen_length": 4.5}, "gen_length=4.5"),
        ({"num_steps": 0}, "num_steps=0"),
        ({"num_steps": True}, "num_steps=True"),
        ({"strategy": "low_entropy"}, "strategy='low_entropy' is not one of none, "),
        ({"unmask_temp": -0.1}, "unmask_temp=-0.1"),
        ({"unmask_temp": float("nan")}, "unmask_temp=nan"),
        ({"unmask_temp": None}, "unmask_temp=None"),
        ({"unmask_temp": "0.5"}, "unmask_temp='0.5'"),
        ({"unmask_temp": 1e40}, "unmask_temp=1e\\+40 must be finite"),
        ({"remask_fraction": "0.5"}, "remask_fraction='0.5'"),
        ({"strategy": ["none"]}, r"strategy=\['none'\] is not one of"),
        ({"pace": np.array(["a", "b"])}, "pace="),
        ({"top_k": 2**40}, "top_k="),
        ({"remask_fraction": 1.2}, "remask_fraction=1.2 must be between 0 and 1"),
        ({"cfg_scale": -1.0}, "cfg_scale"),
        ({"block_length": 3}, "block_length=3 does not divide gen_length=4"),
        ({"block_length": 0}, "block_length=0"),
        ({"block_length": 1, "num_steps": 6}, "num_steps=6 is not a multiple of the 4 blocks"),
        ({"pace": "slow"}, "pace='slow' is not one of auto, ceil, floor, target, table"),
        ({"pool": "some"}, "pool='some' is not one of all, decided"),
        ({"noise": "gumbel"}, "noise='gumbel' is not one of inverse_cdf, gumbel_fp64"),
        ({"eos_policy": "stop"}, "eos_policy='stop' is not one of truncate, early_exit"),
        ({"loop": "fast"}, "loop='fast' is not one of care, fixed_churn"),
        ({"loop": "fixed_churn"}, "loop='fixed_churn' needs a remasking strategy"),
        ({"loop": "fixed_churn", "strategy": "running_confidence"}, "sets its own counts"),
        ({"loop": "fixed_churn", "strategy": "random", "pace": "ceil"}, "pace='ceil' contradicts"),
        ({"threshold": 1.5}, "threshold=1.5"),
        ({"confidence": "p"}, "confidence='p' is not one of probability, entropy, margin"),
        ({"schedule": "cubic"}, "schedule='cubic' is not one of linear, cosine"),
        ({"token_temp": 0.5}, "token_temp=0.5 is read by Dream orders alone"),
        ({"alg_temp": 0.0}, "alg_temp=0.0 is read by Dream orders alone"),
        ({"alg_temp": -1.0}, "alg_temp=-1.0"),
        ({"eta": float("inf")}, "eta=inf"),
        ({"t_on": 0.2, "t_off": 0.4, "strategy": "remdm_loop"}, "t_off=0.4 must not exceed t_on"),
        ({"alpha_on": 1.0, "strategy": "remdm_loop"}, "alpha_on=1"),
        ({"top_p": 0.0}, "top_p=0.0 must be between 0 and 1, 0 excluded"),
        ({"nucleus_p": 2}, "nucleus_p=2"),
        ({"top_k": 0}, "top_k=0"),
        ({"eos_policy": "defer", "strategy": "p2"}, "eos_policy='defer'.*'p2'"),
        ({"skip_idle": 1}, "skip_idle=1"),
    ],
)
def test_config(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(GOOD, **change)


def test_temperature_has_no_default():
    with pytest.raises(TypeError, match="unmask_temp"):
        SamplerConfig(4, 4, "none")  # type: ignore[call-arg]


def call(logits_fn=None, **change):
    """sample() with good arguments, except those given."""
    prompt = np.ones((2, 3), np.int32)
    arguments = {
        "logits_fn": logits_fn or (lambda w, t, m, r: jnp.zeros((2, r.stop - r.start, 9)) + w),
        "params": jnp.float32(0),
        "prompt": prompt,
        "prompt_mask": prompt == 1,
        "keys": jax.random.split(jax.random.key(0), 2),
        "config": GOOD,
        "mask_id": 8,
    }
    return sample(**(arguments | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": np.ones((2, 3))}, r"prompt is float64\[2, 3\]"),
        ({"prompt": np.ones(3, int)}, r"prompt is int64\[3\]"),
        ({"prompt": np.ones((0, 3), int)}, "no rows"),
        ({"prompt_mask": np.ones((2, 2), bool)}, r"prompt_mask is bool\[2, 2\]"),
        ({"prompt_mask": np.ones((2, 3))}, r"prompt_mask is float64"),
        ({"prompt_mask": np.array([[1, 1, 1], [0, 1, 0]]) > 0}, "prompt_mask of row 1.*left"),
        ({"prompt": np.full((2, 3), 8)}, "prompt holds the mask id 8"),
        ({"prompt": np.full((2, 3), -2)}, "prompt holds the id -2"),
        ({"keys": jax.random.key(0)}, r"keys has shape \[\] for 2 samples"),
        ({"keys": jax.random.split(jax.random.key(0), 3)}, r"keys has shape \[3\]"),
        ({"keys": np.arange(2)}, "keys must be PRNG keys"),
        ({"config": None}, "config must be a SamplerConfig"),
        ({"mask_id": -1}, "mask_id=-1"),
        ({"mask_id": 1.5}, "mask_id=1.5"),
        ({"num_ids": 0}, "num_ids=0"),
        ({"num_ids": 10}, "num_ids=10 exceeds the 9 columns"),
        ({"eos_id": 8}, "eos_id=8"),
        ({"eos_id": -1}, "eos_id=-1"),
        ({"eos_id": "end"}, "eos_id='end'"),
        ({"logits_fn": 3}, "logits_fn"),
        ({"uniforms": np.zeros((4, 2, 4, 9))}, "noise='gumbel_fp64', not of 'inverse_cdf'"),
    ],
)
def test_arguments(change, message):
    with pytest.raises(ValueError, match=message):
        call(**change)


def test_padding_may_hold_any_id():
    mask = np.array([[False, True, True]] * 2)
    tokens = call(prompt=np.array([[8, 1, 1]] * 2), prompt_mask=mask).tokens
    assert tokens[:, :3].tolist() == [[8, 1, 1]] * 2


@pytest.mark.parametrize(
    "wrong",
    [
        lambda w, t, m, r: jnp.zeros((2, 7, 9)),  # the whole sequence instead of the region
        lambda w, t, m, r: jnp.zeros((2, 4)),
        lambda w, t, m, r: jnp.zeros((2, 4, 9), jnp.int32),
    ],
)
def test_logits_of_the_wrong_shape(wrong):
    with pytest.raises(ValueError, match="logits_fn returned"):
        call(wrong)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_not_numbers(value):
    def broken(w, t, m, r):
        seen = jnp.sum(t[:, r] == 8, axis=1)  # fine at first, broken at the third step
        return jnp.where(seen[:, None, None] == 2, value, jnp.zeros((2, 4, 9)))

    for temp in (0.0, 1.0):
        with pytest.raises(ValueError, match="logits_fn returned NaN"):
            call(broken, config=dataclasses.replace(GOOD, unmask_temp=temp))


def test_ids_that_may_not_be_emitted_are_not_checked_and_not_emitted():
    def padded(w, t, m, r):
        return jnp.zeros((2, 4, 9)).at[..., 5:].set(jnp.nan).at[..., 4].set(1.0)

    tokens = call(padded, num_ids=5, config=SamplerConfig(4, 4, "none", 1.0)).tokens
    assert np.all(np.asarray(tokens) < 5)


def test_a_vocabulary_of_the_mask_alone():
    with pytest.raises(ValueError, match="leave no id"):
        call(lambda w, t, m, r: jnp.zeros((2, 4, 1)), mask_id=0, prompt=np.ones((2, 3), int))


def test_uniforms_must_fit_and_suffice():
    config = SamplerConfig(4, 4, "none", 1.0, noise="gumbel_fp64")
    with pytest.raises(ValueError, match="noise for 3 forwards, the run took 4"):
        call(config=config, uniforms=np.full((3, 2, 4, 9), 0.5))
    with pytest.raises(ValueError, match=r"uniforms has shape \[4, 2, 4\]"):
        call(config=config, uniforms=np.full((4, 2, 4), 0.5))
    with pytest.raises(ValueError, match="8 columns, the logits 9"):
        call(config=config, uniforms=np.full((4, 2, 4, 8), 0.5))
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        call(config=config, uniforms=np.full((4, 2, 4, 9), 1.5))


def test_one_nan_among_finite_logits_is_found():
    def logits_fn(params, tokens, token_mask, region):
        shape = (*tokens.shape, 97)
        logits = jax.random.normal(jax.random.key(0), shape)[:, region]
        return logits.at[1, 3, 41].set(jnp.nan)

    prompt = np.zeros((4, 0), np.int32)
    keys = jax.random.split(jax.random.key(1), 4)
    config = SamplerConfig(16, 2, "none", 1.0)
    with pytest.raises(ValueError, match="NaN"):
        sample(logits_fn, {}, prompt, prompt.astype(bool), keys, config, mask_id=96)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_quality_that_is_not_finite_voids_the_samples(value):
    def judged(w, t, m, r):
        quality = jnp.zeros((2, r.stop - r.start)).at[1, 0].set(value)
        return jnp.zeros((2, r.stop - r.start, 9)) + w, {"quality": quality}

    with pytest.raises(ValueError, match="quality"):
        call(judged, config=SamplerConfig(4, 4, "prism", 0.0))


def test_networks_that_judge_nothing_or_wrongly_are_named():
    with pytest.raises(ValueError, match=r"'remedi' needs a network that judges"):
        call(config=SamplerConfig(4, 4, "remedi", 0.0))

    def scalar(w, t, m, r):
        return jnp.zeros((2, r.stop - r.start, 9)) + w, {"quality": jnp.zeros(2)}

    with pytest.raises(ValueError, match=r"quality of shape \[2\].*expected \[2, 4\]"):
        call(scalar)
    with pytest.raises(ValueError, match=r"tuple that is not \(logits, "):
        call(lambda w, t, m, r: (jnp.zeros((2, 4, 9)), jnp.zeros((2, 4))))


def test_whole_numbers_of_other_libraries_are_taken_as_such():
    config = SamplerConfig(np.int64(4), jnp.int32(4), "p2", np.float32(0.5), top_k=np.int32(3))
    assert [type(config.gen_length), type(config.num_steps), type(config.top_k)] == [int] * 3
    assert call(config=config).nfe.tolist() == [4, 4]


def test_ids_keys_and_prompts_that_do_not_fit_are_named():
    wide = np.full((2, 3), 2**32 + 3)
    with pytest.raises(ValueError, match="int32"):
        call(prompt=wide)
    with pytest.raises(ValueError, match=r"uint32\[2, 4\]"):
        call(keys=jnp.zeros((2, 4), jnp.uint32))
    with pytest.raises(ValueError, match="rectangular"):
        call(prompt=[[1, 2, 3], [1]])


def test_guidance_leaves_ids_forbidden_without_a_prompt_to_the_others():
    def network(w, tokens, m, r):
        logits = jnp.zeros((tokens.shape[0], r.stop - r.start, 9)) + w
        blank = jnp.all(tokens[:, : r.start] == 8, axis=1)
        return logits.at[:, :, 3].set(jnp.where(blank, -jnp.inf, 5.0)[:, None])

    config = SamplerConfig(4, 4, "none", 0.0, cfg_scale=1.0)
    assert np.all(np.asarray(call(network, config=config).tokens[:, 3:]) == 3)
