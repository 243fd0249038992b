"""Gradient moment: brute force, closed forms, unbiasedness, standard errors, bad input."""

import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.metrics import (
    CountSketch,
    GradientStats,
    SketchedGradients,
    add_gradient_stats,
    gradient_moment,
    gradient_moment_by_tensor,
    gradient_moment_from_sketches,
    gradient_moment_stderr,
    uncentered_moment,
)

B, C, D = 5, 4, 6


def stats_of(rows, cuts=None):
    """Stats of gradients held as rows; `cuts` splits the columns into tensors t0, t1, …"""
    tensors = np.split(rows, cuts or [], axis=1)
    total = {f"t{i}": part.sum(axis=0) for i, part in enumerate(tensors)}
    norms = {f"t{i}": (part**2).sum() for i, part in enumerate(tensors)}
    return GradientStats(total, (rows**2).sum(), len(rows), norms, SketchedGradients(rows))


def brute_force(p, g):
    """Mean of <g_i - p_j, g_k - p_l> over all ordered disjoint pairs, i != k and j != l."""
    ordered = [itertools.permutations(range(len(x)), 2) for x in (g, p)]
    pairs = itertools.product(*ordered)
    return np.mean([(g[i] - p[j]) @ (g[k] - p[l]) for (i, k), (j, l) in pairs])


@pytest.fixture(scope="module")
def banks():
    rng = np.random.default_rng(0)
    return rng.normal(size=(B, D)), rng.normal(size=(C, D)) + 0.5


def test_all_pairs_equal_brute_force(banks):
    p, g = banks
    with jax.enable_x64(True):
        value = gradient_moment(stats_of(p), stats_of(g))
        assert value.shape == ()
        np.testing.assert_allclose(value, brute_force(p, g), rtol=1e-12)
        np.testing.assert_allclose(
            gradient_moment_from_sketches(SketchedGradients(p), SketchedGradients(g)),
            brute_force(p, g),
            rtol=1e-12,
        )
        plain = np.sum((p.mean(0) - g.mean(0)) ** 2)
        v = gradient_moment(stats_of(p), stats_of(g), unbiased=False)
        np.testing.assert_allclose(v, plain, rtol=1e-12)
        own = uncentered_moment(stats_of(p))
        products = [p[i] @ p[k] for i, k in itertools.permutations(range(B), 2)]
        np.testing.assert_allclose(own, np.mean(products), rtol=1e-12)


def test_forms(banks):
    p, g = map(stats_of, banks)
    value, own = gradient_moment(p, g), uncentered_moment(g)
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(
        gradient_moment(p, g, form="root"), np.sign(value) * np.sqrt(abs(value)), rtol=1e-6
    )
    np.testing.assert_allclose(gradient_moment(g, p, relative=True), value / own, rtol=1e-5)
    null = gradient_moment(p, p)
    assert null < 0
    np.testing.assert_allclose(gradient_moment(p, p, form="root"), -np.sqrt(-null), rtol=1e-6)
    ratio = gradient_moment(g, p, form="root", relative=True, unbiased=False)
    plain = gradient_moment(g, p, unbiased=False) / uncentered_moment(g, unbiased=False)
    np.testing.assert_allclose(ratio**2, plain, rtol=1e-5)


def test_identical_banks_give_minus_the_variance_of_their_means(banks):
    p, _ = banks
    trace = np.cov(p, rowvar=False).trace()
    np.testing.assert_allclose(gradient_moment(stats_of(p), stats_of(p)), -2 * trace / B, rtol=1e-5)
    assert gradient_moment(stats_of(p), stats_of(p), unbiased=False) == 0


def test_constant_banks_equal_the_v_statistic():
    p, g = np.tile([[3.0, 4, 0, 0, 0, 0]], (B, 1)), np.tile([[0.0, 8, 0, 0, 0, 0]], (C, 1))
    for unbiased in (True, False):
        assert gradient_moment(stats_of(p), stats_of(g), unbiased=unbiased) == 25
    sketches = SketchedGradients(p), SketchedGradients(g)
    assert gradient_moment_from_sketches(*sketches) == 25
    assert gradient_moment_stderr(*sketches) < 1e-5


