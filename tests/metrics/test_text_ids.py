"""Texts as ids: numbering, splitting, shared vocabularies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlmeval.metrics import self_bleu, text_ids, text_vocabulary


@given(st.lists(st.text("ab \n\té", max_size=12), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_rows_are_the_texts_again(texts):
    for tokens, split in (("whitespace", str.split), ("characters", list)):
        rows = [split(text) for text in texts]
        if not any(rows):
            continue
        vocabulary = text_vocabulary(texts, tokens)
        ids, lengths = text_ids(texts, tokens)
        assert ids.dtype == lengths.dtype == np.int32
        assert ids.shape == (len(texts), max(map(len, rows)))
        back = [[vocabulary[i] for i in row[:k]] for row, k in zip(ids, lengths, strict=True)]
        assert back == rows
        assert all((row[k:] == -1).all() for row, k in zip(ids, lengths, strict=True))
        for left, right in zip(text_ids(rows), (ids, lengths), strict=True):
            np.testing.assert_array_equal(left, right)


def test_banks_share_ids_through_a_vocabulary():
    vocabulary = text_vocabulary(["the cat sat"])
    training, _ = text_ids(["the cat sat"], vocabulary=vocabulary)
    generated, _ = text_ids(["a cat", "the dog"], vocabulary=vocabulary)
    assert training.tolist() == [[0, 1, 2]]
    assert generated.tolist() == [[3, 1], [0, 4]]


def test_ids_go_straight_into_a_metric():
    texts = ["a b c d e", "a b c d e", "f g"]
    assert self_bleu(*text_ids(texts)).tolist() == [1.0, 1.0, 0.0]


def test_forgotten_lengths_are_noticed():
    with pytest.raises(ValueError, match="lengths"):
        self_bleu(text_ids(["a b c", "a"])[0])


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([], {}, "texts is empty"),
        (["", " \n"], {}, "none of the 2 texts holds a token"),
        ("one text", {}, "put it in a list"),
        (b"one text", {}, "put it in a list"),
        ([b"bytes"], {}, r"texts\[0\] must be a str .* got bytes"),
        (["a", 3], {}, r"texts\[1\] must be a str .* got int"),
        ([["a", 3]], {}, "tokens that are no strings"),
        (["a"], {"tokens": "words"}, "whitespace"),
        (["a"], {"vocabulary": "abc"}, "got one string"),
        (["a"], {"vocabulary": ["a", "b", "a"]}, "lists 1 tokens more than once"),
    ],
)
def test_bad_input_is_named(texts, options, message):
    with pytest.raises(ValueError, match=message):
        text_ids(texts, **options)
