"""What a plan will cost: forwards, memory and time, before anything runs."""

import os
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...samplers import get_strategy
from ..cell import Cell
from ..sampling.drawing import vocabulary
from ..sources import Sources
from .plan import Plan

# Share of a large matmul's speed that a whole forward reaches.
_EFFICIENCY = 0.5
# Compilation and scoring that a run pays whatever its size, and scoring a bank, in seconds.
_FIXED_SECONDS = 30.0
_SCORE_SECONDS = 1.0
# Live float32 copies of a batch's logits (logits, probabilities, noise) and of its hidden states.
_LOGIT_COPIES, _HIDDEN_COPIES = 4, 16
_HIDDEN_WIDTH = 1024
_PROCESS_BYTES = 600e6


class Estimate(NamedTuple):
    """Cost of a plan.

    Attributes:
        forwards: {fingerprint of a cell: upper bound of its batched forwards}.
        total_forwards: their sum, scoring included.
        seconds: rough wall time on this device.
        memory_bytes: rough peak memory of the process.
    """

    forwards: dict[str, int]
    total_forwards: int
    seconds: float
    memory_bytes: int


def forwards(cell: Cell, batch_size: int | None = None) -> int:
    """Upper bound of the batched forwards of a cell; the sampler counts the real ones.

    Strategy "none" takes at most one forward a step and never more than the length; those that
    look again after remasking two a step, all others one, and a final fill a block. A cell with a
    target costs that (its pilot, and best_of's launches of single candidates, are not in it).
    """
    batches = -(-cell.num_samples // (batch_size or cell.num_samples))
    guided = 2 if cell.cfg_scale else 1
    if cell.role == "autoregressive":
        return batches * (cell.gen_length - (0 if cell.prefix_length else 1))
    if cell.role not in ("generated", "trajectory"):
        return 0
    if cell.target_nfe is not None:
        return batches * (cell.target_nfe + max(1, cell.target_nfe // 100))
    steps = int(cell.num_steps or 0)
    blocks = cell.gen_length // (cell.block_length or cell.gen_length)
    if cell.strategy == "none":
        return batches * guided * min(steps, cell.gen_length)
    looks_again = get_strategy(cell.strategy).select is not None
    return batches * guided * ((2 if looks_again else 1) * steps + blocks)


def estimate(plan: Plan, sources: Sources, batch_size: int) -> Estimate:
    """Estimates a plan from its models' sizes and one timed matmul; runs no model."""
    counts = {cell.fingerprint: forwards(cell, batch_size) for cell in plan.cells}
    speed = measured_flops() * _EFFICIENCY
    seconds, memory = _FIXED_SECONDS, 0.0
    scored = [cell for cell in plan.cells if cell.role != "trajectory"]
    scorer_params = num_params(sources.scorer(plan.scoring.scorer))
    encoder_params = sum(
        getattr(sources.encoder(name).card, "num_params", 0) for name in plan.scoring.encoders
    )
    score_forwards = 0
    for cell in plan.cells:
        count = forwards(cell, batch_size)
        rows = min(batch_size, cell.num_samples)
        if count:
            model = sources.network(str(cell.model), vocabulary(cell))
            tokens = rows * (cell.gen_length + (cell.prefix_length or 0))
            seconds += count * 2 * num_params(model) * tokens / speed
            working = tokens * (_LOGIT_COPIES * model.num_ids + _HIDDEN_COPIES * _HIDDEN_WIDTH)
            memory = max(memory, 4 * working + 8 * num_params(model))
    for cell in scored:
        batches = -(-cell.num_samples // batch_size)
        score_forwards += 2 * batches
        tokens = cell.num_samples * plan.scoring.max_tokens
        seconds += (4 * scorer_params + 2 * encoder_params) * tokens / speed + _SCORE_SECONDS
    total = sum(counts.values()) + score_forwards
    return Estimate(counts, total, seconds, int(memory + _PROCESS_BYTES))


def num_params(model: Any) -> int:
    """Parameters of a loaded model."""
    return sum(int(np.prod(np.shape(leaf))) for leaf in jax.tree.leaves(model.params))


def measured_flops(size: int = 1024, repeats: int = 3) -> float:
    """Floating-point operations a second of one float32 matmul on this device."""
    x = jnp.ones((size, size), jnp.float32)
    product = jax.jit(jnp.matmul)
    product(x, x).block_until_ready()
    start = time.perf_counter()
    for _ in range(repeats):
        product(x, x).block_until_ready()
    return repeats * 2 * size**3 / (time.perf_counter() - start)


def free_bytes(path: str | os.PathLike[str]) -> int:
    """Free disk space where `path` lies or would lie."""
    folder = os.path.abspath(path)
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize
