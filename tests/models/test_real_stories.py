"""stories260K, a Llama that llama2.c trained: its own greedy text, from its own binary file."""

import json
import struct

import jax
import numpy as np
import pytest
from safetensors.numpy import save_file

from dlmeval.models import load_scorer
from dlmeval.samplers.autoregressive import sample_autoregressive

STEPS, BOS = 200, 1


def half_split(matrix, num_heads):
    """Rows of a head from llama2.c's order (pairs side by side) to Hugging Face's (in halves)."""
    rows, columns = matrix.shape
    pairs = matrix.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows, columns))


def convert(binary, folder):
    """Writes a v0 file of llama2.c as Hugging Face writes a Llama: config.json and safetensors."""
    data = binary.read_bytes()
    width, inner, layers, heads, kv_heads, vocab_size, context = struct.unpack("<7i", data[:28])
    values = np.frombuffer(data[28:], "<f4")
    kv_width = width // heads * kv_heads
    taken = 0

    def take(*shape):
        nonlocal taken
        taken += np.prod(shape)
        return values[taken - np.prod(shape) : taken].reshape(shape)

    tensors = {"model.embed_tokens.weight": take(vocab_size, width)}
    stacked = {
        "input_layernorm": take(layers, width),
        "self_attn.q_proj": take(layers, width, width),
        "self_attn.k_proj": take(layers, kv_width, width),
        "self_attn.v_proj": take(layers, kv_width, width),
        "self_attn.o_proj": take(layers, width, width),
        "post_attention_layernorm": take(layers, width),
        "mlp.gate_proj": take(layers, inner, width),
        "mlp.down_proj": take(layers, width, inner),
        "mlp.up_proj": take(layers, inner, width),
    }
    tensors["model.norm.weight"] = take(width)
    # Tables of cosines and sines end the file: a positive vocab_size says the head is tied.
    assert vocab_size > 0
    assert len(values) - taken == context * width // heads
    for layer in range(layers):
        for name, matrices in stacked.items():
            matrix = matrices[layer]
            if name in ("self_attn.q_proj", "self_attn.k_proj"):
                matrix = half_split(matrix, heads if "q_proj" in name else kv_heads)
            tensors[f"model.layers.{layer}.{name}.weight"] = matrix
    save_file(tensors, folder / "model.safetensors")
    config = {
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab_size,
        "max_position_embeddings": context,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "bos_token_id": BOS,
        "eos_token_id": 2,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def read_pieces(path):
    """The bytes of each id, from llama2.c's tokenizer file: score, length and bytes of each."""
    data, pieces, at = path.read_bytes(), [], 4
    while at < len(data):
        (length,) = struct.unpack_from("<i", data, at + 4)
        piece = data[at + 8 : at + 8 + length]
        byte = len(piece) == 6 and piece.startswith(b"<0x")
        pieces.append(bytes([int(piece[3:5], 16)]) if byte else piece)
        at += 8 + length
    return pieces


@pytest.fixture(scope="module")
def scorer(shared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stories260K")
    convert(shared("data/stories260K/stories260K.bin"), folder)
    return load_scorer(str(folder))


@pytest.fixture(scope="module")
def greedy(scorer):
    """The BOS and the 200 ids of highest probability after it."""
    samples = sample_autoregressive(
        scorer.logits_fn,
        scorer.params,
        np.array([[BOS]]),
        np.array([[True]]),
        jax.random.split(jax.random.key(0), 1),
        gen_length=STEPS,
        unmask_temp=0.0,
    )
    assert samples.nfe.tolist() == [STEPS]
    return np.asarray(samples.tokens)


def test_the_file_is_read_whole(scorer):
    assert sum(x.size for x in jax.tree.leaves(scorer.params)) == 260_032
    assert (scorer.num_ids, scorer.bos_id, scorer.eos_id) == (512, BOS, 2)
    assert scorer.tokenizer is None


def test_greedy_text_equals_that_of_llama2_c(greedy, shared):
    """What `run stories260K.bin -z tok512.bin -t 0.0 -n 200` prints, byte for byte."""
    pieces = read_pieces(shared("data/stories260K/tok512.bin"))
    assert len(pieces) == 512
    ids = greedy[0, 1:].tolist()
    assert BOS not in ids  # llama2.c would end the text there
    text = b"".join(pieces[i] for i in ids).removeprefix(b" ")  # none is printed after the BOS
    expected = shared("data/stories260K/golden_greedy_200steps.txt").read_bytes()
    assert text == expected


def test_nll_of_the_greedy_text_is_its_min_entropy(scorer, greedy):
    """The likeliest token costs -log max p: no more than the entropy, nor than log 512."""
    everywhere = slice(0, greedy.shape[1])
    logits = scorer.logits_fn(scorer.params, greedy, np.ones(greedy.shape, bool), everywhere)
    logp = np.asarray(jax.nn.log_softmax(logits), np.float64)[0, :-1]
    sums, counts = scorer.nll(greedy, np.array([greedy.shape[1]]))
    assert counts.tolist() == [STEPS]
    np.testing.assert_allclose(sums[0], -logp.max(axis=1).sum(), rtol=1e-5)
    entropy = -(np.exp(logp) * logp).sum()
    assert sums[0] <= entropy <= STEPS * np.log(512)
    assert sums[0] / STEPS < 0.5  # measured: 0.473 nats a token
