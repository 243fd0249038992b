"""Damaged laws and their divergences against enumeration of every string of a tiny language."""

import itertools
import math

import numpy as np
import pytest

from dlmeval import samplers
from dlmeval.evals.calibration import damage, mixture
from dlmeval.evals.calibration.language import (
    ALPHABET,
    Rows,
    decode,
    draw_chain,
    encode,
    estimate_language,
    full_rows,
)
from dlmeval.evals.calibration.truth import truth
from dlmeval.evals.sampling.sampler_error import g_test, random_language
from dlmeval.models import MarkovOracle

V, L = 3, 4


def language(order=2):
    return damage.Language(random_language(V, order=order, concentration=1.0, seed=5), L)


def naive(name, size, **options):
    rng = np.random.default_rng(0)
    counts = samplers.corpus_counts([rng.choice(V, size=200, p=[0.5, 0.3, 0.2])], ngram=3)
    draw = getattr(samplers, name)
    weights = np.zeros(V)
    weights[counts.tokens[:size]] = counts.token_counts[:size] / counts.token_counts[:size].sum()

    def sampler(num, seed):
        return draw(counts, size, length=L, num_samples=num, seed=seed)

    if name == "phrase_bank":
        return mixture.Phrases(sampler, counts.phrases[:size], L)
    if name == "periodic":
        return mixture.Atoms(sampler(1, 0))
    return mixture.Independent(sampler, weights, L, **options)


def laws(lang):
    """Every damage at a middling level, and those whose extreme is another case."""
    bank = draw_chain(lang.chain, 5, L, np.random.default_rng(2)).ids
    parts = {
        "copies": mixture.Atoms(np.concatenate([bank, bank[:2]])),
        "periodic": naive("periodic", 2),
        "cut": mixture.CutShort(lang, 2),
        "topk": naive("topk_iid", 2),
        "mirror": naive("mirror", V, mirrored=True),
        "phrases": naive("phrase_bank", 4),
    }
    found = {f"{k} {s}": mixture.Mixture(lang, p, s) for k, p in parts.items() for s in (0.3, 1.0)}
    found |= {"cold": damage.Tempered(lang, 0.6), "hot": damage.Tempered(lang, 2.0)}
    found |= {"noise": damage.Noisy(lang, 0.2), "all noise": damage.Noisy(lang, 1.0)}
    found |= {"pairs": damage.Shuffled(lang, 2, 0.5), "whole": damage.Shuffled(lang, 4, 1.0)}
    found |= {"dropped": damage.Avoiding(lang, (1,)), "one less": damage.Avoiding(lang, (2,))}
    return found


NAMES = list(laws(language()))


def everything():
    """All rows of at most L ids that a law here can write."""
    ids, lengths = [], []
    for size in range(2, L + 1):
        for row in itertools.product(range(V), repeat=size):
            ids.append(row + (0,) * (L - size))
            lengths.append(size)
    return Rows(np.array(ids, np.int32), np.array(lengths, np.int32))


def enumerated(p, q):
    """KL both ways, TV and entropy by sums over all rows."""

    def divergence(a, b):
        if (b[a > 0] == 0).any():
            return np.inf
        return float(a[a > 0] @ np.log(a[a > 0] / b[a > 0])) / L

    entropy = -float(q[q > 0] @ np.log(q[q > 0])) / L
    return divergence(p, q), divergence(q, p), 0.5 * np.abs(p - q).sum(), entropy


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_every_truth_equals_enumeration(name, order):
    lang = language(order)
    law, rows = laws(lang)[name], everything()
    p, q = np.exp(lang.log_prob(rows)), np.exp(law.log_prob(rows))
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert q.sum() == pytest.approx(1, abs=1e-12)
    found = truth(law, lang, num=4000, rng=np.random.default_rng(1))
    for known, expected in zip(found, enumerated(p, q)):
        if known.how == "infinite":
            assert math.isinf(expected)
        elif known.how == "exact":
            assert known.value == pytest.approx(expected, rel=1e-9, abs=1e-12)
        else:
            assert abs(known.value - expected) <= 4.5 * known.stderr + 1e-9
            assert known.stderr < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_draws_follow_the_law(name):
    """A G-test of draws over all rows; none of them may be impossible."""
    law, rows = laws(language())[name], everything()
    drawn = law.draw(6000, np.random.default_rng(3))
    assert np.isfinite(law.log_prob(drawn)).all()
    index = {(*row, n): i for i, (*row, n) in enumerate(np.c_[rows.ids, rows.lengths].tolist())}
    places = [index[tuple(row)] for row in np.c_[drawn.ids, drawn.lengths].tolist()]
    counts = np.bincount(places, minlength=len(rows.ids))
    assert g_test(counts, np.exp(law.log_prob(rows))).p > 1e-4


