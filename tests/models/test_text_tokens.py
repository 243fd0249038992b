"""Tokenizer: round trips, specials, errors."""

import pytest

from dlmeval.models import text_tokens


@pytest.fixture(scope="module")
def tokenizer():
    return text_tokens.train_bpe(["the cat sat on the mat, and the cat slept"] * 3, 300)


@pytest.mark.parametrize("text", ["the cat", " leading", "naïve – 日本 🙂\n\ttabs", ""])
def test_any_text_survives_a_round_trip(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_end_of_text_is_id_zero_and_stays_literal(tokenizer):
    assert tokenizer.encode(text_tokens.END_OF_TEXT) == [0]
    assert tokenizer.decode([0]) == text_tokens.END_OF_TEXT


def test_stray_bytes_decode_to_the_replacement_character(tokenizer):
    first_byte = tokenizer.encode("日")[0]
    assert tokenizer.decode([first_byte]) == "\N{REPLACEMENT CHARACTER}"


def test_batches_equal_single_texts(tokenizer):
    texts = ["the mat", "a cat", ""]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(t) for t in texts]


def test_saved_files_load(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "deep" / "tokenizer.json")
    again = text_tokens.load(tmp_path / "deep" / "tokenizer.json")
    assert again.encode("the cat") == tokenizer.encode("the cat")
    assert again.vocab_size == tokenizer.vocab_size <= 300


def test_missing_and_broken_files(tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        text_tokens.load(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="cannot be read"):
        text_tokens.load(tmp_path / "tokenizer.json")
