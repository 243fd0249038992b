"""The profile of a bank: which rows count, what each number is, and when there is none."""

import dataclasses
import math

import numpy as np
import pytest

from dlmeval import metrics
from dlmeval.evals.banks.bank import SampleBank, bank_digest
from dlmeval.evals.scoring.bank_scores import score_bank
from dlmeval.evals.scoring.encoded import Encoded, fitted_space
from dlmeval.evals.scoring.features import Features
from dlmeval.evals.scoring.gradients import BankGradients
from dlmeval.evals.scoring.score_settings import ScoreSettings
from dlmeval.evals.scoring.scored import MIN_ROWS

N, WIDTH, LENGTH = 16, 16, 16
SETTINGS = ScoreSettings(
    "toy",
    "0123456789abcdef",
    LENGTH,
    mauve_seeds=(0, 1),
    training="toy text",
    training_digest="fedcba98",
    gradient_batches=4,
    gradient_sketch=8,
    encoders=("toy/letters",),
    encoder_digests=("abcdef98",),
)
RECIPE = {"pooling": "mean", "normalize": True, "prefix": "", "max_length": 32}
FOUR = ("mauve", "energy_distance", "mmd", "frechet_distance")
WORDS = "and the lord said unto moses speak thou".split()


def make(seed, n=N):
    """A bank of random texts beside random features, a row's features belonging to its text."""
    rng = np.random.default_rng(seed)
    texts = tuple(" ".join(rng.choice(WORDS, 12)) for _ in range(n))
    bank = SampleBank(
        ids=np.zeros((n, 1), np.int32),
        lengths=np.ones(n, np.int32),
        texts=texts,
        nfe=rng.integers(1, 9, n).astype(np.int32),
        accepted=np.ones(n, bool),
        manifest={"measured": {"launches": 7}},
        digest=bank_digest(texts),
    )
    features = Features(
        ids=rng.integers(0, 20, (n, LENGTH)).astype(np.int32),
        lengths=np.full(n, LENGTH, np.int32),
        nll=rng.uniform(20, 60, n).astype(np.float32),
        num_tokens=np.full(n, LENGTH - 1, np.int32),
        pooled=rng.normal(size=(n, WIDTH)).astype(np.float32),
    )
    return bank, features


def sums(seed, num_rows=N - 2):
    """Gradient sums of four batches with three parameters, which are their own sketches."""
    rows = np.random.default_rng(seed).normal(size=(4, 3)).astype(np.float32)
    sketches = metrics.SketchedGradients(rows, 0)
    stats = metrics.GradientStats(rows.sum(0), np.sum(rows**2), 4, None, sketches)
    return BankGradients(stats, num_rows)


