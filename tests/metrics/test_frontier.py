"""The divergence frontier: golden values, closed forms, gradients, bad histograms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from scipy import integrate

from dlmeval.metrics import frontier_integral_from_histograms, mauve_from_histograms

GOLDEN = [
    ([1, 0], [0, 1], 0.0040720962619612555),
    ([0.5, 0.5, 0], [0.25, 0.25, 0.5], 0.2781137253672403),
    ([0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], 0.6538536633533254),
    (np.eye(102)[0], np.ones(102) / 102, 0.005307504426674405),
]


@pytest.mark.parametrize(("p", "q", "value"), GOLDEN)
def test_golden_values_of_histograms(p, q, value):
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    single = mauve_from_histograms(p, q)
    assert single.shape == ()
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, value, rtol=1e-4)
    np.testing.assert_allclose(jax.jit(mauve_from_histograms)(p, q), value, rtol=1e-4)
    with jax.enable_x64(True):
        np.testing.assert_allclose(mauve_from_histograms(p, q), value, rtol=0, atol=1e-10)
        np.testing.assert_allclose(mauve_from_histograms(q, p), value, rtol=0, atol=1e-10)
        counts = mauve_from_histograms(1000 * p, 10 * q)
        np.testing.assert_allclose(counts, value, rtol=0, atol=1e-10)


@pytest.mark.parametrize("k", [1, 2, 3, 13, 102])
def test_equal_histograms_give_exactly_one(k):
    rng = np.random.default_rng(k)
    for _ in range(5):
        p = rng.multinomial(100, np.ones(k) / k)
        assert mauve_from_histograms(p, p) == 1
        assert mauve_from_histograms(p / 100, p / 100) == 1
        assert jax.jit(mauve_from_histograms)(p / 100, p / 100) == 1


def test_disjoint_histograms_tend_to_the_beta_integral():
    p, q = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    with jax.enable_x64(True):
        # The frontier is w^5, (1 - w)^5, so the area is 5 B(6, 5) = 0.00396825.
        fine = mauve_from_histograms(p, q, num_points=4001)
        np.testing.assert_allclose(fine, 1 / 252, rtol=1e-4)
        # With scale 1 the frontier is the diagonal, traced exactly by trapezoids.
        np.testing.assert_allclose(mauve_from_histograms(p, q, scale=1.0), 0.5, atol=1e-6)


def test_values_are_ordered_and_bounded():
    base = np.array([0.4, 0.3, 0.2, 0.1])
    mixed = [mauve_from_histograms(base, (1 - t) * base + t * base[::-1]) for t in (0, 0.3, 0.6, 1)]
    assert (np.diff(mixed) < 0).all()
    assert mixed[0] == 1
    rng = np.random.default_rng(0)
    banks = rng.dirichlet(np.full(5, 0.2), size=(2, 20))
    values = jax.vmap(mauve_from_histograms)(*banks.astype(np.float32))
    assert values.shape == (20,)
    assert (values > 0).all()
    assert (values <= 1).all()
    singles = [mauve_from_histograms(p, q) for p, q in zip(*banks)]
    np.testing.assert_allclose(values, singles, rtol=1e-4)


def test_histogram_gradients():
    # One bin is equal in both: the exact mixture there must keep its derivative.
    p, q = np.array([0.1, 0.3, 0.2, 0.4]), np.array([0.3, 0.3, 0.2, 0.2])
    with jax.enable_x64(True):
        check_grads(mauve_from_histograms, (jnp.asarray(p), jnp.asarray(q)), order=1, modes=["rev"])
    touching = jax.grad(mauve_from_histograms)(jnp.asarray([1.0, 0.0]), jnp.asarray([0.0, 1.0]))
    assert jnp.isfinite(touching).all()


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ([0.5, 0.5], [1.0], "equal lengths"),
        ([[0.5, 0.5]], [1.0, 0], "p must be a 1-D histogram"),
        ([0.5, -0.5], [1.0, 0], "p must hold finite, non-negative"),
        ([0.5, 0.5], [0.0, 0], "q must hold finite"),
        ([0.5, 0.5], [np.nan, 1], "q must hold finite"),
    ],
)
def test_bad_histograms_are_named(p, q, message):
    with pytest.raises(ValueError, match=message):
        mauve_from_histograms(np.array(p), np.array(q))


def test_bad_histogram_options_are_named():
    p = np.array([0.5, 0.5])
    with pytest.raises(ValueError, match="scale must be positive"):
        mauve_from_histograms(p, p, scale=0.0)
    with pytest.raises(ValueError, match="num_points must be at least 1"):
        mauve_from_histograms(p, p, num_points=0)


def test_a_star_of_disjoint_banks_in_closed_form():
    """MAUVE* of two banks in one cluster each: the histograms (n + 1/2, 1/2) / (n + 1)."""
    n = 7
    with jax.enable_x64(True):
        value = mauve_from_histograms(np.array([n + 0.5, 0.5]), np.array([0.5, n + 0.5]))
        weights = np.linspace(1e-6, 1 - 1e-6, 25)
        p = np.array([n + 0.5, 0.5]) / (n + 1)
        mixtures = weights[:, None] * p + (1 - weights)[:, None] * p[::-1]
        x = np.exp(-5 * (p[::-1] * np.log(p[::-1] / mixtures)).sum(1))
        y = np.exp(-5 * (p * np.log(p / mixtures)).sum(1))
        x, y = np.r_[1, x, 0], np.r_[0, y, 1]
        np.testing.assert_allclose(value, -np.trapezoid(y, x), rtol=0, atol=1e-12)


def test_frontier_integral_closed_forms():
    integral = frontier_integral_from_histograms
    p, q = np.array([3.0, 1.0, 0.0]), np.array([1.0, 3.0, 4.0])
    assert integral(p, p) == 0
    assert integral(np.array([1, 0]), np.array([0, 5])) == 1
    # (1, 0) and (a, 1 - a): the shared bin leaves (1 + a) / 2 + a log(a) / (1 - a).
    a = 0.25
    shared = a * np.log(1 / a) / (1 - a)
    expected = (1 + a) / 2 - shared + (1 - a) / 2
    got = integral(np.array([1, 0]), np.array([a, 1 - a]))
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    np.testing.assert_allclose(integral(p, q), integral(q, p), rtol=1e-6)
    np.testing.assert_allclose(integral(p, q), integral(p / 4, q / 8), rtol=1e-6)

    def integrand(w):
        a, b = p / p.sum(), q / q.sum()
        mixture = w * a + (1 - w) * b
        kl = [np.sum(h[h > 0] * np.log(h[h > 0] / mixture[h > 0])) for h in (a, b)]
        return 2 * (w * kl[0] + (1 - w) * kl[1])

    with jax.enable_x64(True):
        expected, _ = integrate.quad(integrand, 0, 1, epsabs=1e-12)
        np.testing.assert_allclose(integral(p, q), expected, rtol=1e-9)
        inside = jnp.asarray([0.2, 0.3, 0.5]), jnp.asarray([0.3, 0.3, 0.4])
        check_grads(integral, inside, order=1, modes=["rev"])
    with pytest.raises(ValueError, match="equal lengths"):
        integral(p, q[:2])


def test_frontier_integral_of_close_and_of_far_apart_histograms():
    rng = np.random.default_rng(0)
    p = rng.random(200)
    for gap in (1e-3, 1e-2, 0.15, 0.25, 0.9):
        q = p * (1 + gap * rng.uniform(-1, 1, 200))
        a, b = p / p.sum(), q / q.sum()
        exact = np.sum((a + b) / 2 - a * b * (np.log(a) - np.log(b)) / (a - b))
        ours = float(frontier_integral_from_histograms(p.astype(np.float32), q.astype(np.float32)))
        # What is left is the rounding of the histograms themselves to float32.
        assert ours == pytest.approx(exact, rel=1e-3 if gap < 0.01 else 1e-4)
    for counts in ([1e-9, 1.0], [1.0, 1e8]):
        ours = float(frontier_integral_from_histograms(np.array(counts), np.array(counts[::-1])))
        assert 0.99 < ours <= 1
