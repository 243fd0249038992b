"""Ancestral samplers: the law of a step."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
