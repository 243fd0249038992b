"""Samplers on a language whose every probability is known: the error is theirs alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.evals.sampling.exact_law import all_strings, language_law, sampler_law, string_index
from dlmeval.evals.sampling.sampler_error import (
    g_test,
    random_language,
    total_variation,
    write_strings,
)
from dlmeval.samplers import SamplerConfig, Strategy, register_strategy, registry, sample
from dlmeval.samplers.ranking import entropy

LENGTH, NUM = 4, 1 << 14
LANGUAGE = random_language(3, seed=1, concentration=0.7)
PAIRS = random_language(3, order=2, seed=2, concentration=0.7)


@pytest.fixture
def own_strategies(monkeypatch):
    """Two orders as a user would register them; gone after the test."""
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))

    @register_strategy("shuffled", kind="order")
    def shuffled():
        def order(obs, keys):
            length = obs.tokens.shape[1]
            return jax.vmap(lambda key: jax.random.uniform(key, (length,), jnp.float32))(keys)

        return Strategy(order=order)

    @register_strategy("surest_position", kind="order")
    def surest_position():
        return Strategy(order=lambda obs, keys: -entropy(obs.logits))


def counted(oracle, config, num=NUM, seed=0):
    ids, nfe = write_strings(oracle, config, num, seed)
    counts = np.bincount(string_index(ids, oracle.num_ids), minlength=3**config.gen_length)
    return counts, nfe


@pytest.mark.parametrize(
    ("oracle", "strategy", "options"),
    [
        (LANGUAGE, "none", {"block_length": 1}),
        (LANGUAGE, "none", {"confidence": "entropy"}),
        (LANGUAGE, "none", {"confidence": "margin", "block_length": 2}),
        (LANGUAGE, "shuffled", {}),
        (LANGUAGE, "surest_position", {}),
        (PAIRS, "none", {"block_length": 1}),
        (PAIRS, "none", {"confidence": "entropy"}),
    ],
)
def test_orders_blind_to_the_drawn_token_follow_the_language(
    own_strategies, oracle, strategy, options
):
    config = SamplerConfig(LENGTH, LENGTH, strategy, 1.0, **options)
    counts, nfe = counted(oracle, config)
    assert g_test(counts, language_law(oracle, LENGTH)).p > 1e-3
    assert (nfe == LENGTH).all()


def test_confident_draws_first_follow_their_own_law_and_not_the_language():
    """`none` at t > 0: enumeration predicts what it writes, at every budget and temperature."""
    law = language_law(LANGUAGE, LENGTH)
    for steps, temp in ((4, 1.0), (2, 1.0), (1, 1.0), (4, 0.6)):
        config = SamplerConfig(LENGTH, steps, "none", temp)
        predicted = sampler_law(LANGUAGE, config)
        counts, _ = counted(LANGUAGE, config)
        assert g_test(counts, predicted).p > 1e-3
        assert g_test(counts, law).p < 1e-12
        assert total_variation(predicted, law) > 0.05
        assert abs(total_variation(counts / NUM, law) - total_variation(predicted, law)) < 0.02
    # It favours probable strings: their mean log-likelihood is above the language's.
    one_a_step = sampler_law(LANGUAGE, SamplerConfig(LENGTH, LENGTH, "none", 1.0))
    assert (one_a_step - law) @ np.log(law) > 0.1


def test_the_bias_goes_where_the_order_is_blind():
    law = language_law(LANGUAGE, LENGTH)
    for options in ({"block_length": 1}, {"confidence": "entropy"}, {"confidence": "margin"}):
        config = SamplerConfig(LENGTH, LENGTH, "none", 1.0, **options)
        assert total_variation(sampler_law(LANGUAGE, config), law) < 1e-6


def test_error_of_parallel_unmasking_falls_with_steps():
    length = 6
    law = language_law(LANGUAGE, length)
    exact, drawn = [], []
    for steps in (1, 2, 3, 6):
        config = SamplerConfig(length, steps, "none", 1.0, confidence="entropy")
        predicted = sampler_law(LANGUAGE, config)
        counts, _ = counted(LANGUAGE, config)
        assert g_test(counts, predicted).p > 1e-3
        exact.append(total_variation(predicted, law))
        drawn.append(total_variation(counts / NUM, law))
    assert exact[0] > exact[1] > exact[2] > exact[3]
    assert drawn[0] > drawn[1] > drawn[2] > drawn[3]
    assert exact[0] > 0.2
    assert exact[3] < 1e-6


def test_prompts_condition_the_language():
    """Prompts of mixed lengths, padded on the left: each row follows its own conditional law."""
    rows, strings = NUM // 2, all_strings(3, LENGTH)
    prompts = np.tile(np.array([[7, 7, 2], [0, 1, 1]]), (rows, 1))
    samples = sample(
        PAIRS.logits_fn,
        PAIRS.params,
        prompts,
        prompts != 7,
        jax.random.split(jax.random.key(3), 2 * rows),
        SamplerConfig(LENGTH, LENGTH, "none", 1.0, confidence="entropy"),
        mask_id=PAIRS.mask_id,
        num_ids=PAIRS.num_ids,
    )
    tokens = np.asarray(samples.tokens)
    for row, prompt in enumerate(([2], [0, 1, 1])):
        whole = np.concatenate([np.tile(prompt, (len(strings), 1)), strings], axis=1)
        law = np.exp(PAIRS.log_likelihood(whole))
        index = string_index(tokens[row::2, 3:], 3)
        assert g_test(np.bincount(index, minlength=len(law)), law / law.sum()).p > 1e-3


def test_other_noise_has_the_same_law():
    config = SamplerConfig(LENGTH, LENGTH, "none", 1.0, noise="gumbel_fp64")
    counts, _ = counted(LANGUAGE, config)
    assert g_test(counts, sampler_law(LANGUAGE, config)).p > 1e-3
