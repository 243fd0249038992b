"""Encoders: whose recipe holds, how texts are pooled, and what is refused."""

import json
import shutil

import huggingface_hub
import numpy as np
import pytest
import safetensors.numpy

from dlmeval.models import encoder, load_encoder, streaming
from dlmeval.models.encoder import Recipe

REVISION = "0" * 40
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["query", ":", "the", "cat", "sat", "on", "mat", "a", "dog", "ran"]
LETTERS = [p + c for c in "abcdefghijklmnopqrstuvwxyz" for p in ("", "##")]
TEXTS = ["the cat sat on the mat", "a dog", "", "Ran ran RAN ran a dog ran on a mat sat", "xyzzy"]


def bert_folder(golden, where):
    """The fixture with a vocabulary; its head keeps the ids that the words need."""
    shutil.copytree(golden("bert"), where)
    (where / "vocab.txt").write_text("\n".join(SPECIAL + WORDS + LETTERS[: 83 - 15]))
    (where / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    return where


def write(folder, name, value):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))


MODULES = [
    {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]
LAST = {
    "word_embedding_dimension": 48,
    "pooling_mode_cls_token": False,
    "pooling_mode_lasttoken": True,
}


def sentence_files(folder, modules=MODULES, pooling=LAST):
    write(folder, "modules.json", modules)
    write(folder, "1_Pooling/config.json", pooling)


@pytest.fixture
def folder(golden, tmp_path):
    return bert_folder(golden, tmp_path / "model")


@pytest.fixture(scope="module")
def bert(golden, tmp_path_factory):
    return load_encoder(str(bert_folder(golden, tmp_path_factory.mktemp("bert") / "model")))


# Whose recipe holds


def test_the_family_speaks_last(folder):
    assert load_encoder(str(folder)).recipe == Recipe("cls", False, "", 32)  # the context is 32


def test_the_folder_speaks_before_the_family(folder):
    sentence_files(folder)
    prompts = {"prompts": {"query": "query: ", "none": ""}, "default_prompt_name": "query"}
    write(folder, "config_sentence_transformers.json", prompts)
    assert load_encoder(str(folder)).recipe == Recipe("last", True, "query: ", 32)
    sentence_files(folder, MODULES[:2])
    write(folder, "config_sentence_transformers.json", {"prompts": {}, "default_prompt_name": None})
    assert load_encoder(str(folder)).recipe == Recipe("last", False, "", 32)


def test_the_registry_speaks_before_the_folder_and_the_caller_before_all(folder, monkeypatch):
    sentence_files(folder, MODULES[:2])
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *a, **options: str(folder))
    source = f"hf:intfloat/e5-base-v2@{REVISION}"
    assert load_encoder(source).recipe == Recipe("mean", True, "query: ", 32)
    given = load_encoder(source, pooling="cls", normalize=False, prefix="", max_length=9)
    assert given.recipe == Recipe("cls", False, "", 9)
    other = load_encoder(f"hf:somebody/else@{REVISION}")
    assert other.recipe == Recipe("last", False, "", 32)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "modules.json",
            [*MODULES, {"path": "3", "type": "x.models.Dense"}],
            r"\['Dense'\] are not",
        ),
        ("modules.json", "[1]", "modules.json is no list of modules"),
        ("modules.json", "{", "modules.json is no list of modules"),
        (
            "modules.json",
            [*MODULES[:1], MODULES[1] | {"path": "7_Pooling"}],
            "pooling to 7_Pooling",
        ),
        (
            "1_Pooling/config.json",
            {"pooling_mode_max_tokens": True},
            "max_tokens.* not implemented",
        ),
        (
            "1_Pooling/config.json",
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            "is not implemented",
        ),
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": "q"},
            "not among its prompts",
        ),
    ],
)
def test_files_that_ask_for_something_else(folder, name, value, message):
    sentence_files(folder)
    write(folder, name, value)
    with pytest.raises(ValueError, match=message):
        load_encoder(str(folder))


def test_a_pooling_file_that_is_missing_is_not_replaced_by_the_familys_own(folder):
    write(folder, "modules.json", MODULES)
    with pytest.raises(ValueError, match=r"1_Pooling/config\.json, which must be there"):
        load_encoder(str(folder))


