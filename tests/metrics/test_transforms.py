"""One table of the metrics that promise to live inside JAX programs, and what that promise means.

Each runs under `jax.jit` and `jax.vmap` with the same result, has the derivative that finite
differences give where the mathematics has one, and matches an oracle in NumPy float64: to 1e-4
relative in float32, to 1e-9 under x64, on banks that are hard for float32 too.
"""

import collections
import functools
import importlib
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from scipy.special import rel_entr

from dlmeval import metrics

# n > d; n < d, wide enough for distances to be matrix products; d = 1. Never n = m.
TALL, WIDE, FLAT = (14, 11, 6), (7, 9, 24), (12, 10, 1)


def banks(case, shape, seed=0):
    """Two banks of one kind, of laws far enough apart that their distance is not rounding."""
    n, m, d = shape
    rng = np.random.default_rng([seed, n, d])
    x, y = rng.normal(size=(n, d)), 1.3 * rng.normal(size=(m, d)) + 0.8

    def copies(bank, noise):
        copied = np.repeat(bank[: len(bank) // 3 + 1], 3, axis=0)[: len(bank)]
        return copied + noise * rng.normal(size=bank.shape)

    return {
        "plain": (x, y),
        "large common offset": (x + 1e3, y + 1e3),
        "tiny scale": (1e-4 * x, 1e-4 * y),
        "duplicated rows": (copies(x, 0), copies(y, 0)),
        "near-duplicates": (copies(x, 1e-4), copies(y, 1e-4)),
    }[case]


HARD = ("plain", "large common offset", "tiny scale", "duplicated rows", "near-duplicates")


def contrast(kernel, x, y, unbiased=False):
    """E k(X, X') + E k(Y, Y') - 2 E k(X, Y)."""

    def within(z):
        values = kernel(z, z)
        if unbiased:
            return (values.sum() - np.trace(values)) / (len(z) * (len(z) - 1))
        return values.mean()

    return within(x) + within(y) - 2 * kernel(x, y).mean()


def energy_oracle(x, y):
    return -contrast(cdist, x, y)


def half_median(x):
    return np.median(pdist(x, "sqeuclidean")) / 2


def mmd_oracle(x, y, bandwidth=None):
    bandwidth = half_median(x) if bandwidth is None else bandwidth
    return contrast(lambda u, v: np.exp(-cdist(u, v, "sqeuclidean") / (2 * bandwidth)), x, y, False)


def kernel_oracle(x, y):
    # At a common offset of 1e3 the cubes cancel ten digits: more than float64 can spare.
    x, y = x.astype(np.longdouble), y.astype(np.longdouble)
    return float(contrast(lambda u, v: (u @ v.T / u.shape[1] + 1) ** 3, x, y, True))


def frechet_oracle(x, y):
    a, b = ((z - z.mean(0)) / math.sqrt(len(z) - 1) for z in (x, y))
    nuclear = np.linalg.svd(a @ b.T, compute_uv=False).sum()
    return np.sum((x.mean(0) - y.mean(0)) ** 2) + np.sum(a**2) + np.sum(b**2) - 2 * nuclear


def sliced_oracle(x, y):
    """Directions are the module's, the transport is not: equal numbers of copies, sorted."""
    module = importlib.import_module("dlmeval.metrics.sliced_wasserstein")
    key, dtype = jax.random.key(0), jnp.result_type(float)
    directions = np.asarray(module._directions(key, 64, x.shape[1], dtype), np.float64)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1, rtol=1e-6)
    copies = [np.repeat(z @ directions.T, k, axis=0) for z, k in ((x, len(y)), (y, len(x)))]
    return np.mean((np.sort(copies[0], axis=0) - np.sort(copies[1], axis=0)) ** 2)


def manifold_oracle(x, y):
    def radii(z):
        return np.sort(cdist(z, z), axis=1)[:, 3][:, None]  # column 0 is the row itself

    in_x, in_y = (cdist(x, y) <= radii(x) * (1 + 1e-9)), (cdist(y, x) <= radii(y) * (1 + 1e-9))
    return metrics.ManifoldScores(
        in_x.any(0).mean(), in_y.any(0).mean(), in_x.sum(0).mean() / 3, in_x.any(1).mean()
    )


class TwoSample(NamedTuple):
    function: Callable
    oracle: Callable
    differentiable: bool = True


def with_options(function, oracle, **options):
    return TwoSample(functools.partial(function, **options), functools.partial(oracle, **options))


TWO_SAMPLE = {
    "energy": TwoSample(metrics.energy_distance, energy_oracle),
    # The default bandwidth, from outside: it is slow to compile, and tested where it is made.
    "mmd": TwoSample(lambda x, y: metrics.mmd(x, y, bandwidth=half_median(x)), mmd_oracle),
    "frechet": TwoSample(metrics.frechet_distance, frechet_oracle),
    "kernel": TwoSample(metrics.kernel_distance, kernel_oracle),
    "sliced": TwoSample(
        functools.partial(metrics.sliced_wasserstein, num_projections=64), sliced_oracle
    ),
    "manifold": TwoSample(
        functools.partial(metrics.precision_recall, num_neighbors=3), manifold_oracle, False
    ),
}


# Compilation is what costs: shapes that add no route to a metric are left out.
SHAPES = {
    "energy": (WIDE, FLAT),
    "mmd": (WIDE, FLAT),
    "frechet": (TALL, WIDE, FLAT),
    "kernel": (WIDE, FLAT),
    "sliced": (WIDE,),
    "manifold": (WIDE, FLAT),
}


@pytest.mark.parametrize(("name", "shape"), [(n, s) for n in SHAPES for s in SHAPES[n]], ids=str)
def test_float32_matches_a_float64_oracle_on_hard_banks(name, shape):
    metric = TWO_SAMPLE[name]
    for case in HARD:
        x, y = (bank.astype(np.float32) for bank in banks(case, shape))
        value = metric.function(x, y)
        expected = metric.oracle(x.astype(np.float64), y.astype(np.float64))
        for got in jax.tree.leaves(value):
            assert got.dtype == jnp.float32
        np.testing.assert_allclose(value, expected, rtol=1e-4, err_msg=case)


@pytest.mark.parametrize("name", [name for name in TWO_SAMPLE if name != "sliced"])
def test_float64_matches_the_oracle_to_rounding(name):
    """(`sliced_wasserstein` has the same test in a file of its own: sorts compile slowly.)"""
    metric = TWO_SAMPLE[name]
    with jax.enable_x64(True):
        for case in HARD:
            x, y = banks(case, WIDE)
            value = metric.function(x, y)
            for got in jax.tree.leaves(value):
                assert got.dtype == jnp.float64
            np.testing.assert_allclose(value, metric.oracle(x, y), rtol=1e-9, err_msg=case)


# The other metrics, with arguments and oracle of their own.


def entropies_oracle(ids, lengths):
    def entropy(items):
        share = np.array(list(collections.Counter(items).values())) / len(items)
        return float(-np.sum(share * np.log(share)))

    rows = [tuple(row[:size]) for row, size in zip(ids.tolist(), lengths, strict=True)]
    longest = max(map(len, rows))
    columns = [[row[t] for row in rows if t < len(row)] for t in range(longest)]
    uni_rows = [entropy(row) for row in rows]
    pos = [entropy(column) for column in columns]
    corrected = [h + (len(set(c)) - 1) / (2 * len(c)) for h, c in zip(pos, columns, strict=True)]
    joint = entropy(rows)
    return metrics.Entropies(
        np.mean(uni_rows),
        np.array(uni_rows),
        entropy([token for row in rows for token in row]),
        np.mean(pos),
        np.mean(corrected),
        joint / longest,
        np.sum(pos) - joint,
    )


def mauve_oracle(p, q):
    p, q = p / p.sum(), q / q.sum()
    points: list[tuple[float, ...]] = [(1, 0)]
    for w in np.linspace(1e-6, 1 - 1e-6, 25):
        mixture = w * p + (1 - w) * q
        points.append(tuple(math.exp(-5 * rel_entr(h, mixture).sum()) for h in (q, p)))
    x, y = np.array([*points, (0, 1)]).T

    def area(x, y):
        order = np.lexsort((-y, x))
        return np.trapezoid(y[order], x[order])

    return (area(x, y) + area(y, x)) / 2


def perplexity_oracle(nll, num_tokens, aggregate):
    rates = nll / num_tokens
    return {
        "token": math.exp(nll.sum() / num_tokens.sum()),
        "sample": np.exp(rates).mean(),
        "macro": math.exp(rates.mean()),
    }[aggregate]


def mask_oracle(ids, lengths):
    """The words of the definition as a loop; id 2 is the end of text."""
    mask = np.zeros(ids.shape, bool)
    for row, size, scored in zip(ids, lengths, mask, strict=True):
        for t in range(1, size):
            scored[t] = row[t] != 2 or 2 not in row[:t]
    return mask


def draw_ids(rng):
    return rng.integers(0, 4, (9, 5)).astype(np.int32), rng.integers(1, 6, 9).astype(np.int32)


def draw_sums(rng):
    counts = rng.integers(1, 30, 8).astype(np.int32)
    return (counts * rng.uniform(1, 4, 8)).astype(np.float32), counts


def draw_histograms(rng):
    return tuple(rng.integers(1, 50, 12).astype(np.float32) for _ in range(2))


WHITENING = metrics.fit_whitening(
    np.random.default_rng(8).normal(size=(30, 6)) * np.arange(1, 7) + 3, 4
)


class Metric(NamedTuple):
    function: Callable
    oracle: Callable
    draw: Callable
    differentiable: tuple[int, ...] = ()


METRICS = {
    "entropies": Metric(metrics.entropies, entropies_oracle, draw_ids),
    "target_mask": Metric(
        lambda ids, lengths: metrics.target_mask(ids, lengths, 2), mask_oracle, draw_ids
    ),
    "mauve_from_histograms": Metric(
        metrics.mauve_from_histograms, mauve_oracle, draw_histograms, (0, 1)
    ),
    "adjusted_perplexity": Metric(
        metrics.adjusted_perplexity,
        lambda perplexity, entropy: perplexity / np.exp(entropy),
        lambda rng: (np.float32(rng.uniform(5, 50)), np.float32(rng.uniform(0, 5))),
        (0, 1),
    ),
    "Whitening.transform": Metric(
        lambda x: WHITENING.transform(x),
        lambda x: (x - WHITENING.mean) @ WHITENING.components / WHITENING.scales,
        lambda rng: (rng.normal(size=(7, 6)).astype(np.float32),),
        (0,),
    ),
} | {
    f"generative_perplexity, {aggregate}": Metric(
        functools.partial(metrics.generative_perplexity, aggregate=aggregate),
        functools.partial(perplexity_oracle, aggregate=aggregate),
        draw_sums,
        (0,),
    )
    for aggregate in ("token", "sample", "macro")
}


def draw_banks(rng):
    return tuple(bank.astype(np.float32) for bank in banks("plain", WIDE, rng.integers(2**32)))


# Derivatives take the bandwidth as a constant, so here it is one.
FIXED = with_options(metrics.mmd, mmd_oracle, bandwidth=5.0)
METRICS |= {
    name: Metric(
        metric.function, metric.oracle, draw_banks, (0, 1) if metric.differentiable else ()
    )
    for name, metric in (TWO_SAMPLE | {"mmd": FIXED}).items()
}


def in_float64(arguments, module=jnp):
    return [module.asarray(a, "float64" if a.dtype == np.float32 else None) for a in arguments]


def close(got, expected, rtol):
    got, expected = jax.tree.leaves(got), jax.tree.leaves(expected)
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", METRICS)
def test_jit_of_vmap_equals_a_loop_of_plain_calls_and_the_oracle(name):
    metric = METRICS[name]
    batch = [metric.draw(np.random.default_rng(seed)) for seed in range(3)]
    stacked = [jnp.stack(column) for column in zip(*batch, strict=True)]
    mapped = jax.jit(jax.vmap(metric.function))(*stacked)
    for i, arguments in enumerate(batch):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], mapped)
        close(one, metric.oracle(*map(np.asarray, in_float64(arguments, np))), 1e-4)
        if name != "entropies":  # compared with a plain call in a file of its own
            close(one, metric.function(*arguments), 1e-5)


