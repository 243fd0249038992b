"""The study end to end on a toy scorer: pools, draws, resuming, and every metric's names."""

import dataclasses
import itertools
import types

import numpy as np
import pytest

from dlmeval.evals import Sources
from dlmeval.evals.calibration import banks, damage, mixture
from dlmeval.evals.calibration.ladders import UNITS, ladders
from dlmeval.evals.calibration.language import ALPHABET, Rows, decode, king_james
from dlmeval.evals.calibration.measures import MEASURES, Context, directions, usual_measures
from dlmeval.evals.calibration.study import SMALL, Settings, run_study
from dlmeval.evals.calibration.summary import ladder_names, summarise
from dlmeval.evals.corpora import Corpus
from dlmeval.metrics import fit_training_index

CHEAP = ("gen_ppl_oracle", "gen_ppl", "energy_distance", "distinct_3", "ngram_novelty")
TINY = dataclasses.replace(SMALL, measures=CHEAP)


def toy_scorer():
    """Two characters a token; hidden states are fixed directions of the ids."""
    directions = np.random.default_rng(0).normal(size=(4096, 6)).astype(np.float32)

    def encode(text):
        return [32 * ALPHABET.index(a) + ALPHABET.index(b or " ") for a, b in _pairs(text)]

    def hidden(ids, lengths):
        return directions[ids]

    def nll(ids, lengths, mask):
        return (mask * (1 + ids % 3)).sum(axis=1).astype(np.float32), mask.sum(axis=1)

    tokenizer = types.SimpleNamespace(encode=encode)
    return types.SimpleNamespace(nll=nll, hidden=hidden, tokenizer=tokenizer, eos_id=None)


def _pairs(text):
    return itertools.zip_longest(text[::2], text[1::2])


@pytest.fixture(scope="module")
def sources():
    words = np.random.default_rng(1).choice(
        "the and of; that in. he: shall unto for, his a'lord they jazz queen be is".split(), 4000
    )
    documents = (" ".join(words[:2000]), " ".join(words[2000:]))
    return Sources(
        load_scorer=lambda _: toy_scorer(), load_corpus=lambda name: Corpus(name, documents, "")
    )


@pytest.fixture(scope="module")
def language(sources):
    return damage.Language(king_james(sources)[0], 16)


