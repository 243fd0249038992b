"""Features: batch-size invariance, pads that do not count, and a cache named after content."""

import dataclasses
import itertools

import numpy as np
import pytest

from dlmeval.evals import Sample, read_bank, write_bank
from dlmeval.evals.scoring.features import FeatureKey, cached_features, compute_features

TEXTS = ("and the lord", "said", "", "unto moses speak", "x")


@pytest.fixture(scope="module")
def scorer(toy):
    return toy.toy_scorer()


@pytest.fixture(scope="module")
def features(scorer):
    return compute_features(TEXTS, scorer, 12, batch_size=8)


def test_texts_are_tokenised_and_cut(toy, features):
    assert features.lengths.tolist() == [12, 4, 0, 12, 1]
    assert features.ids[3].tolist() == toy.Letters().encode("unto moses s")
    assert features.num_tokens.tolist() == [11, 3, 0, 11, 0]


def test_likelihoods_are_those_of_each_text_alone(toy, scorer, features):
    for row, text in enumerate(TEXTS):
        ids = toy.Letters().encode(text)[:12]
        expected = 0.0
        for before, after in itertools.pairwise(ids):
            embed = np.asarray(scorer.params["embed"], np.float64)
            logits = embed[before] @ np.asarray(scorer.params["left"], np.float64) @ embed.T
            expected += np.log(np.exp(logits).sum()) - logits[after]
        assert features.nll[row] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_pooling_is_the_mean_over_valid_positions(scorer, features):
    hidden = np.asarray(scorer.hidden(features.ids, features.lengths))
    assert np.allclose(features.pooled[1], hidden[1, :4].mean(0), atol=1e-6)
    assert not features.pooled[2].any()


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_features_do_not_depend_on_the_batch(scorer, features, batch_size):
    other = compute_features(TEXTS, scorer, 12, batch_size=batch_size)
    for one, two in zip(features, other, strict=True):
        assert np.allclose(one, two, rtol=1e-6, atol=1e-6)


def test_the_cache_is_read_back_without_the_scorer(tmp_path, scorer, features):
    write_bank(tmp_path / "bank", {}, [Sample([1], text, 0, True) for text in TEXTS])
    bank = read_bank(tmp_path / "bank")
    key = FeatureKey(bank.digest, "weights", 12)
    first = cached_features(tmp_path / "features", bank, scorer, key, batch_size=8)
    again = cached_features(tmp_path / "features", bank, None, key, batch_size=8)
    for one, two, three in zip(first, again, features, strict=True):
        assert np.array_equal(one, two)
        assert np.array_equal(one, three)
    assert [p.name for p in (tmp_path / "features").iterdir()] == [key.name]


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(FeatureKey)])
def test_everything_a_feature_depends_on_is_in_its_name(field):
    key = FeatureKey("bank", "model", 12)
    changed = dataclasses.replace(key, **{field: 13 if field == "max_tokens" else "other"})
    assert changed.name != key.name


def test_scores_that_are_not_finite_are_refused(toy):
    scorer = toy.toy_scorer()
    scorer.hidden = lambda ids, lengths: np.full((*ids.shape, 2), np.nan)
    with pytest.raises(ValueError, match="pooled that is not finite for text 0"):
        compute_features(TEXTS, scorer, 12, batch_size=8)


@pytest.mark.parametrize("fault", ["cut", "edited"])
def test_a_changed_cache_entry_is_refused(tmp_path, scorer, fault):
    write_bank(tmp_path / "bank", {}, [Sample([1], text, 0, True) for text in TEXTS])
    bank = read_bank(tmp_path / "bank")
    key = FeatureKey(bank.digest, "weights", 12)
    cached_features(tmp_path / "features", bank, scorer, key, batch_size=8)
    path = tmp_path / "features" / key.name
    data = path.read_bytes()
    path.write_bytes(data[:-4] if fault == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ValueError, match=f"{key.name} (is damaged|was edited).*delete it"):
        cached_features(tmp_path / "features", bank, scorer, key, batch_size=8)
