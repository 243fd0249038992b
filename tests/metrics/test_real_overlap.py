"""Overlap metrics on real model outputs: published figures, and orders any reader would expect."""

import gzip
import json
import math

import numpy as np
import pytest

from dlmeval.metrics import (
    distinct_n,
    diversity,
    fit_training_index,
    longest_copied_span,
    memorisation,
    ngram_novelty,
    self_bleu,
    self_bleu_stderr,
    sequence_repetition,
    text_ids,
    text_vocabulary,
)

CONTRASTIVE = "data/webtext-gpt2large-bank"


def lines(path):
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


@pytest.fixture(scope="module")
def webtext(shared):
    """Published figures of one decoding method, and its texts beside the human ones."""

    def load(method):
        with gzip.open(shared(f"{CONTRASTIVE}/{method}_result.json.gz")) as file:
            items = json.load(file)
        name = f"{CONTRASTIVE}/{method}_result_diversity_mauve_gen_length_result.json"
        published = json.loads(shared(name).read_text())[0]
        generated = [item["generated_result"]["0"] for item in items]
        return published, generated, [item["reference_text"] for item in items]

    return load


@pytest.mark.parametrize("method", ["greedy", "nucleus", "contrastive"])
def test_published_diversity_is_reproduced(webtext, method):
    """To the two decimals of a percent that were published, for GPT-2-large and for people."""
    published, generated, human = webtext(method)
    stored = published["diversity_dict"]
    for texts, expected in (
        (generated, stored["prediction_div_mean"]),
        (human, stored["reference_div"]),
    ):
        ids, lengths = text_ids(texts)
        # Their loop over whitespace tokens leaves out the last n-gram of each text.
        value = 100 * float(diversity(ids, np.maximum(lengths - 1, 0)))
        assert value == pytest.approx(float(expected), abs=0.0051)
        # All n-grams: hardly another figure.
        assert 100 * float(diversity(ids, lengths)) == pytest.approx(value, abs=0.05)
    _, lengths = text_ids(generated)
    expected = float(published["gen_length_dict"]["gen_len_list"][0])
    assert lengths.mean() == pytest.approx(expected, abs=5e-4)


def test_greedy_text_repeats_itself_within_rows_under_model_tokens_too(webtext, shared):
    tokenizers = pytest.importorskip("tokenizers")
    bpe = tokenizers.Tokenizer(
        tokenizers.models.BPE.from_file(
            str(shared("data/tokenizers/gpt2_encoder.json")),
            str(shared("data/tokenizers/gpt2_vocab.bpe")),
        )
    )
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    _, generated, human = webtext("greedy")
    means = []
    for texts in (generated[:300], human[:300]):
        rows = [encoding.tokens for encoding in bpe.encode_batch(texts)]
        ids, lengths = text_ids(rows)
        assert [len(row) for row in rows] == lengths.tolist()
        means.append(float(sequence_repetition(ids, lengths).mean()))
    assert 0.5 < means[0] < 0.7
    assert means[1] < 0.03


SELF_BLEU = {  # Texygen's evaluation.md, orders 2 to 5
    "instances_mle": (0.916, 0.769, 0.583, 0.408),
    "instances_seq": (0.950, 0.840, 0.670, 0.489),
}


@pytest.mark.parametrize("name", sorted(SELF_BLEU))
def test_published_self_bleu_of_texygen_is_reproduced(shared, name):
    """Over all 9,984 samples, whitespace tokens: to 0.001, the table cuts digits off."""
    bank = text_ids(lines(shared(f"data/texygen-coco/{name}.txt")))
    assert len(bank[0]) == 9984
    for order, published in zip((2, 3, 4, 5), SELF_BLEU[name], strict=True):
        assert self_bleu(*bank, order=order).mean() == pytest.approx(published, abs=0.00105)