def test_order_swap_scale_rotation_and_common_shift(banks):
    p, g = banks
    rng = np.random.default_rng(1)
    rotation, _ = np.linalg.qr(rng.normal(size=(D, D)))
    value = gradient_moment(stats_of(p), stats_of(g))
    for a, b in (
        (p[::-1], g[rng.permutation(C)]),
        (g, p),
        (p @ rotation, g @ rotation),
        (p + 7, g + 7),
    ):
        np.testing.assert_allclose(gradient_moment(stats_of(a), stats_of(b)), value, rtol=1e-4)
    np.testing.assert_allclose(
        gradient_moment(stats_of(3 * p), stats_of(3 * g)), 9 * value, rtol=1e-5
    )


def test_tensors_add_up_to_the_whole(banks):
    p, g = (stats_of(rows, [1, 4]) for rows in banks)
    for unbiased in (True, False):
        shares = gradient_moment_by_tensor(p, g, unbiased=unbiased)
        assert list(shares) == ["t0", "t1", "t2"]
        whole = gradient_moment(p, g, unbiased=unbiased)
        np.testing.assert_allclose(sum(shares.values()), whole, rtol=1e-5)
    alone = gradient_moment(*(stats_of(rows[:, 1:4]) for rows in banks))
    np.testing.assert_allclose(gradient_moment_by_tensor(p, g)["t1"], alone, rtol=1e-5)


def test_a_stack_of_layers_is_decomposed_by_layer(banks):
    stacked = []
    for rows in banks:
        layers = rows.reshape(-1, 3, 2)
        norms = (layers**2).sum(axis=(0, 2))
        stacked.append(GradientStats(layers.sum(0), norms.sum(), len(rows), norms))
    shares = gradient_moment_by_tensor(*stacked)
    flat = gradient_moment_by_tensor(*(stats_of(rows, [2, 4]) for rows in banks))
    np.testing.assert_allclose(shares, list(flat.values()), rtol=1e-5)


def test_shards_add_up(banks):
    p, g = banks
    shards = add_gradient_stats(stats_of(p[:2], [2]), stats_of(p[2:], [2]))
    whole = stats_of(p, [2])
    jax.tree.map(np.testing.assert_allclose, shards, whole)
    assert shards.num_batches == B
    by_shards = gradient_moment_stderr(shards, stats_of(g, [2]))
    assert by_shards == gradient_moment_stderr(whole, stats_of(g, [2]))


def test_unbiased_on_the_quadratic_model():
    """L = |x - w|^2 / 2 has the gradient w - x: the moment is |E x_G - E x_P|^2."""
    rng = np.random.default_rng(2)
    shift = np.array([0.3, -0.2, 0.0, 0.1, 0.0, 0.0])
    w = np.ones(D)
    # Batches of two samples; means of gradients are gradients of the mean loss.
    p = (w - rng.normal(size=(2000, B, 2, D))).mean(axis=2)
    g = (w - (shift + rng.normal(size=(2000, C, 2, D)) * [2, 1, 1, 1, 1, 0.5])).mean(axis=2)

    def stats(rows):
        return GradientStats(rows.sum(0), (rows**2).sum(), rows.shape[0])

    def moment(p, g, **options):
        return gradient_moment(stats(p), stats(g), **options)

    values = np.asarray(jax.vmap(moment)(p, g))
    truth = shift @ shift
    spread = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - truth) < 4 * spread
    assert (values < 0).mean() > 0.2  # so clipping would be a bias
    # The V-statistic is too large by tr Cov / B of either bank: by more than the truth here.
    plain = np.asarray(jax.vmap(lambda p, g: moment(p, g, unbiased=False))(p, g))
    bias = D / 2 / B + (8.25 / 2) / C
    assert abs(plain.mean() - truth - bias) < 4 * plain.std(ddof=1) / np.sqrt(len(plain))
    shares = values[:500].mean(), values[500:].mean()
    assert abs(shares[0] - shares[1]) < 8 * spread


