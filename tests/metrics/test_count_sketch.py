"""CountSketch: unbiased inner products of known variance, linearity, stability, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.metrics import CountSketch, count_sketch

M, SEEDS = 64, 600


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(0)
    # Loud neighbours, a constant tensor, tensors smaller and larger than a sketch.
    loud = rng.normal(size=(25, 40)) * np.where(np.arange(40) == 7, 20, 1)
    a = {"w": loud.astype(np.float32), "b": np.full(10, 3, np.float32)}
    other = {"w": rng.normal(size=(25, 40)).astype(np.float32), "b": np.ones(10, np.float32)}
    b = {name: 0.5 * a[name] + 4 * other[name] for name in a}
    return a, b


@pytest.fixture(scope="module")
def sketched(vectors):
    sketches = [CountSketch(M, seed) for seed in range(SEEDS)]
    return [np.stack([np.asarray(sketch(x)) for sketch in sketches]) for x in vectors]


def inner(a, b):
    return sum(float(np.sum(a[name].astype(float) * b[name])) for name in a)


def test_inner_products_are_unbiased_with_the_documented_variance(vectors, sketched):
    pairs = [(0, 0), (0, 1), (1, 1)]
    for i, j in pairs:
        a, b = vectors[i], vectors[j]
        estimates = np.sum(sketched[i].astype(float) * sketched[j], axis=1)
        truth = inner(a, b)
        bound = np.sqrt((inner(a, a) * inner(b, b) + truth**2) / M)
        assert abs(estimates.mean() - truth) < 4 * bound / np.sqrt(SEEDS)
        assert 0.5 * bound < estimates.std() < 1.15 * bound


def test_a_unit_vector_lands_anywhere_with_either_sign():
    tensor = np.zeros((25, 40), np.float32)
    tensor[11, 3] = 1
    rows = np.stack([np.asarray(CountSketch(M, seed)(tensor)) for seed in range(SEEDS)])
    assert (np.abs(rows).sum(axis=1) == 1).all()
    counts = np.abs(rows).sum(axis=0)
    chi_square = ((counts - SEEDS / M) ** 2).sum() / (SEEDS / M)
    assert chi_square < M - 1 + 4 * np.sqrt(2 * (M - 1))
    assert abs(rows.sum()) < 4 * np.sqrt(SEEDS)


def test_linear(vectors):
    a, b = vectors
    sketch = CountSketch(M, 3)
    mixed = sketch({name: 2 * a[name] - b[name] for name in a})
    np.testing.assert_allclose(mixed, 2 * sketch(a) - sketch(b), rtol=1e-4, atol=1e-3)


def test_names_tell_tensors_apart(vectors):
    ones, sketch = np.ones((25, 40), np.float32), CountSketch(M)
    one, other = sketch({"a": ones}), sketch({"b": ones})
    assert not np.array_equal(one, other)
    both = sketch({"a": ones, "b": ones})
    np.testing.assert_allclose(both, one + other, rtol=1e-6)
    assert not np.array_equal(one, CountSketch(M, 1)({"a": ones}))


def test_shapes_and_chunks_do_not_matter(monkeypatch):
    tensor = np.arange(96 * M + 5, dtype=np.float32) % 17
    whole = CountSketch(M)(tensor)
    np.testing.assert_array_equal(CountSketch(M)(tensor.reshape(-1, 1)), whole)
    monkeypatch.setattr(count_sketch, "_CHUNK_ENTRIES", 32 * M)
    count_sketch._sketch.clear_cache()
    np.testing.assert_allclose(CountSketch(M)(tensor), whole, atol=1e-3)
    count_sketch._sketch.clear_cache()


def test_widths_that_are_no_power_of_two_keep_norms():
    tensor = np.random.default_rng(1).normal(size=3000).astype(np.float32)
    squares = [float(jnp.sum(CountSketch(61, seed)(tensor) ** 2)) for seed in range(60)]
    assert abs(np.mean(squares) / np.sum(tensor**2) - 1) < 4 * np.sqrt(2 / 61 / 60)
    assert CountSketch(1)(tensor).shape == (1,)


def test_sketches_never_change():
    """Reference sketches are kept on disk: another hash would break them without a word."""
    row = CountSketch(8, 2)({"w": np.arange(1, 21, dtype=np.float32)})
    assert row.tolist() == [21.0, -15.0, 13.0, 4.0, -13.0, -24.0, -37.0, 19.0]


def test_wide_and_narrow_types():
    sketch = CountSketch(8)
    tensor = np.arange(20)
    for dtype in (np.int32, np.float16, jnp.bfloat16, np.float32):
        row = sketch(tensor.astype(dtype))
        assert row.dtype == jnp.float32
        np.testing.assert_array_equal(row, sketch(tensor.astype(np.float32)))
    with jax.enable_x64(True):
        assert sketch(tensor.astype(np.float64)).dtype == jnp.float64


def test_jit_vmap_and_grad(vectors):
    a, _ = vectors
    sketch = CountSketch(M, 3)
    row = sketch(a)
    np.testing.assert_allclose(jax.jit(sketch)(a), row, rtol=1e-5, atol=1e-4)
    pair = jax.tree.map(lambda x: jnp.stack([x, 2 * x]), a)
    np.testing.assert_allclose(jax.vmap(sketch)(pair), [row, 2 * row], rtol=1e-5, atol=1e-3)
    # The derivative of |Pa|^2 / 2 is P'Pa, whose product with a is |Pa|^2.
    slope = jax.grad(lambda x: jnp.sum(sketch(x) ** 2) / 2)(a)
    np.testing.assert_allclose(inner(jax.tree.map(np.asarray, slope), a), row @ row, rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_buckets": 0}, r"num_buckets must be an integer in \[1, "),
        ({"num_buckets": 2.5}, "num_buckets .* got 2.5"),
        ({"num_buckets": True}, "num_buckets .* got True"),
        ({"seed": -1}, "seed must be an integer"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        CountSketch(**options)


def test_bad_trees_are_named():
    with pytest.raises(ValueError, match="holds no arrays"):
        CountSketch(8)({})
    with pytest.raises(ValueError, match=r"gradient\['w'\] has 0 entries"):
        CountSketch(8)({"w": np.zeros((0, 3))})
