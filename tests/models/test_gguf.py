"""GGUF: the container, the block formats, and a model read like its safetensors twin."""

import json
import struct

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
import tokenizers

from dlmeval.models import gguf, gguf_config, load_scorer, quantized

U32, F32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8, "Q5_K": 13, "Q6_K": 14, "BF16": 30}
TO_GGUF = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers.": "blk.",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
SHAPE = {
    "attention.head_count": 2,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "block_count": 1,
    "context_length": 16,
    "embedding_length": 8,
    "feed_forward_length": 8,
}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def encoded(value) -> tuple[int, bytes]:
    """The kind and the bytes of a value of metadata."""
    if isinstance(value, bool):
        return BOOL, bytes([value])
    if isinstance(value, int):
        return U32, struct.pack("<I", value)
    if isinstance(value, float):
        return F32, struct.pack("<f", value)
    if isinstance(value, str):
        return STRING, text(value)
    kinds = [encoded(item) for item in value]
    items = b"".join(raw for _, raw in kinds)
    return ARRAY, struct.pack("<IQ", kinds[0][0], len(value)) + items


def build(metadata, tensors, *, version=3, alignment=32) -> bytes:
    """A file of metadata pairs and tensors (name, type, shape outermost first, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, value in metadata:
        kind, raw = encoded(value)
        head += text(key) + struct.pack("<I", kind) + raw
    data = b""
    for name, kind, shape, raw in tensors:
        data += bytes(-len(data) % alignment)
        head += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += struct.pack("<IQ", TYPES.get(kind, kind), len(data))
        data += raw
    return head + bytes(-len(head) % alignment) + data


def llama(changes=(), tensors=None, tokenizer=(), **options) -> bytes:
    """A file that says it is a tiny Llama; `changes` replace or (None) drop its keys."""
    shape = {f"llama.{key}": value for key, value in SHAPE.items()}
    keys = {"general.architecture": "llama", **shape, **dict(changes)}
    pairs = [(key, value) for key, value in keys.items() if value is not None]
    embed = ("token_embd.weight", "F32", (4, 8), bytes(128))
    return build([*pairs, *tokenizer], [embed] if tensors is None else tensors, **options)


@pytest.fixture
def written(tmp_path):
    def write(data: bytes):
        path = tmp_path / "tiny.gguf"
        path.write_bytes(data)
        return path

    return write


def value_of(entry):
    out = np.empty(entry.shape, entry.dtype)
    entry.read(out)
    return out


def half(*values: float) -> bytes:
    return np.array(values, "<f2").tobytes()


def six_bits(q: list[int]) -> bytes:
    """256 numbers below 64 as Q6_K packs them, one at a time."""
    low, high = bytearray(128), bytearray(64)
    for i, value in enumerate(q):
        part, quarter, at = i // 128, i % 128 // 32, i % 32
        low[part * 64 + quarter % 2 * 32 + at] |= (value & 15) << (4 * (quarter // 2))
        high[part * 32 + at] |= (value >> 4) << (2 * quarter)
    return bytes(low + high)


RISING = bytes(i | (15 - i) << 4 for i in range(16))
SIXES = [(7 * i + 3) % 64 for i in range(256)]
SCALES = [-128, 127, 0, 1, *range(2, 14)]
BLOCKS = {
    "F32": (np.array([1.5, -(2.0**90)], "<f4").tobytes(), [1.5, -(2.0**90)]),
    "F16": (half(0.5, -1024), [0.5, -1024]),
    "BF16": (np.array([0.5, -(2.0**90)], ml_dtypes.bfloat16).tobytes(), [0.5, -(2.0**90)]),
    "Q8_0": (half(0.5) + np.arange(-16, 16, dtype=np.int8).tobytes(), np.arange(-16, 16) / 2),
    "Q4_0": (half(-2) + RISING, [-2 * (i - 8) for i in [*range(16), *reversed(range(16))]]),
    "Q4_1": (half(0.25, -1) + RISING, [i / 4 - 1 for i in [*range(16), *reversed(range(16))]]),
    "Q6_K": (
        six_bits(SIXES) + np.array(SCALES, np.int8).tobytes() + half(0.5),
        [0.5 * SCALES[i // 16] * (q - 32) for i, q in enumerate(SIXES)],
    ),
}


def test_all_formats_are_covered():
    assert BLOCKS.keys() == quantized.FORMATS.keys()


@pytest.mark.parametrize("kind", BLOCKS)
def test_block_has_the_values_of_its_definition(written, kind):
    raw, values = BLOCKS[kind]
    path = written(build([], [("first", "F32", (1,), b"abcd"), ("x", kind, (len(values),), raw)]))
    read = value_of(gguf.tensor(path, gguf.read_header(path).tensors["x"]))
    np.testing.assert_array_equal(read.astype(np.float64), values)


def test_many_blocks_and_reordered_rows(written):
    """More blocks than are converted at a time; a row moves with all of its blocks."""
    rng = np.random.default_rng(0)
    scale = rng.normal(size=(50, 100, 1)).astype("<f2")
    q = rng.integers(-128, 128, (50, 100, 32), np.int8)
    raw = np.concatenate([scale.view(np.uint8), q.view(np.uint8)], axis=-1).tobytes()
    expected = (scale.astype(np.float32) * q).reshape(50, 3200)
    path = written(build([], [("x", "Q8_0", (50, 3200), raw)]))
    span = gguf.read_header(path).tensors["x"]
    np.testing.assert_array_equal(value_of(gguf.tensor(path, span)), expected)
    order = rng.permutation(50)
    np.testing.assert_array_equal(value_of(gguf.tensor(path, span, order)), expected[order])


def test_dequantize_refuses_arrays_that_do_not_fit():
    with pytest.raises(ValueError, match="no block of 34 bytes"):
        quantized.dequantize(
            np.zeros((1, 33), np.uint8), quantized.FORMATS["Q8_0"], np.zeros((1, 32), np.float32)
        )
    with pytest.raises(ValueError, match=r"2 blocks need float32\[2, 32\]"):
        quantized.dequantize(
            np.zeros((2, 34), np.uint8), quantized.FORMATS["Q8_0"], np.zeros((1, 32), np.float32)
        )


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("alignment", [8, 64])
def test_header_gives_back_what_was_written(written, version, alignment):
    pairs = [("a", 7), ("b", 0.5), ("c", True), ("d", "é"), ("e", ["x", "yz"]), ("f", [1, 2])]
    pairs += [("general.alignment", alignment), ("g", [False, True])]
    raw = np.arange(6, dtype="<f4")
    tensors = [("odd", "F16", (1,), half(3)), ("x", "F32", (2, 3), raw.tobytes())]
    path = written(build(pairs, tensors, version=version, alignment=alignment))
    header = gguf.read_header(path)
    assert header.metadata == dict(pairs)
    read = value_of(gguf.tensor(path, header.tensors["x"]))
    np.testing.assert_array_equal(read, raw.reshape(2, 3))


def interleaved(rows: np.ndarray, heads: int) -> np.ndarray:
    """Halves of each head to neighbours, as llama.cpp stores what it rotates in pairs."""
    first, second = np.split(rows.reshape(heads, -1, *rows.shape[1:]), 2, axis=1)
    return np.stack([first, second], axis=2).reshape(rows.shape)


def as_gguf(folder) -> tuple[bytes, dict]:
    """The tensors of a safetensors folder in a GGUF file, and its config."""
    config = json.loads((folder / "config.json").read_text())
    name = config["model_type"]
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    tensors = []
    for theirs, array in safetensors.numpy.load_file(folder / "weights.safetensors").items():
        for old, new in TO_GGUF.items():
            theirs = theirs.replace(old, new)
        for part, count in heads.items():
            if name == "llama" and part in theirs:
                array = interleaved(array, count)
        array = np.ascontiguousarray(array, "<f4")
        tensors.append((theirs, "F32", array.shape, array.tobytes()))
    keys = {
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "rope.freq_base": config["rope_theta"],
    }
    pairs = [("general.architecture", name), *((f"{name}.{k}", v) for k, v in keys.items())]
    return build(pairs, tensors), config


@pytest.mark.parametrize("name", ["llama", "qwen2"])
def test_same_likelihoods_as_the_safetensors_twin(written, golden, name):
    """Exactly: proves names, reversed axes, config and the order of rotary rows."""
    data, config = as_gguf(golden(name))
    path = written(data)
    ours = gguf_config.open_gguf(path)
    assert {k: config[k] for k in ours.config} == ours.config
    assert ours.tokenizer is None
    ids = np.random.default_rng(0).integers(0, config["vocab_size"], (2, 9), dtype=np.int32)
    lengths = np.array([9, 7])
    twin, scorer = load_scorer(str(golden(name))), load_scorer(f"gguf:{path}")
    np.testing.assert_array_equal(scorer.nll(ids, lengths)[0], twin.nll(ids, lengths)[0])
    assert list(scorer.card.digests) == ["tiny.gguf"]


def test_head_width_and_stored_defaults(written):
    config = gguf_config.open_gguf(written(llama({"llama.attention.key_length": 6}))).config
    assert config["head_dim"] == 6
    assert config["rms_norm_eps"] == 1e-5  # not 9.99999975e-06
    assert (config["num_key_value_heads"], config["rope_theta"]) == (2, 10_000.0)
    assert "bos_token_id" not in config


def llama3_factors(factor, context=8192):
    """What each frequency is divided by, from the published description, one at a time."""
    factors = []
    for i in range(64):
        wavelength = 2 * np.pi * 500_000 ** (2 * i / 128)
        smooth = (context / wavelength - 1) / 3
        if wavelength < context / 4:
            factors.append(1)
        elif wavelength > context:
            factors.append(factor)
        else:
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(factors, "<f4")


def wide_llama(factors):
    changes = {"llama.embedding_length": 128, "llama.attention.head_count": 1}
    changes |= {"llama.rope.freq_base": 500_000.0, "llama.rope.dimension_count": 128}
    tensors = [("token_embd.weight", "F32", (4, 128), bytes(2048))]
    return llama(changes, [*tensors, ("rope_freqs.weight", "F32", (64,), factors.tobytes())])


def test_frequencies_of_llama_3_become_its_rope_scaling(written):
    for factor in (8.0, 32.0):
        model = gguf_config.open_gguf(written(wide_llama(llama3_factors(factor))))
        assert model.config["rope_scaling"] == {
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        }
        assert list(model.tensors) == ["model.embed_tokens.weight"]
    with pytest.raises(ValueError, match=r"tiny.gguf: rope_freqs.weight holds other factors"):
        gguf_config.open_gguf(written(wide_llama(llama3_factors(8.0, context=4096))))


ALPHABET = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
CONTROL, WORD, UNUSED = "<|end|>", "tool call", "[PAD0]"
# Of "don't": 'n and 't join after a split at the apostrophe; of digits: pairs, then threes.
MERGES = ["1 2", "12 3", "3 4", "' t", "' T", "Ġ a", "a b", "Ġa b", ". Ċ"]
TOKENS = [*ALPHABET, *(m.replace(" ", "") for m in MERGES), "xyz", CONTROL, WORD, UNUSED]
KINDS = [1] * (len(TOKENS) - 3) + [3, 4, 5]


def bpe(pre: str | None = "gpt-2", **changes):
    keys = {
        "model": "gpt2",
        "pre": pre,
        "tokens": TOKENS,
        "token_type": KINDS,
        "merges": MERGES,
        "bos_token_id": TOKENS.index(CONTROL),
        "padding_token_id": 0,
        **changes,
    }
    return [(f"tokenizer.ggml.{k}", v) for k, v in keys.items() if v is not None]


def many_rows():
    """A Llama with an embedding for each of the tokens."""
    return [("token_embd.weight", "F32", (len(TOKENS), 8), bytes(32 * len(TOKENS)))]


@pytest.mark.parametrize(
    ("pre", "pieces"),
    [
        ("gpt-2", ["Ġa", "123", "4", "'t", "'", "T", "xyz", ".", "Ċ"]),
        ("smollm", ["Ġa", "1", "2", "3", "4", "'t", "'", "T", "xyz", ".", "Ċ"]),
        ("qwen2", ["Ġa", "1", "2", "3", "4", "'t", "'T", "xyz", ".Ċ"]),
        ("llama-bpe", ["Ġa", "123", "4", "'t", "'T", "xyz", ".Ċ"]),
    ],
)
def test_text_is_split_as_the_named_pre_tokenizer_does(written, pre, pieces):
    """Digits, contractions, a token that no merges lead to (whole for Llama 3 alone), line ends."""
    if pre != "llama-bpe":
        pieces = [letter for piece in pieces for letter in ("xyz" if piece == "xyz" else [piece])]
    tokenizer = gguf_config.open_gguf(written(llama((), many_rows(), bpe(pre)))).tokenizer
    assert tokenizer is not None
    assert tokenizer.encode(" a1234't'Txyz.\n").tokens == pieces


def test_tokenizer_round_trip_and_whole_tokens(written):
    model = gguf_config.open_gguf(written(llama((), many_rows(), bpe())))
    assert (model.config["bos_token_id"], model.config["pad_token_id"]) == (
        TOKENS.index(CONTROL),
        0,
    )
    tokenizer = model.tokenizer
    assert tokenizer is not None
    for string in ("naïve café — 你好 \t\n\n  world", "", f"a{CONTROL}b{WORD}", UNUSED):
        ids = tokenizer.encode(string).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == string
    ids = tokenizer.encode(f"a{CONTROL}{WORD}{UNUSED}").ids
    assert ids[1:3] == [TOKENS.index(CONTROL), TOKENS.index(WORD)]
    assert TOKENS.index(UNUSED) not in ids


def test_gpt2_ids_equal_the_tokenizer_it_was_written_from(written):
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=ALPHABET, show_progress=False
    )
    lines = ["the cat sat on the mat, and that was that", "it isn't 1999 or 2001 any more"]
    backend.train_from_iterator(lines, trainer)
    described = json.loads(backend.to_str())["model"]
    tokens = sorted(described["vocab"], key=described["vocab"].__getitem__)
    merges = [" ".join(pair) for pair in described["merges"]]
    keys = bpe(tokens=tokens, merges=merges, token_type=None)
    tokenizer = gguf_config.open_gguf(written(llama((), None, keys))).tokenizer
    assert tokenizer is not None
    for line in (*lines, "That mat's 2001 hats"):
        assert tokenizer.encode(line).ids == backend.encode(line).ids


ONE = ("x", "F32", (2,), bytes(8))
BAD_FILES = {
    "no bytes": (b"", "cannot read"),
    "another file": (b"PK\3\4" + bytes(60), "no GGUF file"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1", "git lfs pull"),
    "old version": (build([], [], version=1), "version 1 is not read"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
    "key twice": (build([("a", 1), ("a", 1)], []), "'a' is stored twice"),
    "tensor twice": (build([], [ONE, ONE]), "'x' is stored twice"),
    "type": (build([], [("x", "Q5_K", (256,), bytes(176))]), r"Q5_K \(1 tensors\); accepted: F32"),
    "unknown type": (build([], [("x", 99, (2,), bytes(8))]), "number 99"),
    "axes": (build([], [("x", "F32", (1,) * 5, bytes(4))]), "5 axes"),
    "no rows": (build([], [("x", "F32", (0, 2), b"")]), "positive multiples"),
    "half a block": (build([], [("x", "Q8_0", (2, 16), bytes(34))]), "multiples of 32"),
    "beyond the end": (build([], [("x", "F32", (3,), bytes(8))]), "broke off"),
    "huge": (build([], [("x", "F32", (1 << 40, 1 << 40), bytes(8))]), "broke off"),
    "alignment": (build([("general.alignment", 12)], [ONE]), "multiple of 8"),
    "misaligned": (build([("general.alignment", 64)], [ONE, ("y", *ONE[1:])]), "alignment 64"),
    "overlap": (build([], [("x", "F32", (9,), bytes(8)), ("y", "F32", (9,), bytes(36))]), "overl"),
    "parts": (build([("split.count", 3)], []), "one of 3 parts"),
    "no UTF-8": (build([("k", "aaaa")], []).replace(b"aaaa", b"\xff\xfe\0\0"), "no UTF-8"),
    "boolean": (build([("k", True)], [])[:-1].replace(b"k\7\0\0\0\1", b"k\7\0\0\0\2"), "boolean"),
    "kind": (build([("k", 1)], []).replace(b"k\4\0\0\0", b"k\x63\0\0\0"), "unknown kind 99"),
    "nested": (build([("k", [[1]])], []), "array of arrays"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_file_is_refused_by_name(written, case):
    data, message = BAD_FILES[case]
    with pytest.raises(ValueError, match=message) as caught:
        gguf.read_header(written(data))
    assert "tiny.gguf" in str(caught.value)


def test_file_cut_anywhere_is_refused(written):
    data = build([("a", "é"), ("b", [1, 2]), ("c", ["d"]), ("e", True)], [ONE])
    assert gguf.read_header(written(data)).tensors.keys() == {"x"}
    for end in range(len(data)):
        with pytest.raises(ValueError, match=r"cannot read .*tiny\.gguf"):
            gguf.read_header(written(data[:end]))


def test_file_cut_after_it_was_opened(written):
    data = llama()
    entry = gguf_config.open_gguf(written(data)).tensors["model.embed_tokens.weight"]
    written(data[:-1])
    with pytest.raises(ValueError, match=r"tiny.gguf ends 1 bytes early"):
        value_of(entry)


BAD_MODELS = {
    "architecture": (llama({"general.architecture": "mamba"}), "'mamba' is not .*llama, qwen2"),
    "missing": (llama({"llama.block_count": None}), "missing key llama.block_count"),
    "unknown": (llama({"llama.logit_scale": 0.5}), "unknown key llama.logit_scale"),
    "experts": (llama({"llama.expert_count": 8}), "expert_count=8 is not implemented"),
    "scaling": (llama({"llama.rope.scaling.type": "yarn"}), "type='yarn' is not implemented"),
    "part rotary": (llama({"llama.rope.dimension_count": 2}), "dimension_count=2 .*accepted: 4"),
    "per layer": (llama({"llama.attention.head_count_kv": [1, 2]}), "no positive int"),
    "no float": (llama({"llama.rope.freq_base": "x"}), "freq_base='x' is no positive float"),
    "rows": (llama({"llama.vocab_size": 5}), r"vocab_size=5 .*accepted: 4"),
    "odd heads": (llama({"llama.attention.head_count": 8}), "heads of width 1"),
    "no embedding": (llama((), [ONE]), "missing tensor token_embd.weight"),
    "tensors": (
        llama((), [("token_embd.weight", "F32", (4, 8), bytes(128)), ONE]),
        "tensors that a llama model does not have: x",
    ),
    "bias": (
        llama((), [*many_rows(), ("blk.0.attn_q.bias", "F32", (8,), bytes(32))]),
        "does not have: blk.0.attn_q.bias",
    ),
    "rows of heads": (
        llama((), [*many_rows(), ("blk.0.attn_q.weight", "F32", (6, 8), bytes(192))]),
        "blk.0.attn_q.weight has 6 rows",
    ),
    "sentencepiece": (llama((), None, bpe(model="llama")), "SentencePiece"),
    "kind of tokenizer": (llama((), None, bpe(model="bert")), "'bert' is not implemented"),
    "pre": (llama((), None, bpe("viking")), "pre='viking' .*accepted: gpt-2, smollm"),
    "no pre": (llama((), None, bpe(None)), "pre=None is not implemented"),
    "prefix": (llama((), None, bpe(add_space_prefix=True)), "add_space_prefix=True"),
    "key": (llama((), None, bpe(normalizer="x")), "unknown keys .*tokenizer.ggml.normalizer"),
    "no tokens": (llama((), None, bpe(tokens=None)), "tokens is missing"),
    "kinds": (llama((), None, bpe(token_type=[1, 1])), "one number for each token"),
    "twice": (llama((), None, bpe(tokens=["xyz", *TOKENS[1:]])), "holds 'xyz' twice"),
    "merge": (llama((), None, bpe(merges=["a c"])), "'a c' does not join two tokens"),
    "ids": (llama((), None, bpe()), "do not belong together"),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_bad_model_is_refused_by_name(written, case):
    data, message = BAD_MODELS[case]
    path = written(data)
    with pytest.raises(ValueError, match=message) as caught:
        load_scorer(f"gguf:{path}")
    assert "tiny.gguf" in str(caught.value)


def test_all_faults_of_the_hyper_parameters_come_in_one_message(written):
    changes = {"llama.block_count": None, "llama.logit_scale": 0.5, "llama.expert_count": 8}
    with pytest.raises(ValueError) as caught:
        gguf_config.open_gguf(written(llama(changes)))
    for part in ("missing key llama.block_count", "unknown key llama.logit_scale", "expert_count"):
        assert part in str(caught.value)
