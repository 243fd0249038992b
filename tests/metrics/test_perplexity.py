"""Generative perplexity against published implementations' values and closed forms."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmeval.metrics import (
    adjusted_perplexity,
    entropies,
    generative_perplexity,
    generative_perplexity_stderr,
    target_mask,
)

EOS = 52
AGGREGATES = ("token", "sample", "macro")


@pytest.fixture(scope="module")
def gen_ppl(golden):
    folder = golden("gen_ppl")
    with np.load(folder / "rows.npz") as rows:
        return json.loads((folder / "results.json").read_text()), dict(rows)


def sums(token_nll, mask):
    """Row sums over targets; token_nll is aligned with targets 1, 2, …"""
    return np.sum(token_nll * mask[:, 1:], axis=1), mask[:, 1:].sum(axis=1)


def test_first_eos_mask_is_the_published_one(gen_ppl):
    _, rows = gen_ppl
    mask = np.asarray(target_mask(rows["rows"], None, EOS))
    np.testing.assert_array_equal(mask[:, 1:], rows["mdlm_mask"])
    assert not mask[:, 0].any()


def test_first_pad_is_scored_only_if_the_padded_width_is_passed(gen_ppl):
    _, rows = gen_ppl
    padded, lengths = rows["padded_rows"], rows["padded_attention_mask"].sum(axis=1)
    compat = np.asarray(target_mask(padded, None, EOS))
    np.testing.assert_array_equal(compat[:, 1:], rows["padded_mdlm_mask"])
    honest = np.asarray(target_mask(padded, lengths, EOS))
    np.testing.assert_array_equal(np.argwhere(honest != compat), [[4, 8], [7, 10]])


def test_published_perplexities(gen_ppl):
    results, rows = gen_ppl
    nll, count = sums(rows["token_nll"], np.asarray(target_mask(rows["rows"], None, EOS)))
    np.testing.assert_array_equal(count, rows["row_count"])
    np.testing.assert_allclose(nll, rows["row_nll"], rtol=1e-6)

    def published(name):
        return pytest.approx(results[name]["ppl"], rel=1e-5)

    assert float(generative_perplexity(nll, count)) == published("mdlm_native_all_rows")
    used = results["mdlm_native_batch3_drops_rest"]["rows_used"]
    assert float(generative_perplexity(nll[:used], count[:used])) == published(
        "mdlm_native_batch3_drops_rest"
    )
    with pytest.warns(UserWarning, match="1 rows have no scored token"):
        per_row = generative_perplexity(nll, count, "sample")
    assert float(per_row) == published("derived_per_row_mean_of_exp_mdlm_mask")
    with pytest.warns(UserWarning, match="macro"):
        macro = generative_perplexity(nll, count, "macro")
    assert float(macro) == published("derived_macro_nll_mdlm_mask")


def test_published_perplexities_of_padded_rows(gen_ppl):
    results, rows = gen_ppl
    nll, count = sums(
        rows["padded_token_nll"], np.asarray(target_mask(rows["padded_rows"], None, EOS))
    )
    value = float(generative_perplexity(nll, count))
    assert value == pytest.approx(results["mdlm_padded_all_rows"]["ppl"], rel=1e-5)
    assert value == pytest.approx(results["duo_padded_all_rows"]["ppl"], rel=1e-5)


def test_published_mean_of_row_perplexities_over_all_targets(gen_ppl):
    results, rows = gen_ppl
    nll, count = sums(rows["token_nll"], np.asarray(target_mask(rows["rows"], None, None, "all")))
    np.testing.assert_allclose(nll, rows["row_nll_all"], rtol=1e-6)
    value = float(generative_perplexity(nll, count, "sample"))
    assert value == pytest.approx(results["sedd_all_rows_batch8"]["ppl"], rel=1e-5)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_mask_against_a_loop(seed):
    rng = np.random.default_rng(seed)
    ids, lengths = rng.integers(0, 3, (6, 7)), rng.integers(0, 8, 6)
    lengths[0] = 7
    expected = np.zeros((6, 7), bool)
    for i in range(6):
        eos_seen = 0
        for t in range(lengths[i]):
            eos_seen += ids[i, t] == 2
            expected[i, t] = t > 0 and (ids[i, t] != 2 or eos_seen == 1)
    np.testing.assert_array_equal(target_mask(ids, lengths, 2), expected)
    everything = np.asarray(target_mask(ids, lengths, 2, "all"))
    np.testing.assert_array_equal(everything.sum(axis=1), np.maximum(lengths - 1, 0))
    jitted = jax.jit(target_mask, static_argnames="policy")(
        jnp.asarray(ids), jnp.asarray(lengths), 2
    )
    np.testing.assert_array_equal(jitted, expected)


@given(
    st.lists(st.tuples(st.floats(0.0, 8.0), st.integers(1, 50)), min_size=1, max_size=8),
)
def test_aggregations_by_definition(rows):
    rates, counts = np.array([r for r, _ in rows]), np.array([c for _, c in rows])
    nll = rates * counts
    token, sample, macro = (float(generative_perplexity(nll, counts, a)) for a in AGGREGATES)
    assert token == pytest.approx(math.exp(nll.sum() / counts.sum()))
    assert sample == pytest.approx(np.exp(rates).mean())
    assert macro == pytest.approx(math.exp(rates.mean()))
    assert macro <= sample * (1 + 1e-12)


def test_aggregations_agree_where_they_must():
    nll, counts = np.array([3.0, 9.0]), np.array([6, 6])
    assert generative_perplexity(nll, counts) == generative_perplexity(nll, counts, "macro")
    same = [generative_perplexity(np.full(4, 5.0), np.full(4, 3), a) for a in AGGREGATES]
    np.testing.assert_allclose(same, math.exp(5 / 3), rtol=1e-14)


def test_uniform_scorer_has_perplexity_of_the_vocabulary():
    counts = np.array([3, 8, 1])
    for aggregate in AGGREGATES:
        value = generative_perplexity(counts * math.log(50_257), counts, aggregate)
        assert isinstance(value, np.ndarray)
        assert value.shape == ()
        assert float(value) == pytest.approx(50_257)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_traced_equals_concrete(aggregate):
    nll, counts = np.array([3.0, 9.0, 0.0, 4.0]), np.array([6, 3, 0, 9])
    traced = jax.jit(generative_perplexity, static_argnames="aggregate")
    value = traced(jnp.asarray(nll), jnp.asarray(counts), aggregate=aggregate)
    scored = counts > 0
    expected = generative_perplexity(nll[scored], counts[scored], aggregate)
    assert float(value) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_stderr_is_the_brute_force_jackknife(aggregate):
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 30, 12)
    nll = counts * rng.normal(3.0, 0.4, 12)
    without = [
        float(generative_perplexity(np.delete(nll, i), np.delete(counts, i), aggregate))
        for i in range(12)
    ]
    expected = math.sqrt(11 / 12 * np.sum((without - np.mean(without)) ** 2))
    value = generative_perplexity_stderr(nll, counts, aggregate)
    assert float(value) == pytest.approx(expected, rel=1e-12)


def test_stderr_of_the_sample_mean_is_sd_over_root_n():
    nll, counts = np.array([2.0, 5.0, 9.0]), np.array([2, 3, 4])
    rows = np.exp(nll / counts)
    value = generative_perplexity_stderr(nll, counts, "sample")
    assert float(value) == pytest.approx(rows.std(ddof=1) / math.sqrt(3))


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_stderr_predicts_the_spread_of_repeated_banks(aggregate):
    rng = np.random.default_rng(1)
    counts = rng.integers(20, 60, (400, 100))
    nll = counts * rng.normal(3.0, 0.3, (400, 100))
    values = [generative_perplexity(*bank, aggregate) for bank in zip(nll, counts, strict=True)]
    errors = [
        generative_perplexity_stderr(*bank, aggregate) for bank in zip(nll, counts, strict=True)
    ]
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.12)  # 3.4 sd of a sd at 400


def test_infinite_nll_gives_infinity_not_nan():
    nll, counts = np.array([1.0, np.inf, 2.0]), np.array([1, 1, 1])
    for aggregate in AGGREGATES:
        assert generative_perplexity(nll, counts, aggregate) == np.inf
        assert generative_perplexity_stderr(nll, counts, aggregate) == np.inf


def test_adjusted_perplexity_identity():
    """log adj = (KL(G||R) - TC) / L on an enumerated bank that is its own distribution."""
    rng = np.random.default_rng(2)
    ids = rng.integers(0, 2, (9, 5))
    ids[3:] = ids[:6]  # repeated rows, so that the joint entropy is not log n
    scorer = rng.dirichlet(np.ones(32)).reshape((2,) * 5)
    log_r = np.log(scorer[tuple(ids.T)])
    _, index, counts = np.unique(ids, axis=0, return_index=True, return_counts=True)
    law = counts / 9
    kl = np.sum(law * (np.log(law) - log_r[index]))
    with jax.enable_x64(True):
        e = entropies(ids)
    perplexity = generative_perplexity(-log_r, np.full(9, 5))
    adjusted = adjusted_perplexity(perplexity, e.pos)
    assert math.log(adjusted) == pytest.approx((kl - float(e.total_correlation)) / 5, abs=1e-12)
    assert float(adjusted_perplexity(7.0, 0.0)) == 7.0
    assert float(jax.jit(adjusted_perplexity)(7.0, 1.0)) == pytest.approx(7 / math.e, rel=1e-6)


@pytest.mark.parametrize(
    ("nll", "counts", "message"),
    [
        ([1.0, np.nan], [1, 1], r"nll\[1\] = nan"),
        ([1.0, -np.inf], [1, 1], r"nll\[1\] = -inf"),
        ([1.0, 1.0], [1, -1], r"num_tokens\[1\] = -1"),
        ([1.0, 1.0], [1, 0], r"nll\[1\] = 1.0.*0 where num_tokens is 0"),
        ([0.0, 0.0], [0, 0], "no token was scored"),
        ([], [], "no rows"),
        ([1.0], [1, 1], r"shapes \(1,\) and \(2,\)"),
        ([1.0, 1.0], [1.0, 1.0], "integers"),
    ],
)
def test_bad_rows_are_named(nll, counts, message):
    for function in (generative_perplexity, generative_perplexity_stderr):
        with pytest.raises(ValueError, match=message):
            function(np.array(nll), np.array(counts, int if not counts else None))


def test_other_bad_input_is_named():
    ids = np.zeros((2, 3), int)
    with pytest.raises(ValueError, match=r"policy must be one of .*got 'mdlm'"):
        target_mask(ids, None, 0, "mdlm")
    with pytest.raises(ValueError, match="needs the integer eos_id"):
        target_mask(ids, None, None)
    with pytest.raises(ValueError, match="aggregate must be one of"):
        generative_perplexity(np.ones(2), np.ones(2, int), "mean")
    with pytest.raises(ValueError, match="at least 2 rows"):
        generative_perplexity_stderr(np.array([1.0, 0.0]), np.array([1, 0]))
    with pytest.raises(ValueError, match="outside jit"):
        jax.jit(generative_perplexity_stderr)(jnp.ones(2), jnp.ones(2, int))
    with pytest.raises(ValueError, match="perplexity must be positive"):
        adjusted_perplexity(np.nan, 1.0)
    with pytest.raises(ValueError, match="pos_entropy"):
        adjusted_perplexity(2.0, -1.0)
