"""Standard errors of a bank's entropies: all leave-one-row-out values from one count."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .token_rows import AnyArray, check_token_rows, is_traced, valid_positions


class EntropiesStderr(NamedTuple):
    """Standard errors over rows, in the units of `Entropies`."""

    uni: Float[np.ndarray, ""]
    pool: Float[np.ndarray, ""]
    pos: Float[np.ndarray, ""]
    pos_mm: Float[np.ndarray, ""]
    joint: Float[np.ndarray, ""]
    total_correlation: Float[np.ndarray, ""]


def entropies_stderr(
    ids: Int[AnyArray, "n t"], lengths: Int[AnyArray, " n"] | None = None
) -> EntropiesStderr:
    """Standard errors of `entropies` by the delete-one-row jackknife, exact.

    Every leave-one-out value comes from the counts of the whole bank, so all n of them cost
    as much as two sorts of the tokens. For `uni` this is sd / sqrt(n). A row that alone is the
    longest shortens L when it is left out, as it would in a bank drawn without it.

    The error of a plug-in says nothing of its bias: where all rows are distinct `joint` is
    log n whatever the law and its standard error is 0, and `pos` close to `entropy_ceiling`
    has a standard error much smaller than its distance from the true entropy.

    NumPy float64, concrete arrays only; about 0.2 s for a million ids on one core.

    Args:
      ids, lengths: as `entropies`.

    Returns:
      `EntropiesStderr` of 0-d float64 arrays.

    Raises:
      ValueError: as `entropies`, fewer than two rows that hold tokens, or traced arrays.

    Source: Quenouille 1956, Tukey 1958; Efron and Stein 1981 on why it errs upward.

    >>> errors = entropies_stderr(np.array([[0, 0], [0, 1], [2, 1]]))
    >>> [round(float(x), 4) for x in (errors.uni, errors.pool, errors.pos)]
    [0.231, 0.3183, 0.231]
    """
    if is_traced(ids, lengths):
        raise ValueError("entropies_stderr needs concrete arrays; call it outside jit")
    ids, lengths = check_token_rows(ids, lengths)
    ids, lengths = np.asarray(ids), np.asarray(lengths)
    filled = np.count_nonzero(lengths)
    if filled < 2:
        raise ValueError(f"a standard error needs at least 2 rows that hold tokens, got {filled}")
    longest = np.partition(lengths, -2)[-2:]
    without_length = np.where(lengths == longest[1], longest[0], longest[1])
    uni, pool = _without_row_unigrams(ids, lengths)
    pos_total, correction = _without_row_positions(ids, lengths)
    joint_total = _without_row_joint(ids, lengths)
    return EntropiesStderr(
        uni=_jackknife(uni),
        pool=_jackknife(pool),
        pos=_jackknife(pos_total / without_length),
        pos_mm=_jackknife((pos_total + correction) / without_length),
        joint=_jackknife(joint_total / without_length),
        total_correlation=_jackknife(pos_total - joint_total),
    )


def _without_row_unigrams(
    ids: Int[np.ndarray, "n t"], lengths: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """`uni` and `pool` of the bank without each row."""
    n, t = ids.shape
    row = np.repeat(np.arange(n), lengths)
    # One sort of (id, row) pairs gives runs of ids, and within them runs of rows.
    pairs = np.sort((ids[valid_positions(lengths, t)].astype(np.int64) << 32) | row)
    pair_starts = np.flatnonzero(np.diff(pairs, prepend=-1))
    in_row = np.diff(pair_starts, append=len(pairs))
    pair_row = pairs[pair_starts] & 0xFFFFFFFF
    token = pairs[pair_starts] >> 32
    token_starts = np.flatnonzero(np.diff(token, prepend=-1))
    in_bank = np.add.reduceat(in_row, token_starts)
    of_token = np.repeat(in_bank, np.diff(token_starts, append=len(token)))

    filled = np.maximum(lengths, 1)
    own = np.bincount(pair_row, weights=_xlogx(in_row), minlength=n)
    uni_rows = np.maximum(np.log(filled) - own / filled, 0.0)
    lost = np.bincount(pair_row, weights=_xlogx(of_token) - _xlogx(of_token - in_row), minlength=n)
    total = len(pairs) - lengths
    pool = np.log(total) - (_xlogx(in_bank).sum() - lost) / total
    return (uni_rows.sum() - uni_rows) / (n - 1), pool


def _without_row_positions(
    ids: Int[np.ndarray, "n t"], lengths: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Sums over positions of entropy and of Miller-Madow correction, without each row."""
    n, t = ids.shape
    valid = valid_positions(lengths, t)
    row = np.broadcast_to(np.arange(n)[:, None], (n, t))
    keys = np.where(valid, (ids.astype(np.int64) << 32) | row, np.iinfo(np.int64).max).T
    keys = np.sort(keys, axis=1)  # one position a line, padding last
    reaching = np.count_nonzero(valid, axis=0)
    here = np.arange(n) < reaching[:, None]
    keys, position = keys[here], np.repeat(np.arange(t), reaching)

    token = keys >> 32
    edge = np.diff(token, prepend=-1) != 0
    edge[(np.cumsum(reaching) - reaching)[reaching > 0]] = True
    starts = np.flatnonzero(edge)
    counts = np.diff(starts, append=len(keys))
    run_position = position[starts]
    summed = np.bincount(run_position, weights=_xlogx(counts), minlength=t)
    distinct = np.bincount(run_position, minlength=t)
    entropy = np.log(np.maximum(reaching, 1)) - summed / np.maximum(reaching, 1)
    correction = (distinct - 1) / (2 * np.maximum(reaching, 1)) * (reaching > 0)

    # What position and row lose by each token: the tables are by run, the sums by row.
    others = reaching[run_position] - 1
    left = np.maximum(others, 1)
    kept = np.log(left) - (summed[run_position] - _xlogx(counts) + _xlogx(counts - 1)) / left
    kept_correction = (distinct[run_position] - (counts == 1) - 1) / (2 * left)
    change = np.where(others > 0, kept, 0.0) - entropy[run_position]
    change_correction = np.where(others > 0, kept_correction, 0.0) - correction[run_position]
    of_row = keys & 0xFFFFFFFF
    total = entropy.sum() + np.bincount(of_row, np.repeat(change, counts), minlength=n)
    corrected = np.bincount(of_row, np.repeat(change_correction, counts), minlength=n)
    return total, correction.sum() + corrected


def _without_row_joint(
    ids: Int[np.ndarray, "n t"], lengths: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Entropy of whole rows (nats a sequence) of the bank without each row."""
    n, t = ids.shape
    content = np.where(valid_positions(lengths, t), ids, 0).astype(np.int32)
    rows = np.concatenate([lengths[:, None].astype(np.int32), content], axis=1)
    of_row: dict[bytes, int] = {}
    kind = np.array([of_row.setdefault(line.tobytes(), len(of_row)) for line in rows])
    copies = np.bincount(kind)
    summed = _xlogx(copies).sum() - _xlogx(copies) + _xlogx(copies - 1)
    return np.log(n - 1) - summed[kind] / (n - 1)


def _xlogx(counts: Int[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    return counts * np.log(np.maximum(counts, 1))


def _jackknife(without: Float[np.ndarray, " n"]) -> Float[np.ndarray, ""]:
    n = len(without)
    return np.asarray(np.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2)))