def encodings(seed, n=N):
    rows = np.random.default_rng([7, seed]).normal(size=(n, 6)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def encoded(settings):
    """What the encoders of the settings say of banks 0 (the reference) and 1."""
    space = fitted_space(encodings(0), settings.whiten)
    return [
        Encoded(source, digest, RECIPE, encodings(0), encodings(1), space)
        for source, digest in zip(settings.encoders, settings.encoder_digests, strict=True)
    ]


REFERENCE = make(0)
EXTRAS = {
    "training": metrics.fit_training_index(np.random.default_rng(9).integers(0, 20, (30, 40))),
    "gradients": (sums(0), sums(1)),
}


@pytest.fixture(scope="module")
def scores():
    return score_bank(*make(1), REFERENCE, SETTINGS, **EXTRAS, encoded=encoded(SETTINGS))


def test_perplexities_and_their_adjustment(scores):
    _, features = make(1)
    rates = features.nll.astype(np.float64) / features.num_tokens
    total = math.exp(features.nll.sum(dtype=np.float64) / features.num_tokens.sum())
    assert scores["gen_ppl"].value == pytest.approx(total, rel=1e-6)
    assert scores["gen_ppl_sample"].value == pytest.approx(np.exp(rates).mean(), rel=1e-6)
    assert scores["gen_ppl_macro"].value == pytest.approx(np.exp(rates.mean()), rel=1e-6)
    adjusted = total / math.exp(scores["h_pos"].value)
    assert scores["gen_ppl_adjusted"].value == pytest.approx(adjusted, rel=1e-5)


def test_distances_take_reference_and_generated_in_this_order(scores):
    (bank, features), (real, real_features) = make(1), REFERENCE
    x, y = real_features.pooled, features.pooled
    codes = metrics.jeffreys_coding_divergence(
        [text.encode() for text in real.texts], [text.encode() for text in bank.texts]
    )
    expected = {
        "energy_distance": metrics.energy_distance(x, y),
        "mmd": metrics.mmd(x, y),
        "frechet_distance": metrics.frechet_distance(x, y),
        "kernel_distance": metrics.kernel_distance(x, y),
        "sliced_wasserstein": metrics.sliced_wasserstein(x, y),
        "manifold_precision": metrics.precision_recall(x, y).precision,
        "manifold_recall": metrics.precision_recall(x, y).recall,
        "manifold_density": metrics.precision_recall(x, y).density,
        "manifold_coverage": metrics.precision_recall(x, y).coverage,
        "gradient_moment": metrics.gradient_moment(*(side.stats for side in EXTRAS["gradients"])),
        "mauve": metrics.mauve(x, y, num_clusters=2, seeds=(0, 1)).value,
        "jcd": codes.value,
        "jcd_coverage": codes.coverage,
        "jcd_fidelity": codes.fidelity,
    }
    for name, value in expected.items():
        assert scores[name].value == pytest.approx(float(value), rel=1e-5), name
        assert scores[name].n == (N - 2 if name == "gradient_moment" else N)


def test_numbers_of_the_bank_itself(scores):
    bank, features = make(1)
    assert scores["nfe_mean"].value == pytest.approx(bank.nfe.mean())
    assert scores["nfe_mean"].stderr == pytest.approx(bank.nfe.std(ddof=1) / math.sqrt(N))
    assert scores["launches"].value == 7
    assert scores["acceptance"].value == 1.0
    assert scores["h_ceiling"].value == pytest.approx(math.log(N))
    assert scores["h_uni"].value == pytest.approx(float(metrics.entropies(features.ids).uni))


def test_directions(scores):
    up = {name for name, score in scores.items() if score.direction == "up"}
    manifold = {f"manifold_{name}" for name in ("precision", "recall", "density", "coverage")}
    assert up == {"mauve", "mauve@letters", "distinct_3", "acceptance"} | manifold
    open_ = {name for name, score in scores.items() if score.direction is None}
    entropies = {"h_ceiling", "h_uni", "h_pool", "h_pos", "h_pos_mm", "h_joint"}
    assert open_ == entropies | {"novelty_4", "copied_span", "nfe_mean", "launches"}


def test_what_is_copied_and_repeated(scores):
    _, features = make(1)
    training = EXTRAS["training"]
    for name, rows in (
        ("novelty_4", metrics.ngram_novelty(features.ids, training)),
        ("copied_span", metrics.longest_copied_span(features.ids, training)),
        ("repetition_4", metrics.sequence_repetition(features.ids)),
    ):
        assert scores[name].value == pytest.approx(rows.mean())
        assert scores[name].stderr == pytest.approx(rows.std(ddof=1) / math.sqrt(N))
    without = score_bank(*make(1), REFERENCE, SETTINGS)
    named = {name for name in scores if "@" in name}
    assert set(scores) - set(without) - named == {"novelty_4", "copied_span", "gradient_moment"}
    one_sided = score_bank(*make(1), REFERENCE, SETTINGS, gradients=(sums(0), None))
    assert set(one_sided) == set(without)


def test_rejected_rows_are_left_out_and_the_reference_is_cut_to_as_many(scores):
    bank, features = make(1)
    order = np.r_[N, 0:4, N + 1, 4:N]  # two rejected rows among the accepted ones
    wide = make(2, N + 2)
    texts = [*bank.texts, *wide[0].texts[:2]]
    mixed = bank._replace(
        ids=np.zeros((N + 2, 1), np.int32),
        texts=tuple(texts[i] for i in order),
        accepted=order < N,
        nfe=np.ones(N + 2, np.int32),
    )
    stacked = Features(*(np.concatenate([a, b[:2]])[order] for a, b in zip(features, wide[1])))
    longer = make(3, N + 2)
    reference = (
        REFERENCE[0]._replace(
            texts=REFERENCE[0].texts + longer[0].texts[:2], accepted=np.ones(N + 2, bool)
        ),
        Features(*(np.concatenate([a, b[:2]]) for a, b in zip(REFERENCE[1], longer[1]))),
    )
    one = encoded(SETTINGS)[0]
    one = one._replace(
        reference=np.concatenate([one.reference, encodings(3)[:2]]),
        generated=np.concatenate([one.generated, encodings(2)[:2]])[order],
    )
    found = score_bank(mixed, stacked, reference, SETTINGS, **EXTRAS, encoded=[one])
    for name, score in scores.items():
        if name not in ("acceptance", "nfe_mean", "launches"):
            assert found[name] == score, name
    assert found["acceptance"].value == pytest.approx(N / (N + 2))
    assert found["acceptance"].n == N + 2


def test_texts_without_tokens_are_not_scored(scores):
    bank, features = make(1)
    empty = features._replace(lengths=np.r_[0, features.lengths[1:]].astype(np.int32))
    assert score_bank(bank, empty, None, SETTINGS)["gen_ppl"].n == N - 1


def test_too_few_texts_give_reasons_and_not_numbers():
    bank, features = make(1)
    few = bank._replace(accepted=np.arange(N) < MIN_ROWS - 1)
    found = score_bank(few, features, REFERENCE, SETTINGS, encoded=encoded(SETTINGS))
    assert "mmd@letters" in found
    for name, score in found.items():
        if name in ("acceptance", "nfe_mean", "launches"):
            assert score.value is not None
        else:
            assert score.value is None, name
            assert f"{MIN_ROWS - 1} usable texts" in str(score.reason)


def test_a_reference_gets_no_distance_to_itself():
    found = score_bank(*REFERENCE, None, SETTINGS)
    assert "jcd" not in found
    assert "gen_ppl" in found


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(ScoreSettings)])
def test_every_setting_shows_in_a_signature(scores, field):
    values = {"mauve_seeds": (3, 4), "mauve_clusters": 3, "scorer": "x", "scorer_digest": "f" * 64}
    known = {"mauve_scale": 4.0, "mauve_variance": 0.8, "distinct_order": 2, "jcd_depth": 8}
    known |= {"training": "other", "training_digest": "0" * 64, "num_neighbors": 3}
    known |= {"encoders": ("other/letters",), "encoder_digests": ("f" * 8,), "features": "letters"}
    known |= {"nested_sizes": (12,)}
    changed = dataclasses.replace(SETTINGS, **{field: (values | known).get(field, 5)})
    found = score_bank(*make(1), REFERENCE, changed, **EXTRAS, encoded=encoded(changed))
    assert {s.signature for s in found.values()} != {s.signature for s in scores.values()}