@pytest.fixture(scope="module")
def finished(sources, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    lines = []
    return folder, run_study(folder, TINY, sources=sources, progress=lines.append), lines


def test_every_ladder_is_measured(finished):
    folder, records, lines = finished
    assert ladder_names(records) == list(UNITS)
    assert len(lines) == len(records) == 1 + 4 * len(UNITS)
    for record in records:
        draws = TINY.clean_draws if record["ladder"] == "clean" else TINY.draws
        assert set(record["values"]["24"]) == set(CHEAP)
        assert all(len(v) == draws[0] for v in record["values"]["24"].values())
    assert not list(folder.rglob("*.part"))
    assert {row.name for row in summarise(records)} == set(CHEAP)


def test_the_truth_rises_along_every_ladder(finished):
    for name in UNITS:
        steps = [r["truth"] for r in finished[1] if r["ladder"] == name]
        for divergence in ("variation", "invented"):
            values = [s[divergence]["value"] for s in steps if s[divergence]["value"] is not None]
            assert values == sorted(values), (name, divergence)


def test_a_full_copy_of_one_string_is_seen_by_all_that_look(finished):
    rows = {row.name: row for row in summarise(finished[1])}
    for name in ("energy_distance", "distinct_3"):
        assert rows[name].detection["24"]["periodic"].power[-1] == 1
    assert rows["ngram_novelty"].detection["24"]["copying"].power[-1] == 1


def test_a_second_run_measures_nothing_and_a_lost_law_comes_back(finished, sources):
    folder, records, _ = finished
    lines = []
    assert run_study(folder, TINY, sources=sources, progress=lines.append) == records
    assert not lines
    lost = sorted((folder / "laws").glob("*noise.json"))[1]
    lost.unlink()
    again = run_study(folder, TINY, sources=sources, progress=lines.append)
    assert len(lines) == 1
    for before, after in zip(records, again):
        assert {**before, "seconds": 0} == {**after, "seconds": 0}


def test_a_workdir_keeps_to_its_settings(finished, sources, tmp_path):
    other = dataclasses.replace(TINY, seed=1)
    with pytest.raises(ValueError, match="differs in seed"):
        run_study(finished[0], other, sources=sources)
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(ValueError, match="other files"):
        run_study(tmp_path, TINY, sources=sources)


def test_settings_are_checked():
    with pytest.raises(ValueError, match=r"\['nonsense'\]"):
        Settings(measures=("nonsense",))
    with pytest.raises(ValueError, match="a value for each size"):
        Settings(sizes=(8,))


def test_rows_are_scored_alike_in_either_shape(language):
    rows = language.draw(20, np.random.default_rng(2))
    whole = banks.score_rows(rows, language.oracle, toy_scorer())
    long = damage.Language(language.oracle, 80).draw(20, np.random.default_rng(3))
    bank = banks.score_rows(long, language.oracle, toy_scorer())  # 40 tokens: the wider shape
    assert (whole.token_lengths == 8).all()
    assert (bank.token_lengths == 40).all()
    assert [d.decode() for d in bank.documents] == list(decode(long))
    np.testing.assert_allclose(bank.oracle_nll, language.oracle.nll(*long)[0])
    np.testing.assert_array_equal(whole.num_tokens, 7)
    np.testing.assert_allclose(
        whole.pooled[0], toy_scorer().hidden(whole.tokens[0, :8], None).mean(axis=0), rtol=1e-5
    )


def test_bigram_features_are_linear_in_the_pairs_of_a_row():
    ids = np.array([[0, 1, 2, 0], [1, 2, 0, 0]], np.int32)
    found = banks.projected_bigrams(Rows(ids, np.array([4, 3])), 32)
    pairs = {
        (a, b): banks.projected_bigrams(Rows(np.array([[a, b]], np.int32), np.array([2])), 32)[0]
        for a, b in ((0, 1), (1, 2), (2, 0))
    }
    np.testing.assert_allclose(found[0], sum(pairs.values()) / 3, rtol=1e-5)
    np.testing.assert_allclose(found[1], (pairs[1, 2] + pairs[2, 0]) / 2, rtol=1e-5)


def test_banks_of_mixtures_take_both_pools(language):
    rng = np.random.default_rng(4)
    clean = banks.score_rows(language.draw(200, rng), language.oracle, toy_scorer())
    one = mixture.Atoms(np.zeros((1, 16), np.int32))
    own = banks.score_rows(one.draw(1, rng), language.oracle, toy_scorer())
    law = mixture.Mixture(language, one, 0.3)
    recipe = banks.recipe_of(law, own, clean)
    shares = [
        np.mean((banks.draw_bank(recipe, clean, 100, rng).ids == 0).all(axis=1)) for _ in range(50)
    ]
    assert np.mean(shares) == pytest.approx(0.3, abs=4 * 0.046 / np.sqrt(50))
    law = damage.Avoiding(language, (ALPHABET.index("t"),))
    kept = banks.draw_bank(banks.recipe_of(law, None, clean), clean, 20, rng)
    assert not (kept.ids == ALPHABET.index("t")).any()
    assert len(np.unique(kept.ids, axis=0)) == 20  # without replacement
    with pytest.raises(ValueError, match="raise pool_rows"):
        banks.draw_bank(banks.recipe_of(law, None, clean), clean, 200, rng)


def test_ladders_rise_and_name_their_units(sources, language):
    _, documents = king_james(sources)
    found = ladders(language, documents, seed=0)
    assert list(found) == list(UNITS)
    for levels in found.values():
        sizes = [level.size for level in levels]
        assert sizes == sorted(sizes)
        assert sizes[0] > 0
        assert len(sizes) == 4
    again = ladders(language, documents, seed=0)
    same, other = found["copying"][0].law.other.ids, again["copying"][0].law.other.ids
    np.testing.assert_array_equal(same, other)


def test_measures_are_told_apart_by_name():
    names = [name for measure in MEASURES.values() for name in measure.directions]
    assert len(set(names)) == len(names)
    assert set(directions().values()) == {"up", "down", None}
    assert "gradient_moment" not in usual_measures()


@pytest.mark.slow
def test_every_usual_measure_gives_the_numbers_it_names(language):
    rng = np.random.default_rng(5)
    scorer = toy_scorer()
    one, other = (
        banks.score_rows(language.draw(40, rng), language.oracle, scorer) for _ in range(2)
    )
    context = Context(fit_training_index(one.ids), scorer)
    for name in usual_measures():
        found = MEASURES[name].compute(one, other, context)
        assert set(MEASURES[name].directions) <= set(found), name
        assert all(np.isfinite(float(found[key])) for key in MEASURES[name].directions), name
