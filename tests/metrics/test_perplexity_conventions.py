"""Perplexities of public codes: their published values, and their loops written out again."""

import dataclasses
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmeval.metrics import (
    CONVENTIONS,
    Convention,
    aggregate_as,
    generative_perplexity,
    perplexity_as,
    scoring_windows,
    target_mask,
    targets_as,
)

EOS = 52
FAMILY = ("mdlm", "remdm", "duo", "elf")


@pytest.fixture(scope="module")
def gen_ppl(golden):
    folder = golden("gen_ppl")
    with np.load(folder / "rows.npz") as rows:
        return json.loads((folder / "results.json").read_text()), dict(rows)


def aligned(token_nll):
    """The golden NLLs start at target 1; position 0 is never scored without a BOS."""
    return np.pad(token_nll, ((0, 0), (1, 0)), constant_values=np.nan)


# Loops of the codes, token by token, over Python lists.


def first_eos_targets(row):
    """MDLM family: a target counts unless it is EOS and an EOS came before."""
    seen, targets = 0, []
    for t, token in enumerate(row):
        seen += token == EOS
        targets.append(t > 0 and (token != EOS or seen == 1))
    return targets


def family_loop(token_nll, rows, lengths, batch_size, *, keep_rest, context=1024):
    """MDLM, ReMDM, Duo (keep_rest False) and ELF (True): EOS padding, chunks, batches."""
    total, weight = 0.0, 0
    batch_size = min(batch_size, len(rows))
    batches = -(-len(rows) // batch_size) if keep_rest else len(rows) // batch_size
    for i in range(batches * batch_size):
        if i >= len(rows):
            break
        padded = [tok if t < lengths[i] else EOS for t, tok in enumerate(rows[i])]
        for start in range(0, len(padded), context):
            for t, scored in enumerate(first_eos_targets(padded[start : start + context])):
                if scored:
                    total += token_nll[i][start + t]
                    weight += 1
    return math.exp(total / weight)


def every_target_loop(token_nll, lengths):
    """LangFlow and CoBit: all targets within the row, weighted by token."""
    scored = [token_nll[i][t] for i in range(len(lengths)) for t in range(1, lengths[i])]
    return math.exp(sum(scored) / len(scored))


def sedd_loop(token_nll, batch_size):
    """Mean over full batches of the mean over rows of exp of the row's mean."""
    batches = len(token_nll) // batch_size
    total = 0.0
    for b in range(batches):
        rows = token_nll[b * batch_size : (b + 1) * batch_size]
        total += sum(math.exp(sum(row[1:]) / len(row[1:])) for row in rows) / len(rows)
    return total / batches


def hf_loop(token_nll, lengths):
    """A BOS stands before each row, so position 0 counts too."""
    rows = [math.exp(sum(row[:n]) / n) for row, n in zip(token_nll, lengths, strict=True)]
    return sum(rows) / len(rows)


def halves_loop(token_nll, targets, batch_size):
    """Gradient moment: each batch is two halves with a mean NLL each; mean over batches."""
    means = []
    for start in range(0, len(token_nll), batch_size):
        stop = min(start + batch_size, len(token_nll))
        middle = (start + stop) // 2
        pair = []
        for part in (range(start, middle), range(middle, stop)):
            kept = [token_nll[i][t] for i in part for t in range(len(targets[i])) if targets[i][t]]
            pair.append(sum(kept) / max(len(kept), 1))
        means.append(sum(pair) / 2)
    return math.exp(sum(means) / len(means))


def make_rows(seed, n=6, t=9):
    """Rows over {EOS, 1, 2} with EOS beyond their lengths, of which one is full."""
    rng = np.random.default_rng(seed)
    ids = rng.choice([EOS, 1, 2], (n, t))
    lengths = rng.integers(2, t + 1, n)
    lengths[rng.integers(n)] = t
    ids[0, 0] = 1  # so that some target is scored
    ids[0, 1] = 2
    ids[np.arange(t) >= lengths[:, None]] = EOS
    return rng.gamma(2.0, 1.5, (n, t)), ids, lengths


@pytest.mark.parametrize("name", FAMILY)
def test_published_values_of_the_family(gen_ppl, name):
    results, rows = gen_ppl
    nll = aligned(rows["token_nll"])
    value = perplexity_as(name, nll, rows["rows"], eos_id=EOS)
    assert float(value) == pytest.approx(results["mdlm_native_all_rows"]["ppl"], rel=1e-5)
    targets = targets_as(name, rows["rows"], eos_id=EOS)
    assert targets.sum() == results["mdlm_native_all_rows"]["weight"]

    lengths = rows["padded_attention_mask"].sum(axis=1)
    padded = aligned(rows["padded_token_nll"]), rows["padded_rows"], lengths
    value = perplexity_as(name, *padded, eos_id=EOS)
    assert float(value) == pytest.approx(results["duo_padded_all_rows"]["ppl"], rel=1e-5)
    np.testing.assert_array_equal(
        targets_as(name, *padded[1:], eos_id=EOS)[:, 1:], rows["padded_mdlm_mask"]
    )

    dropping = perplexity_as(name, nll, rows["rows"], eos_id=EOS, batch_size=3)
    expected = "mdlm_native_batch3_drops_rest" if name != "elf" else "mdlm_native_all_rows"
    assert float(dropping) == pytest.approx(results[expected]["ppl"], rel=1e-5)


def test_published_values_of_sedd(gen_ppl):
    results, rows = gen_ppl
    nll = aligned(rows["token_nll"])
    for batch_size, key in ((8, "sedd_all_rows_batch8"), (3, "sedd_batch3")):
        value = perplexity_as("sedd", nll, rows["rows"], batch_size=batch_size)
        assert float(value) == pytest.approx(results[key]["ppl"], rel=1e-5)


@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.sampled_from([3, 4, 1024]))
@settings(max_examples=25, deadline=None)
def test_family_against_its_loop(seed, batch_size, context):
    token_nll, ids, lengths = make_rows(seed)
    for name in ("duo", "elf"):
        convention = dataclasses.replace(CONVENTIONS[name], context=context)
        value = perplexity_as(
            convention, token_nll, ids, lengths, eos_id=EOS, batch_size=batch_size
        )
        expected = family_loop(
            token_nll, ids, lengths, batch_size, keep_rest=name == "elf", context=context
        )
        assert float(value) == pytest.approx(expected, rel=1e-12)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_other_codes_against_their_loops(seed):
    token_nll, ids, lengths = make_rows(seed)

    def value(name, *rows, **options):
        return float(perplexity_as(name, *rows, eos_id=EOS, **options))

    expected = every_target_loop(token_nll, lengths)
    assert value("langflow", token_nll, ids, lengths) == pytest.approx(expected, rel=1e-12)
    assert value("cobit", token_nll, ids, lengths) == pytest.approx(expected, rel=1e-12)
    expected = hf_loop(token_nll, lengths)
    assert value("hf_evaluate", token_nll, ids, lengths) == pytest.approx(expected, rel=1e-12)
    for batch_size in (1, 4, 6):
        expected = sedd_loop(token_nll, batch_size)
        got = value("sedd", token_nll, ids, batch_size=batch_size)
        assert got == pytest.approx(expected, rel=1e-12)
    for batch_size in (2, 4, 6):
        masked = [first_eos_targets(row) for row in ids.tolist()]
        expected = halves_loop(token_nll, masked, batch_size)
        got = value("gradient_moment_text", token_nll, ids, lengths, batch_size=batch_size)
        assert got == pytest.approx(expected, rel=1e-12)
    everything = [[False] + [True] * (ids.shape[1] - 1)] * len(ids)
    expected = halves_loop(token_nll, everything, 4)
    got = value("gradient_moment_ids", token_nll, ids, batch_size=4)
    assert got == pytest.approx(expected, rel=1e-12)


