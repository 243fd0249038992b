"""Ancestral samplers: the law of a step, the loop that follows it, and what it costs."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.samplers import SamplerConfig, sample
from dlmeval.samplers.ancestral import checked_rates, reads_committed, transition_probabilities
from dlmeval.samplers.registry import Entry, get_strategy, strategy_names
from dlmeval.samplers.types import Rates, Settings, Strategy

MASK, VOCAB = 12, 13
NAMES = (
    "mdlm",
    "mdlm_ddpm",
    "mdlm_analytic",
    "remdm_cap",
    "remdm_rescale",
    "remdm_conf",
    "remdm_loop",
    "remdm_forward_backward",
)
END = 1e-5


def posterior(tiny, canvas, temp=1.0):
    """The law tokens are drawn from at every position, float64 on the host."""
    logits = tiny.logits_fn(
        tiny.params, jnp.asarray(canvas), jnp.ones(canvas.shape, bool), slice(0, canvas.shape[1])
    )
    logits = np.array(logits, np.float64)
    logits[..., MASK] = -np.inf
    p = np.exp((logits - logits.max(-1, keepdims=True)) / temp)
    return p / p.sum(-1, keepdims=True)


@pytest.fixture(scope="module")
def toy():
    """A random canvas, half decided, with random probabilities and confidences."""
    rng = np.random.default_rng(5)
    p_x0 = rng.dirichlet(np.ones(VOCAB), size=(3, 8)).astype(np.float32)
    tokens = rng.integers(0, MASK, size=(3, 8)).astype(np.int32)
    tokens[rng.random((3, 8)) < 0.5] = MASK
    held = np.take_along_axis(p_x0, tokens[..., None], -1)[..., 0]
    return p_x0, tokens, np.where(tokens == MASK, -np.inf, -held).astype(np.float32)


def settings(**given):
    values = dict.fromkeys(Settings._fields, 0.0) | {"t_on": 0.55, "t_off": 0.05, "alpha_on": 0.9}
    return Settings(**{k: jnp.float32(v) for k, v in (values | given).items()})


# The law of a step.


def test_names():
    assert strategy_names("ancestral")[: len(NAMES)] == NAMES
    assert [reads_committed(get_strategy(name).rates) for name in NAMES] == [
        name == "remdm_conf" for name in NAMES
    ]


@pytest.mark.parametrize("name", NAMES)
def test_rows_sum_to_one_and_masks_come_only_from_the_law(name, toy):
    p_x0, tokens, conf = toy
    law = jax.jit(
        functools.partial(transition_probabilities, name, mask_id=MASK, eta=0.3, confidence=conf)
    )
    for steps in (3, 16, 1000):
        dt = (1 - END) / steps
        for t in np.linspace(1, END, steps + 1)[[0, 1, steps // 2, -2]]:
            rows = np.asarray(law(p_x0, tokens, t, dt))
            np.testing.assert_allclose(rows.sum(-1), 1, atol=2e-6)
            assert np.all(rows[..., :MASK] >= 0)
            decided = tokens != MASK
            stay = np.take_along_axis(rows, tokens[..., None], -1)[..., 0]
            np.testing.assert_allclose((stay + rows[..., MASK])[decided], 1, atol=1e-6)
            assert np.all(rows[..., MASK][decided] >= 0)
            # What is revealed is shared out as the network says.
            shown, clean = rows[~decided][:, :MASK], p_x0[~decided][:, :MASK]
            shown = shown / shown.sum(-1, keepdims=True)
            np.testing.assert_allclose(shown, clean / clean.sum(-1, keepdims=True), atol=1e-5)
            eager = transition_probabilities(
                name, p_x0, tokens, t, dt, mask_id=MASK, eta=0.3, confidence=conf
            )
            np.testing.assert_allclose(eager, rows, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "eta"),
    [
        ("remdm_cap", 0.008),
        ("remdm_cap", 1.0),
        ("remdm_rescale", 0.4),
        ("remdm_rescale", 1.0),
        ("remdm_conf", 0.0),
        ("mdlm", 0.0),
        ("remdm_forward_backward", 0.0),
    ],
)
def test_remasking_stays_within_its_bound_and_keeps_the_marginals(name, eta, toy):
    """alpha_s = alpha_t (1 - remask) + (1 - alpha_t) reveal, position by position."""
    rates_fn, conf = get_strategy(name).rates, jnp.asarray(toy[2])
    for steps in (2, 7, 100):
        dt = (1 - END) / steps
        for t in np.linspace(1, END, steps + 1)[1:-1]:
            rates = rates_fn(jnp.float32(t), jnp.float32(dt), settings(eta=eta), conf)
            reveal, remask = (np.broadcast_to(rate, conf.shape) for rate in rates)
            bound = min(1.0, (t - dt) / (1 - t))
            if name != "remdm_forward_backward":
                assert np.all(remask >= 0)
                assert np.all(remask <= bound + 1e-6)
                assert np.all(reveal <= 1 + 1e-6)
            if name == "remdm_conf":
                assert np.all(remask[toy[1] == MASK] == 0)
                np.testing.assert_allclose(remask.sum(-1), bound, rtol=1e-5, atol=1e-7)
                continue  # one of many tokens goes back: marginals hold for each sigma alone
            np.testing.assert_allclose((1 - t) * (1 - remask) + t * reveal, 1 - t + dt, atol=1e-6)


def test_conf_puts_back_the_least_probable_first(toy):
    p_x0, tokens, conf = toy
    rows = transition_probabilities(
        "remdm_conf", p_x0, tokens, 0.6, 0.1, mask_id=MASK, confidence=conf
    )
    remask = np.asarray(rows)[..., MASK]
    for row in range(len(tokens)):
        decided = np.flatnonzero(tokens[row] != MASK)
        by_probability = decided[np.argsort(-conf[row, decided])]
        assert np.all(np.diff(remask[row, by_probability]) < 0)


def test_eta_zero_is_mdlm_and_the_default_is_the_published_one(toy):
    p_x0, tokens, _ = toy
    law = functools.partial(
        transition_probabilities, p_x0=p_x0, tokens=tokens, t=0.5, dt=0.1, mask_id=MASK
    )
    for name, published in (("remdm_cap", 0.008), ("remdm_rescale", 0.015), ("remdm_loop", 0.02)):
        np.testing.assert_array_equal(law(name), law(name, eta=published))
        if name != "remdm_loop":
            np.testing.assert_allclose(law(name, eta=0.0), law("mdlm"), atol=1e-7)


def test_loop_has_three_phases(toy):
    """Up to alpha_on at t_on, level until t_off, then to 1: the mass that is decided."""
    rates_fn, conf = get_strategy("remdm_loop").rates, jnp.asarray(toy[2])
    values, dt = settings(eta=0.2, t_on=0.6, t_off=0.2, alpha_on=0.7), jnp.float32(0.001)
    alpha = 0.0
    for t in np.linspace(1, 0, 1001)[:-1]:
        rates = rates_fn(jnp.float32(t), dt, values, conf)
        alpha = alpha * (1 - float(rates.remask)) + (1 - alpha) * min(1.0, float(rates.reveal))
        s = t - 0.001
        line = 0.7 if 0.2 <= s <= 0.6 else 0.7 * (1 - s) / 0.4 if s > 0.6 else 1 - 0.3 * s / 0.2
        assert abs(alpha - line) < 3e-3
    assert alpha > 0.999


def test_a_nucleus_drops_the_token_that_crosses_p():
    p_x0 = np.array([[[0.5, 0.3, 0.15, 0.05, 0.0]]], np.float32)
    tokens = np.array([[4]], np.int32)

    def tokens_left(p):
        rows = transition_probabilities("mdlm", p_x0, tokens, 0.5, 0.1, mask_id=4, nucleus_p=p)
        return (np.asarray(rows)[0, 0, :4] > 0).tolist()

    assert tokens_left(0.9) == [True, True, False, False]
    assert tokens_left(0.3) == [True, False, False, False]
    assert tokens_left(0.96) == [True, True, True, False]
    assert tokens_left(1.0) == [True] * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "none"}, "kind 'none'"),
        ({"name": "remdm"}, "strategy='remdm' is not one of"),
        ({"name": "remdm_conf"}, "needs confidence"),
        ({"t": 0.0}, "t=0.0 must be in"),
        ({"t": np.nan}, "t=nan must be in"),
        ({"t": np.ones((3, 1))}, r"t has shape \[3, 1\]"),
        ({"dt": 0.7}, "dt=0.7 must be in"),
        ({"eta": 1.5}, "eta=1.5 must be in"),
        ({"t_off": 0.6}, "t_off=0.6 must be in"),
        ({"alpha_on": 1.0}, "alpha_on=1.0 must be in"),
        ({"nucleus_p": 0.0}, "nucleus_p=0.0 must be in"),
        ({"mask_id": 13}, "mask_id=13 is not one of the 13 columns"),
        ({"tokens": np.zeros((3, 8), np.float32)}, r"tokens is float32\[3, 8\]; expected integer"),
        ({"tokens": np.zeros((3, 7), np.int32)}, r"tokens is int32\[3, 7\]"),
        ({"tokens": np.full((3, 8), 40, np.int32)}, "tokens holds ids from 40"),
        ({"confidence": np.zeros((8,), np.float32)}, "confidence is float32"),
        ({"confidence": np.full((3, 8), np.nan, np.float32)}, "confidence holds NaN"),
        ({"p_x0": np.zeros((3, 8), np.float32)}, r"p_x0 is float32\[3, 8\]"),
        ({"p_x0": np.zeros((3, 8, 13), np.float32)}, "without mass"),
        ({"p_x0": np.full((3, 8, 13), -1, np.float32)}, "negative"),
    ],
)
def test_bad_arguments_are_named(change, message, toy):
    given = {"name": "mdlm", "p_x0": toy[0], "tokens": toy[1], "t": 0.5, "dt": 0.1}
    with pytest.raises(ValueError, match=message):
        transition_probabilities(**({"mask_id": MASK} | given | change))


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        (lambda t, dt, s, c: (t, t), "rates returned tuple"),
        (lambda t, dt, s, c: Rates(jnp.zeros(7), t), r"reveal is float32\[7\]"),
        (lambda t, dt, s, c: Rates(t, jnp.int32(0)), "remask is int32"),
    ],
)
def test_rates_that_do_not_fit_name_the_strategy(rates, message):
    entry = Entry("mine", "ancestral", Strategy(rates=rates))
    with pytest.raises(ValueError, match=f"'mine': {message}"):
        checked_rates(entry, jnp.float32(0.5), jnp.float32(0.1), settings(), jnp.zeros((3, 8)))


# The loop.


def replayed_law(name, tiny, canvases, temp, options):
    """Rows of the law of each recorded step, from the canvas before it."""
    steps = len(canvases) - 1
    confidence = np.full(canvases[0].shape, -np.inf, np.float32)
    dt = (1 - END) / steps
    for step, (before, after) in enumerate(itertools.pairwise(canvases)):
        p_x0 = posterior(tiny, before, temp).astype(np.float32)
        yield np.asarray(
            transition_probabilities(
                name,
                p_x0,
                before,
                1 - step * dt,
                dt,
                mask_id=MASK,
                confidence=confidence,
                **options,
            ),
            np.float64,
        )
        held = -np.take_along_axis(p_x0, after[..., None], -1)[..., 0]
        confidence = np.where((before == MASK) & (after != MASK), held, confidence)
        confidence = np.where(after == MASK, -np.inf, confidence)


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("mdlm", {}),
        ("mdlm_analytic", {}),
        ("remdm_cap", {"nucleus_p": 0.7}),
        ("remdm_rescale", {"noise": "gumbel_fp64"}),
        ("remdm_conf", {}),
        ("remdm_loop", {}),
        ("remdm_forward_backward", {}),
    ],
)
def test_steps_follow_the_law_and_forwards_are_counted(name, extra, tiny, recorder):
    """600 samples of 6 tokens in 5 steps: what each step did against the law of its canvas."""
    batch, length, steps, temp = 600, 6, 5, 0.8
    options = {"eta": 0.3, "t_on": 0.8, "t_off": 0.3, "alpha_on": 0.6}
    seen = recorder()
    result = sample(
        seen.logits_fn,
        tiny.params,
        np.zeros((batch, 0), np.int32),
        np.zeros((batch, 0), bool),
        jax.random.split(jax.random.key(1), batch),
        SamplerConfig(length, steps, name, temp, record_history=True, **options, **extra),
        mask_id=MASK,
    )
    blank = np.full((1, batch, length), MASK, np.int32)
    canvases = np.concatenate([blank, np.asarray(result.history.canvas)])
    options |= {k: v for k, v in extra.items() if k == "nucleus_p"}
    for step, law in enumerate(replayed_law(name, tiny, canvases, temp, options)):
        law = np.maximum(law, 0)
        law /= law.sum(-1, keepdims=True)
        after = np.eye(VOCAB)[canvases[step + 1]]
        assert np.all(law[after > 0] > 0), "something happened that never may"
        for group in (canvases[step] == MASK, canvases[step] != MASK):
            observed, expected = after[group].sum(0), law[group].sum(0)
            variance = (law[group] * (1 - law[group])).sum(0)
            usual = variance > 4
            z = (observed - expected)[usual] / np.sqrt(variance[usual])
            assert np.all(np.abs(z) < 4.5), (step, z)
    if name.startswith("remdm"):
        assert np.any((canvases[:-1] != MASK) & (canvases[1:] == MASK)), "some were put back"

    # Noise removal.
    tokens, last = np.asarray(result.tokens), canvases[-1]
    assert np.all((tokens >= 0) & (tokens < MASK))
    np.testing.assert_array_equal(tokens[last != MASK], last[last != MASK])
    best = posterior(tiny, last).argmax(-1)
    left = last == MASK
    if name == "mdlm_analytic":
        assert not left.any() or np.all(posterior(tiny, last)[left, tokens[left]] > 0)
    else:
        np.testing.assert_array_equal(tokens[left], best[left])

    # Cost: a forward for who has masks, and a new canvas where forwards are reused.
    charged, stale = [], np.ones(batch, bool)
    for now, then in zip(canvases, [*canvases[1:], tokens], strict=True):
        charge = np.any(now == MASK, axis=-1) & (stale | (name == "mdlm_analytic"))
        stale = (stale & ~charge) | np.any(now != then, axis=-1)
        charged.append(charge)
    np.testing.assert_array_equal(result.nfe, np.sum(charged, axis=0))
    assert int(result.launches) == np.any(charged, axis=1).sum() == len(seen.take())


def test_analytic_noise_removal_is_a_draw(tiny):
    """One step of length 1 - 1e-5 leaves few masks; with given noise they are found and counted."""
    batch = 500
    uniforms = np.random.default_rng(0).random((2, batch, 4, VOCAB), np.float32)
    uniforms[0, ..., :MASK] = 1e-6  # the step itself reveals nothing: the mask wins
    uniforms[0, ..., MASK] = 1 - 1e-7
    result = sample(
        tiny.logits_fn,
        tiny.params,
        np.zeros((batch, 0), np.int32),
        np.zeros((batch, 0), bool),
        jax.random.split(jax.random.key(1), batch),
        SamplerConfig(4, 1, "mdlm_analytic", 1.0, noise="gumbel_fp64", record_history=True),
        mask_id=MASK,
        uniforms=uniforms,
    )
    assert np.all(np.asarray(result.history.canvas) == MASK)
    law = posterior(tiny, np.full((batch, 4), MASK))
    observed = np.eye(VOCAB)[np.asarray(result.tokens)].sum(0)
    expected, variance = law.sum(0), (law * (1 - law)).sum(0)
    usual = variance > 2
    assert np.all(np.abs(observed - expected)[usual] < 4.5 * np.sqrt(variance[usual]))
    np.testing.assert_array_equal(result.nfe, 2)


def test_independent_of_batch_padding_and_history(draw):
    config = functools.partial(SamplerConfig, 8, 12, "remdm_conf", 1.0, block_length=4)
    whole = draw(config(), rows=range(5))
    part = draw(config(), rows=[3, 1], pad=2)
    np.testing.assert_array_equal(part.tokens[:, 2:], np.asarray(whole.tokens)[[3, 1]])
    np.testing.assert_array_equal(part.nfe, np.asarray(whole.nfe)[[3, 1]])
    recorded = draw(config(record_history=True), rows=range(5))
    np.testing.assert_array_equal(recorded.tokens, whole.tokens)
    np.testing.assert_array_equal(recorded.nfe, whole.nfe)
    assert int(recorded.launches) == int(whole.launches)

    # Blocks: the second waits for the first, whose noise removal shows in the step after.
    canvas, tokens = np.asarray(recorded.history.canvas), np.asarray(whole.tokens)[:, 3:]
    assert canvas.shape == (12, 5, 8)
    assert np.all(canvas[:6, :, 4:] == MASK)
    np.testing.assert_array_equal(canvas[6:, :, :4], tokens[None, :, :4].repeat(6, 0))
    prompt = np.random.default_rng(0).integers(0, MASK, size=(7, 3))[:5]
    np.testing.assert_array_equal(whole.tokens[:, :3], prompt)


def test_eta_zero_samples_as_mdlm_does_and_one_program_serves_all_values(draw, recorder):
    seen = recorder()
    config = functools.partial(SamplerConfig, 8, strategy="remdm_cap")
    run = functools.partial(draw, rows=range(3), logits_fn=seen.logits_fn)
    capped = run(config(num_steps=9, unmask_temp=1.0, eta=0.0))
    traces = seen.traces
    plain = draw(SamplerConfig(8, 9, "mdlm", 1.0), rows=range(3))
    np.testing.assert_array_equal(capped.tokens, plain.tokens)
    np.testing.assert_array_equal(capped.nfe, plain.nfe)
    seen.take()
    for num_steps, temp, eta in ((1, 1.0, None), (40, 0.3, 0.5), (200, 1.0, 1.0)):
        result = run(config(num_steps=num_steps, unmask_temp=temp, eta=eta))
        assert int(result.launches) == len(seen.take()) <= num_steps + 1
        assert not np.any(np.asarray(result.tokens) == MASK)
    assert seen.traces == traces
    # The mask's share belongs to the law, whether or not the network may emit it.
    emitting = draw(SamplerConfig(8, 9, "mdlm", 1.0, suppress_mask_token=False), rows=range(3))
    np.testing.assert_array_equal(emitting.tokens, plain.tokens)


def test_temperature_zero_reveals_the_most_likely(draw, tiny):
    result = draw(SamplerConfig(6, 8, "mdlm", 0.0, record_history=True), rows=range(4))
    tokens = np.asarray(result.tokens)
    prompt = tokens[:, :3]
    canvases = np.concatenate([np.full((1, 4, 6), MASK), np.asarray(result.history.canvas)])
    for before, after in itertools.pairwise(canvases):
        best = posterior(tiny, np.concatenate([prompt, before], 1)).argmax(-1)[:, 3:]
        new = (before == MASK) & (after != MASK)
        np.testing.assert_array_equal(after[new], best[new])


def test_guidance_costs_two(draw, recorder):
    seen = recorder()
    config = SamplerConfig(6, 4, "remdm_rescale", 1.0, cfg_scale=1.5)
    result = draw(config, rows=[2], logits_fn=seen.logits_fn)
    launches = seen.take()
    assert int(result.nfe[0]) == 2 * int(result.launches) == 2 * len(launches)
    assert all(len(tokens) == 2 for tokens in launches)


def test_early_exit_freezes_and_fills(draw):
    """A sample whose first end token has nothing undecided before it is over."""
    config = functools.partial(SamplerConfig, 8, 16, "remdm_cap", 1.0, eta=0.3)
    whole = draw(config(), rows=range(7))
    eos = int(np.bincount(np.asarray(whole.tokens)[:, 3:].ravel()).argmax())
    result = draw(config(eos_policy="early_exit", record_history=True), rows=range(7), eos_id=eos)
    canvas, tokens = np.asarray(result.history.canvas), np.asarray(result.tokens)[:, 3:]
    over = 0
    for row in range(7):
        for step in range(15):
            held = canvas[step, row]
            first = np.argmax(held == eos) if np.any(held == eos) else 8
            if first < 8 and not np.any(held[:first] == MASK):
                np.testing.assert_array_equal(held[first:], eos)
                np.testing.assert_array_equal(canvas[step:, row], held[None].repeat(16 - step, 0))
                np.testing.assert_array_equal(tokens[row], held)
                over += 1
                break
    assert over > 0
    assert int(np.sum(result.nfe)) < int(np.sum(whole.nfe))


def test_stored_noise_needs_a_column_for_the_mask(tiny):
    keys = jax.random.split(jax.random.key(0), 1)
    config = SamplerConfig(4, 2, "mdlm", 1.0, noise="gumbel_fp64")
    with pytest.raises(ValueError, match="one column an id, that of mask_id=13"):
        sample(
            tiny.logits_fn,
            tiny.params,
            np.zeros((1, 0), np.int32),
            np.zeros((1, 0), bool),
            keys,
            config,
            mask_id=13,
            num_ids=13,
            uniforms=np.full((2, 1, 4, VOCAB), 0.5, np.float32),
        )


def test_a_nucleus_is_taken_among_tokens_and_bad_arguments_are_named():
    p_x0, tokens = jnp.array([[[0.3, 0.2, 0.5]]]), jnp.array([[2]])
    law = transition_probabilities("mdlm", p_x0, tokens, 0.5, 0.1, mask_id=2, nucleus_p=0.7)
    np.testing.assert_allclose(law[0, 0], [0.2, 0.0, 0.8], atol=1e-6)
    for mask_id in (1.5, "a"):
        with pytest.raises(ValueError, match="mask_id="):
            transition_probabilities("mdlm", p_x0, tokens, 0.5, 0.1, mask_id=mask_id)
    with pytest.raises(ValueError, match=r"confidence holds NaN or \+inf"):
        transition_probabilities(
            "remdm_conf", p_x0, tokens, 0.5, 0.1, mask_id=2, confidence=jnp.array([[jnp.inf]])
        )