def test_stderr_is_the_delete_one_jackknife(banks):
    def variance(leave_out, n):
        values = np.array([leave_out(np.arange(n) != i) for i in range(n)])
        return (n - 1) / n * np.sum((values - values.mean()) ** 2)

    p, g = banks
    expected = variance(lambda keep: brute_force(p[keep], g), B)
    expected += variance(lambda keep: brute_force(p, g[keep]), C)
    value = gradient_moment_stderr(stats_of(p), stats_of(g))
    assert value.shape == ()
    np.testing.assert_allclose(value, np.sqrt(expected), rtol=1e-5)


def test_stderr_predicts_the_spread_over_banks():
    rng = np.random.default_rng(3)
    p = rng.normal(size=(1000, 24, D)).astype(np.float32)
    g = 0.7 + rng.normal(size=(1000, 32, D)).astype(np.float32)
    pairs = SketchedGradients(p), SketchedGradients(g)
    axes = (SketchedGradients(0, None), SketchedGradients(0, None))
    spread = np.std(jax.vmap(gradient_moment_from_sketches, axes)(*pairs))
    predicted = np.mean(jax.vmap(gradient_moment_stderr, axes)(*pairs))
    assert 0.9 < predicted / spread < 1.15


def test_sketches_stand_in_for_gradients():
    rng = np.random.default_rng(4)
    p, g = rng.normal(size=(30, 3000)), rng.normal(size=(30, 3000)) + 0.3
    exact = SketchedGradients(p), SketchedGradients(g)
    sketch = CountSketch(num_buckets=1024, seed=5)
    rows = ([sketch(row) for row in bank.astype(np.float32)] for bank in (p, g))
    small = [SketchedGradients(np.stack(bank), 5) for bank in rows]
    value = gradient_moment_from_sketches(*exact)
    sketched = gradient_moment_from_sketches(*small)
    assert sketched != value
    assert abs(sketched / value - 1) < 4 * np.sqrt(2 / 1024)
    # 3,000 independent directions in 1,024 buckets inflate the error as documented.
    ratio = gradient_moment_stderr(*small) / gradient_moment_stderr(*exact)
    np.testing.assert_allclose(ratio, np.sqrt(1 + 3000 / 1024), rtol=0.15)


def test_float32_near_the_null_and_far_from_the_origin():
    rng = np.random.default_rng(6)
    common = 30 * rng.normal(size=4_000)
    p, g = (common + rng.normal(size=(40, 4_000)) for _ in range(2))
    g = g + 0.01
    within = [(x.sum(0) @ x.sum(0) - (x**2).sum()) / (40 * 39) for x in (p, g)]
    oracle = sum(within) - 2 * p.mean(0) @ g.mean(0)
    sketches = [SketchedGradients(x.astype(np.float32)) for x in (p, g)]
    stderr = gradient_moment_stderr(*sketches)
    assert abs(oracle) < 4 * stderr < 40
    # Sums rounded to float32 hold |S / B|^2 = 4e6 to seven digits, yet:
    narrow = [stats_of(x)._replace(total=x.sum(0).astype(np.float32)) for x in (p, g)]
    assert abs(gradient_moment(*narrow) - oracle) < 0.05 * stderr
    assert abs(gradient_moment_from_sketches(*sketches) - oracle) < 0.01 * stderr