def test_quirks_one_by_one():
    """Two rows, each quirk switched on alone; expected values by hand, in bits of 2**x."""
    ids = np.array([[5, 6, 7, EOS], [5, 6, EOS, EOS]])
    nll = np.log(2.0) * np.array([[9, 1, 2, 3], [8, 3, 6, 100]])
    rows = nll, ids, np.array([3, 2])

    def exponent(convention, **options):
        return math.log2(perplexity_as(convention, *rows, eos_id=EOS, **options))

    plain = Convention("test")
    assert exponent(plain) == pytest.approx((1 + 2 + 3) / 3)
    assert exponent(plain, batch_size=1) == exponent(plain)
    assert exponent(Convention("test", policy="all")) == pytest.approx((1 + 2 + 3) / 3)
    padded = Convention("test", pad_with_eos=True)
    assert exponent(padded) == pytest.approx((1 + 2 + 3 + 3 + 6) / 5)
    bos = Convention("test", prepends_bos=True)
    assert exponent(bos) == pytest.approx((9 + 1 + 2 + 8 + 3) / 5)
    chunks = Convention("test", context=2)  # targets 1 and 3; row 0 has no third target
    assert exponent(chunks) == pytest.approx((1 + 3) / 2)
    mean_of_exp = Convention("test", aggregate="sample")
    assert exponent(mean_of_exp) == pytest.approx(math.log2((2**1.5 + 2**3) / 2))
    macro = Convention("test", aggregate="macro")
    assert exponent(macro) == pytest.approx((1.5 + 3) / 2)
    halves = Convention("test", aggregate="half_batch")
    assert exponent(halves, batch_size=2) == pytest.approx((1.5 + 3) / 2)
    three = np.log(2.0) * np.array([2, 4, 12]), np.array([2, 2, 2])
    dropping = Convention("test", drops_partial_batch=True)
    assert math.log2(aggregate_as(dropping, *three, batch_size=2)) == pytest.approx(1.5)
    assert math.log2(aggregate_as(dropping, *three, batch_size=9)) == pytest.approx(3.0)
    assert math.log2(aggregate_as(plain, *three, batch_size=2)) == pytest.approx(3.0)


