"""Claims about the coding divergence: the worked context tree, its size, its two directions."""

import inspect

import numpy as np

from ... import metrics
from ...metrics.context_tree import posterior_levels
from ..reported import Reported
from .finding import Finding, agreement, outcome


def worked_tree(claim: Reported) -> Finding:
    """The paper's tree of depth 2: its nodes' predictions, their weights and the mixture.

    The paper gives the counts of the empty context, of 0 and of 00. Those of 10 (older bit first)
    follow; of 01 and 11 the sum follows, and the printed weights need it split evenly.
    """
    root, zero, leaf = (
        np.array([number.value for number in claim.numbers(name)], np.int64)
        for name in ("counts_root", "counts_0", "counts_00")
    )
    ones = root - zero
    # Bit j of an index is the bit j + 1 places back.
    counts = np.array([leaf, ones - ones // 2, zero - leaf, ones // 2])
    levels, _ = posterior_levels(counts)
    nodes = [int(np.flatnonzero(level.nodes == 0)[0]) for level in levels]
    predictions = [float(level.estimates[i, 0]) for level, i in zip(levels, nodes)]
    weights, left = [], 1.0
    for level, i in zip(levels, nodes):
        weights.append(left * float(level.stop[i]))
        left *= float(level.descend[i])
    tree = metrics.context_tree_from_counts(counts)
    ours = {
        "q": float(2.0 ** -tree.bits[0, 0]),
        "predictions": predictions,
        "weights": weights,
    }
    return agreement(claim, ours)


def tree_size(claim: Reported) -> Finding:
    """Depth, levels, context in bytes and leaves of the default coder."""
    defaults = inspect.signature(metrics.jeffreys_coding_divergence).parameters
    depth = defaults["depth"].default
    counts = metrics.count_contexts([b"in the beginning"], depth)
    ours = {
        "depth": depth,
        "levels": len(posterior_levels(counts.full)[0]),
        "context_bytes": depth / 8,
        "leaves": len(counts.full),
    }
    return agreement(claim, ours)


def prunings(claim: Reported) -> Finding:
    """The number of prunings of a full binary tree, against the formula 2^(2^D).

    A pruning is the root alone, or one of each of its two subtrees: a(D + 1) = a(D)^2 + 1.
    """
    found = [1]
    for _ in range(4):
        found.append(found[-1] ** 2 + 1)
    formula = [2 ** (2**depth) for depth in range(5)]
    return outcome(
        found == formula,
        {"prunings": found, "formula": formula},
        "at depths 0 to 4",
    )


def directions(claim: Reported) -> Finding:
    """The divergence as the mean of its printed directions, from code lengths that differ so."""
    coverage, fidelity = claim.number("coverage").value, claim.number("fidelity").value
    size, bits = np.array([1000]), np.array([2000.0])
    codes = metrics.HeldOutCodes(
        reference_bytes=size,
        reference_by_reference=bits,
        reference_by_generated=bits + 1000 * coverage,
        generated_bytes=size,
        generated_by_generated=bits,
        generated_by_reference=bits + 1000 * fidelity,
    )
    value = float(metrics.coding_divergence_from_codes(codes).value)
    if "jcd" in claim.values:
        return agreement(claim, {"jcd": value})
    return outcome(
        coverage > fidelity,
        {"jcd": value, "coverage / fidelity": coverage / fidelity},
    )
