"""Bootstrap intervals: the spec's goldens, all resamples by hand, coverage, refusals."""

import itertools
import math

import numpy as np
import pytest

from dlmeval.evals import InputError, bootstrap_interval, range_warning
from dlmeval.evals.statistics.bootstrap import resampled_means

GOLDEN = {
    "G1": (0.22334, 0.29600, 0.36866),
    "G2": (0.2429, 0.2663, 0.3788),
    "G3": (0.243, 0.289, 0.356),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_three_seeds_give_the_range_of_the_data(name):
    differences = GOLDEN[name]
    interval = bootstrap_interval(differences)
    assert interval == (min(differences), max(differences), 10)
    assert "bounded by the data range" in range_warning(interval, differences)
    assert "10 distinct" in range_warning(interval, differences)


def test_golden_g5_by_interpolating_the_27_means():
    interval = bootstrap_interval((0.2338, 0.2794, 0.3763), quantile="linear")
    assert (round(interval.low, 4), round(interval.high, 4)) == (0.2437, 0.3553)
    assert range_warning(interval, (0.2338, 0.2794, 0.3763)) is None


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_enumeration_is_every_ordered_resample(n, level):
    values = np.random.default_rng(n).gamma(1.0, size=n)
    means = np.sort([np.mean(pick) for pick in itertools.product(values, repeat=n)])
    tail = (1 - level) / 2
    # The inverted CDF at q is the smallest mean that a share q of all does not exceed.
    low, high = (means[max(math.ceil(round(q * n**n, 9)) - 1, 0)] for q in (tail, 1 - tail))
    interval = bootstrap_interval(values, level=level)
    assert interval[:2] == pytest.approx((low, high), rel=1e-12)
    assert interval.num_unique == math.comb(2 * n - 1, n)
    linear = bootstrap_interval(values, level=level, quantile="linear")
    assert linear[:2] == pytest.approx(np.quantile(means, [tail, 1 - tail]), rel=1e-12)


def test_the_range_warning_follows_the_chance_of_the_extremes():
    # All draws equal the minimum with probability n^-n.
    for n, level, bounded in [(3, 0.95, True), (3, 0.9, False), (4, 0.95, False), (4, 0.995, True)]:
        values = np.arange(n) ** 2.0
        interval = bootstrap_interval(values, level=level)
        assert (range_warning(interval, values) is not None) == bounded


def test_random_resamples_approach_the_normal_interval():
    values = np.random.default_rng(0).normal(size=2_000)
    interval = bootstrap_interval(values)
    stderr = values.std() / math.sqrt(len(values))
    expected = values.mean() - 1.96 * stderr, values.mean() + 1.96 * stderr
    assert interval[:2] == pytest.approx(expected, abs=0.1 * stderr)
    assert interval.num_unique == math.comb(3_999, 2_000)


def test_thousands_of_rows_can_still_be_printed():
    values = np.arange(8_000.0)
    interval = bootstrap_interval(values, num_resamples=20)
    assert "num_unique=about 10^4814" in repr(interval)
    assert "num_unique=10)" in repr(bootstrap_interval(values[:3]))
    assert "about 10^4814" in range_warning(bootstrap_interval(0 * values), 0 * values)


def test_seeds_decide_random_resamples_and_nothing_else():
    values = np.random.default_rng(1).normal(size=9)
    first = bootstrap_interval(values, seed=3)
    assert first == bootstrap_interval(values, seed=3)
    assert first != bootstrap_interval(values, seed=4)
    assert bootstrap_interval(values[:5], seed=3) == bootstrap_interval(values[:5], seed=4)


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("n", [4, 12])
def test_intervals_move_and_stretch_with_the_data(method, n):
    values = np.random.default_rng(2).gamma(1.0, size=n)
    low, high, _ = bootstrap_interval(values, method=method)
    moved = bootstrap_interval(3 * values - 7, method=method)
    assert moved[:2] == pytest.approx((3 * low - 7, 3 * high - 7), rel=1e-9)
    mirrored = bootstrap_interval(-values, method=method, quantile="linear")
    low, high, _ = bootstrap_interval(values, method=method, quantile="linear")
    # Random resamples are the same picks for both signs.
    assert mirrored[:2] == pytest.approx((-high, -low), rel=1e-9)


def test_bca_of_symmetric_data_is_the_percentile_interval():
    values = [-3.0, -1.0, 0.0, 1.0, 3.0]
    assert bootstrap_interval(values, method="bca") == bootstrap_interval(values)


def test_bca_leans_towards_the_long_tail():
    values = np.random.default_rng(4).gamma(0.5, size=40)
    plain, bca = bootstrap_interval(values), bootstrap_interval(values, method="bca")
    assert bca.low > plain.low
    assert bca.high > plain.high


def test_bca_covers_a_skewed_mean_better():
    """Gamma(1/2) samples of 20: the percentile interval misses its mean too often."""
    draws = np.random.default_rng(6).gamma(0.5, size=(300, 20))
    covered = {"percentile": 0, "bca": 0}
    for values in draws:
        for method in covered:
            low, high, _ = bootstrap_interval(values, method=method, num_resamples=1_000)
            covered[method] += low <= 0.5 <= high
    assert 0.80 * 300 < covered["percentile"] < covered["bca"] < 0.96 * 300


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("n", [3, 8])
def test_equal_values_have_an_interval_of_no_width(method, n):
    values = [0.1 + 0.2] * n
    interval = bootstrap_interval(values, method=method)
    assert interval[:2] == (0.1 + 0.2, 0.1 + 0.2)
    assert range_warning(interval, values) is not None


def test_a_steep_level_stays_inside_the_data():
    values = [0.0] * 11 + [1e6]
    low, high, _ = bootstrap_interval(values, method="bca", level=1 - 1e-12)
    assert 0 <= low <= high <= 1e6


@pytest.mark.parametrize("n", [4, 9])
def test_further_axes_are_resampled_together(n):
    values = np.random.default_rng(7).normal(size=(n, 2, 3))
    values[:, 1] = 2 * values[:, 0] + 1
    means, weights = resampled_means(values, num_resamples=50)
    assert means.shape[1:] == (2, 3)
    assert weights.sum() == (n**n if n == 4 else 50)
    np.testing.assert_allclose(means[:, 1], 2 * means[:, 0] + 1, rtol=1e-12)


@pytest.mark.parametrize(
    ("values", "options", "match"),
    [
        ([0.1], {}, "at least 2"),
        (None, {}, "differences is missing"),
        ([0.1, math.nan], {}, r"differences\[1\] is nan"),
        ([0.1, 0.2], {"level": 95}, "level=95"),
        ([0.1, 0.2], {"level": 0}, "level=0"),
        ([0.1, 0.2], {"method": "basic"}, "percentile, bca"),
        ([0.1, 0.2], {"quantile": "enum"}, "inverted_cdf, linear"),
        (range(9), {"num_resamples": 0}, "num_resamples=0"),
        (range(9), {"num_resamples": 1.5}, "num_resamples=1.5"),
    ],
)
def test_bad_input_is_refused(values, options, match):
    with pytest.raises(InputError, match=match):
        bootstrap_interval(values, **options)


@pytest.mark.parametrize("scale", [1e-140, 1e-120, 1e140])
def test_bca_has_no_unit(scale):
    values = np.array([0.0, 0.1, 0.3, 0.4, 1.2, 3.0])
    plain = bootstrap_interval(values, method="bca", num_resamples=500)
    scaled = bootstrap_interval(values * scale, method="bca", num_resamples=500)
    assert np.allclose(np.array(scaled[:2]) / scale, plain[:2], rtol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"level": None},
        {"level": "0.95"},
        {"num_resamples": math.inf},
        {"num_resamples": math.nan},
        {"num_resamples": None},
        {"seed": None},
        {"seed": -1},
        {"seed": 0.5},
    ],
)
def test_options_that_are_no_numbers_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        bootstrap_interval([1.0, 2, 3, 4, 5, 7], **options)
