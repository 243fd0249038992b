"""Enumeration, distances and tests behind the table of sampler errors."""

import itertools

import numpy as np
import pytest
from scipy import stats

from dlmeval.evals.sampling.exact_law import all_strings, language_law, sampler_law, string_index
from dlmeval.evals.sampling.sampler_error import (
    error_table,
    g_test,
    measure,
    random_language,
    total_variation,
    variation_floor,
    write_strings,
)
from dlmeval.models import MarkovOracle
from dlmeval.samplers import SamplerConfig


def recursive_law(law, strings, v, length, per_step, temp):
    """`none`, `per_step` tokens a step, by recursion over canvases and draws in plain Python."""
    result = np.zeros(len(strings))

    def follow(canvas, mass):
        masked = [i for i in range(length) if canvas[i] is None]
        if not masked:
            result[[tuple(s) for s in strings].index(tuple(canvas))] += mass
            return
        agree = [all(c is None or c == x for c, x in zip(canvas, s)) for s in strings]
        weights = law * np.array(agree)
        weights = weights / weights.sum()
        p = [[weights[strings[:, i] == a].sum() for a in range(v)] for i in masked]
        for draw in itertools.product(range(v), repeat=len(masked)):
            chance = 1.0
            for row, a in zip(p, draw):
                chance *= row[a] ** (1 / temp) / sum(x ** (1 / temp) for x in row)
            ranked = sorted(range(len(masked)), key=lambda j: -p[j][draw[j]])
            following = list(canvas)
            for j in ranked[:per_step]:
                following[masked[j]] = draw[j]
            if chance:
                follow(following, mass * chance)

    follow([None] * length, 1.0)
    return result


