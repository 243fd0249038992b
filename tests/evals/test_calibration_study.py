"""The calibration end to end on a toy scorer: pools, draws, resuming, every metric's names."""

import dataclasses
import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest

from dlmeval.evals import Sources, pipeline, run_experiment
from dlmeval.evals.calibration import banks, damage, mixture
from dlmeval.evals.calibration.ladders import UNITS, ladders
from dlmeval.evals.calibration.language import ALPHABET, Rows, decode, king_james
from dlmeval.evals.calibration.measures import MEASURES, Context, directions
from dlmeval.evals.calibration.settings import Settings
from dlmeval.evals.calibration.study import Calibration
from dlmeval.evals.calibration.summary import ladder_names, summarise
from dlmeval.evals.corpora.corpus import Corpus
from dlmeval.evals.errors import InputError
from dlmeval.metrics import GradientStats, SketchedGradients, fit_training_index

CHEAP = (
    "gen_ppl_oracle",
    "gen_ppl",
    "energy_distance",
    "distinct_3",
    "ngram_novelty",
    "gradient_moment",
)
TINY = Settings(
    length=16,
    sizes=(24,),
    draws=(3,),
    clean_draws=(39,),
    bias_sizes=(),
    pool_rows=32,
    clean_rows=128,
    reference_rows=64,
    truth_rows=50,
    measures=CHEAP,
)
STAGES = ("sample", "score", "report")


def toy_scorer():
    """Two characters a token; hidden states are fixed directions of the ids."""
    directions = np.random.default_rng(0).normal(size=(4096, 6)).astype(np.float32)

    def encode(text):
        return [32 * ALPHABET.index(a) + ALPHABET.index(b or " ") for a, b in _pairs(text)]

    def hidden(ids, lengths):
        return directions[ids]

    def nll(ids, lengths, mask):
        return (mask * (1 + ids % 3)).sum(axis=1).astype(np.float32), mask.sum(axis=1)

    def gradient_stats(ids, lengths, *, batch_size, sketch):
        assert batch_size == 1
        inside = np.arange(ids.shape[1]) < lengths[:, None]
        rows = np.einsum("nt,ntd->nd", inside / lengths[:, None], directions[ids])
        rows = np.pad(rows, ((0, 0), (0, sketch - rows.shape[1]))).astype(np.float32)
        return GradientStats(rows.sum(0), (rows**2).sum(), len(rows), None, SketchedGradients(rows))

    return types.SimpleNamespace(
        nll=nll,
        hidden=hidden,
        gradient_stats=gradient_stats,
        tokenizer=types.SimpleNamespace(encode=encode),
        eos_id=None,
        card=types.SimpleNamespace(digests={"model.safetensors": "0" * 64}),
    )


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


def run(folder, sources, settings=TINY, stages=STAGES):
    return run_experiment("calibration", settings, folder, stages, sources=sources)


@pytest.fixture(scope="module")
def finished(sources, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    done = run(folder, sources)
    return folder, Calibration(folder, TINY, sources).records(), done


def test_every_ladder_is_measured(finished):
    folder, records, done = finished
    assert ladder_names(records) == list(UNITS)
    assert len(records) == 1 + 4 * len(UNITS)
    assert done == {"sample": len(list((folder / "pools").iterdir())), "score": 45, "report": 1}
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


def contents(folder):
    return {p.name: p.read_bytes() for p in (folder / "report").iterdir()}


def test_a_second_run_measures_nothing_and_what_is_lost_comes_back(finished, sources):
    folder, records, _ = finished
    before = contents(folder)
    assert run(folder, sources) == {"sample": 0, "score": 0, "report": 1}
    assert contents(folder) == before
    lost = sorted((folder / "laws").glob("*noise.json"))[1]
    lost.unlink()
    next((folder / "pools").glob("noise-*")).unlink()
    with pytest.raises(ValueError, match=r"lacks 1 of 45 laws, .*noise\.json first"):
        run(folder, sources, stages="report")
    assert run(folder, sources) == {"sample": 1, "score": 1, "report": 1}
    again = Calibration(folder, TINY, sources).records()
    for old, new in zip(records, again, strict=True):
        assert {**old, "seconds": 0} == {**new, "seconds": 0}


def test_the_report_holds_every_number_and_law(finished):
    files = contents(finished[0])
    assert set(files) == {"calibration.json", "tables.md", "calibration.png"}
    found = json.loads(files["calibration.json"])
    assert set(found["metrics"]) == set(CHEAP)
    cold = [law for law in found["laws"] if law["ladder"] == "cold"]
    assert [law["truth"]["missed"]["how"] for law in cold] == ["exact"] * 4
    assert "| `gen_ppl_oracle` | ↓ |" in files["tables.md"].decode()
    assert files["calibration.png"].startswith(b"\x89PNG")


def test_a_workdir_keeps_to_its_settings_and_inputs(finished, sources, tmp_path):
    other = dataclasses.replace(TINY, seed=1)
    with pytest.raises(ValueError, match=r"differs in --seed \(0, now 1\)"):
        run(finished[0], sources, other)
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(ValueError, match="holds files"):
        run(tmp_path, sources)
    scorer = toy_scorer()
    scorer.card.digests["model.safetensors"] = "1" * 64
    changed = Sources(load_scorer=lambda _: scorer, load_corpus=sources.corpus)
    with pytest.raises(ValueError, match="differs in scorer"):
        run(finished[0], changed)
    scorer.tokenizer = None
    with pytest.raises(ValueError, match=r"no tokenizer\.json"):
        run(tmp_path / "new", changed)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"measures": ("nonsense",)}, "--measures=nonsense is unknown; accepted: gen_ppl_oracle"),
        ({"sizes": (24, 48)}, r"--draws=\(3,\) must have a value for each of --sizes=\(24, 48\)"),
        ({"sizes": (), "draws": (), "clean_draws": ()}, "--sizes is empty"),
        ({"sizes": (4,)}, r"--sizes=\(4,\) must be at least 8 each"),
        ({"draws": (0,)}, r"--draws=\(0,\) must be at least 1 each"),
        ({"clean_draws": (38,)}, r"--clean_draws=\(38,\) must be at least 39"),
        ({"bias_sizes": (48,)}, "--pool_rows=32 is less than the 48 rows"),
        ({"length": 4}, "--length=4 must be at least 8"),
        ({"length": 18}, "--length=18 must be a multiple of 4"),
        ({"length": 4096}, "at most 1024"),
        ({"bias_sizes": (24, 24)}, r"--bias_sizes=\(24, 24\) repeats a size"),
        ({"seed": -1}, "--seed=-1 must be at least 0"),
    ],
)
def test_settings_are_checked(wrong, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **wrong)


