"""Encoder features: cached by content, compared in a space that the reference alone decides."""

import dataclasses

import numpy as np
import pytest

from dlmeval.evals.banks.bank import SampleBank, bank_digest
from dlmeval.evals.scoring.array_files import read_arrays, write_arrays
from dlmeval.evals.scoring.encoded import (
    EncoderKey,
    cached_encodings,
    compute_encodings,
    encode_pair,
    fitted_space,
)
from dlmeval.evals.scoring.score_settings import ScoreSettings, encoder_name
from dlmeval.evals.sources import Sources, model_digest
from dlmeval.models import Recipe

TEXTS = ("and the lord", "said", "", "unto moses speak", "x")
RECIPE = Recipe("mean", True, "", 512)._asdict()
KEY = EncoderKey("bank", "model", RECIPE)


def make_bank(texts):
    n = len(texts)
    zeros = np.zeros(n, np.int32)
    return SampleBank(
        zeros[:, None], zeros, tuple(texts), zeros, np.ones(n, bool), {}, bank_digest(texts)
    )


def make_settings(**fields):
    return ScoreSettings("toy", "0" * 64, 8, **fields)


def test_rows_belong_to_texts_and_empty_ones_are_zero(toy):
    encoder = toy.toy_encoder()
    rows = compute_encodings(TEXTS, encoder)
    assert rows.dtype == np.float32
    assert not rows[2].any()
    for i in (0, 1, 3, 4):
        assert np.array_equal(rows[i], encoder.encode([TEXTS[i]])[0])
    assert compute_encodings(("", ""), encoder).shape == (2, 0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((3, 2)), r"shape \(3, 2\) for 4 texts; it must be \(4, width\)"),
        (np.zeros(4), r"shape \(4,\)"),
        (np.array([[0.0], [1.0], [np.nan], [1.0]]), "not finite for text 3"),
    ],
)
def test_unusable_features_are_refused(toy, rows, message):
    encoder = toy.toy_encoder()
    encoder.encode = lambda texts: rows
    with pytest.raises(ValueError, match=message):
        compute_encodings(TEXTS, encoder)


def test_the_cache_is_read_back_without_the_encoder(tmp_path, toy):
    bank = make_bank(TEXTS)
    first = cached_encodings(tmp_path / "features", bank, toy.toy_encoder(), KEY)
    again = cached_encodings(tmp_path / "features", bank, None, KEY)
    assert np.array_equal(first, compute_encodings(TEXTS, toy.toy_encoder()))
    assert np.array_equal(first, again)
    assert [path.name for path in (tmp_path / "features").iterdir()] == [KEY.name]


@pytest.mark.parametrize("field", ["bank_digest", "model_digest", "dtype", "version", *RECIPE])
def test_everything_an_encoding_depends_on_is_in_its_name(field):
    if field in RECIPE:
        changed = dataclasses.replace(KEY, recipe=RECIPE | {field: "other"})
    else:
        changed = dataclasses.replace(KEY, **{field: "other"})
    assert changed.name != KEY.name
    names = {name.name for name in dataclasses.fields(EncoderKey)}
    assert names == {"bank_digest", "model_digest", "recipe", "dtype", "version"}


@pytest.mark.parametrize("fault", ["cut", "edited", "other arrays", "other seal"])
def test_a_changed_entry_is_refused(tmp_path, toy, fault):
    path = tmp_path / KEY.name
    rows = cached_encodings(tmp_path, make_bank(TEXTS), toy.toy_encoder(), KEY)
    data = path.read_bytes()
    if fault == "cut":
        path.write_bytes(data[:-4])
    elif fault == "edited":
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif fault == "other seal":
        at = data.index(b"sha256") + 15
        path.write_bytes(data[:at] + (b"0" if data[at : at + 1] != b"0" else b"1") + data[at + 1 :])
    else:
        write_arrays(path, {"pooled": rows}, {})
    with pytest.raises(ValueError, match=f"{KEY.name} (is damaged|was edited).*delete it"):
        cached_encodings(tmp_path, make_bank(TEXTS), None, KEY)