def test_lower_casing_is_left_to_the_tokenizer(folder):
    write(folder, "sentence_bert_config.json", {"max_seq_length": 8, "do_lower_case": True})
    assert load_encoder(str(folder)).recipe.max_length == 32
    write(
        folder,
        "tokenizer_config.json",
        {"tokenizer_class": "BertTokenizer", "do_lower_case": False},
    )
    with pytest.raises(ValueError, match="do_lower_case is not implemented for a cased"):
        load_encoder(str(folder))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "max"}, "pooling 'max' is not accepted; use one of cls, mean, last"),
        ({"max_length": 33}, "max_length=33 is beyond the context of 32 tokens"),
        ({"max_length": 0}, "max_length=0 must be at least 1"),
    ],
)
def test_recipes_that_are_refused(golden, options, message):
    with pytest.raises(ValueError, match=message):
        load_encoder(str(golden("bert")), **options)


# Pooling


def tokens_of(model, texts, max_length=32):
    rows = model.tokenizer.encode_special(texts, max_length)
    lengths = np.array([len(row) for row in rows])
    ids = np.zeros((len(rows), max(lengths)), np.int32)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return ids, lengths


@pytest.mark.parametrize("pooling", encoder.POOLINGS)
@pytest.mark.parametrize("normalize", [False, True])
def test_poolings_are_those_of_the_hidden_states(bert, folder, pooling, normalize):
    model = load_encoder(str(folder), pooling=pooling, normalize=normalize)
    ids, lengths = tokens_of(bert, TEXTS)
    hidden = bert.hidden(ids, lengths).astype(np.float64)
    expected = {
        "cls": hidden[:, 0],
        "mean": np.stack([h[:n].mean(axis=0) for h, n in zip(hidden, lengths)]),
        "last": np.stack([h[n - 1] for h, n in zip(hidden, lengths)]),
    }[pooling]
    if normalize:
        expected = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    features = model.encode(TEXTS)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, expected, atol=2e-5)


def test_features_do_not_depend_on_batch_or_order(bert, monkeypatch):
    together = bert.encode(TEXTS)
    for i in (0, 3):
        np.testing.assert_allclose(bert.encode(TEXTS[i : i + 1])[0], together[i], atol=1e-5)
    monkeypatch.setattr(streaming, "_TOKENS_ON_CPU", 16)  # one row a launch
    np.testing.assert_allclose(bert.encode(TEXTS[::-1]), together[::-1], atol=1e-5)
    # Any sequence of str will do.
    np.testing.assert_allclose(bert.encode(tuple(TEXTS)), together, atol=1e-5)
    np.testing.assert_allclose(bert.encode(np.array(TEXTS)), together, atol=1e-5)


def test_the_states_are_the_recorded_ones(bert, golden):
    arrays = np.load(golden("bert/forward.npz"))
    mask = arrays["attention_mask"].astype(bool)
    lengths, types = mask.sum(axis=1), arrays["token_type_ids"]
    hidden = bert.hidden(arrays["input_ids"], lengths, token_types=types)
    np.testing.assert_allclose(hidden[mask], arrays["last_hidden_state"][mask], atol=1e-4)
    assert (hidden[~mask] == 0).all()
    # Types beyond a row mean nothing; those of real tokens do.
    other = bert.hidden(arrays["input_ids"], lengths, token_types=np.where(mask, types, 99))
    np.testing.assert_array_equal(other, hidden)
    assert np.abs(bert.hidden(arrays["input_ids"], lengths) - hidden).max() > 0.01


def test_cutting_keeps_the_special_tokens(bert, folder):
    text = "the cat sat on the mat"
    short = load_encoder(str(folder), max_length=5, pooling="last")
    ids, lengths = tokens_of(bert, ["the cat sat"])
    assert lengths.tolist() == [5]
    assert ids[0, [0, -1]].tolist() == [2, 3]
    np.testing.assert_allclose(short.encode([text])[0], bert.hidden(ids, lengths)[0, -1], atol=1e-5)
    nothing = load_encoder(str(folder), max_length=2)
    np.testing.assert_allclose(nothing.encode([text]), bert.encode([""]), atol=1e-5)
    with pytest.raises(ValueError, match="max_length=1 has no room for the special tokens"):
        load_encoder(str(folder), max_length=1).encode([text])


