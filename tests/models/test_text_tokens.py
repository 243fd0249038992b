"""Tokenizers: round trips, specials, errors, and files read as the peers read them."""

import itertools
import json

import pytest
import transformers

from dlmeval.models import sentencepieces, text_tokens

CLASS = '{"tokenizer_class": "%s"}'


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


def test_a_lone_surrogate_is_named_with_its_text(tokenizer):
    for call in (tokenizer.encode_batch, tokenizer.encode_special):
        with pytest.raises(ValueError, match=r"text 2 holds the lone surrogate '\\ud800'"):
            call(["a", "\N{GRINNING FACE}", "b \ud800 c"])
        with pytest.raises(TypeError):
            call(["a", 3])
    with pytest.raises(ValueError, match=r"lone surrogate '\\udfff'"):
        tokenizer.encode("\udfff")


@pytest.mark.parametrize("name", ["vocab.txt", "vocab.json", "merges.txt", "tokenizer.json"])
def test_files_that_are_not_utf_8_are_named(tmp_path, name):
    for file in ("vocab.json", "merges.txt") if name != "vocab.txt" else ():
        (tmp_path / file).write_text("{}")
    (tmp_path / name).write_bytes('{"é": 0}'.encode("latin-1"))
    with pytest.raises(ValueError, match=rf"{name}'? cannot be read"):
        text_tokens.load_folder(tmp_path)


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


TEXTS = (
    "Hello world, 1234 don't STOP",
    "  two  spaces\n\n\ttab \r\n",
    "naïve – 日本 🙂 Ünïcode e\u0301",
    "<|endoftext|>a <|mask|> b [MASK] c <mask> <s>",
    "",
    "x" * 120,
)


def token(content, **options):
    plain = dict.fromkeys(("lstrip", "rstrip", "normalized", "single_word"), False)
    return {"content": content, "special": True, **plain, **options}


@pytest.fixture
def folder(tmp_path, shared):
    """A folder of published vocabulary files under the names that models give them."""

    def build(config, **files):
        for name, source in files.items():
            suffix = {"vocab_txt": "vocab.txt", "vocab": "vocab.json", "merges": "merges.txt"}
            target = tmp_path / suffix.get(name, "tokenizer.model")
            target.write_bytes(shared(f"data/tokenizers/{source}").read_bytes())
        if config is not None:
            (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        return tmp_path

    return build


GPT2 = {"vocab": "gpt2_encoder.json", "merges": "gpt2_vocab.bpe"}
BERT = {"vocab_txt": "bert_base_uncased_vocab.txt"}
QWEN2 = {
    "tokenizer_class": "Qwen2Tokenizer",
    "added_tokens_decoder": {
        "50256": token("<|endoftext|>"),
        "50257": token("<|im_end|>"),
        "50258": token("<|mask|>"),
    },
}


@pytest.mark.parametrize(
    ("peer", "config", "files"),
    [
        ("GPT2Tokenizer", {"tokenizer_class": "GPT2Tokenizer"}, GPT2),
        ("Qwen2Tokenizer", QWEN2, GPT2),
        ("BertTokenizer", {"tokenizer_class": "BertTokenizer"}, BERT),
        ("BertTokenizer", {"tokenizer_class": "BertTokenizerFast", "do_lower_case": False}, BERT),
    ],
)
def test_vocabulary_files_tokenise_as_transformers_does(folder, peer, config, files):
    path = folder(config, **files)
    ours = text_tokens.load_folder(path)
    theirs = getattr(transformers, peer).from_pretrained(path)
    for text, framed in zip(TEXTS, ours.encode_special(TEXTS), strict=True):
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False)
        assert framed == theirs.encode(text)
    assert ours.vocab_size == len(theirs)


