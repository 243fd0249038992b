"""A sample depends on its own prompt and key alone, and one compilation serves all settings."""

import json
import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from dlmeval.samplers import SamplerConfig, strategy_names

SHUFFLED = [6, 2, 5, 0, 3, 1, 4, 0]

# Runs every strategy that is named after the path of conftest.py on 8 virtual devices, one sample
# each.
SHARDED = f"""
import importlib.util, json, sys
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

spec = importlib.util.spec_from_file_location("tiny", sys.argv[1])
tiny = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tiny)
def place(keys):
    # Both kinds of mesh: sharding left to the compiler, and sharding in the types.
    mesh = jax.make_mesh((8,), ("data",)) if name == "none" else Mesh(jax.devices(), ("data",))
    return jax.device_put(keys, NamedSharding(mesh, PartitionSpec("data")))

mesh = Mesh(jax.devices(), ("data",))
params = jax.device_put(tiny.weights(), NamedSharding(mesh, PartitionSpec()))
results = {{}}
for name in sys.argv[2:]:
    samples = tiny.draw_rows(
        tiny.judge, params, tiny.standard_config(name), rows={SHUFFLED}, pad=4, place=place
    )
    assert len(samples.nfe.sharding.device_set) == 8
    results[name] = [np.asarray(x).tolist() for x in (samples.tokens, samples.nfe)]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def sharded():
    """Tokens and nfe by strategy, from one process with 8 virtual devices."""
    flags = f"--xla_force_host_platform_device_count=8 {os.environ['XLA_FLAGS']}"
    conftest = str(pathlib.Path(__file__).with_name("conftest.py"))
    done = subprocess.run(
        [sys.executable, "-c", SHARDED, conftest, *strategy_names()],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("strategy", strategy_names())
def test_batch_padding_devices_and_recording_change_no_sample(strategy, standard, sharded):
    """Three samples recorded on one device, and among others, padded, unrecorded, on eight."""
    alone, (tokens, nfe) = standard(strategy), sharded[strategy]
    rows = [SHUFFLED.index(row) for row in range(3)]
    np.testing.assert_array_equal(np.array(tokens)[rows, 4:], alone.tokens)
    np.testing.assert_array_equal(np.array(nfe)[rows], alone.nfe)


def test_alone_in_a_batch_and_padded_differently_are_the_same(draw):
    config = SamplerConfig(16, 8, "high_entropy", 0.8)
    batch = draw(config, rows=range(7))
    shuffled = [3, 1, 6, 0, 5, 2, 4]
    padded = draw(config, rows=shuffled, pad=4)
    np.testing.assert_array_equal(padded.tokens[:, 4:], np.asarray(batch.tokens)[shuffled])
    np.testing.assert_array_equal(padded.nfe, np.asarray(batch.nfe)[shuffled])
    alone = draw(config, rows=[4])
    np.testing.assert_array_equal(alone.tokens[0], batch.tokens[4])
    assert len(np.unique(np.asarray(batch.tokens)[:, 3:], axis=0)) == 7


def test_mixed_lengths_in_one_batch(tiny, draw):
    """Rows with prompts of 3 and of 1 token, the short one padded within the batch."""
    from dlmeval.samplers import sample

    config = SamplerConfig(16, 8, "high_entropy", 0.8)
    prompt = np.random.default_rng(0).integers(0, 12, size=(7, 3))[:2]
    prompt[1, :2] = 0
    mask = np.array([[True] * 3, [False, False, True]])
    keys = jax.random.split(jax.random.key(0), 7)[:2]
    both = sample(tiny.logits_fn, tiny.params, prompt, mask, keys, config, mask_id=12)
    np.testing.assert_array_equal(both.tokens[0], draw(config, rows=[0]).tokens[0])
    short = sample(
        tiny.logits_fn, tiny.params, prompt[1:, 2:], mask[1:, 2:], keys[1:], config, mask_id=12
    )
    np.testing.assert_array_equal(both.tokens[1, 2:], short.tokens[0])


def test_one_trace_serves_all_steps_temperatures_fractions_and_seeds(draw, recorder):
    network = recorder()
    outputs = set()
    for num_steps, temp, fraction, seed in (
        (8, 0.0, 0.15, 0),
        (4, 0.7, 0.3, 1),
        (32, 1.5, 0.0, 2),
        (16, 0.1, 1.0, 3),
    ):
        config = SamplerConfig(16, num_steps, "high_entropy", temp, remask_fraction=fraction)
        result = draw(config, seed=seed, logits_fn=network.logits_fn)
        outputs.add(np.asarray(result.tokens).tobytes())
    assert network.traces == 1
    assert len(outputs) == 4


def test_history_is_a_record_of_the_same_run(draw):
    config = SamplerConfig(16, 8, "high_entropy", 0.8, block_length=8)
    recorded = SamplerConfig(16, 8, "high_entropy", 0.8, block_length=8, record_history=True)
    plain, kept = draw(config), draw(recorded)
    assert plain.history is None
    np.testing.assert_array_equal(plain.tokens, kept.tokens)
    np.testing.assert_array_equal(plain.nfe, kept.nfe)
    assert int(plain.launches) == int(kept.launches)
    assert kept.history.canvas.shape == (8, 2, 16)
    # The last block ends with remasked positions; only the fill, not the history, decides them.
    last = np.asarray(kept.history.canvas[-1])
    final = np.asarray(kept.tokens[:, 3:])
    assert np.all((last == final) | (last == 12))


def test_reusing_the_refresh_changes_the_cost_alone(draw):
    config = SamplerConfig(16, 8, "high_entropy", 0.8)
    reused = draw(SamplerConfig(16, 8, "high_entropy", 0.8, refresh_reuse=True))
    plain = draw(config)
    np.testing.assert_array_equal(plain.tokens, reused.tokens)
    assert np.all(np.asarray(reused.nfe) < np.asarray(plain.nfe))
    assert np.all(np.asarray(reused.nfe) <= 9)


def test_temperature_zero_ignores_the_key_and_others_do_not(tiny, draw):
    config = SamplerConfig(16, 8, "none", 0.0)
    tokens = [draw(config, rows=[0], width=0, seed=seed).tokens for seed in (0, 1)]
    np.testing.assert_array_equal(*tokens)
    hot = SamplerConfig(16, 8, "none", 1.0)
    tokens = [draw(hot, rows=[0], width=0, seed=seed).tokens for seed in (0, 1)]
    assert np.any(np.asarray(tokens[0]) != np.asarray(tokens[1]))


def test_legacy_keys_draw_what_typed_keys_draw(tiny):
    from dlmeval.samplers import sample

    prompt = np.ones((2, 3), int)
    config = SamplerConfig(16, 8, "none", 1.0)
    keys = jax.random.split(jax.random.key(1), 2)
    arguments = tiny.logits_fn, tiny.params, prompt, prompt == 1
    typed = sample(*arguments, keys, config, mask_id=12)
    legacy = sample(*arguments, jax.random.key_data(keys), config, mask_id=12)
    np.testing.assert_array_equal(typed.tokens, legacy.tokens)


def test_importing_starts_no_backend():
    code = (
        "import dlmeval.samplers, jax._src.xla_bridge as bridge; "
        "raise SystemExit(len(bridge._backends))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
