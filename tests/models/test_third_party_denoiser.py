"""A network from elsewhere, brought by an adapter of its user, through the samplers."""

# pyright: reportMissingImports=false

import importlib.util
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval import samplers

ADAPTER = pathlib.Path(__file__).with_name("tiny_mdlm.py")
WIDTH, CONTEXT, TIMES = 256, 64, 128


@pytest.fixture(scope="module")
def tiny():
    """The adapter, as a module."""
    spec = importlib.util.spec_from_file_location("tiny_mdlm", ADAPTER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def params(tiny, shared):
    """The published weights, 1,032,192 numbers; a pickle, so read by torch and as data alone."""
    torch = pytest.importorskip("torch")
    path = shared("data/tiny-mdlm-student/student_1M.pt")
    state = torch.load(path, weights_only=True, map_location="cpu")
    return tiny.read_params({name: tensor.numpy() for name, tensor in state.items()})


@pytest.fixture(scope="module")
def random_params(tiny):
    """The same shapes in two layers, drawn at random: what needs no weights is checked on these."""
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.normal(size=shape, scale=128**-0.5).astype(np.float32)

    widths = dict.fromkeys(tiny.MATRICES, (128, 128))
    widths |= {"mlp.c_fc": (128, 512), "mlp.c_proj": (512, 128)}
    blocks = {name: normal(2, *width) for name, width in widths.items()}
    return {name: normal(128, 128) for name in ("tokens", "times", "head")} | {"blocks": blocks}


@pytest.fixture(scope="module")
def corpus(shared):
    return shared("data/tinyshakespeare/input.txt").read_bytes()


@pytest.fixture(scope="module")
def windows(corpus):
    """Text beside text, 256 characters each: ids are ASCII codes."""
    ids = np.frombuffer(corpus, np.uint8).astype(np.int32)
    return ids[: len(ids) // WIDTH * WIDTH].reshape(-1, WIDTH)


def test_the_adapter_is_short():
    lines = ADAPTER.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 100
    assert not any("dlmeval" in line for line in lines)


def test_padding_on_the_left_changes_nothing(tiny, random_params):
    rng = np.random.default_rng(1)
    tokens = rng.integers(0, 128, (2, 80))
    padded = np.concatenate([rng.integers(0, 128, (2, 7)), tokens], axis=1)
    is_token = np.broadcast_to(np.arange(87) >= 7, padded.shape)
    alone = tiny.logits_fn(random_params, tokens, np.ones(tokens.shape, bool), slice(70, 80))
    among = tiny.logits_fn(random_params, padded, is_token, slice(77, 87))
    assert alone.shape == (2, 10, 128)
    np.testing.assert_allclose(among, alone, atol=1e-4)


def test_time_is_that_of_the_masked_share(tiny, random_params):
    """Half of what follows the context is masked at step 63, where (t + 1) / 128 = 1/2."""
    tokens = np.random.default_rng(2).integers(1, 128, (1, CONTEXT + 16))
    tokens[:, CONTEXT::2] = tiny.MASK_ID
    rest = np.ones(tokens.shape, bool), slice(CONTEXT, None)
    inferred = tiny.logits_fn(random_params, tokens, *rest)
    given = [tiny.logits_fn(random_params, tokens, *rest, time=np.array([t])) for t in (63, 31)]
    np.testing.assert_array_equal(inferred, given[0])
    assert np.abs(np.asarray(given[1]) - inferred).max() > 0.01


def test_samplers_take_it_as_it_is(tiny, random_params):
    """Two prompts, one padded; every forward counted, nothing left masked."""
    prompt = np.array([[70, 105, 114, 115], [0, 0, 72, 105]])
    config = samplers.SamplerConfig(8, 4, "low_confidence", 1.0, remask_fraction=0.25)
    drawn = draw(tiny, random_params, prompt, prompt > 0, config)
    np.testing.assert_array_equal(drawn.tokens[:, :4], prompt)
    ids = np.asarray(drawn.tokens[:, 4:])
    assert ids.shape == (2, 8)
    assert (ids > tiny.MASK_ID).all()
    assert (ids < tiny.NUM_IDS).all()
    assert (np.asarray(drawn.nfe) > 4).all()  # remasking is not free


def draw(tiny, params, prompt, prompt_mask, config):
    keys = jax.random.split(jax.random.key(0), len(prompt))
    ids = {"mask_id": tiny.MASK_ID, "num_ids": tiny.NUM_IDS}
    return samplers.sample(tiny.logits_fn, params, prompt, prompt_mask, keys, config, **ids)


@pytest.mark.parity
def test_logits_equal_those_of_its_own_code(tiny, params, shared):
    """Three canvases with 49, 106 and 165 masks; the largest difference measured is 3e-5."""
    stored = np.load(shared("data/real-model-outputs/tiny-mdlm-student.npz"))
    tokens = stored["x_t"].astype(np.int32)
    assert ((tokens == tiny.MASK_ID) == stored["mask"]).all()
    every = np.ones(tokens.shape, bool), slice(0, WIDTH)
    logits = tiny.logits_fn(params, tokens, *every, time=stored["t"])
    assert stored["logits"].std() > 5
    np.testing.assert_allclose(logits, stored["logits"], rtol=0, atol=2e-4)


def nelbo_terms(tiny, params, windows, rng, batch=64):
    """One unbiased draw of the bound for each window, by its noise step.

    Steps t = 0..127 mask each of the 192 characters after the context with (t + 1) / 128, so all
    of them at the last. A masked one is revealed between t and t - 1 with probability 1 / (t + 1):

        -ln p(x | context) <= sum over t of 1 / (t + 1) E[sum over masked i of -ln p(x_i | x_t, t)]

    the negative evidence lower bound of that discrete process (Austin et al. 2021, absorbing),
    reconstruction included; no limit of continuous time is taken. Every t comes equally often.

    Returns:
        (bits a character, weight of the masked characters), both Float["repeats 128"]; the mean
        of the first is the bound, that of the second tends to 1 whatever the network says.
    """
    n = len(windows)
    time = np.tile(np.arange(TIMES), n // TIMES)
    share = (time + 1) / TIMES
    masked = rng.random((n, WIDTH - CONTEXT)) < share[:, None]
    noisy = np.where(masked, tiny.MASK_ID, windows[:, CONTEXT:])
    noisy = np.concatenate([windows[:, :CONTEXT], noisy], axis=1)

    @jax.jit
    def losses(params, noisy, clean, time):
        every = np.ones(noisy.shape, bool)
        logits = tiny.logits_fn(params, noisy, every, slice(CONTEXT, WIDTH), time=time)
        logp = jax.nn.log_softmax(logits)
        return -jnp.take_along_axis(logp, clean[..., None], axis=-1)[..., 0]

    rows = [slice(i, i + batch) for i in range(0, n, batch)]
    nats = [losses(params, noisy[r], windows[r, CONTEXT:], time[r]) for r in rows]
    bits = (np.concatenate(nats) * masked).sum(axis=1) / np.log(2)
    scale = 1 / share / (WIDTH - CONTEXT)
    return (bits * scale).reshape(-1, TIMES), (masked.sum(axis=1) * scale).reshape(-1, TIMES)


def stratified_error(terms):
    """Standard error of the mean over steps, each drawn len(terms) times."""
    return np.sqrt((terms.var(axis=0, ddof=1) / len(terms)).mean() / terms.shape[1])


@pytest.mark.parity
def test_bits_per_character_of_shakespeare(tiny, params, windows):
    """About 2.5, on text it was trained on: the whole file was; nothing is held out."""
    rng = np.random.default_rng(0)
    chosen = windows[rng.choice(len(windows), 2 * TIMES, replace=False)]
    bits, weights = nelbo_terms(tiny, params, chosen, rng)
    error = stratified_error(bits)
    print(f"NELBO {bits.mean():.3f} +- {error:.3f} bits a character, n = {bits.size}")
    assert abs(weights.mean() - 1) < 4 * stratified_error(weights)
    assert error < 0.06
    assert abs(bits.mean() - 2.58) < 4 * error  # 2.580 +- 0.012 with n = 2048


@pytest.mark.parity
def test_samples_look_like_shakespeare(tiny, params, windows, corpus):
    """Ancestral sampling after 64 characters of a play: words, where shuffled letters are none."""
    prompt = windows[[10, 2000, 3000, 4000], :CONTEXT]
    config = samplers.SamplerConfig(WIDTH - CONTEXT, 64, "mdlm", 1.0)
    drawn = draw(tiny, params, prompt, np.ones(prompt.shape, bool), config)
    assert (np.asarray(drawn.nfe) <= 64).all()
    ids = np.asarray(drawn.tokens[:, CONTEXT:]).astype(np.uint8)
    assert set(ids.ravel().tolist()) <= set(corpus)
    rng = np.random.default_rng(0)
    known = known_words(corpus, ids)
    shuffled = known_words(corpus, rng.permuted(ids, axis=1))
    print(f"known words: {known:.2f}, letters shuffled: {shuffled:.2f}")
    assert known > 0.45
    assert shuffled < 0.5 * known


def known_words(corpus, ids):
    """The share of whole words that the corpus has; the first and last of a text may be cut."""
    vocabulary = set(corpus.split())
    words = [word for row in ids for word in row.tobytes().split()[1:-1]]
    return np.mean([word in vocabulary for word in words])
