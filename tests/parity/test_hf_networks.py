"""Networks of random shapes and weights, saved by Hugging Face, against its own forward.

Odd sizes on purpose: heads of 5, 6 or 14 channels, grouped queries, one layer, few ids.
"""

# pyright: reportMissingImports=false

import numpy as np
import pytest

from dlmeval.models import load_encoder, load_scorer

pytestmark = pytest.mark.parity
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TOLERANCE = 1e-5  # of values of order 1, float32 on both sides
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


def saved(model, folder):
    """The model with every parameter drawn at random, norms and biases too, and its folder."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() > 1:
                # What leaves an embedding is of order 1; so is what leaves a matrix.
                width = 1 if "emb" in name or "wte" in name else parameter.shape[-1]
                parameter.copy_(noise * width**-0.5)
            else:
                parameter.copy_(0.3 * noise + (1.0 if "norm" in name.lower() else 0.0))
    model.tie_weights()
    model.eval().save_pretrained(folder)
    return model, str(folder)


def rows(vocab_size, lengths, pad_id, seed=0):
    """Random rows that are padded on the right; no valid token is the pad."""
    ids = np.random.default_rng(seed).integers(0, vocab_size - 1, (len(lengths), max(lengths)))
    ids = ids + (ids >= pad_id)
    mask = np.arange(ids.shape[1]) < np.array(lengths)[:, None]
    return np.where(mask, ids, pad_id), mask


def assert_close(ours, theirs, mask):
    ours, theirs = np.asarray(ours)[mask], theirs.numpy()[mask]
    scale = max(1.0, float(np.sqrt(np.mean(theirs**2))))
    assert theirs.std() > 0.1
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE * scale)


def check_scorer(model, folder):
    model, source = saved(model, folder)
    ids, mask = rows(model.config.vocab_size, (13, 7, 1), pad_id=0)
    with torch.no_grad():
        given = torch.as_tensor(ids), torch.as_tensor(mask).long()
        theirs = model(given[0], attention_mask=given[1]).logits
    scorer = load_scorer(source)
    assert_close(scorer.logits_fn(scorer.params, ids, mask, slice(0, 13)), theirs, mask)


def check_encoder(model, folder, lengths=(13, 7, 1), num_types=0, holes=False):
    model, source = saved(model, folder)
    pad_id = model.config.pad_token_id
    ids, mask = rows(model.config.vocab_size, lengths, pad_id)
    if holes:  # a valid token with the pad's id
        ids[0, 4] = pad_id
    types = {}
    if num_types:
        types = {"token_type_ids": np.random.default_rng(1).integers(0, num_types, ids.shape)}
    with torch.no_grad():
        given = {name: torch.as_tensor(value) for name, value in types.items()}
        theirs = model(
            torch.as_tensor(ids), attention_mask=torch.as_tensor(mask).long(), **given
        ).last_hidden_state
    encoder = load_encoder(source)
    more = {"token_types": types["token_type_ids"]} if types else {}
    assert_close(encoder.hidden(ids, mask.sum(axis=1), **more), theirs, mask)


@pytest.mark.parametrize(
    "shape",
    [
        dict(vocab_size=11, hidden_size=18, num_attention_heads=3, num_hidden_layers=1),
        dict(
            vocab_size=97,
            hidden_size=24,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=14,
            num_hidden_layers=3,
            tie_word_embeddings=True,
            rope_parameters=LLAMA3,
        ),
        dict(
            vocab_size=97,
            hidden_size=20,
            num_attention_heads=2,
            num_key_value_heads=1,
            num_hidden_layers=3,
            rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0},
        ),
    ],
)
def test_llama(tmp_path, shape):
    config = transformers.LlamaConfig(
        intermediate_size=31, max_position_embeddings=64, rms_norm_eps=1e-5, **shape
    )
    check_scorer(transformers.LlamaForCausalLM(config), tmp_path)


@pytest.mark.parametrize(
    "shape",
    [
        dict(
            vocab_size=11,
            hidden_size=30,
            num_attention_heads=5,
            num_key_value_heads=1,
            num_hidden_layers=3,
            tie_word_embeddings=True,
        ),
        dict(
            vocab_size=97,
            hidden_size=20,
            num_attention_heads=2,
            num_key_value_heads=2,
            num_hidden_layers=1,
            tie_word_embeddings=False,
        ),
    ],
)
def test_qwen2(tmp_path, shape):
    config = transformers.Qwen2Config(
        intermediate_size=23, max_position_embeddings=64, rms_norm_eps=1e-6, **shape
    )
    check_scorer(transformers.Qwen2ForCausalLM(config), tmp_path)


@pytest.mark.parametrize(
    "shape",
    [
        dict(vocab_size=11, n_embd=15, n_head=3, n_layer=1),
        dict(vocab_size=97, n_embd=14, n_head=1, n_layer=3, n_inner=22),
        dict(vocab_size=97, n_embd=18, n_head=3, n_layer=3, tie_word_embeddings=False),
    ],
)
def test_gpt2(tmp_path, shape):
    config = transformers.GPT2Config(n_positions=13, bos_token_id=0, eos_token_id=0, **shape)
    check_scorer(transformers.GPT2LMHeadModel(config), tmp_path)


def test_gpt2_as_an_encoder(tmp_path):
    config = transformers.GPT2Config(
        vocab_size=11, n_positions=13, n_embd=15, n_head=3, n_layer=2, pad_token_id=0
    )
    check_encoder(transformers.GPT2Model(config), tmp_path)


@pytest.mark.parametrize(
    "shape",
    [
        dict(vocab_size=11, hidden_size=15, num_attention_heads=3, num_hidden_layers=1),
        dict(
            vocab_size=97,
            hidden_size=14,
            num_attention_heads=1,
            num_hidden_layers=3,
            type_vocab_size=3,
            pad_token_id=2,
        ),
    ],
)
def test_bert(tmp_path, shape):
    config = transformers.BertConfig(intermediate_size=31, max_position_embeddings=13, **shape)
    check_encoder(transformers.BertModel(config), tmp_path, num_types=config.type_vocab_size)


def test_bert_inside_a_masked_language_model(tmp_path):
    config = transformers.BertConfig(
        vocab_size=97,
        hidden_size=18,
        num_attention_heads=3,
        num_hidden_layers=2,
        intermediate_size=31,
        max_position_embeddings=13,
    )
    model, source = saved(transformers.BertForMaskedLM(config), tmp_path)
    ids, mask = rows(97, (13, 7, 1), pad_id=0)
    with torch.no_grad():
        theirs = model.bert(
            torch.as_tensor(ids), attention_mask=torch.as_tensor(mask).long()
        ).last_hidden_state
    assert_close(load_encoder(source).hidden(ids, mask.sum(axis=1)), theirs, mask)


@pytest.mark.parametrize(
    "shape",
    [
        dict(vocab_size=11, hidden_size=15, num_attention_heads=3, num_hidden_layers=1),
        dict(
            vocab_size=97,
            hidden_size=14,
            num_attention_heads=1,
            num_hidden_layers=3,
            pad_token_id=4,
            layer_norm_eps=1e-5,
        ),
    ],
)
def test_roberta(tmp_path, shape):
    config = transformers.RobertaConfig(
        intermediate_size=31, max_position_embeddings=18, type_vocab_size=1, **shape
    )
    check_encoder(transformers.RobertaModel(config), tmp_path, holes=True)


@pytest.mark.parametrize(
    "shape",
    [
        dict(vocab_size=11, hidden_size=15, num_attention_heads=3, num_hidden_layers=1),
        dict(vocab_size=97, hidden_size=14, num_attention_heads=1, num_hidden_layers=3),
    ],
)
def test_mpnet(tmp_path, shape):
    """Rows long enough for every bucket of distances."""
    config = transformers.MPNetConfig(
        intermediate_size=31, max_position_embeddings=152, layer_norm_eps=1e-5, **shape
    )
    check_encoder(transformers.MPNetModel(config), tmp_path, (150, 64, 1), holes=True)