def test_jit_and_grad(banks):
    p, g = (jax.tree.map(jnp.asarray, stats_of(rows, [2])) for rows in banks)
    value = gradient_moment(p, g)
    np.testing.assert_allclose(jax.jit(gradient_moment)(p, g), value, rtol=1e-5)
    shares = jax.jit(gradient_moment_by_tensor)(p, g)
    np.testing.assert_allclose(shares["t0"], gradient_moment_by_tensor(p, g)["t0"], rtol=1e-5)
    np.testing.assert_allclose(
        jax.jit(gradient_moment_stderr)(p, g), gradient_moment_stderr(p, g), rtol=1e-5
    )
    slope = jax.grad(lambda total: gradient_moment(p, g._replace(total=total)))(g.total)
    for name, value in slope.items():
        expected = 2 * g.total[name] / (C * (C - 1)) - 2 * p.total[name] / (B * C)
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-6)
    hidden = p._replace(total=p.total | {"t0": p.total["t0"] * jnp.nan})
    assert jnp.isnan(jax.jit(gradient_moment)(hidden, g))


def test_golden_gram(golden):
    recorded = json.loads(golden("gradient_moment/results.json").read_text())
    gram = np.load(golden("gradient_moment/banks.npz"))["gram"]
    # Any rows with these inner products will do.
    values, vectors = np.linalg.eigh(gram)
    rows = vectors * np.sqrt(np.maximum(values, 0))
    samples, data = rows[:8], rows[8:]
    single, double = recorded["id_path"], recorded["id_path_minibatch2"]
    with jax.enable_x64(True):
        p, g = stats_of(data), stats_of(samples)
        np.testing.assert_allclose(gradient_moment(p, g), single["U_all_pairs"], rtol=1e-10)
        np.testing.assert_allclose(uncentered_moment(g), single["U_GG"], rtol=1e-10)
        np.testing.assert_allclose(uncentered_moment(p), single["U_PP"], rtol=1e-10)
        v = gradient_moment(p, g, unbiased=False)
        np.testing.assert_allclose(v, single["V_statistic"], rtol=1e-10)
        p, g = (stats_of(x.reshape(4, 2, -1).mean(axis=1)) for x in (data, samples))
        np.testing.assert_allclose(gradient_moment(p, g), double["U"], rtol=1e-10)
        np.testing.assert_allclose(uncentered_moment(g), double["U_GG"], rtol=1e-10)
        # One disjoint pair a batch, as the package has it, is a moment of two batches a side
        # without its cross terms.
        halves = recorded["package_pairs_batch2"]["per_pair_centered_uncenteredS_uncenteredD"]
        centered = [(samples[i] - data[i]) @ (samples[i + 1] - data[i + 1]) for i in (0, 2, 4, 6)]
        np.testing.assert_allclose(centered, [pair[0] for pair in halves], rtol=1e-10)
        uncentered = [uncentered_moment(stats_of(samples[i : i + 2])) for i in (0, 2, 4, 6)]
        np.testing.assert_allclose(uncentered, [pair[1] for pair in halves], rtol=1e-10)


def test_blind_to_what_the_model_does_not_expect():
    """A unigram model at its optimum: the mean gradient of its own samples is that of the text.

    The gradient of a row's loss by the logits is the model's law minus the row's frequencies.
    The language alternates two pairs of letters without fail, the samples are noise, and the
    moment sees no difference; it does see a wrong letter frequency.
    """
    rng = np.random.default_rng(8)

    def gradients(rows):
        return 0.25 - (rows[:, :, None] == np.arange(4)).mean(axis=1)

    length, n = 10, 400
    pair = rng.integers(0, 2, (n, 1))
    language = 2 * pair + np.arange(length) % 2
    samples = rng.integers(0, 4, (n, length))
    skewed = rng.choice(4, (n, length), p=[0.4, 0.2, 0.2, 0.2])
    p, own, other = (stats_of(gradients(rows)) for rows in (language, samples, skewed))
    assert abs(gradient_moment(p, own)) < 4 * gradient_moment_stderr(p, own)
    assert gradient_moment(p, other) > 4 * gradient_moment_stderr(p, other)
    np.testing.assert_allclose(gradient_moment(p, other), 0.15**2 + 3 * 0.05**2, rtol=0.3)


