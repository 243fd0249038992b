"""Banks through a compiled function, launch by launch, in batches that fit the device."""

import concurrent.futures
from collections.abc import Callable, Iterable, Iterator

import jax
import numpy as np
from jaxtyping import Int

from . import sharding
from .batches import Launch, launches
from .network import Params

# Positions a launch on CPU, where more gain nothing, and launches at a time: what one of them does
# on a single core, others fill up.
_TOKENS_ON_CPU = 1 << 11
_AT_A_TIME_ON_CPU = 2
# First guess of the memory a position takes elsewhere; halving corrects it.
_BYTES_PER_TOKEN = 1 << 18
_MOST_TOKENS = 1 << 18


def stream(
    launch: Callable[..., jax.Array],
    params: Params,
    ids: Int[np.ndarray, "n t"],
    lengths: Int[np.ndarray, "n"],
    *more: np.ndarray,
) -> np.ndarray:
    """What `launch` gives for every row, in the order of the bank.

    Results with an axis of positions are widened with zeros to the width of ids. A batch that does
    not fit the device's memory is halved and tried again, down to one row a device.

    Args:
        launch: (params, ids Int["b w"], token_mask Bool["b w"], *more["b w"]) -> float32
            array of b rows: a number, a vector, or w vectors each.
        params: the network's; rows are spread over their mesh, if they lie on one.
        ids, lengths: the bank.
        more: arrays shaped like ids, cut the same way.

    Raises:
        jax.errors.JaxRuntimeError: one row alone does not fit, or another fault of the device.
    """
    mesh = sharding.mesh_of(params)
    multiple = 1 if mesh is None else mesh.shape.get(sharding.FSDP, 1)
    on_cpu = _device(params).platform == "cpu"
    tokens = _TOKENS_ON_CPU if on_cpu else _tokens_that_fit(params)
    left = np.arange(len(ids))
    total = np.empty(0, np.float32)
    while len(left):
        done: list[np.ndarray] = []
        tried: list[Launch] = []

        def run(part: Launch, left=left, tried=tried) -> tuple[Launch, np.ndarray]:
            tried.append(part)
            width = part.ids.shape[1]
            inputs = (part.ids, part.token_mask, *(x[left[part.index], :width] for x in more))
            return part, np.asarray(launch(params, *sharding.shard_rows(inputs, mesh)))

        try:
            parts = launches(ids[left], lengths[left], tokens, multiple)
            for part, result in _each(run, parts, overlapped=on_cpu and mesh is None):
                width = part.ids.shape[1]
                if not total.size:
                    inner = (
                        (*ids.shape[1:], result.shape[2]) if result.ndim == 3 else result.shape[1:]
                    )
                    total = np.zeros((len(ids), *inner), np.float32)
                index = (left[part.rows], slice(width)) if result.ndim == 3 else left[part.rows]
                total[index] = result[: len(part.rows)]
                done.append(part.rows)
        except jax.errors.JaxRuntimeError as error:
            smallest = not tried or len(tried[-1].index) <= multiple
            if "RESOURCE_EXHAUSTED" not in str(error) or smallest:
                raise
            # Of what was tried, not of the limit, which a small bank may be far below.
            tokens = tried[-1].ids.size // 2
        left = np.delete(left, np.concatenate(done)) if done else left
    return total


def _each(run: Callable, parts: Iterable[Launch], overlapped: bool) -> Iterator:
    """`map`, with some at a time if they may overlap."""
    if not overlapped:
        yield from map(run, parts)
        return
    with concurrent.futures.ThreadPoolExecutor(_AT_A_TIME_ON_CPU, "launches") as pool:
        try:
            yield from pool.map(run, parts)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _device(params: Params) -> jax.Device:
    leaf = jax.tree.leaves(params)[0]
    return next(iter(leaf.devices())) if isinstance(leaf, jax.Array) else jax.devices()[0]


def _tokens_that_fit(params: Params) -> int:
    memory = _device(params).memory_stats() or {}
    free = memory.get("bytes_limit", 0) - memory.get("bytes_in_use", 0)
    tokens = len(jax.tree.leaves(params)[0].devices()) * free // _BYTES_PER_TOKEN
    return int(np.clip(tokens, _TOKENS_ON_CPU, _MOST_TOKENS))
