"""PCA whitening: identity covariance, no leakage, oracle, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.metrics import energy_distance, fit_whitening


def bank(n=200, d=24, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ np.diag(1 / np.arange(1, d + 1)) + 5


def test_reference_gets_mean_zero_and_identity_covariance():
    x = bank()
    whitening = fit_whitening(x, 16)
    z = whitening.transform(x)
    assert z.shape == (200, 16)
    assert z.dtype == jnp.float32
    np.testing.assert_allclose(np.mean(z, axis=0), np.zeros(16), atol=1e-5)
    np.testing.assert_allclose(np.cov(np.asarray(z).T), np.eye(16), atol=1e-4)


def test_matches_the_covariance_eigendecomposition():
    x = bank()
    whitening = fit_whitening(x, 10)
    values, vectors = np.linalg.eigh(np.cov(x.T))
    np.testing.assert_allclose(whitening.scales**2, values[::-1][:10], rtol=1e-10)
    overlap = np.abs(np.sum(whitening.components * vectors[:, ::-1][:, :10], axis=0))
    np.testing.assert_allclose(overlap, np.ones(10), atol=1e-9)
    # Signs are fixed, so a refit gives the same coordinates.
    assert (np.max(whitening.components, axis=0) == np.abs(whitening.components).max(axis=0)).all()


def test_fewer_rows_than_columns():
    x = bank(n=20, d=50)
    with jax.enable_x64(True):
        z = fit_whitening(x, 19).transform(x)
        np.testing.assert_allclose(np.cov(np.asarray(z).T), np.eye(19), atol=1e-8)


def test_other_banks_never_change_the_fit():
    x = bank()
    whitening = fit_whitening(x, 8)
    before = [np.copy(field) for field in whitening]
    first = whitening.transform(bank(seed=1)[:7])
    whitening.transform(100 * bank(seed=2))
    assert all((a == b).all() for a, b in zip(before, whitening, strict=True))
    np.testing.assert_array_equal(first, whitening.transform(bank(seed=1)[:7]))
    np.testing.assert_allclose(first[:1], whitening.transform(bank(seed=1)[:1]), atol=1e-5)


def test_affine_maps_of_the_features_do_not_change_distances():
    x, y = bank(d=6), bank(d=6, seed=1) + 0.2
    mixing = np.random.default_rng(3).normal(size=(6, 6)) + 3 * np.eye(6)

    def distance(x, y):
        whitening = fit_whitening(x, 6)
        return energy_distance(whitening.transform(x), whitening.transform(y))

    np.testing.assert_allclose(distance(x, y), distance(x @ mixing - 1, y @ mixing - 1), rtol=1e-3)


def test_transform_runs_under_jit_and_vmap():
    x = jnp.asarray(bank(), jnp.float32)
    whitening = fit_whitening(x, 5)
    expected = whitening.transform(x)
    np.testing.assert_allclose(
        jax.jit(lambda whitening, x: whitening.transform(x))(whitening, x), expected, atol=1e-5
    )
    halves = jax.vmap(whitening.transform)(x.reshape(2, 100, 24))
    np.testing.assert_allclose(halves.reshape(200, 5), expected, atol=1e-5)


def test_refusals_name_the_argument():
    x = bank()
    with pytest.raises(ValueError, match=r"num_components must be in \[1, 24\]"):
        fit_whitening(x)
    with pytest.raises(ValueError, match=r"num_components must be in \[1, 24\]"):
        fit_whitening(x, 0)
    with pytest.raises(ValueError, match="reference has 10 rows, but num_components=10"):
        fit_whitening(x[:10], 10)
    flat = np.concatenate([x[:, :4], x[:, :4] @ np.ones((4, 6))], axis=1)
    with pytest.raises(ValueError, match="reference varies in 4 directions only"):
        fit_whitening(flat, 5)
    with pytest.raises(ValueError, match="reference varies in 0 directions only"):
        fit_whitening(np.ones((9, 4)), 2)
    with pytest.raises(ValueError, match="reference holds NaN"):
        fit_whitening(np.where(x > 6, np.nan, x), 4)
    with pytest.raises(ValueError, match="24 columns"):
        fit_whitening(x, 4).transform(x[:, :5])