def test_qwen2_splits_numbers_and_composes_accents_where_gpt2_does_not(folder):
    path = folder({"tokenizer_class": "GPT2Tokenizer"}, **GPT2)
    gpt2 = text_tokens.load_folder(path)
    (path / "tokenizer_config.json").write_text(json.dumps(QWEN2))
    qwen2 = text_tokens.load_folder(path)
    assert len(gpt2.encode("1234")) < len(qwen2.encode("1234")) == 4
    assert qwen2.encode("e\u0301") == qwen2.encode("é")
    assert gpt2.encode("e\u0301") != gpt2.encode("é")
    assert qwen2.token_id("<|mask|>") == 50258
    assert gpt2.token_id("<|mask|>") is None


def test_added_tokens_keep_their_ids_beyond_holes(folder):
    config = {"tokenizer_class": "DreamTokenizer", "mask_token": "<|mask|>"}
    config["added_tokens_decoder"] = {"50300": token("<|mask|>"), "50290": token("<|bos|>")}
    tokenizer = text_tokens.load_folder(folder(config, **GPT2))
    assert tokenizer.encode("a<|mask|> <|bos|>") == [64, 50300, 220, 50290]
    assert tokenizer.decode([64, 50300, 220, 50290]) == "a<|mask|> <|bos|>"
    assert tokenizer.vocab_size == 50301 > tokenizer.backend.get_vocab_size()


def test_older_files_add_tokens_too(folder):
    path = folder({"tokenizer_class": "GPT2Tokenizer"}, **GPT2)
    (path / "added_tokens.json").write_text('{"<M>": 50257}')
    assert text_tokens.load_folder(path).encode("<M>") == [50257]


