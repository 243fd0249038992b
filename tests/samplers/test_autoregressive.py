"""The causal sampler: its law, its count, and that a sample minds its own business."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dlmeval.samplers.autoregressive import sample_autoregressive

VOCAB = 5
RNG = np.random.default_rng(0)
# A first-order Markov chain: its text can be checked transition by transition.
CHAIN = jnp.asarray(RNG.dirichlet(np.ones(VOCAB), VOCAB), jnp.float32)
traces = []


def chain_logits(params, tokens, token_mask, region):
    traces.append(tokens.shape)
    assert region.stop - region.start == 1
    return jnp.log(params)[tokens[:, region]] + 0.0 * token_mask[:, region, None]


def prefix_sum_logits(params, tokens, token_mask, region):
    """Sees the whole prefix: the sum of valid tokens decides the next one."""
    total = jnp.cumsum(tokens * token_mask, axis=1)[:, region]
    return -10.0 * jnp.abs((total[..., None] + 1) % VOCAB - jnp.arange(VOCAB))


def keys(n, seed=0):
    return jax.random.split(jax.random.key(seed), n)


def draw(logits_fn, n, *, length=6, temp=1.0, prompt=None, mask=None, keys_=None, **options):
    prompt = jnp.zeros((n, 1), jnp.int32) if prompt is None else prompt
    mask = jnp.ones_like(prompt, bool) if mask is None else mask
    given = keys(n) if keys_ is None else keys_
    return sample_autoregressive(
        logits_fn, CHAIN, prompt, mask, given, gen_length=length, unmask_temp=temp, **options
    )


@pytest.mark.parametrize("noise", ["inverse_cdf", "gumbel_fp64"])
def test_transitions_follow_the_chain(noise):
    tokens = np.asarray(draw(chain_logits, 2048, noise=noise).tokens)
    for state in range(VOCAB):
        following = tokens[:, 1:][tokens[:, :-1] == state]
        counts = np.bincount(following, minlength=VOCAB)
        expected = np.asarray(CHAIN[state], np.float64)
        assert stats.chisquare(counts, counts.sum() * expected / expected.sum()).pvalue > 1e-3


def test_temperature_zero_is_greedy():
    tokens = np.asarray(draw(chain_logits, 3, temp=0.0).tokens)
    expected = [0]
    for _ in range(6):
        expected.append(int(np.argmax(CHAIN[expected[-1]])))
    assert (tokens == expected).all()


def test_the_window_keeps_the_whole_prefix():
    prompt = jnp.array([[1, 2]])
    tokens = np.asarray(draw(prefix_sum_logits, 1, temp=0.0, prompt=prompt).tokens)[0].tolist()
    expected = [1, 2]
    for _ in range(6):
        expected.append((sum(expected) + 1) % VOCAB)
    assert tokens == expected


def test_a_sample_does_not_depend_on_its_batch_or_padding():
    whole = np.asarray(draw(chain_logits, 7).tokens)
    one = np.asarray(draw(chain_logits, 1, keys_=keys(7)[3:4]).tokens)
    assert (whole[3] == one[0]).all()
    padded = jnp.array([[4, 4, 0]])
    mask = jnp.array([[False, False, True]])
    wide = draw(chain_logits, 1, keys_=keys(7)[3:4], prompt=padded, mask=mask)
    assert (np.asarray(wide.tokens)[0, 2:] == one[0]).all()


def test_padding_is_masked():
    masked = {"prompt": jnp.array([[3, 3, 1, 2]]), "mask": jnp.array([[False, False, True, True]])}
    bare = draw(prefix_sum_logits, 1, temp=0.0, prompt=jnp.array([[1, 2]]))
    padded = draw(prefix_sum_logits, 1, temp=0.0, **masked)
    assert (np.asarray(padded.tokens)[:, 2:] == np.asarray(bare.tokens)).all()


def test_every_forward_is_counted():
    out = draw(chain_logits, 4, length=9)
    assert out.nfe.tolist() == [9] * 4
    assert int(out.launches) == 9
    assert out.history is None


def test_one_trace_serves_temperatures_and_keys():
    draw(chain_logits, 2, length=3)
    before = len(traces)
    for temp in (0.0, 0.5, 1.0):
        draw(chain_logits, 2, length=3, temp=temp, keys_=keys(2, seed=int(10 * temp)))
    assert len(traces) == before


def test_ids_beyond_num_ids_are_never_drawn():
    tokens = np.asarray(draw(chain_logits, 64, num_ids=3).tokens)
    assert tokens.max() < 3


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"prompt": jnp.zeros((2, 0), jnp.int32)}, "prompt"),
        ({"mask": jnp.array([[True], [False]])}, "left"),
        ({"length": 0}, "gen_length"),
        ({"temp": -1.0}, "unmask_temp"),
        ({"temp": float("nan")}, "unmask_temp"),
        ({"keys_": keys(3)}, "keys"),
    ],
)
def test_bad_arguments_are_named(options, match):
    with pytest.raises(ValueError, match=match):
        draw(chain_logits, 2, **options)


@pytest.mark.parametrize("where", [slice(None), 3], ids=["all", "one"])
def test_nan_logits_end_in_an_error(where):
    def broken(params, tokens, token_mask, region):
        logits = chain_logits(params, tokens, token_mask, region)
        return logits.at[..., where].set(jnp.nan)

    with pytest.raises(ValueError, match="NaN"):
        draw(broken, 2)