@pytest.mark.parametrize(("length", "per_step", "temp"), [(3, 1, 1.0), (3, 1, 0.5), (4, 2, 1.3)])
@pytest.mark.parametrize("order", [1, 2])
def test_sampler_law_equals_recursion(order, length, per_step, temp):
    oracle = random_language(3 if length == 3 else 2, order=order, seed=4)
    strings = all_strings(oracle.num_ids, length)
    law = language_law(oracle, length)
    expected = recursive_law(law, strings, oracle.num_ids, length, per_step, temp)
    config = SamplerConfig(length, length // per_step, "none", temp)
    np.testing.assert_allclose(sampler_law(oracle, config), expected, rtol=1e-4, atol=1e-7)


def test_sampler_law_at_temperature_0_is_one_string():
    oracle = random_language(3, seed=3)
    config = SamplerConfig(4, 4, "none", 0.0)
    law = sampler_law(oracle, config)
    assert law.max() == 1
    ids, _ = write_strings(oracle, config, 2, 0)
    assert (string_index(ids, 3) == law.argmax()).all()


def test_paces_and_blocks_reveal_as_many():
    oracle = random_language(2, seed=5)
    one = {"confidence": "entropy"}
    ceil = sampler_law(oracle, SamplerConfig(5, 2, "none", 1.0, **one))
    floor = sampler_law(oracle, SamplerConfig(5, 2, "none", 1.0, pace="floor", **one))
    blocks = sampler_law(oracle, SamplerConfig(4, 2, "none", 1.0, block_length=2))
    assert total_variation(ceil, floor) > 1e-3  # 3 + 2 against 2 + 3
    # Blocks of two, each at once: independent given what is left of it.
    law = language_law(oracle, 4).reshape(4, 2, 2)
    first = language_law(oracle, 2).reshape(2, 2)
    opening = np.outer(first.sum(1), first.sum(0)).reshape(4)
    given = law / law.sum((1, 2), keepdims=True)
    ending = given.sum(2)[:, :, None] * given.sum(1)[:, None, :]
    expected = (opening[:, None, None] * ending).reshape(-1)
    np.testing.assert_allclose(blocks, expected, rtol=1e-5)


def test_strings_are_in_lexicographic_order():
    strings = all_strings(3, 3)
    assert strings.shape == (27, 3)
    np.testing.assert_array_equal(string_index(strings, 3), np.arange(27))
    np.testing.assert_array_equal(strings[5], [0, 1, 2])


def test_variation_floor_is_the_mean_of_draws():
    law = np.array([0.5, 0.3, 0.15, 0.0499, 1e-4, 0.0])
    for n in (1, 7, 400):
        draws = np.random.default_rng(0).multinomial(n, law, size=20_000) / n
        distances = 0.5 * np.abs(draws - law).sum(1)
        margin = 5 * distances.std() / np.sqrt(len(distances))
        assert abs(variation_floor(law, n) - distances.mean()) < margin
    assert variation_floor(np.array([1.0, 0.0]), 10) == 0


def test_g_test_agrees_with_scipy_and_holds_its_level():
    law = np.array([0.4, 0.3, 0.2, 0.1])
    counts = np.array([35, 40, 15, 10])
    ours = g_test(counts, law)
    theirs = stats.power_divergence(counts, law * 100, lambda_="log-likelihood")
    assert ours.df == 3
    np.testing.assert_allclose([ours.statistic, ours.p], [theirs.statistic, theirs.pvalue])
    rng = np.random.default_rng(1)
    law = rng.dirichlet(np.full(50, 0.3))  # many rare cells, which are pooled
    rejected = np.mean([g_test(c, law).p < 0.05 for c in rng.multinomial(2000, law, size=2000)])
    assert 0.03 < rejected < 0.08


def test_g_test_of_rare_and_impossible_cells():
    assert g_test(np.array([10, 0, 1]), np.array([0.5, 0.5, 0.0])).p == 0
    assert g_test(np.array([10, 0]), np.array([1.0, 0.0])) == (0.0, 0, 1.0)
    pooled = g_test(np.array([90, 8, 1, 1]), np.array([0.9, 0.08, 0.01, 0.01]))
    assert pooled.df == 1  # the pool of 2 expected joins the least of the others
    assert pooled.statistic == pytest.approx(0, abs=1e-9)


def test_total_variation():
    assert total_variation(np.array([1.0, 0, 0]), np.array([0, 0.5, 0.5])) == 1
    assert total_variation(np.array([0.7, 0.3]), np.array([0.5, 0.5])) == pytest.approx(0.2)


def test_measured_errors_are_those_of_enumeration():
    oracle = random_language(2, seed=6, concentration=1.0)
    law = language_law(oracle, 3)
    rows = error_table(
        oracle,
        gen_length=3,
        num_steps=(1, 3),
        strategies=("none", "low_confidence"),
        remask_fraction=0.34,
        num_samples=4096,
        seeds=(0, 1),
    )
    assert [(row.strategy, row.network, row.num_steps) for row in rows] == [
        ("none", "copy", 1),
        ("none", "copy", 3),
        ("low_confidence", "copy", 1),
        ("low_confidence", "copy", 3),
        ("low_confidence", "judge", 1),
        ("low_confidence", "judge", 3),
    ]
    for row in rows[:2]:
        exact = sampler_law(oracle, SamplerConfig(3, row.num_steps, "none", 1.0))
        assert row.tv == pytest.approx(total_variation(exact, law), abs=0.02)
        surprisal = (law - exact) @ np.log(law) / 3
        assert abs(row.surprisal - surprisal) < 5 * row.surprisal_stderr
        assert row.nfe == row.num_steps
        assert row.num_samples == 8192
        assert row.excess == pytest.approx(row.tv - row.floor)
    assert rows[3].nfe > 3


BLIND = SamplerConfig(3, 3, "none", 1.0, block_length=1)


def test_an_exact_sampler_has_no_excess():
    oracle = random_language(2, seed=6, concentration=1.0)
    row = measure(oracle, BLIND, num_samples=4096, seeds=(0, 1, 2, 3))
    assert abs(row.excess) < 0.01
    assert abs(row.surprisal) < 4 * row.surprisal_stderr
    assert row.test.p > 1e-3


def test_random_languages_are_reproducible_and_differ():
    one, same, other = (random_language(4, order=2, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.transition, same.transition)
    assert not np.allclose(one.transition, other.transition)


ORACLE = MarkovOracle([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: all_strings(3, 20), "length=20 over 3 ids"),
        (lambda: all_strings(3, 0), "length=0"),
        (lambda: sampler_law(ORACLE, SamplerConfig(4, 4, "random", 1.0)), "strategy='random'"),
        (lambda: sampler_law(ORACLE, SamplerConfig(4, 4, "none", 1.0, cfg_scale=1.0)), "cfg_scale"),
        (lambda: sampler_law(ORACLE, SamplerConfig(20, 20, "none", 1.0)), "gen_length=20"),
        (lambda: g_test(np.zeros(2), np.array([0.5, 0.5])), "counts"),
        (lambda: g_test(np.ones(3), np.array([0.5, 0.5])), "counts"),
        (lambda: g_test(np.ones(2), np.array([0.5, 0.4])), "law must be"),
        (lambda: measure(ORACLE, BLIND, seeds=(0,)), "at least two"),
        (lambda: write_strings(ORACLE, BLIND, 4, 0, network="best"), "network='best'"),
        (lambda: write_strings(ORACLE, BLIND, 0, 0), "num_samples=0"),
        (lambda: random_language(3, order=3), "order=3"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
