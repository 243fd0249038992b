"""Plug-in entropies of a bank of token sequences: within rows, pooled, by position, joint.

No vocabulary size is needed: everything is counted by sorting, so `entropies` runs under
`jax.jit` and `jax.vmap` and costs O(n t log(n t)). Concrete ids are counted on the host, where
sorting is ten times faster than XLA's on CPUs.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt32

from .entropy_counts import count_entropies
from .token_rows import AnyArray, check_token_rows, is_traced, valid_positions

_PADDING = jnp.iinfo(jnp.int32).max
_BLOCK = 1024


class Entropies(NamedTuple):
    """Entropies in nats per token, `total_correlation` in nats per sequence.

    Attributes:
      uni: mean over rows of the entropy of the row's own token frequencies.
      uni_rows: that entropy for every row.
      pool: entropy of the token frequencies of the whole bank.
      pos: mean over positions t < L of the entropy over rows of the token at t.
      pos_mm: `pos` plus the Miller-Madow correction, mean over t of (K_t - 1) / (2 N_t).
      joint: entropy of the empirical distribution of whole rows, divided by L.
      total_correlation: L * (pos - joint), Watanabe's total correlation of the bank.
    """

    uni: Float[Array, ""]
    uni_rows: Float[Array, " n"]
    pool: Float[Array, ""]
    pos: Float[Array, ""]
    pos_mm: Float[Array, ""]
    joint: Float[Array, ""]
    total_correlation: Float[Array, ""]


def entropies(ids: Int[AnyArray, "n t"], lengths: Int[AnyArray, " n"] | None = None) -> Entropies:
    """Plug-in entropies of a bank (nats per token).

    For rows of equal length the plug-ins obey 0 <= joint <= pos <= pool, uni <= pool,
    pos <= log n and t * joint <= log n. All are biased down: `pos` saturates at log n and a
    bank of distinct rows has exactly t * joint = log n, so compare banks of the same n only
    and print `entropy_ceiling` beside `pos` and `joint`; `pos_mm` removes the leading bias of
    `pos` where n is large against the number of distinct tokens at a position (GPT-2 unigrams
    of English carry about 7 nats, a bank of 1,024 rows can show 6.93 at most).

    Ragged rows: L is the longest row. `uni` weighs rows alike (not by length, so uni <= pool
    may fail), `pos` weighs positions alike though N_t rows reach position t (so pos <= pool
    may fail), two rows are the same for `joint` if lengths and ids agree. A row of length 0
    has entropy 0.

    Runs under `jax.jit` and `jax.vmap`. Errors: concrete ids are counted on the host in
    float64 and rounded once; traced ones in fp32 to about 1e-6 relative (every sum has terms
    of one sign and is taken blockwise), 1e-12 under x64, but `total_correlation` is a
    difference and carries L times the absolute error of `pos`. The joint entropy is exact:
    whole rows are compared, traced ones grouped by a 64-bit hash and the grouping verified id
    by id (see `_row_entropy`). Cost: three sorts of the n * t ids, 0.1 s for a million of them.

    Args:
      ids: Int[Array, "n t"] token ids in [0, 2**31).
      lengths: Int[Array, "n"] valid tokens per row; None = full rows. Ids beyond are ignored.

    Returns:
      `Entropies` of 0-d arrays (uni_rows: Float[Array, "n"]), float32, or float64 under x64.

    Raises:
      ValueError: ids not 2-D or not integer, lengths of a wrong shape or outside [0, t], an
        empty bank, a negative id. Under `jax.jit` only shapes and dtypes can be checked.

    Source: the unigram entropy is the one reported beside generative perplexity by the
    MDLM/Duo family; total correlation: Watanabe 1960; correction: Miller 1955.

    >>> bank = entropies(np.array([[0, 0], [0, 1]]))
    >>> [round(float(x), 4) for x in (bank.uni, bank.pool, bank.pos, bank.joint)]
    [0.3466, 0.5623, 0.3466, 0.3466]
    >>> mirrored = entropies(np.array([[0, 0], [1, 1]]))
    >>> round(float(mirrored.total_correlation), 4)  # the second column copies the first
    0.6931
    """
    ids, lengths = check_token_rows(ids, lengths)
    if is_traced(ids, lengths):
        return _entropies(jnp.asarray(ids), jnp.asarray(lengths))
    found = count_entropies(np.asarray(ids), np.asarray(lengths))
    return Entropies(**{field: jnp.asarray(value) for field, value in found.items()})


def entropy_ceiling(num_rows: int | Int[AnyArray, "..."]) -> Float[np.ndarray, "..."]:
    """log n, the largest value that `pos` and t * `joint` of a bank of n rows can take (nats).

    Report it beside them: a plug-in within a few tenths of a nat of the ceiling measures the
    size of the bank, not the variety of the text. Ragged banks: at position t the ceiling is
    log N_t, so pass the numbers of rows that reach each position.

    Args:
      num_rows: n >= 1, or an array of such counts.

    Returns:
      float64 array of the shape of `num_rows`.

    Raises:
      ValueError: not integer, or below 1.

    >>> round(float(entropy_ceiling(1024)), 4)
    6.9315
    """
    rows = np.asarray(num_rows)
    if not np.issubdtype(rows.dtype, np.integer) or rows.size == 0 or rows.min() < 1:
        raise ValueError(f"num_rows must be a number of rows, an integer >= 1, got {num_rows!r}")
    return np.asarray(np.log(rows))


@jax.jit
def _entropies(ids: Int[Array, "n t"], lengths: Int[Array, " n"]) -> Entropies:
    n, t = ids.shape
    ids = jnp.where(valid_positions(lengths, t), ids, _PADDING)

    by_row = jnp.sort(ids, axis=1, stable=False)
    uni_rows, _ = _sorted_entropy(by_row, lengths)

    pooled = jnp.sort(by_row.ravel(), stable=False)  # nearly sorted input sorts faster
    pool, _ = _sorted_entropy(pooled[None], jnp.sum(lengths)[None])

    reaching = jnp.sum(valid_positions(lengths, t), axis=0)
    by_position, distinct = _sorted_entropy(jnp.sort(ids.T, axis=1, stable=False), reaching)
    length = jnp.maximum(jnp.max(lengths), 1)  # 1 spares traced empty banks a 0 / 0
    correction = (distinct - 1) / (2 * jnp.maximum(reaching, 1))
    correction = jnp.where(reaching > 0, correction, 0.0)

    pos_total = _blocked_sum(by_position)
    joint_total = _row_entropy(ids, lengths)
    return Entropies(
        uni=_blocked_sum(uni_rows) / n,
        uni_rows=uni_rows,
        pool=pool[0],
        pos=pos_total / length,
        pos_mm=(pos_total + _blocked_sum(correction)) / length,
        joint=joint_total / length,
        total_correlation=pos_total - joint_total,
    )


def _sorted_entropy(
    rows: Int[Array, "r m"], counts: Int[Array, " r"]
) -> tuple[Float[Array, " r"], Int[Array, " r"]]:
    """Entropy and number of distinct values of the first counts[r] entries of sorted rows.

    Padding sorts last and only the first counts[r] entries are used, so a real id equal to
    the padding value is still counted rightly.
    """
    changes = rows[:, 1:] != rows[:, :-1]
    return _run_entropy(changes, counts)


def _run_entropy(
    changes: Bool[Array, "r m-1"], counts: Int[Array, " r"]
) -> tuple[Float[Array, " r"], Int[Array, " r"]]:
    """Entropy of the run lengths among the first counts[r] entries of each row.

    changes[r, i] says that entry i + 1 starts a new run.
    """
    r, m = changes.shape[0], changes.shape[1] + 1
    edge = jnp.ones((r, 1), bool)
    index = jnp.arange(m, dtype=jnp.int32)
    starts = jnp.concatenate([edge, changes], axis=1)
    valid = index < counts[:, None]
    last = jnp.concatenate([changes, edge], axis=1) | (index == counts[:, None] - 1)
    first = _running_max(jnp.where(starts, index, 0))
    run = index - first + 1
    dtype = jnp.zeros(()).dtype  # float32, or float64 under x64
    # log(total / run) as log1p of an exact integer difference keeps small entropies accurate.
    total = counts[:, None]
    surprise = jnp.log1p((total - run).astype(dtype) / run.astype(dtype))
    terms = jnp.where(last & valid, run.astype(dtype) * surprise, 0.0)
    entropy = _blocked_sum(terms) / jnp.maximum(counts, 1).astype(dtype)
    return entropy, jnp.sum(starts & valid, axis=1)


def _running_max(x: Int[Array, "r m"]) -> Int[Array, "r m"]:
    """Running maximum along rows of non-negative numbers, in about 2 sqrt(m) vector steps.

    `lax.cummax` does the same ten times slower on CPUs, where it would be half of all time.
    """
    r, m = x.shape
    width = 1 << (m.bit_length() // 2)
    blocks = -(-m // width)
    x = jnp.pad(x, ((0, 0), (0, blocks * width - m))).reshape(r, blocks, width)

    def step(highest, new):
        highest = jnp.maximum(highest, new)
        return highest, highest

    zero = jnp.zeros_like(x[:, :, 0])
    last, within = lax.scan(step, zero, jnp.moveaxis(x, 2, 0))
    _, before = lax.scan(step, zero[:, 0], jnp.moveaxis(last, 1, 0)[:-1])
    before = jnp.pad(before.T, ((0, 0), (1, 0)))
    running = jnp.maximum(jnp.moveaxis(within, 0, 2), before[:, :, None])
    # Without the barrier XLA fuses the transposed copy into its readers and walks it three times.
    return lax.optimization_barrier(running.reshape(r, blocks * width)[:, :m])


def _row_entropy(ids: Int[Array, "n t"], lengths: Int[Array, " n"]) -> Float[Array, ""]:
    """Entropy in nats of the empirical distribution of whole rows.

    Equal rows always hash alike, so sorting by hash puts them side by side. Unequal rows with
    equal hashes would be merged: neighbours with equal hashes are therefore compared id by id
    and, should any differ, the rows are hashed anew with the next seed (a Las Vegas scheme:
    the answer is exact, a repetition has probability about n**2 / 2**64).
    """
    n = ids.shape[0]

    def attempt(state):
        seed = state[0]
        first, second = _hash_rows(ids, lengths, 2 * seed), _hash_rows(ids, lengths, 2 * seed + 1)
        first, second, order = lax.sort((first, second, jnp.arange(n)), num_keys=2)
        differs = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
        rows, sizes = ids[order], lengths[order]
        unequal = jnp.any(rows[1:] != rows[:-1], axis=1) | (sizes[1:] != sizes[:-1])
        return seed + 1, differs, jnp.any(unequal & ~differs)

    start = jnp.uint32(0), jnp.zeros(n - 1, bool), jnp.array(True)
    _, differs, _ = lax.while_loop(lambda state: state[2], attempt, start)
    entropy, _ = _run_entropy(differs[None], jnp.full(1, n, jnp.int32))
    return entropy[0]


def _hash_rows(
    ids: Int[Array, "n t"], lengths: Int[Array, " n"], seed: UInt32[Array, ""]
) -> UInt32[Array, " n"]:
    """One 32-bit hash a row; positions count, and so does the length."""
    position = jnp.arange(1, ids.shape[1] + 1, dtype=jnp.uint32)
    salt = _scramble(position * jnp.uint32(0x9E3779B1) + _scramble(seed + jnp.uint32(1)))
    hashed = jnp.sum(_scramble(ids.astype(jnp.uint32) ^ salt), axis=1, dtype=jnp.uint32)
    return _scramble(hashed + lengths.astype(jnp.uint32) * jnp.uint32(0x85EBCA77))


def _scramble(x: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """A bijection of 32-bit words that mixes all bits (xor-shifts and odd multipliers)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)


def _blocked_sum(x: Float[Array, "... m"]) -> Float[Array, "..."]:
    """Sum over the last axis in two stages, since a single fp32 accumulator drifts."""
    m = x.shape[-1]
    if m <= _BLOCK:
        return jnp.sum(x, axis=-1)
    blocks = -(-m // _BLOCK)
    padding = [(0, 0)] * (x.ndim - 1) + [(0, blocks * _BLOCK - m)]
    return _blocked_sum(
        jnp.sum(jnp.pad(x, padding).reshape(*x.shape[:-1], blocks, _BLOCK), axis=-1)
    )