@pytest.mark.parametrize("whiten", [None, 5])
def test_encoders_get_the_same_four_distances(scores, whiten):
    settings = dataclasses.replace(SETTINGS, whiten=whiten)
    found = score_bank(*make(1), REFERENCE, settings, **EXTRAS, encoded=encoded(settings))
    assert {name for name in found if "@" in name} == {f"{name}@letters" for name in FOUR}
    x, y = encodings(0), encodings(1)
    if whiten:
        fit = metrics.fit_whitening(x, whiten)
        x, y = np.asarray(fit.transform(x)), np.asarray(fit.transform(y))
    for name, value in {
        "mauve": metrics.mauve(x, y, num_clusters=2, seeds=(0, 1)).value,
        "energy_distance": metrics.energy_distance(x, y),
        "mmd": metrics.mmd(x, y),
        "frechet_distance": metrics.frechet_distance(x, y),
    }.items():
        one, main = found[f"{name}@letters"], scores[name]
        assert one.value == pytest.approx(float(value), rel=1e-4), name
        assert (one.n, one.unit, one.direction) == (main.n, main.unit, main.direction)
        assert one.stderr is not None
        # The same settings behind another name and in front of other features.
        settings_of = main.signature.partition("|features:")[0].partition("|")[2]
        digest = REFERENCE[0].digest[:8]
        shown = "unit+pca5" if whiten else "none"
        assert one.signature.startswith(
            f"{name}@letters|{settings_of}|encoder:toy/letters@abcdef98|pooling:mean"
            f"|normalize:True|prefix:none|tokens:32|whiten:{shown}|n:{N}|ref:{digest}|v:"
        )
    # The others do not notice.
    assert {n: s for n, s in found.items() if "@" not in n} == {
        n: s for n, s in scores.items() if "@" not in n
    }


def test_a_reference_too_small_to_whiten_is_the_reason():
    settings = dataclasses.replace(SETTINGS, whiten=N)
    wide = np.random.default_rng(0).normal(size=(2, N, 2 * N))
    one = Encoded("toy/letters", "", RECIPE, *wide, fitted_space(wide[0], N))
    found = score_bank(*make(1), REFERENCE, settings, encoded=[one])
    for name in FOUR:
        assert found[f"{name}@letters"].value is None
        assert f"{N} rows" in str(found[f"{name}@letters"].reason)
        assert found[name].value is not None


def test_the_distances_can_be_of_an_encoder():
    settings = dataclasses.replace(SETTINGS, features="letters")
    found = score_bank(*make(1), REFERENCE, settings, encoded=encoded(settings))
    for name in FOUR:
        one = found[f"{name}@letters"]
        assert (found[name].value, found[name].stderr) == (one.value, one.stderr)
        assert found[name].signature == one.signature.replace("@letters", "", 1)
    kernel = metrics.kernel_distance(encodings(0), encodings(1))
    assert found["kernel_distance"].value == pytest.approx(float(kernel), rel=1e-5)
    with pytest.raises(ValueError, match=r"features='letters' .* given: none"):
        score_bank(*make(1), REFERENCE, settings)


def test_jackknifed_errors_match_the_spread_of_fresh_banks():
    rng = np.random.default_rng(0)
    values, errors = [], []
    for _ in range(40):
        bank, features = make(1)
        # Few distinct ids, so that the plug-in's bias does not hide its spread.
        ids = rng.choice(4, size=(N, LENGTH), p=[0.6, 0.2, 0.1, 0.1]).astype(np.int32)
        found = score_bank(bank, features._replace(ids=ids), None, SETTINGS)["h_pool"]
        values.append(found.value)
        errors.append(found.stderr)
    assert np.mean(errors) == pytest.approx(np.std(values, ddof=1), rel=0.35)
