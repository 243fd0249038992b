"""The conformance suite every registered strategy must pass, and what the registry refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.samplers import (
    Obs,
    SamplerConfig,
    Settings,
    Strategy,
    entropy,
    get_strategy,
    probability,
    register_strategy,
    remask_top,
    replacement_rate,
    stable_cells,
    strategy_names,
    take_top,
)
from dlmeval.samplers.registry import _ENTRIES, get_entry

MASK = 12


@pytest.fixture
def register():
    """Registers strategies for one test."""
    before = dict(_ENTRIES)
    yield register_strategy
    _ENTRIES.clear()
    _ENTRIES.update(before)


@pytest.mark.parametrize("name", strategy_names())
def test_conformance(name, standard):
    length, steps, blocks, budget = 16, 8, 2, int(0.3 * 8)
    result, entry = standard(name), get_entry(name)
    tokens, canvas = np.asarray(result.tokens), np.asarray(result.history.canvas)
    prompt = np.random.default_rng(0).integers(0, MASK, size=(7, 3))[:3]
    np.testing.assert_array_equal(tokens[:, :3], prompt)
    assert tokens.dtype == np.int32
    assert not np.any(tokens == MASK), "a run ends without masks"
    assert np.all((tokens >= 0) & (tokens < MASK))

    nfe, refreshes = np.asarray(result.nfe), entry.strategy.select is not None
    most = (2 if refreshes else 1) * steps + blocks
    assert np.all((nfe >= 1) & (nfe <= most)), "N, 2 N with refreshes, and a fill for each block"
    if refreshes:
        assert np.all(nfe >= min(steps, length))
    assert int(result.launches) >= nfe.max()

    assert canvas.shape == (steps, 3, length)
    assert np.all(canvas[:4, :, 8:] == MASK), "the second block waits for the first"
    if entry.strategy.traits.reach == "block":
        np.testing.assert_array_equal(canvas[4:, :, :8], tokens[None, :, 3:11].repeat(4, 0))
    before, after = canvas[:-1], canvas[1:]
    assert np.all((before == MASK) | (after == MASK) | (after == before)), "no token is swapped"
    if refreshes and entry.strategy.plan is None:
        returned = ((before != MASK) & (after == MASK)).sum(axis=2)
        assert np.all(returned <= budget)
    if entry.kind in ("none", "order"):
        assert np.all((before == MASK) | (after == before)), "decided tokens are kept"
        np.testing.assert_array_equal(replacement_rate(result.history), 0)
    assert stable_cells(result.history).shape == (3,)


def test_names_by_kind():
    assert strategy_names("none") == ("none",)
    assert set(strategy_names("remask")) == {
        *("random", "low_confidence", "running_confidence", "high_entropy", "conf_entropy"),
        *("agreement", "t2m_lowprob", "t2m_trigger", "t2m_diff"),
        *("rcr_mdpo", "p2", "prism", "remedi"),
    }
    assert set(strategy_names("order")) == {
        *("origin", "entropy", "maskgit", "topk_margin", "threshold")
    }
    assert isinstance(get_strategy("none"), Strategy)
    with pytest.raises(ValueError, match="kind='remsk'"):
        strategy_names("remsk")


def observation(logits, tokens, num_remask=0, pool=None, settings=(), **fields):
    """What a strategy sees of a canvas whose masks are not revealed in this step."""
    decided = tokens != MASK
    values = {name: jnp.float32(0) for name in Settings._fields} | dict(settings)
    drawn = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    held = jnp.where(decided, tokens, drawn)
    obs = Obs(
        logits=logits,
        draw_logits=logits,
        tokens=tokens,
        drawn=drawn,
        decided=decided,
        new=jnp.zeros_like(decided),
        confidence=probability(logits, held),
        pool=jnp.ones_like(decided) if pool is None else pool,
        quality=None,
        planned=jnp.int32(0),
        num_remask=jnp.int32(num_remask),
        step=jnp.int32(0),
        num_steps=jnp.int32(4),
        settings=Settings(**values),
    )
    return obs._replace(**fields)


def test_scores_pick_what_they_claim():
    p = jnp.array([[[0.5, 0.5, 0], [0.9, 0.06, 0.04], [0.1, 0.8, 0.1], [0.98, 0.01, 0.01]]])
    tokens = jnp.array([[0, 2, MASK, 0]])
    obs = observation(jnp.log(p), tokens, 2)
    chosen, _ = get_strategy("high_entropy").select((), obs, None)
    assert chosen.tolist() == [[True, False, True, False]]  # ln 2, .39, .64, .11 nats
    chosen, _ = get_strategy("low_confidence").select((), obs, None)
    assert chosen.tolist() == [[True, True, False, False]]  # p = .5, .04, max .8, .98
    only = observation(jnp.log(p), tokens, 2, pool=jnp.array([[False, True, False, True]]))
    chosen, _ = get_strategy("high_entropy").select((), only, None)
    assert chosen.tolist() == [[False, True, False, True]]


def test_conf_entropy_and_agreement_by_hand():
    """V is the number of ids that may be emitted, not the number of columns."""
    p = np.array([[[0.5, 0.5, 0], [0.6, 0.4, 0], [0.9, 0.1, 0], [0.1, 0.9, 0], [0.5, 0.5, 0]]])
    tokens = jnp.array([[0, 1, 1, 1, MASK]])
    logits = jnp.log(jnp.asarray(p, jnp.float32))

    def chosen(name, count):
        obs = observation(logits, tokens, count)
        return np.flatnonzero(get_strategy(name).select((), obs, None)[0][0]).tolist()

    held = np.array([0.5, 0.4, 0.1, 0.9, 0.5])
    q = p[0, :, :2]
    score = -(q * np.log(q)).sum(-1) / (2 * np.log(2)) + (1 - held) / 2
    for count in range(6):  # the mask and its twin at position 0 tie; the lower index wins
        expected = np.argsort(-score, kind="stable")[:count]
        assert chosen("conf_entropy", count) == sorted(expected.tolist())
    assert chosen("agreement", 1) == [2]
    assert chosen("agreement", 4) == [1, 2]


def test_token_to_mask_thresholds():
    p = jnp.array([[[0.05, 0.95, 0], [0.08, 0.5, 0.42], [0.11, 0.89, 0], [0.04, 0.96, 0]]])
    tokens = jnp.array([[0, 0, 0, 0]])
    new = jnp.array([[False, False, False, True]])

    def chosen(name, count, logits=None, memory=()):
        obs = observation(jnp.log(p) if logits is None else logits, tokens, count, new=new)
        marked, memory = get_strategy(name).select(memory, obs, None)
        return np.flatnonzero(marked[0]).tolist(), memory

    assert chosen("t2m_lowprob", 3)[0] == [0, 1], "p < 0.1, tokens just revealed spared"
    assert chosen("t2m_lowprob", 1)[0] == [0], "the lowest first"
    assert chosen("t2m_trigger", 3)[0] == [0], "another token above 0.9"
    memory = get_strategy("t2m_diff").init(None, 1, 4)
    nothing, memory = chosen("t2m_diff", 3, memory=memory)
    assert nothing == [], "no past, no drop"
    np.testing.assert_allclose(memory[0], np.log(np.asarray(p)[0, :, 0]), rtol=1e-5)
    fallen = jnp.log(p).at[0, :, 0].add(jnp.array([-2.2, -1.9, -9.0, 0.0]))
    dropped, memory = chosen("t2m_diff", 3, fallen, memory)
    # ln p falls by 2.15, 1.79 and 7.0 once the others are normalised: 2 nats is the bound
    assert dropped == [0, 2]
    assert np.isneginf(memory[0, [0, 2]]).all(), "a token put back has no past"
    assert np.isfinite(memory[0, [1, 3]]).all()


def test_running_confidence_keeps_what_was_surest_at_birth():
    strategy = get_strategy("running_confidence")
    config = SamplerConfig(4, 3, "running_confidence", 0.0)
    assert strategy.plan(config).tolist() == [3, 2, 1], "4 - floor(4 (s + 1) / 3), at least 1"
    tokens = jnp.array([[0, 0, 0, 0]])
    new = jnp.array([[True, True, True, False]])
    memory = strategy.init(config, 1, 4).at[0, 3].set(0.3)
    obs = observation(
        jnp.zeros((1, 4, 3)),
        tokens,
        new=new,
        confidence=jnp.array(
            [[0.9, 0.2, 0.8, 0.99]]
        ),  # what is thought now of an old token is moot
        planned=jnp.int32(2),
    )
    chosen, memory = strategy.select(memory, obs, None)
    assert chosen.tolist() == [[False, True, False, True]]
    np.testing.assert_allclose(memory, [[0.9, np.inf, 0.8, np.inf]])


def test_random_picks_uniformly_by_sample_key():
    tokens = jnp.zeros((2000, 6), jnp.int32)
    obs = observation(jnp.zeros((2000, 6, 3)), tokens, 2)
    keys = jax.random.split(jax.random.key(0), 2000)
    chosen, _ = get_strategy("random").select((), obs, keys)
    assert np.all(np.asarray(chosen).sum(axis=1) == 2)
    np.testing.assert_allclose(np.asarray(chosen).mean(axis=0), 1 / 3, atol=0.04)  # 4 sigma


def test_take_top_counts_rows_and_breaks_ties_to_the_left():
    score = jnp.array([[1.0, 3, 3, 2], [0, 0, 0, 0], [-jnp.inf, 5, -jnp.inf, 4], [1, 2, 3, 4]])
    marked = take_top(score, jnp.array([2, 3, 3, 0]))
    assert marked.tolist() == [
        [False, True, True, False],
        [True, True, True, False],
        [False, True, False, True],
        [False] * 4,
    ]
    rng = np.random.default_rng(0)
    score = rng.integers(0, 4, size=(50, 9)).astype(np.float32)
    count = rng.integers(0, 12, size=50)
    expected = np.argsort(np.argsort(-score, kind="stable"), kind="stable") < count[:, None]
    np.testing.assert_array_equal(take_top(jnp.asarray(score), jnp.asarray(count)), expected)


def test_entropy_of_known_distributions():
    logits = jnp.array([[[0.0, 0, 0, 0], [5, 5, -jnp.inf, -jnp.inf], [0, -jnp.inf, -200, -900]]])
    np.testing.assert_allclose(entropy(logits)[0], [np.log(4), np.log(2), 0], atol=1e-6)


def test_a_user_strategy_with_memory_quota_and_order(draw, register):
    """Left to right, two at a time; every token is put back exactly once, right after birth."""

    @register("twice", kind="remask")
    def twice():
        def init(config, b, l):
            return {"back": jnp.zeros((b, l), bool)}

        def select(memory, obs, keys):
            chosen = obs.new & ~memory["back"]
            return chosen, {"back": memory["back"] | chosen}

        def quota(masked, left, step, num_steps):
            return jnp.full_like(masked, 2)

        def order(obs, keys):
            return -jnp.arange(obs.tokens.shape[1], dtype=jnp.float32) * jnp.ones_like(
                obs.confidence
            )

        return Strategy(init, select, quota, order)

    result = draw(SamplerConfig(6, 8, "twice", 0.0, record_history=True), rows=[0, 1])
    decided = np.asarray(result.history.canvas)[:, 0] != MASK
    steps = [2 * (s // 2) + 2 * (s % 2) for s in range(6)]
    np.testing.assert_array_equal(decided.sum(axis=1), [*steps, 6, 6])
    assert result.nfe.tolist() == [9, 9]  # six commits and three refreshes


def test_an_order_may_postpone_and_an_empty_quota_costs_nothing(draw, register):
    """Nothing is due before step 4; then only even positions are; the fill takes the rest."""

    @register("late", kind="order")
    def late():
        def quota(masked, left, step, num_steps):
            return jnp.where(step < 4, 0, masked)

        def order(obs, keys):
            even = jnp.arange(obs.tokens.shape[1]) % 2 == 0
            return jnp.where(even, obs.confidence, -jnp.inf)

        return Strategy(quota=quota, order=order)

    result = draw(SamplerConfig(6, 5, "late", 0.0, record_history=True), rows=[0, 1])
    decided = np.asarray(result.history.canvas)[:, 0] != MASK
    np.testing.assert_array_equal(decided[:4], False)
    np.testing.assert_array_equal(decided[4], [True, False] * 3)
    assert result.nfe.tolist() == [2, 2]


def bad_strategies():
    ok = jnp.ones
    return {
        "select": Strategy(select=lambda m, o, k: (jnp.ones((1, 2), bool), m)),
        "select returned float32": Strategy(select=lambda m, o, k: (o.confidence, m)),
        "quota": Strategy(quota=lambda m, l, s, n: m * 0.5),
        "order": Strategy(order=lambda o, k: o.decided),
        "init": Strategy(init=lambda c, b, l: ok(b + 1), select=lambda m, o, k: (o.new, m)),
        "memory": Strategy(init=lambda c, b, l: ok(b), select=lambda m, o, k: (o.new, ok(9))),
        "transition": Strategy(transition=lambda m, o, k: (o.tokens, ok((2, 4)), m)),
        "transition returned float32": Strategy(
            transition=lambda m, o, k: (o.confidence, o.decided, m)
        ),
        "plan": Strategy(plan=lambda c: np.arange(9), select=lambda m, o, k: (o.new, m)),
    }


@pytest.mark.parametrize("field", bad_strategies())
def test_wrong_results_are_refused_naming_the_strategy(field, draw, register):
    strategy = bad_strategies()[field]
    remasks = strategy.select or strategy.transition
    register("crooked", kind="remask" if remasks else "order")(lambda: strategy)
    with pytest.raises(ValueError, match=f"'crooked'.*{field}"):
        draw(SamplerConfig(4, 2, "crooked", 0.0))


def test_registry_refuses(register):
    with pytest.raises(ValueError, match="already registered"):
        register("none", kind="none")
    with pytest.raises(ValueError, match="identifier"):
        register("two words", kind="order")
    with pytest.raises(ValueError, match="kind='magic'"):
        register("new", kind="magic")
    with pytest.raises(ValueError, match=r"'new'.*returned dict"):
        register("new", kind="order")(lambda: {})
    with pytest.raises(ValueError, match="must not have a select"):
        register("new", kind="order")(lambda: get_strategy("random"))
    with pytest.raises(ValueError, match="quota=3 is not callable"):
        register("new", kind="order")(lambda: Strategy(quota=3))
    with pytest.raises(ValueError, match=r"strategy='new'.*none, .*random, low_confidence"):
        get_strategy("new")


def test_remask_top_takes_the_count_from_the_observation():
    obs = observation(jnp.zeros((1, 4, 3)), jnp.zeros((1, 4), jnp.int32), 3)
    assert int(remask_top(obs, jnp.arange(4.0)[None]).sum()) == 3
