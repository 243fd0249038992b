"""The null band: disjoint halves, quantiles, closed forms, MAUVE, bad input."""

import jax
import numpy as np
import pytest
from scipy.spatial.distance import pdist

from dlmeval.metrics import energy_distance, frechet_distance, mauve, null_band


def test_both_sides_are_disjoint_and_of_the_size_asked_for():
    seen = []

    def statistic(x, y):
        assert len(x) == len(y) == 6
        both = np.concatenate([x, y]).ravel()
        assert len(set(both)) == 12
        seen.append(frozenset(x.ravel()))
        return x.mean() - y.mean()

    band = null_band(statistic, np.arange(20.0)[:, None], size=6, num_draws=30)
    assert len(seen) == 30
    assert len(set(seen)) > 25
    assert set().union(*seen) == set(range(20))
    assert band.values.shape == (30,)
    assert all(field.shape == () for field in band[:4])


def test_numbers_follow_from_the_values():
    rows = np.random.default_rng(0).normal(size=(24, 3))
    band = null_band(energy_distance, rows, num_draws=50, level=0.8)
    np.testing.assert_allclose(
        [band.low, band.high], np.quantile(band.values, [0.1, 0.9]), rtol=1e-5
    )
    np.testing.assert_allclose(band.mean, np.mean(band.values), rtol=1e-5)
    np.testing.assert_allclose(band.sd, np.std(band.values, ddof=1), rtol=1e-5)
    compiled = null_band(energy_distance, rows, num_draws=50, level=0.8, compiled=True)
    np.testing.assert_allclose(compiled.values, band.values, rtol=1e-4)
    other = null_band(energy_distance, rows, num_draws=50, seed=1)
    assert (other.values != band.values).any()


def test_the_mean_of_the_energy_distance_in_closed_form():
    """Over all pairs of parts the V-statistic has the mean 2 D / size, D the mean distance."""
    rows = np.random.default_rng(1).normal(size=(30, 2))
    mean = pdist(rows).mean()
    for size in (5, 15):
        band = null_band(energy_distance, rows, size=size, num_draws=400, compiled=True)
        assert abs(band.mean - 2 * mean / size) < 4 * band.sd / 20
        assert band.low < band.mean < band.high


def test_a_shift_leaves_the_band_and_a_fresh_bank_does_not():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(120, 4))
    band = null_band(frechet_distance, rows, size=40, num_draws=60, compiled=True)
    fresh, shifted = rng.normal(size=(40, 4)), rng.normal(size=(40, 4)) + 1
    assert frechet_distance(rows[:40], fresh) < band.mean + 5 * band.sd
    assert frechet_distance(rows[:40], shifted) > band.high + 5 * band.sd


def test_mauve_beside_its_band():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(120, 6))
    band = null_band(
        lambda x, y: mauve(x, y, num_clusters=4, seeds=(0, 1)).value, rows, size=50, num_draws=20
    )
    assert 0.8 < band.low <= band.mean <= band.high <= 1
    shifted = np.concatenate([2 + rng.normal(size=(50, 3)), rng.normal(size=(50, 3))], axis=1)
    assert mauve(rows[:50], shifted, num_clusters=4).value < band.low


def test_trees_and_identical_rows():
    tree = (np.arange(12), np.arange(12) * 2)

    def statistic(x, y):
        np.testing.assert_array_equal(2 * x[0], x[1])
        return abs(x[0].mean() - y[1].mean() / 2)

    assert null_band(statistic, tree, num_draws=5).values.shape == (5,)
    constant = null_band(energy_distance, np.ones((8, 2)), num_draws=3)
    assert constant.low == constant.high == constant.sd == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 5}, r"size must lie in 1\.\.4, half of the 9 rows.*got 5"),
        ({"size": 0}, "size must lie in"),
        ({"num_draws": 1}, "num_draws must be at least 2"),
        ({"level": 1.0}, r"level must be a number in \(0, 1\), got 1\.0"),
        ({"level": "a"}, r"level must be a number in \(0, 1\), got 'a'"),
        ({"seed": -1}, "seed must be at least 0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        null_band(lambda x, y: 0.0, np.ones((9, 2)), **options)


def test_bad_rows_and_statistics_are_named():
    with pytest.raises(ValueError, match="rows must be an array"):
        null_band(lambda x, y: 0.0, np.ones((0, 2)))
    with pytest.raises(ValueError, match=r"size must lie in 1\.\.0"):
        null_band(lambda x, y: 0.0, np.ones((1, 2)))
    with pytest.raises(ValueError, match="rows holds NaN"):
        null_band(lambda x, y: 0.0, np.full((4, 2), np.nan))
    with pytest.raises(ValueError, match="statistic gave inf"):
        null_band(lambda x, y: np.inf, np.ones((4, 2)))
    with pytest.raises(ValueError, match="only compiled=True"):
        jax.jit(lambda x: null_band(energy_distance, x).mean)(np.ones((4, 2)))