@pytest.mark.parametrize("name", [n for n in METRICS if n not in (*TWO_SAMPLE, "entropies")])
def test_x64_agrees_with_the_oracle_to_rounding(name):
    """(`entropies` has the same test in a file of its own.)"""
    metric = METRICS[name]
    with jax.enable_x64(True):
        arguments = in_float64(metric.draw(np.random.default_rng(3)))
        # Inside jit: what is computed on the host is float64 anyway.
        got = jax.jit(metric.function)(*arguments)
        close(got, metric.oracle(*map(np.asarray, arguments)), 1e-9)


@pytest.mark.parametrize("name", [n for n, metric in METRICS.items() if metric.differentiable])
def test_gradient_is_what_finite_differences_give(name):
    metric = METRICS[name]
    rng = np.random.default_rng(4)
    with jax.enable_x64(True):
        arguments = in_float64(metric.draw(rng))

        def scalar(*arguments):
            value = jnp.asarray(metric.function(*arguments))
            # Vector-valued metrics through a fixed mixture of their entries.
            return jnp.vdot(value, np.cos(np.arange(value.size)).reshape(value.shape))

        derivative = jax.jit(jax.value_and_grad(scalar, argnums=metric.differentiable))
        gradients = derivative(*arguments)[1]
        for argument, gradient in zip(metric.differentiable, gradients, strict=True):
            direction = rng.normal(size=arguments[argument].shape)

            def moved(step, argument=argument, direction=direction):
                shifted = list(arguments)
                shifted[argument] = shifted[argument] + step * direction
                return float(derivative(*shifted)[0])

            slope = (moved(1e-5) - moved(-1e-5)) / 2e-5
            np.testing.assert_allclose(np.vdot(gradient, direction), slope, rtol=1e-6, atol=1e-9)


def test_one_whitening_serves_both_precisions_in_one_process():
    """Its float64 fields are constants of two programs, one of which takes them as float32."""
    x = np.random.default_rng(6).normal(size=(7, 6))
    function = METRICS["Whitening.transform"].function
    close(jax.jit(function)(x.astype(np.float32)), function(x), 1e-4)
    with jax.enable_x64(True):
        close(jax.jit(function)(x), METRICS["Whitening.transform"].oracle(x), 1e-9)