def test_ours_is_target_mask_and_generative_perplexity():
    token_nll, ids, lengths = make_rows(3)
    mask = np.asarray(target_mask(ids, lengths, EOS))
    expected = generative_perplexity((token_nll * mask).sum(axis=1), mask.sum(axis=1))
    value = perplexity_as("dlmeval", token_nll, ids, lengths, eos_id=EOS)
    assert float(value) == pytest.approx(float(expected), rel=1e-14)
    assert isinstance(value, np.ndarray)
    assert value.shape == ()


def test_sums_and_tokens_give_the_same():
    """A scorer that sums by itself needs the mask only."""
    token_nll, ids, lengths = make_rows(4)
    for name in CONVENTIONS:
        targets = targets_as(name, ids, lengths, eos_id=EOS)
        sums = (token_nll * targets).sum(axis=1), targets.sum(axis=1)
        left = perplexity_as(name, token_nll, ids, lengths, eos_id=EOS, batch_size=2)
        assert left == aggregate_as(name, *sums, batch_size=2)


def test_pad_with_eos_in_the_mask_alone_and_under_jit(gen_ppl):
    _, rows = gen_ppl
    lengths = rows["padded_attention_mask"].sum(axis=1)
    zeros = np.where(np.arange(14) < lengths[:, None], rows["padded_rows"], 0)
    jitted = jax.jit(target_mask, static_argnames=("policy", "pad_with_eos"))
    for ids in (rows["padded_rows"], zeros):  # what stands in the padding does not matter
        mask = jitted(jnp.asarray(ids), jnp.asarray(lengths), EOS, pad_with_eos=True)
        np.testing.assert_array_equal(mask[:, 1:], rows["padded_mdlm_mask"])
    everything = target_mask(zeros, lengths, EOS, "all", pad_with_eos=True)
    assert int(np.asarray(everything).sum()) == 8 * 13
    with pytest.raises(ValueError, match="pad_with_eos needs the integer eos_id"):
        target_mask(zeros, lengths, None, "all", pad_with_eos=True)


def test_what_is_not_scored_is_not_looked_at():
    token_nll, ids, lengths = make_rows(5)
    poisoned = np.where(targets_as("langflow", ids, lengths), token_nll, np.nan)
    expected = perplexity_as("langflow", token_nll, ids, lengths)
    assert perplexity_as("langflow", poisoned, ids, lengths) == expected


def test_every_convention_names_its_code():
    assert {"mdlm", "remdm", "duo", "elf", "langflow", "cobit", "sedd", "dlmeval"} <= {*CONVENTIONS}
    assert all(": " in convention.source for convention in CONVENTIONS.values())
    with pytest.raises(TypeError):
        CONVENTIONS["mine"] = Convention("test")  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        CONVENTIONS["mdlm"].policy = "all"  # type: ignore[misc]


ROWS = np.ones((2, 3)), np.array([[1, 2, EOS], [1, 2, 7]]), np.array([3, 2])


