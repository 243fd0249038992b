"""Banks through a launch: order, batch, bucket and memory make no difference to a row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval.models import streaming
from dlmeval.models.streaming import stream

RNG = np.random.default_rng(0)
LENGTHS = RNG.integers(0, 41, 30)
IDS = RNG.integers(1, 100, (30, 40)) * (np.arange(40) < LENGTHS[:, None])
WEIGHTS = RNG.integers(1, 5, (30, 40))
PARAMS = {"scale": jnp.float32(3.0)}


def sums(params, ids, token_mask, weights):
    return params["scale"] * (ids * token_mask * weights).sum(axis=1).astype(jnp.float32)


def states(params, ids, token_mask):
    return params["scale"] * jnp.stack([ids, token_mask], axis=-1).astype(jnp.float32)


EXPECTED = 3.0 * (IDS * WEIGHTS).sum(axis=1)


@pytest.mark.parametrize("tokens", [1, 40, 100, 1 << 12])
def test_rows_come_back_in_order_whatever_the_batch(tokens, monkeypatch):
    monkeypatch.setattr(streaming, "_TOKENS_ON_CPU", tokens)
    found = stream(sums, PARAMS, IDS, LENGTHS, WEIGHTS)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, EXPECTED)
    order = RNG.permutation(30)
    shuffled = stream(sums, PARAMS, IDS[order], LENGTHS[order], WEIGHTS[order])
    np.testing.assert_array_equal(shuffled, EXPECTED[order])


def test_positions_are_widened_with_zeros(monkeypatch):
    monkeypatch.setattr(streaming, "_TOKENS_ON_CPU", 64)
    found = stream(states, PARAMS, IDS, LENGTHS)
    assert found.shape == (30, 40, 2)
    np.testing.assert_array_equal(found[..., 0], 3.0 * IDS)
    # A row without tokens shows its first position to the launch.
    shown = np.arange(40) < np.maximum(LENGTHS, 1)[:, None]
    np.testing.assert_array_equal(found[..., 1], 3.0 * shown)


class Device:
    """A launch on a device that holds so many positions, and remembers what it was asked."""

    def __init__(self, room, message="RESOURCE_EXHAUSTED: Out of memory", after=0):
        self.room, self.message, self.after = room, message, after
        self.shapes, self.done = [], []

    def __call__(self, params, ids, token_mask, weights):
        self.shapes.append(ids.shape)
        if ids.size > self.room and len(self.shapes) > self.after:
            raise jax.errors.JaxRuntimeError(self.message)
        self.done += np.asarray(ids).tolist()
        return sums(params, ids, token_mask, weights)


@pytest.fixture
def in_turn(monkeypatch):
    """One launch after the other, as on all devices but a CPU."""
    monkeypatch.setattr(streaming.sharding, "mesh_of", lambda params: Mesh(fsdp=1))
    monkeypatch.setattr(streaming.sharding, "shard_rows", lambda tree, mesh: tree)


@pytest.mark.usefixtures("in_turn")
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_batch_that_does_not_fit_is_halved(after, monkeypatch):
    """The device fills up after some launches; rows that are done are not run again."""
    monkeypatch.setattr(streaming, "_TOKENS_ON_CPU", 200)
    device = Device(room=80, after=after)
    np.testing.assert_array_equal(stream(device, PARAMS, IDS, LENGTHS, WEIGHTS), EXPECTED)
    # Every row ran, and none but the copies that fill the last launch ran twice.
    rows = [tuple(row[row != 0]) for row in IDS]
    ran = [tuple(x for x in row if x) for row in device.done]
    assert set(ran) == set(rows)
    short = min(LENGTHS)
    again = {row for row in ran if ran.count(row) > rows.count(row)}
    assert all(len(row) == short for row in again)
    sizes = [b * w for b, w in device.shapes]
    assert max(sizes) > 80 >= sizes[-1]


def test_a_batch_that_does_not_fit_is_halved_where_launches_overlap(monkeypatch):
    monkeypatch.setattr(streaming, "_TOKENS_ON_CPU", 200)
    for after in range(4):
        device = Device(room=80, after=after)
        np.testing.assert_array_equal(stream(device, PARAMS, IDS, LENGTHS, WEIGHTS), EXPECTED)


@pytest.mark.usefixtures("in_turn")
def test_halving_begins_at_what_was_tried(monkeypatch):
    # The limit is far above a small bank, whose one launch would else be tried again unchanged.
    monkeypatch.setattr(streaming, "_TOKENS_ON_CPU", 1 << 18)
    device = Device(room=700)
    np.testing.assert_array_equal(stream(device, PARAMS, IDS, LENGTHS, WEIGHTS), EXPECTED)
    assert device.shapes[:2] == [(30, 40), (15, 40)]


@pytest.mark.usefixtures("in_turn")
def test_one_row_that_does_not_fit_is_an_error():
    device = Device(room=30)
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        stream(device, PARAMS, IDS, LENGTHS, WEIGHTS)
    assert device.shapes[-1] == (1, 40)
    assert len(device.shapes) == len(set(device.shapes))


def test_one_row_that_does_not_fit_is_an_error_where_launches_overlap():
    device = Device(room=30)
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        stream(device, PARAMS, IDS, LENGTHS, WEIGHTS)
    assert (1, 40) in device.shapes
    assert len(device.shapes) < 60


def test_other_faults_are_not_taken_for_a_lack_of_memory(monkeypatch):
    monkeypatch.setattr(streaming, "_TOKENS_ON_CPU", 1 << 10)
    device = Device(room=30, message="INTERNAL: the device is on fire")
    with pytest.raises(jax.errors.JaxRuntimeError, match="on fire"):
        stream(device, PARAMS, IDS, LENGTHS, WEIGHTS)
    assert (25, 40) in device.shapes
    assert (12, 40) not in device.shapes


def test_a_mesh_runs_a_multiple_of_its_rows(monkeypatch):
    monkeypatch.setattr(streaming.sharding, "mesh_of", lambda params: Mesh(fsdp=4))
    monkeypatch.setattr(streaming.sharding, "shard_rows", lambda tree, mesh: tree)
    device = Device(room=1 << 20)
    np.testing.assert_array_equal(stream(device, PARAMS, IDS, LENGTHS, WEIGHTS), EXPECTED)
    assert all(b % 4 == 0 for b, _ in device.shapes)
    crowded = Device(room=30)
    with pytest.raises(jax.errors.JaxRuntimeError):
        stream(crowded, PARAMS, IDS, LENGTHS, WEIGHTS)
    assert crowded.shapes[-1] == (4, 40)


class Mesh:
    def __init__(self, fsdp):
        self.shape = {"fsdp": fsdp, "tensor": 2}
