"""The permutation test of MAUVE: equal to clustering anew, calibrated, powerful, errors."""

import numpy as np
import pytest

from dlmeval.metrics import mauve, mauve_permutation_test, permutation_test

OPTIONS = {"num_clusters": 4, "seeds": (0, 1)}


def clouds(shift, seed, n=40, m=50, d=3):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    y[:, 0] += shift
    return x, y


def test_dealing_labels_equals_clustering_every_deal():
    x, y = clouds(0.5, 0)
    fast = mauve_permutation_test(x, y, num_permutations=19, seed=3, **OPTIONS)
    slow = permutation_test(
        lambda x, y: -mauve(x, y, **OPTIONS).value, x, y, num_permutations=19, seed=3
    )
    np.testing.assert_allclose(fast.null, -slow.null, rtol=1e-5)
    np.testing.assert_allclose(fast.value, mauve(x, y, **OPTIONS).value, rtol=1e-5)
    np.testing.assert_allclose(fast.null_mean, -slow.null_mean, rtol=1e-5)
    np.testing.assert_allclose(fast.null_sd, slow.null_sd, rtol=1e-3)
    assert fast.p_value == slow.p_value
    assert fast.null.shape == (19,)


def test_p_values_hold_their_level_and_have_power():
    def p_values(shift, trials):
        return np.array(
            [
                mauve_permutation_test(
                    *clouds(shift, trial), num_clusters=4, num_permutations=99, seed=trial
                ).p_value
                for trial in range(trials)
            ]
        )

    null = p_values(0.0, 150)
    for level in (0.1, 0.3, 0.5):
        # Histograms are discrete: ties make the test conservative, never too bold.
        assert np.mean(null <= level) < level + 3 * (level * (1 - level) / 150) ** 0.5
        assert np.mean(null <= level) > level - 0.05 - 3 * (level * (1 - level) / 150) ** 0.5
    assert (p_values(3.0, 8) == np.float32(0.01)).all()


def test_alike_and_bad_banks():
    x, y = clouds(0.0, 0)
    alike = mauve_permutation_test(x, x, num_permutations=9, **OPTIONS)
    assert alike.value == alike.p_value == 1
    with pytest.warns(UserWarning, match="wants at least 100 rows"):
        mauve_permutation_test(x, y, num_clusters=10, num_permutations=2)
    with pytest.raises(ValueError, match="num_clusters must be in"):
        mauve_permutation_test(x, y, num_clusters=1)
    with pytest.raises(ValueError, match="num_permutations must be at least 2"):
        mauve_permutation_test(x, y, num_permutations=0)