@pytest.mark.parametrize("name", ["calibration", "calibration_small"])
def test_flagfiles_describe_a_run_and_write_nothing(name, tmp_path):
    path = pathlib.Path(pipeline.__file__).parents[1] / "launch" / "flags" / f"{name}.flags"
    words = [sys.executable, str(path.parents[1] / "run.py"), f"--flagfile={path}"]
    words += [f"--workdir={tmp_path / 'new'}", "--dry_run"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    for word in ("45", "model.safetensors", "disk", "time", "nothing was written"):
        assert word in done.stdout
    assert not (tmp_path / "new").exists()


def test_clean_rows_must_outlast_what_is_dropped(sources, tmp_path):
    with pytest.raises(ValueError, match=r"--clean_rows=\d+ leaves too few for banks of 24"):
        run(tmp_path / "new", sources, dataclasses.replace(TINY, clean_rows=32))
    assert not (tmp_path / "new").exists()


def test_what_was_changed_by_hand_is_named(finished, sources, tmp_path):
    folder = shutil.copytree(finished[0], tmp_path / "copy")
    law = folder / "laws" / "03-cold.json"
    whole, other = law.read_bytes(), (folder / "laws" / "04-cold.json").read_bytes()
    for text in (b"{}", b"[]", other, whole.replace(b'"24"', b'"25"')):
        law.write_bytes(text)
        with pytest.raises(InputError, match=r"03-cold\.json .*"):
            run(folder, sources, stages="report")
    law.unlink()
    pool = folder / "pools" / "clean.safetensors"
    whole = pool.read_bytes()
    neighbour = (folder / "pools" / "reference.safetensors").read_bytes()
    for data in (b"", whole[:-9], whole[:-9] + b"\x01" + whole[-8:], neighbour):
        pool.write_bytes(data)
        with pytest.raises(InputError, match=r"clean\.safetensors.*delete it"):
            run(folder, sources, stages="score")
    pool.unlink()
    assert run(folder, sources) == {"sample": 1, "score": 1, "report": 1}
    assert contents(folder) == contents(finished[0])


def test_only_what_is_asked_for_is_computed(sources, tmp_path):
    chosen = dataclasses.replace(TINY, measures=("gen_ppl",))
    calibration = Calibration(tmp_path, chosen, sources)
    (tmp_path / "pools").mkdir()
    assert calibration.pool("periodic").gradients.shape == (1, 0)
    assert Calibration(tmp_path / "all", TINY, sources).pool("periodic").gradients.shape[1] > 0


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


@pytest.mark.slow
def test_every_measure_gives_the_numbers_it_names(language):
    rng = np.random.default_rng(5)
    scorer = toy_scorer()
    one, other = (
        banks.score_rows(language.draw(40, rng), language.oracle, scorer) for _ in range(2)
    )
    context = Context(fit_training_index(one.ids))
    for name in MEASURES:
        found = MEASURES[name].compute(one, other, context)
        assert set(MEASURES[name].directions) <= set(found), name
        assert all(np.isfinite(float(found[key])) for key in MEASURES[name].directions), name