def test_texygen_orders_its_generators_at_equal_sizes(shared):
    """SeqGAN has less variety than the language model it started from, that one less than
    captions by people; and the 500 rows of Texygen's fast mode give other numbers altogether."""
    names = ("instances_seq", "instances_mle", "image_coco")
    banks = [text_ids(lines(shared(f"data/texygen-coco/{name}.txt"))[:2000]) for name in names]
    scores = [self_bleu(*bank).mean() for bank in banks]
    errors = [float(self_bleu_stderr(*bank)) for bank in banks]
    assert scores[0] - scores[1] > 4 * math.hypot(*errors[:2])
    assert scores[1] - scores[2] > 2 * math.hypot(*errors[1:])
    variety = [float(distinct_n(*bank)) for bank in banks]
    assert variety == sorted(variety)
    fast = self_bleu(*banks[1], max_references=500)
    assert len(fast) == 500
    assert fast.mean() < scores[1] - 0.1


@pytest.fixture(scope="module")
def captions(shared):
    """Words of the training captions, and a function that gives other banks the same ids."""
    # Punctuation apart, as in the generated files.
    training = [
        line.replace(".", " .") for line in lines(shared("data/texygen-coco/image_coco.txt"))
    ]
    vocabulary = text_vocabulary(training)

    def encode(name, n):
        texts = lines(shared(f"data/texygen-coco/{name}.txt"))[:n]
        return text_ids([text.replace(".", " .") for text in texts], vocabulary=vocabulary)

    return fit_training_index(*text_ids(training, vocabulary=vocabulary)), encode


def test_generators_copy_more_of_their_training_captions_than_people_do(captions):
    index, encode = captions
    copies, copied_lengths = encode("image_coco", 500)
    np.testing.assert_array_equal(
        longest_copied_span(copies, index, copied_lengths), copied_lengths
    )
    assert not ngram_novelty(copies, index, copied_lengths).any()

    fresh, fresh_lengths = encode("test_coco", 1000)
    found = {}
    for name in ("image_coco", "instances_mle", "instances_seq"):
        bank, lengths = encode(name, 1000)
        found[name] = memorisation(fresh, bank, index, fresh_lengths, lengths)
    assert float(found["image_coco"].novelty) == 0.0
    assert float(found["image_coco"].novelty_z) < -50
    # Both generators repeat what they were trained on beyond what people share by chance.
    for name in ("instances_mle", "instances_seq"):
        assert 0.5 < float(found[name].novelty) < 0.8 < float(found[name].novelty_null) < 0.9
        assert float(found[name].novelty_z) < -8
        assert float(found[name].copied_span) > float(found[name].copied_span_null)


def test_held_out_news_is_its_own_null(shared):
    """LM1B test against dev: two halves of one text copy from a third part alike."""
    dev = lines(shared("data/lm1b-heldout/1b_benchmark.dev.tokens"))
    test = lines(shared("data/lm1b-heldout/1b_benchmark.test.tokens"))
    vocabulary = text_vocabulary(dev)
    index = fit_training_index(*text_ids(dev, vocabulary=vocabulary))
    ids, lengths = text_ids(test, vocabulary=vocabulary)
    null = memorisation(ids[:4000], ids[4000:8000], index, lengths[:4000], lengths[4000:8000])
    assert abs(float(null.novelty_z)) < 3.5
    assert abs(float(null.copied_span_z)) < 3.5
    assert float(null.exceeding) < 0.002
    assert 0.9 < float(null.novelty) < 1
    # A bank of which one row in ten is copied is told from the null at once.
    copied = ids[4000:5000].copy(), lengths[4000:5000].copy()
    training, training_lengths = text_ids(dev[:100], vocabulary=vocabulary)
    width = min(training.shape[1], ids.shape[1])
    keep = training_lengths <= width
    copied[0][: keep.sum(), :width] = training[keep, :width]
    copied[1][: keep.sum()] = training_lengths[keep]
    leak = memorisation(ids[:1000], copied[0], index, lengths[:1000], copied[1])
    assert float(leak.novelty_z) < -4
    assert float(leak.exceeding) > 0.05
