"""MiniLM and MPNet as published: ids, hidden states and features of the real files."""

import json

import numpy as np
import pytest

from dlmeval.models import Recipe, load_encoder

# Folder of the weights, file of the stored outputs, width, special ids at both ends.
MINILM = ("minilm-l6-v2", "minilm-l6-v2.npz", 384, (101, 102))
MPNET = ("all-mpnet-base-v2", "mpnet-base-v2.npz", 768, (0, 2))


@pytest.fixture(scope="module", params=[MINILM, MPNET], ids=lambda model: model[0])
def model(request, real_weights):
    """The folder, the encoder without normalisation, and what else is known of it."""
    name, stored, width, ends = request.param
    folder = str(real_weights(name))
    return folder, load_encoder(folder, normalize=False), stored, width, ends


@pytest.fixture(scope="module")
def sentences(shared):
    """Eight texts, the fifth of them empty, the last one with other alphabets."""
    path = shared("data/real-model-outputs/goldens.json")
    return json.loads(path.read_text(encoding="utf-8"))["encoder_sentences"]


@pytest.fixture(scope="module")
def features(model, sentences):
    return model[1].encode(sentences)


def cosines(a, b):
    return (a * b).sum(axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def assert_same_features(ours, theirs):
    """To rounding: direction and length of every one; the empty text is no exception."""
    assert ours.shape == theirs.shape
    assert ours.dtype == np.float32
    assert cosines(ours, theirs).min() >= 0.99999
    lengths = [np.linalg.norm(x, axis=1) for x in (ours, theirs)]
    np.testing.assert_allclose(*lengths, rtol=1e-4)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4 * np.abs(theirs).max())


def test_features_equal_the_stored_ones(model, sentences, features, shared):
    """Ids, hidden states and means of transformers 5.24 on the same weights (float32, CPU)."""
    _, encoder, stored, _, _ = model
    expected = np.load(shared(f"data/real-model-outputs/{stored}"))
    lengths = expected["attention_mask"].sum(axis=1)
    ids = encoder.tokenizer.encode_special(sentences)
    assert ids == [row[:n].tolist() for row, n in zip(expected["input_ids"], lengths, strict=True)]
    first = expected["input_ids"][:1, : lengths[0]].astype(np.int32)
    hidden = encoder.hidden(first, lengths[:1].astype(np.int32))
    np.testing.assert_allclose(hidden[0], expected["last_hidden_0"][: lengths[0]], atol=1e-4)
    assert_same_features(features, expected["mean_pooled"])


@pytest.mark.parity
def test_features_equal_those_of_transformers(model, sentences, features):
    """The same, computed here: holds for weights whose outputs are not stored."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model[0])
    inputs = tokenizer(sentences, padding=True, return_tensors="pt")
    peer = transformers.AutoModel.from_pretrained(model[0], dtype=torch.float32).eval()
    with torch.no_grad():
        states = peer(**inputs).last_hidden_state.numpy()
    mask = inputs["attention_mask"].numpy()
    ids = model[1].tokenizer.encode_special(sentences)
    assert ids == [i[m == 1].tolist() for i, m in zip(inputs["input_ids"].numpy(), mask)]
    means = (states * mask[..., None]).sum(axis=1) / mask.sum(axis=1)[:, None]
    assert_same_features(features, means)


def test_the_recipe_is_the_folders(model, sentences, features):
    """1_Pooling says mean, modules.json says to normalise; neither is the family's default."""
    folder, _, _, width, _ = model
    encoder = load_encoder(folder)
    assert encoder.recipe == Recipe("mean", normalize=True, prefix="", max_length=512)
    unit = encoder.encode(sentences)
    assert unit.shape == (8, width)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-6)
    direction = features / np.linalg.norm(features, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, direction, atol=1e-6)


def test_a_feature_does_not_depend_on_its_batch(model, sentences, features):
    """Neither on the order of the texts nor on their number; short and long ones are mixed."""
    _, encoder, _, _, _ = model
    order = np.random.default_rng(0).permutation(len(sentences))
    shuffled = encoder.encode([sentences[i] for i in order])
    np.testing.assert_allclose(shuffled, features[order], atol=1e-5)
    alone = encoder.encode([sentences[3]])
    np.testing.assert_allclose(alone[0], features[3], atol=1e-5)


def test_an_empty_text_has_its_special_tokens_alone(model, sentences):
    _, encoder, _, _, ends = model
    assert sentences[4] == ""
    assert encoder.tokenizer.encode_special([""]) == [list(ends)]
    states = encoder.hidden(np.array([ends], np.int32), np.array([2]))
    np.testing.assert_allclose(encoder.encode([""]), states.mean(axis=1), atol=1e-5)


def test_a_paraphrase_is_nearer_than_another_subject(features):
    cat, feline, markets, diffusion = features[:4]
    same = cosines(cat[None], feline[None])
    others = cosines(np.stack([cat, cat, feline]), np.stack([markets, diffusion, markets]))
    assert same[0] > others.max() + 0.3
