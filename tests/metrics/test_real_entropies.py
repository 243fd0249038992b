"""Entropies and coding divergence on real text, against stored values and known nulls."""

import json

import numpy as np
import pytest
import tokenizers

from dlmeval.metrics import (
    code_held_out,
    coding_divergence_from_codes,
    coding_divergence_stderr,
    entropies,
    entropies_stderr,
    entropy_ceiling,
    jeffreys_coding_divergence,
)
from dlmeval.samplers import naive

WIDTH = 1024
SAMPLES = ("mdlm", "remdm-conf")


@pytest.fixture(scope="module")
def gpt2(shared):
    folder = shared("data/tokenizers")
    model = tokenizers.models.BPE.from_file(
        str(folder / "gpt2_encoder.json"), str(folder / "gpt2_vocab.bpe")
    )
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.add_special_tokens(["<|endoftext|>"])
    assert backend.token_to_id("<|endoftext|>") == 50256
    return backend


@pytest.fixture(scope="module")
def samples(shared, gpt2):
    """Ids (200, 1024) of both banks, lengths, and the 200 entropies stored with them."""
    ids, lengths, stored = np.zeros((200, WIDTH), np.int32), [], []
    for name in SAMPLES:
        path = shared(f"data/mdlm-owt-samples/{name}.generated_sequences.json")
        bank = json.loads(path.read_text())
        assert np.mean(bank["entropies"]) == pytest.approx(bank["entropy"], abs=1e-6)
        stored.extend(bank["entropies"])
        for encoding in gpt2.encode_batch(bank["text_samples"]):
            row = encoding.ids[:WIDTH]
            ids[len(lengths), : len(row)] = row
            lengths.append(len(row))
    return ids, np.array(lengths), np.array(stored)


def test_entropies_stored_with_real_samples(samples):
    """The stored values count the sampled ids, of which only the text survives.

    A model may sample a segmentation that BPE would not choose, so text encoded anew has 1,016
    to 1,036 tokens and differs in a few; rows that come back unchanged agree to float32.
    Measured: mean |difference| 0.0041 and 0.0034 nats, largest 0.024 and 0.014, within 1e-3
    20% and 29% of rows, within 1e-5 10% and 16%.
    """
    ids, lengths, stored = samples
    difference = np.asarray(entropies(ids, lengths).uni_rows) - stored
    for part in (slice(0, 100), slice(100, 200)):
        gap = np.abs(difference[part])
        assert gap.max() < 0.025
        assert gap.mean() < 0.0045
        assert abs(difference[part].mean()) < 1e-3  # the reported mean entropy is reproduced
        assert np.corrcoef(stored[part] + difference[part], stored[part])[0, 1] > 0.998
        assert np.mean(gap < 1e-3) >= 0.19
        assert np.mean(gap < 1e-5) >= 0.1
    # Where the number of tokens came back, so did most rows, to float32.
    whole = np.abs(difference[lengths == WIDTH])
    assert np.mean(whole < 1e-5) > 0.3


def test_entropies_of_real_samples_are_plausible_and_pos_is_saturated(samples):
    ids, lengths, _ = samples
    values, errors = entropies(ids, lengths), entropies_stderr(ids, lengths)
    assert 5.3 < float(values.uni) < 5.7  # OpenWebText: 5.44
    assert 0.005 < float(errors.uni) < 0.03
    # Real unigrams carry more than 7 nats; 200 rows cannot show more than 5.3.
    ceiling = float(entropy_ceiling(200))
    assert float(values.pool) > 7 > ceiling > float(values.pos) > ceiling - 0.7
    assert float(errors.pos) < 0.02


@pytest.fixture(scope="module")
def lm1b(shared):
    folder = shared("data/lm1b-heldout")
    return [
        (folder / f"1b_benchmark.{part}.tokens").read_bytes().splitlines()
        for part in ("dev", "test")
    ]


def test_coding_divergence_of_real_against_real_is_null(lm1b):
    """12,000 sentences a side: measured coverage -0.0006, fidelity -0.0004 bits a byte."""
    result = jeffreys_coding_divergence(*lm1b)
    assert abs(float(result.coverage)) < 0.002
    assert abs(float(result.fidelity)) < 0.002
    assert 2 < float(result.cross_entropies.reference_by_reference) < 3.2
    codes = code_held_out(*(bank[:1024] for bank in lm1b))
    small, error = coding_divergence_from_codes(codes), coding_divergence_stderr(codes)
    assert abs(float(small.value)) < 4 * float(error.value) < 0.02


@pytest.mark.parametrize("start", ["zeros", "grow", "skip"])
def test_naive_samplers_are_far_from_real_text(lm1b, start):
    """Counts of words alone, cut to 27 words a sentence as real ones have on average."""
    dev, test = (bank[:512] for bank in lm1b)
    words: dict[bytes, int] = {}
    documents = [
        np.array([words.setdefault(w, len(words)) for w in line.split()], np.int32) for line in dev
    ]
    counts = naive.corpus_counts(documents, ngram=2)
    names = list(words)

    def text(rows):
        return [b" ".join(names[i] for i in row) for row in rows]

    banks = {
        "periodic": naive.periodic(counts, 20, length=27, num_samples=512, seed=0),
        "top-k": naive.topk_iid(counts, 64, length=27, num_samples=512, seed=0),
    }
    null = jeffreys_coding_divergence(dev, test, start=start)
    assert abs(float(null.value)) < 0.02
    for name, rows in banks.items():
        result = jeffreys_coding_divergence(dev, text(rows), start=start)
        assert float(result.coverage) > 1, name
        assert float(result.value) > 50 * abs(float(null.value)), name