def test_which_truths_are_exact_sampled_and_infinite():
    lang = language()
    rng = np.random.default_rng(0)
    how = {n: [k.how for k in truth(w, lang, num=200, rng=rng)] for n, w in laws(lang).items()}
    assert how["cold"] == ["exact", "exact", "sampled", "exact"]
    assert how["noise"] == how["pairs"] == ["sampled"] * 4
    assert how["dropped"] == ["infinite", "exact", "exact", "exact"]
    assert how["copies 0.3"] == ["exact"] * 4
    assert how["copies 1.0"] == ["infinite", "exact", "exact", "exact"]
    assert how["cut 0.3"] == ["exact", "infinite", "exact", "exact"]
    assert how["topk 1.0"][0] == "infinite"


def test_level_zero_is_no_damage():
    lang = language()
    found = truth(lang, lang, num=2, rng=np.random.default_rng(0))
    assert [known.value for known in found[:3]] == [0, 0, 0]
    for law in (damage.Tempered(lang, 1.0), damage.Noisy(lang, 0.0), damage.Shuffled(lang, 2, 0.0)):
        rows = everything()
        np.testing.assert_allclose(law.log_prob(rows), lang.log_prob(rows), rtol=1e-12)


def test_the_estimated_language_approaches_the_one_that_wrote_the_text():
    real = random_language(V, order=2, concentration=2.0, seed=8)
    text = draw_chain(damage.Language(real, 40_000).chain, 2, 40_000, np.random.default_rng(4)).ids
    found = estimate_language(list(text), V, smoothing=1.0)
    np.testing.assert_allclose(found.transition, real.transition, atol=0.03)
    assert found.transition.min() > 0  # every string is possible
    assert isinstance(found, MarkovOracle)


def test_unseen_contexts_fall_back_on_shorter_ones():
    """Triples 012 121 212 120 201: id 3 never occurs, so (3, 1) is followed as 1 is."""
    found = estimate_language([np.array([0, 1, 2, 1, 2, 0, 1])], 4, smoothing=1.0)
    single = (np.array([1, 2, 2, 0]) + 1 / 4) / 6
    np.testing.assert_allclose(found.transition[3, 1], (np.array([0, 0, 2, 0]) + single) / 3)


def test_text_goes_through_the_alphabet_and_back():
    text = "In the beginning (God) created!  The heaven - and 'earth': 7;"
    clean = "in the beginning ,god, created. the heaven and 'earth': ;"
    assert decode(full_rows(encode(text)[None])) == (clean,)
    assert decode(Rows(encode(text)[None], np.array([6]))) == ("in the",)
    assert len(ALPHABET) == 32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda g: damage.Shuffled(g, 3, 0.5), "window=3"),
        (lambda g: damage.Shuffled(g, 1, 0.5), "window=1"),
        (lambda g: mixture.CutShort(g, 4), "shortest=4"),
        (lambda g: truth(g, g, num=1, rng=np.random.default_rng(0)), "num=1"),
        (lambda g: draw_chain(g.chain, 2, 1, np.random.default_rng(0)), "length=1"),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make(language())
