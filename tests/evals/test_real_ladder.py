"""Real text as a ladder: news against news, against encyclopaedia, against Shakespeare.

LM1B dev and test are shuffled halves of one corpus, so their distance is the null of every
metric; WikiText-2 is modern prose of another kind; Shakespeare is another century. Every
distance must order the three alike, and all of those below do (none is exempt).

The corpora are tokenised differently (spaces around punctuation, split contractions, @-@,
<unk>, digits), which a metric would see before it sees the language. All are therefore cut down
to the same thing: lower-case words of the letters a to z, unknown words dropped, so that what
is left to tell them apart is vocabulary and grammar. LM1B is a bag of shuffled sentences: a
window of it crosses topics, one of the others does not.
"""

import functools
import re
from typing import NamedTuple

import numpy as np
import pytest

from dlmeval import metrics
from dlmeval.evals.scoring.features import tokenise
from dlmeval.models import load_scorer

FILES = {
    "dev": ("lm1b-heldout/1b_benchmark.dev.tokens",),
    "test": ("lm1b-heldout/1b_benchmark.test.tokens",),
    "wikitext": ("wikitext-2/valid.txt", "wikitext-2/test.txt"),
    "shakespeare": ("tinyshakespeare/input.txt",),
}
LADDER = ("test", "wikitext", "shakespeare")
NUM_TEXTS, NUM_CHARACTERS, MAX_TOKENS = 256, 200, 96


class Bank(NamedTuple):
    texts: list[str]
    features: np.ndarray  # mean-pooled hidden states of the embedded scorer


def windows(words):
    """Disjoint windows of at most 200 characters, cut between words, in a seeded draw."""
    rows, row, size = [], [], 0
    for word in words:
        if size + len(word) + 1 > NUM_CHARACTERS:
            rows.append(" ".join(row))
            row, size = [], 0
        row.append(word)
        size += len(word) + 1
    chosen = np.random.default_rng(0).permutation(len(rows))[:NUM_TEXTS]
    return [rows[i] for i in chosen]


@pytest.fixture(scope="module")
def banks(shared):
    scorer = load_scorer("embedded:kjv-scorer")

    def bank(files):
        text = " ".join(shared(f"data/{file}").read_text(encoding="utf-8") for file in files)
        texts = windows(re.findall(r"[a-z]+", text.replace("<unk>", " ").lower()))
        ids, lengths = tokenise(tuple(texts), scorer.tokenizer, MAX_TOKENS)
        hidden = scorer.hidden(ids, lengths)  # zeros beyond a row's length
        return Bank(texts, hidden.sum(1) / lengths[:, None])

    return {name: bank(files) for name, files in FILES.items()}


# Lower is nearer, for all of them.
DISTANCES = {
    "energy": metrics.energy_distance,
    "mmd": metrics.mmd,
    "frechet": metrics.frechet_distance,
    "kernel": metrics.kernel_distance,
    "sliced wasserstein": metrics.sliced_wasserstein,
}


def measured(banks, distance, other):
    return float(distance(banks["dev"].features, banks[other].features))


def test_mauve_climbs_the_ladder_by_all_three_of_its_numbers(banks):
    results = [
        metrics.mauve(banks["dev"].features, banks[other].features, seeds=(1, 2))
        for other in LADDER
    ]
    for name, values in (
        ("value", [1 - float(result.value) for result in results]),
        ("star", [1 - float(result.star) for result in results]),
        ("frontier integral", [float(result.frontier_integral) for result in results]),
    ):
        assert 0 < values[0] < values[1] < values[2], (name, values)


@pytest.mark.parametrize("name", DISTANCES)
def test_every_distance_climbs_the_ladder(banks, name):
    values = [measured(banks, DISTANCES[name], other) for other in LADDER]
    assert values[0] < values[1] < values[2], values
    assert values[0] > 0 or name == "kernel"  # the unbiased one may be negative under the null


@pytest.mark.parametrize("name", ["energy", "frechet"])
def test_whitening_on_the_reference_keeps_the_ladder(banks, name):
    whitening = metrics.fit_whitening(banks["dev"].features, 64)
    white = {key: np.asarray(whitening.transform(bank.features)) for key, bank in banks.items()}
    values = [float(DISTANCES[name](white["dev"], white[other])) for other in LADDER]
    assert 0 < values[0] < values[1] < values[2], values


@functools.cache
def coding(reference: tuple[str, ...], generated: tuple[str, ...]):
    encoded = ([text.encode() for text in texts] for texts in (reference, generated))
    codes = metrics.code_held_out(*encoded, depth=16)
    return metrics.coding_divergence_from_codes(codes), metrics.coding_divergence_stderr(codes)


@pytest.mark.parametrize("direction", ["value", "coverage", "fidelity"])
def test_coding_divergence_climbs_the_ladder_in_both_directions(banks, direction):
    dev = tuple(banks["dev"].texts)
    values, errors = [], []
    for other in LADDER:
        value, stderr = coding(dev, tuple(banks[other].texts))
        values.append(float(getattr(value, direction)))
        errors.append(float(getattr(stderr, direction)))
    # It may be negative under the null, where it must vanish within its standard error.
    assert abs(values[0]) < 4 * errors[0]
    assert values[0] + 3 * errors[0] < values[1] < values[2], (values, errors)


@pytest.mark.parametrize("name", DISTANCES)
def test_news_against_news_is_the_null_and_the_encyclopaedia_is_not(banks, name):
    """Against 20 deals of the union of both: within them, or beyond every one."""
    rng, distance = np.random.default_rng(1), DISTANCES[name]
    for other, is_null in (("test", True), ("wikitext", False)):
        union = np.concatenate([banks["dev"].features, banks[other].features])
        dealt = [
            float(distance(x[:NUM_TEXTS], x[NUM_TEXTS:]))
            for x in (union[rng.permutation(len(union))] for _ in range(20))
        ]
        worse = np.sum(np.array(dealt) >= measured(banks, distance, other))
        assert worse > 1 if is_null else worse == 0, (other, worse, dealt)