def test_arrays_are_sealed_in_their_order(tmp_path):
    arrays = {"b": np.arange(3), "a": np.ones((2, 2), np.float32)}
    write_arrays(tmp_path / "new" / "one", arrays, {"fact": 1})
    found = read_arrays(tmp_path / "new" / "one", ("b", "a"))
    assert list(found) == ["b", "a"]
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)


def test_whitening_makes_the_reference_round_whatever_its_lengths():
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(60, 8)) * np.arange(1, 9) + 2
    white = np.asarray(fitted_space(reference, 5)(reference))
    assert np.allclose(np.cov(white.T), np.eye(5), atol=1e-4)
    assert np.allclose(white.mean(0), 0, atol=1e-5)
    # Rows count by direction alone.
    scaled = reference * rng.uniform(0.5, 2, (60, 1))
    assert np.allclose(fitted_space(scaled, 5)(scaled), white, atol=1e-4)
    assert fitted_space(reference, None)(scaled) is scaled


def test_a_space_that_cannot_be_fitted_says_so_when_it_is_used():
    space = fitted_space(np.eye(6), 6)
    with pytest.raises(ValueError, match="6 rows"):
        space(np.eye(6))


def test_the_space_is_fitted_once_to_the_counted_rows_of_the_reference(tmp_path, toy):
    reference = make_bank(["the lord said", "", "unto moses", "speak thou", "all people", "land"])
    rows = np.array([0, 2, 3, 4])
    encoder = toy.toy_encoder()
    sources = Sources(load_encoder=lambda source: encoder)
    digest = model_digest(encoder.card)
    settings = make_settings(encoders=("toy/letters",), encoder_digests=(digest,), whiten=2)
    spaces = {}
    first, second = (
        encode_pair(
            make_bank(texts), reference, rows, settings, sources, folder=tmp_path, spaces=spaces
        )[0]
        for texts in (["zzz", "thou art"], ["of the land", "", "and"])
    )
    assert first.space is second.space
    assert (first.source, first.digest, first.recipe) == ("toy/letters", digest, RECIPE)
    assert np.array_equal(first.reference, compute_encodings(reference.texts, encoder))
    assert np.array_equal(second.generated, compute_encodings(("of the land", "", "and"), encoder))
    alone = fitted_space(first.reference[rows], 2)(first.generated)
    assert np.array_equal(first.space(first.generated), alone)
    assert len(list(tmp_path.iterdir())) == 3
    in_memory = encode_pair(make_bank(["zzz", "thou art"]), reference, rows, settings, sources)[0]
    assert np.array_equal(in_memory.generated, first.generated)


def test_every_file_of_an_encoder_is_in_its_digest(toy):
    card = toy.toy_encoder().card
    card.digests = {"config.json": "a", "1_Pooling/config.json": "b"}
    before = model_digest(card)
    for name in card.digests:
        changed = card.digests | {name: "c"}
        assert model_digest(type(card)(digests=changed)) != before


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("weights/minilm-l6-v2", "minilm-l6-v2"),
        ("weights/minilm-l6-v2/", "minilm-l6-v2"),
        ("hf:owner/e5-base@0123abc", "e5-base"),
        ("embedded:kjv-scorer", "kjv-scorer"),
        ("gguf:folder/model.gguf", "model.gguf"),
        ("folder/v2@work", "v2@work"),
    ],
)
def test_an_encoder_is_called_by_the_last_part_of_its_source(source, name):
    assert encoder_name(source) == name


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"encoders": ("a/x", "b/x"), "encoder_digests": ("1", "2")}, "'a/x' and 'b/x' are both"),
        ({"encoders": ("a/x",)}, "0 digests for 1 encoders"),
        ({"encoders": ("/",), "encoder_digests": ("1",)}, "'/' has no usable last part"),
        ({"encoders": ("a|b",), "encoder_digests": ("1",)}, "no usable last part"),
        ({"features": "x"}, "accepted: None"),
        ({"encoders": ("a/x",), "encoder_digests": ("1",), "features": "a/x"}, "accepted: x"),
        ({"whiten": 0}, "whiten=0 must be at least 1"),
    ],
)
def test_settings_that_name_no_usable_encoder_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        make_settings(**fields)