def test_a_prefix_is_put_before_every_text(bert, folder):
    model = load_encoder(str(folder), prefix="query: ")
    expected = bert.encode([f"query: {text}" for text in TEXTS])
    np.testing.assert_array_equal(model.encode(TEXTS), expected)
    assert np.abs(expected - bert.encode(TEXTS)).max() > 0.01


def test_a_text_without_any_token_is_named(golden, tmp_path):
    # GPT-2's tokenizer adds no special tokens, so an empty text would have nothing to pool.
    folder = tmp_path / "gpt2"
    shutil.copytree(golden("gpt2"), folder)
    vocab = {c: i for i, c in enumerate("abcdefgh")} | {"<|endoftext|>": 8}
    write(folder, "vocab.json", vocab)
    write(folder, "merges.txt", "#version: 0.2\n")
    model = load_encoder(str(folder))
    assert model.recipe.pooling == "last"
    assert model.encode(["ab", "c"]).shape == (2, 48)
    with pytest.raises(
        ValueError, match=r"1 texts have no tokens \(first: text 1, ''\).*leave them"
    ):
        model.encode(["ab", ""])


# What is refused


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "sequence of str, not .* str"),
        (b"bytes", "sequence of str, not .* bytes"),
        (["a", b"b"], "sequence of str, not .* bytes"),
        (["a", None], "sequence of str, not .* NoneType"),
        (None, "sequence of str, not .* NoneType"),
        ([["a"]], "sequence of str, not .* list"),
        (["a", "b\ud800"], r"text 1 holds the lone surrogate '\\ud800'"),
        ([], "texts is empty"),
        (iter([]), "texts is empty"),
    ],
)
def test_texts_that_are_refused(bert, texts, message):
    with pytest.raises(ValueError, match=message):
        bert.encode(texts)


def test_without_a_tokenizer_ids_alone_are_taken(golden):
    model = load_encoder(str(golden("bert")))
    assert model.tokenizer is None
    with pytest.raises(ValueError, match="has no tokenizer file: texts cannot be encoded"):
        model.encode(["a"])
    assert model.hidden([[2, 5, 3]], [3]).shape == (1, 3, 48)


@pytest.mark.parametrize(
    ("token_types", "message"),
    [
        ([[0, 2, 0]], r"token_types must lie in 0\.\.1, not 0\.\.2"),
        ([[0, -1, 0]], r"token_types must lie in 0\.\.1, not -1\.\.0"),
        ([[0, 1]], r"token_types has shape \(1, 2\), ids \(1, 3\)"),
        ([[0.0, 0.5, 1.0]], "token_types must hold integers, not float64"),
    ],
)
def test_token_types_that_are_refused(bert, token_types, message):
    with pytest.raises(ValueError, match=message):
        bert.hidden([[2, 5, 3]], [3], token_types=token_types)


def test_ids_that_are_refused(bert, golden):
    with pytest.raises(ValueError, match=r"ids must lie in 0\.\.82"):
        bert.hidden([[2, 83]], [2])
    with pytest.raises(ValueError, match="33 tokens, more than the context of 32"):
        bert.hidden(np.zeros((1, 33), int), [33])
    with pytest.raises(ValueError, match="has no token types"):
        load_encoder(str(golden("mpnet"))).hidden([[2, 3]], [2], token_types=[[0, 0]])
    with pytest.raises(ValueError, match="cannot serve as a encoder"):
        load_encoder(str(golden("llada")))


def test_a_feature_that_is_not_finite_is_named(golden, tmp_path):
    folder = bert_folder(golden, tmp_path / "model")
    path = folder / "weights.safetensors"
    tensors = safetensors.numpy.load_file(path)
    name = next(n for n in tensors if n.endswith("word_embeddings.weight"))
    tensors[name][8] = np.nan  # "cat"
    safetensors.numpy.save_file(tensors, path)
    model = load_encoder(str(folder))
    assert np.isfinite(model.encode(["a dog"])).all()
    with pytest.raises(ValueError, match="gives text 1 a feature that is not finite"):
        model.encode(["a dog", "the cat"])