GOOD = GradientStats({"a": np.array([2.0, 0.0])}, 4.0, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_batches": 1}, "generated.num_batches is 1: an integer of at least 2"),
        ({"num_batches": 2.5}, "generated.num_batches is 2.5"),
        ({"num_batches": np.array([2, 2])}, r"num_batches must be one number, got shape \(2,\)"),
        ({"squared_norm": np.nan}, "squared_norm must be a finite number >= 0, got nan"),
        ({"squared_norm": -1.0}, "squared_norm must be a finite"),
        ({"squared_norm": np.ones(2)}, "squared_norm must be one number"),
        ({"squared_norm": 1.0}, "which no batches give; total is the sum"),
        ({"total": {"b": np.ones(2)}}, r"only in reference: \[\"\['a'\]\"\]"),
        ({"total": {"a": np.ones(3)}}, r"generated.total\['a'\] \(3,\)"),
        ({"total": {"a": np.array([np.nan, 0])}}, "generated.total must be finite"),
        ({"total": {"a": np.array([np.inf, 0])}}, "generated.total must be finite"),
        ({"total": {"a": np.array([1e30, 0])}}, "overflow"),
        ({"total": {"a": np.array(["x", "y"])}}, "must hold real numbers"),
        ({"total": {"a": np.ones(2, complex)}}, "must hold real numbers"),
        ({"total": {"a": np.zeros((2, 0))}}, "is empty"),
        ({"total": {}}, "generated.total holds no arrays"),
    ],
)
def test_bad_stats_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        gradient_moment(GOOD, GOOD._replace(**change))


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="must be GradientStats, got ndarray"):
        gradient_moment(np.ones(3), GOOD)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="form must be 'squared' or 'root', got 'sq'"):
        gradient_moment(GOOD, GOOD, form="sq")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="uncentered moment, which is 0 "):
        gradient_moment(GOOD, GOOD, relative=True)
    with pytest.raises(ValueError, match="holds no sketches"):
        gradient_moment_stderr(GOOD, GOOD)
    with pytest.raises(ValueError, match=r"reference.tensor_squared_norms is None"):
        gradient_moment_by_tensor(GOOD, GOOD)
    for norms, message in (
        ({"b": 4.0}, "must be a tree like reference.total"),
        ({"a": np.ones(3)}, r"has shape \(3,\), the tensor \(2,\)"),
        ({"a": 5.0}, "add up to 5, but squared_norm is 4"),
    ):
        wrong = GOOD._replace(tensor_squared_norms=norms)
        with pytest.raises(ValueError, match=message):
            gradient_moment_by_tensor(wrong, wrong)


def test_bad_sketches_are_named(banks):
    p = SketchedGradients(banks[0])
    for wrong, message in (
        (SketchedGradients(banks[1], 1), "seeds 0 and 1"),
        (banks[1], "generated must be SketchedGradients, got ndarray"),
        (SketchedGradients(banks[1][:, :3]), "equally wide"),
        (SketchedGradients(banks[1][:1]), "at least"),
        (SketchedGradients(banks[1] * np.nan), "generated holds NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            gradient_moment_from_sketches(p, wrong)
    with pytest.raises(ValueError, match="at least 3 rows"):
        gradient_moment_stderr(p, SketchedGradients(banks[1][:2]))


def test_bad_shards_are_named(banks):
    whole = stats_of(banks[0])
    for wrong, message in (
        (whole._replace(sketches=None), "only one of a and b has sketches"),
        (whole._replace(tensor_squared_norms=None), "has tensor_squared_norms"),
        (whole._replace(sketches=SketchedGradients(np.ones((5, 2)))), "equally wide"),
        (whole._replace(sketches=SketchedGradients(banks[0], 3)), "seeds 0 and 3"),
        (stats_of(banks[0], [2]), "trees of the same tensors"),
    ):
        with pytest.raises(ValueError, match=message):
            add_gradient_stats(whole, wrong)


def test_root_of_zero_has_a_gradient():
    p = GradientStats(jnp.array([4.0, 0.0]), 10.0, 2)

    def root(total):
        return gradient_moment(p._replace(total=total), p, form="root", unbiased=False)

    assert np.isfinite(jax.grad(root)(p.total)).all()