@pytest.mark.parametrize(
    ("name", "rows", "options", "message"),
    [
        ("mdml", ROWS, {}, r"name must be one of \['cobit', .*got 'mdml'"),
        ("mdlm", ROWS, {}, r"ids\[1, 2\] = 7 is beyond the row's length 2.*fill it with"),
        ("dlmeval", (np.ones((2, 2)), *ROWS[1:]), {}, r"shape of ids \(2, 3\).*got \(2, 2\)"),
        ("cobit", (np.full((2, 3), np.nan), *ROWS[1:]), {}, r"token_nll\[0, 1\] = nan is scored"),
        ("cobit", ROWS, {"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ("cobit", ROWS, {"batch_size": 1.0}, "batch_size must be an integer"),
        ("gradient_moment_ids", ROWS, {"batch_size": 1}, "halves its batches.*batch_size = 1"),
        ("duo", ROWS, {"eos_id": None}, "needs the integer eos_id"),
        ("cobit", (ROWS[0], ROWS[1], np.array([1, 1])), {}, "no token was scored"),
    ],
)
def test_bad_input_is_named(name, rows, options, message):
    with pytest.raises(ValueError, match=message):
        perplexity_as(name, *rows, **{"eos_id": EOS, **options})


def test_conventions_stay_outside_jit():
    with pytest.raises(ValueError, match="inside jit call target_mask"):
        jax.jit(lambda ids: targets_as("langflow", ids))(jnp.ones((2, 3), jnp.int32))
    with pytest.raises(ValueError, match="inside jit call generative_perplexity"):
        jax.jit(lambda nll: aggregate_as("langflow", nll, np.ones(2, int)))(jnp.ones(2))


@given(st.lists(st.integers(0, 40), min_size=1, max_size=5), st.integers(2, 12), st.integers(1, 11))
def test_strided_windows_score_each_target_once(lengths, context, stride):
    stride = min(stride, context - 1)
    seen = [np.zeros(length, int) for length in lengths]
    for row, start, stop, first in zip(
        *scoring_windows(np.array(lengths), context, stride), strict=True
    ):
        assert 0 <= start < first < stop <= lengths[row]
        assert stop - start <= context
        if start:
            assert first - start >= context - stride  # tokens before the first target
        seen[row][first:stop] += 1
    for counts in seen:
        np.testing.assert_array_equal(counts[:1], 0)
        np.testing.assert_array_equal(counts[1:], 1)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=5), st.integers(2, 12))
def test_chunks_score_all_but_their_first_tokens(lengths, context):
    seen = [np.zeros(length, int) for length in lengths]
    windows = scoring_windows(np.array(lengths), context)
    assert all(field.dtype == np.int32 for field in windows)
    for row, start, stop, first in zip(*windows, strict=True):
        assert start % context == 0
        assert first == start + 1 < stop == min(start + context, lengths[row])
        seen[row][first:stop] += 1
    for counts in seen:
        np.testing.assert_array_equal(counts, np.arange(len(counts)) % context > 0)


def test_chunks_are_those_of_the_chunked_conventions():
    """Where there is no EOS, the targets of a chunked code are the targets of the windows."""
    ids, lengths = np.ones((3, 2100), int), np.array([2100, 1025, 7])
    convention = dataclasses.replace(CONVENTIONS["elf"], pad_with_eos=False)
    targets = np.zeros(ids.shape, bool)
    for row, _, stop, first in zip(*scoring_windows(lengths, 1024), strict=True):
        targets[row, first:stop] = True
    np.testing.assert_array_equal(targets_as(convention, ids, lengths, eos_id=EOS), targets)


@pytest.mark.parametrize(
    ("lengths", "context", "stride", "message"),
    [
        ([[3]], 4, None, "lengths must be 1-D integers"),
        ([3.0], 4, None, "lengths must be 1-D integers"),
        ([-1], 4, None, "cannot be negative, got -1"),
        ([3], 1, None, r"context must be in \[2, "),
        ([3], 4, 4, r"stride must be in \[1, 3\], got 4"),
        ([3], 4, True, "stride must be an integer"),
    ],
)
def test_bad_windows_are_named(lengths, context, stride, message):
    with pytest.raises(ValueError, match=message):
        scoring_windows(np.array(lengths), context, stride)