def test_roberta_rows_lie_between_its_marks(tmp_path):
    words = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "Ġ", "ab", "<mask>"]
    (tmp_path / "vocab.json").write_text(json.dumps({w: i for i, w in enumerate(words)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
    peer = transformers.RobertaTokenizer.from_pretrained(tmp_path)
    ours = text_tokens.load_folder(tmp_path)
    for text in ("ab a", "b<mask>a", ""):
        assert ours.encode_special([text]) == [peer.encode(text)]
    assert ours.encode_special(["ab a"]) == [[0, 7, 6, 4, 2]]
    assert ours.encode("b <mask>") == [5, 8]  # the mask takes the space before it


@pytest.mark.parametrize("name", ["minilm-l6-v2", "all-mpnet-base-v2"])
def test_vocabulary_files_equal_the_published_tokenizer_json(real_weights, tmp_path, name):
    published = real_weights(name)
    for file in ("vocab.txt", "tokenizer_config.json"):
        (tmp_path / file).write_bytes((published / file).read_bytes())
    rebuilt, whole = (text_tokens.load_folder(path) for path in (tmp_path, published))
    assert rebuilt.encode_special(TEXTS) == whole.encode_special(TEXTS)


def merge_best_pairs(text, pieces):
    """sentencepiece's BPE, straight from its definition: the best adjacent pair first."""
    scores = {piece: score for piece, score, kind in pieces if kind == 1}
    ids = {piece: i for i, (piece, _, _) in enumerate(pieces)}
    parts = list("▁" + text.replace(" ", "▁"))
    while True:
        pairs = [a + b for a, b in itertools.pairwise(parts)]
        known = [(-scores[pair], i) for i, pair in enumerate(pairs) if pair in scores]
        if not known:
            break
        at = min(known)[1]
        parts[at : at + 2] = [pairs[at]]
    rows = ([ids[p]] if p in ids else [ids[f"<0x{b:02X}>"] for b in p.encode()] for p in parts)
    return [i for row in rows for i in row]


def test_sentencepiece_models_tokenise_as_their_definition_says(folder):
    path = folder(None, model="llama2_tokenizer.model")
    tokenizer = text_tokens.load_folder(path)
    pieces = sentencepieces.read_pieces(path / "tokenizer.model")
    texts = [text for text in TEXTS if "<s>" not in text and text] + ["The quick brown fox's den"]
    for text in texts:
        assert tokenizer.encode(text) == merge_best_pairs(text, pieces), text
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode_special(["Hello world"]) == [[1, 15043, 3186]]
    assert (tokenizer.vocab_size, tokenizer.token_id("</s>")) == (32000, 2)


def test_sentencepiece_files_that_are_cut_or_of_another_kind_are_refused(folder, tmp_path):
    path = folder(None, model="llama2_tokenizer.model") / "tokenizer.model"
    data = path.read_bytes()
    unigram = data.replace(b"\x18\x02\x20\x80\xfa\x01", b"\x18\x01\x20\x80\xfa\x01")
    assert unigram != data  # model_type (field 3) before vocab_size (field 4) = 32000
    for content, message in (
        (data[:-100], "no sentencepiece model"),
        (b"not a model", "no sentencepiece model"),
        (unigram, "model_type is not BPE"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            text_tokens.load_folder(tmp_path)


def test_long_texts_lose_their_end_but_not_their_frame(folder):
    tokenizer = text_tokens.load_folder(folder(None, **BERT))
    whole, short = tokenizer.encode_special(["one two three four", "one"])
    assert tokenizer.encode_special(["one two three four", "one"], 4) == [
        [*whole[:3], whole[-1]],
        short,
    ]
    assert tokenizer.encode_special(["one"], 2) == [[101, 102]]
    assert tokenizer.encode_special(["one two three four"]) == [whole]  # nothing is remembered
    with pytest.raises(ValueError, match="max_length=1 has no room"):
        tokenizer.encode_special(["one"], 1)


def test_the_mask_is_the_one_the_files_name(tokenizer, tmp_path):
    assert text_tokens.mask_id(tmp_path, tokenizer) is None
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"mask_token": token("cat")}))
    assert text_tokens.mask_id(tmp_path, tokenizer) == tokenizer.token_id("cat") is not None
    (tmp_path / "tokenizer_config.json").write_text('{"mask_token": "<M>"}')
    with pytest.raises(ValueError, match="mask_token '<M>' is not in the tokenizer"):
        text_tokens.mask_id(tmp_path, tokenizer)


def test_cutting_and_padding_stored_in_a_file_are_switched_off(tokenizer, tmp_path):
    stored = text_tokens.Tokenizer(type(tokenizer.backend).from_str(tokenizer.backend.to_str()))
    stored.backend.enable_truncation(2)
    stored.backend.enable_padding(length=16)
    stored.save(tmp_path / "tokenizer.json")
    again = text_tokens.load_folder(tmp_path)
    assert again.encode("the cat sat on the mat") == tokenizer.encode("the cat sat on the mat")
    assert again.encode_batch(["a", "the cat"]) == tokenizer.encode_batch(["a", "the cat"])


def test_a_folder_without_a_tokenizer_has_none(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenization_evil.py").write_text("raise SystemExit('ran')")
    assert text_tokens.load_folder(tmp_path) is None


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {
                "vocab.json": "{}",
                "merges.txt": "",
                "tokenizer_config.json": CLASS % "CLIPTokenizer",
            },
            "tokenizer_class 'CLIPTokenizer'.*save a tokenizer.json",
        ),
        ({"vocab.json": '{"a": 0, "b": -1}', "merges.txt": ""}, r"vocab.json: the ids of \['b'\]"),
        ({"vocab.json": '{"a": 0}', "merges.txt": "a b c"}, "merges.txt: line 1 is not two pieces"),
        ({"vocab.json": '{"a": 0}', "merges.txt": "a b"}, "do not fit"),
        ({"vocab.json": "[]", "merges.txt": ""}, "vocab.json must hold a JSON object"),
        ({"vocab.txt": "[UNK]\n[CLS]\na"}, r"lacks \[SEP\]"),
        (
            {"vocab.txt": "[CLS]", "tokenizer_config.json": '{"added_tokens_decoder": {"1": {}}}'},
            r"added_tokens_decoder\['1'\] is no token",
        ),
        ({"tokenizer.json": "{"}, "cannot be read"),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        text_tokens.load_folder(tmp_path)
