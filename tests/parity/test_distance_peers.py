"""Energy distance, MMD, Fréchet and sliced Wasserstein beside dcor, scikit-learn and SciPy."""

import importlib.util

import jax
import numpy as np
import pytest

from dlmeval.metrics import (
    energy_distance,
    frechet_distance,
    kernel_distance,
    median_squared_distance,
    mmd,
    sliced_wasserstein,
)

pytestmark = pytest.mark.parity

rng = np.random.default_rng(5)
BANKS = {
    "narrow": (rng.normal(size=(60, 4)), 1.2 * rng.normal(size=(45, 4)) + 0.3),
    "wide": (rng.normal(size=(40, 64)), rng.normal(size=(50, 64)) + 0.2),
}
BANKS["wide"][1][20:] = BANKS["wide"][1][20]  # copies of a row


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.skipif(importlib.util.find_spec("dcor") is None, reason="dcor is not installed")
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("name", BANKS)
def test_energy_distance(name, unbiased, peers):
    expected = peers.dcor_energy(*BANKS[name], unbiased=unbiased)
    value = float(energy_distance(*BANKS[name], unbiased=unbiased))
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("name", BANKS)
def test_mmd(name, unbiased, peers):
    pytest.importorskip("sklearn")
    x, y = BANKS[name]
    bandwidth = peers.sklearn_half_median(x)
    assert float(median_squared_distance(x)) == pytest.approx(2 * bandwidth, rel=1e-9)
    expected = peers.sklearn_mmd(x, y, bandwidth=bandwidth, unbiased=unbiased)
    assert float(mmd(x, y, unbiased=unbiased)) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    expected = peers.sklearn_mmd(x, y, bandwidth=3.0, unbiased=unbiased)
    value = float(mmd(x, y, bandwidth=3.0, unbiased=unbiased))
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("name", BANKS)
def test_kernel_distance(name, unbiased, peers):
    pytest.importorskip("sklearn")
    expected = peers.sklearn_kid(*BANKS[name], unbiased=unbiased)
    value = float(kernel_distance(*BANKS[name], unbiased=unbiased))
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_frechet_distance(peers):
    """The matrix square root is exact to 1e-6 where covariances are regular, and only there."""
    assert float(frechet_distance(*BANKS["narrow"])) == pytest.approx(
        peers.sqrtm_frechet(*BANKS["narrow"]), rel=1e-6
    )
    assert float(frechet_distance(*BANKS["wide"])) == pytest.approx(
        peers.sqrtm_frechet(*BANKS["wide"]), rel=1e-3
    )


def test_one_dimension(peers):
    x, y = rng.normal(size=37), rng.exponential(size=52)
    columns = x[:, None], y[:, None]
    assert float(energy_distance(*columns)) == pytest.approx(peers.scipy_energy(x, y), rel=1e-9)
    value = float(sliced_wasserstein(*columns, order=1, num_projections=3))
    assert value == pytest.approx(peers.scipy_wasserstein(x, y), rel=1e-9)
