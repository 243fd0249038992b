"""Generative perplexity of Hugging Face's GPT-2 beside the loops of published codes."""

import numpy as np
import pytest

from dlmeval.metrics import generative_perplexity, perplexity_as, target_mask

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def scored(record, peers):
    """Windows of texts, which of their tokens are padding, and the scorer."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    inputs = record.perplexity_inputs(np.random.default_rng(11))
    ids, lengths = np.array(inputs["ids"]), np.array(inputs["lengths"])
    windows = ids.reshape(-1, peers.CONTEXT)
    inside = (np.arange(ids.shape[1]) < lengths[:, None]).reshape(windows.shape)
    return peers.tiny_gpt2(), windows, inside


def ours(peers, model, windows, lengths, policy, aggregate):
    mask = np.asarray(target_mask(windows, lengths, peers.EOS, policy))[:, 1:]
    nll = peers.target_nll(model, windows)
    return float(
        generative_perplexity((nll * mask).sum(axis=1), mask.sum(axis=1), aggregate),
    )


@pytest.mark.parametrize("batch_size", [2, 3, 16])
def test_mdlm_and_duo(scored, peers, batch_size):
    model, windows, _ = scored
    kept = windows[: len(windows) - len(windows) % batch_size]
    value = ours(peers, model, kept, None, "first_eos", "token")
    theirs = peers.mdlm_perplexity(model, windows, np.ones_like(windows), batch_size)
    assert value == pytest.approx(theirs, rel=1e-5)
    assert value == pytest.approx(peers.duo_perplexity(model, windows, batch_size), rel=1e-5)


def test_mdlm_splits_long_texts_into_windows(scored, peers):
    """Two windows a text; batches hold whole texts."""
    model, windows, inside = scored
    texts = windows.reshape(-1, 2 * peers.CONTEXT)
    attention = inside.astype(int)
    attention[:, 0] = 1
    theirs = peers.mdlm_perplexity(model, texts, attention.reshape(texts.shape), 3)
    value = ours(peers, model, windows[:12], None, "first_eos", "token")
    assert value == pytest.approx(theirs, rel=1e-5)


@pytest.mark.filterwarnings("ignore:.*no scored token")
def test_elf(scored, peers):
    model, windows, _ = scored
    theirs, rows = peers.elf_perplexity(model, windows, 3)
    assert ours(peers, model, windows, None, "first_eos", "token") == pytest.approx(
        theirs, rel=1e-5
    )
    assert ours(peers, model, windows, None, "first_eos", "sample") == pytest.approx(
        np.mean(rows), rel=1e-5
    )
    assert len(rows) < len(windows)  # a window of padding alone has no perplexity


@pytest.mark.parametrize("batch_size", [2, 4])
def test_sedd(scored, peers, batch_size):
    model, windows, _ = scored
    value = ours(peers, model, windows, None, "all", "sample")
    assert value == pytest.approx(peers.sedd_perplexity(model, windows, batch_size), rel=1e-5)


def test_langflow(scored, peers):
    model, windows, inside = scored
    value = ours(peers, model, windows, inside.sum(axis=1), "all", "token")
    theirs = peers.langflow_perplexity(model, windows, inside.astype(int))
    assert value == pytest.approx(theirs, rel=1e-5)


@pytest.mark.filterwarnings("ignore:.*no scored token")
@pytest.mark.parametrize("batch_size", [3, 5])
def test_conventions_by_name(scored, peers, batch_size):
    """`perplexity_as` drops the rows that each code drops."""
    model, windows, inside = scored
    token_nll = np.pad(peers.target_nll(model, windows), ((0, 0), (1, 0)))
    theirs = {
        "mdlm": peers.mdlm_perplexity(model, windows, np.ones_like(windows), batch_size),
        "duo": peers.duo_perplexity(model, windows, batch_size),
        "elf": peers.elf_perplexity(model, windows, batch_size)[0],
        "sedd": peers.sedd_perplexity(model, windows, batch_size),
    }
    for name, expected in theirs.items():
        value = perplexity_as(name, token_nll, windows, eos_id=peers.EOS, batch_size=batch_size)
        assert float(value) == pytest.approx(expected, rel=1e-5), name
    lengths = inside.sum(axis=1)
    value = perplexity_as("langflow", token_nll, windows, lengths, batch_size=batch_size)
    expected = peers.langflow_perplexity(model, windows, inside.astype(int))
    assert float(value) == pytest.approx(expected, rel=1e-5)
