"""A binary context tree, fitted once and then frozen, as a universal coder of byte strings.

Context-tree weighting (Willems, Shtarkov, Tjalkens 1995) mixes all tree sources up to a depth.
The fit keeps the counts of every context; the posterior mixture they define is collapsed into
one table with the code length of the next bit after each context, so coding is a gather.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .context_counts import (
    ContextCounts,
    Start,
    bits_of_byte,
    byte_words,
    check_documents,
    count_contexts,
    cut_code,
    full_code,
    opening_bytes,
)


class ContextTree(NamedTuple):
    """A fitted coder.

    Attributes:
      depth: context length D in bits.
      bits: Float64[np.ndarray, "2**depth 2"], bits that coding a 0 or a 1 costs after each
        context; bit j of the context index is the bit j + 1 places back.
      log_evidence: nats, log of the weighted probability of the fitted documents (log Pw of
        the root; 0 for an empty fit).
      start: the policy for the first bits of documents, see `count_contexts`.
      cut_bits: Float64[np.ndarray, "2**depth 2"], start "grow" only: the same as `bits` after
        all d < depth bits since the start of a document, at index 2**d + context.
    """

    depth: int
    bits: Float[np.ndarray, "contexts 2"]
    log_evidence: float
    start: Start = "zeros"
    cut_bits: Float[np.ndarray, "contexts 2"] | None = None


class PosteriorLevel(NamedTuple):
    """Nodes of one depth that were visited by the fit.

    Attributes:
      nodes: Int[np.ndarray, "m"] context indices, ascending; all other nodes are unseen.
      estimates: Float[np.ndarray, "m 2"] Krichevsky-Trofimov probabilities of 0 and 1.
      stop: Float[np.ndarray, "m"] posterior probability that the source stops here.
      descend: Float[np.ndarray, "m"] 1 - stop, computed without cancellation.
    """

    nodes: Int[np.ndarray, " m"]
    estimates: Float[np.ndarray, "m 2"]
    stop: Float[np.ndarray, " m"]
    descend: Float[np.ndarray, " m"]


def fit_context_tree(
    documents: Sequence[bytes], depth: int = 20, *, start: Start = "zeros"
) -> ContextTree:
    """Fits a depth-`depth` context tree to byte strings, read as bits, high bit first.

    Documents are never joined, so their order does not matter; `start` says how their first
    bits are treated, by default as if zero bits came before. No document, or only empty ones,
    gives the coder that spends 8 bits a byte. Repeated documents count as often as they come.

    Cost: about 0.05 s for the tables of depth 20 plus 0.1 s a megabyte; a few tables of
    2**(depth + 4) bytes, and beyond that memory grows with the longest document, not with
    their number. NumPy float64.

    Args:
      documents: byte strings, such as `text.encode("utf-8")`.
      depth: context length in bits, 0 to 24. 20 bits are two and a half bytes.
      start: "zeros", "grow" or "skip", see `count_contexts`; coding follows the same policy.

    Returns:
      The frozen `ContextTree`.

    Raises:
      ValueError: depth out of range, an unknown start, or documents that are not a sequence of
        bytes.

    Source: Willems, Shtarkov and Tjalkens 1995; "Hacking Generative Perplexity" freezes it.

    >>> tree = fit_context_tree([b"abracadabra"])
    >>> bits = code_length(tree, [b"abracadabra", b"hello world"])
    >>> [round(float(b) / 11, 4) for b in bits]  # bits per byte
    [3.7556, 8.5586]
    """
    return context_tree_from_counts(count_contexts(documents, depth, start=start))


def code_length(tree: ContextTree, documents: Sequence[bytes]) -> Float[np.ndarray, " n"]:
    """Bits that a frozen context tree needs for each document.

    The code is a proper probability over bit strings of each length: the bits' probabilities
    come from the posterior mixture at the fitted counts, which coding does not update. (With
    start="skip" it is one given the first `depth` bits, which are not coded.)
    In contexts never seen the probability tends to 1/2; there is no back-off to the parent.

    One number a document makes standard errors and the worst documents free: sort by bits a
    byte, or by the difference of two trees' code lengths (see `code_held_out`).

    Args:
      tree: from `fit_context_tree`.
      documents: byte strings; an empty one costs 0 bits, with start "skip" so does one of
        `depth` bits.

    Returns:
      Float64[np.ndarray, "n"] bits a document. About 0.1 s a megabyte.

    Raises:
      ValueError: documents that are not a sequence of bytes.

    >>> bits = code_length(fit_context_tree([b"to be or not to be"]), [b"to be", b"cogito"])
    >>> [round(float(b), 4) for b in bits]
    [24.4149, 49.6394]
    """
    documents = check_documents(documents)
    lengths = np.zeros(len(documents))
    table = tree.bits.ravel()
    for first, sizes, words in byte_words(documents):
        per_byte = np.zeros(len(words))
        for shift in range(7, -1, -1):
            per_byte += table[full_code(words, shift, tree.depth)]
        if tree.start != "zeros":
            for byte, at in opening_bytes(sizes, tree.depth):
                per_byte[at] = _opening_bits(tree, words[at], byte)
        filled = np.flatnonzero(sizes)  # reduceat has no empty segments
        starts = np.concatenate([[0], np.cumsum(sizes[filled])[:-1]])
        lengths[first + filled] = np.add.reduceat(per_byte, starts)
    return lengths


def context_tree_from_counts(
    counts: ContextCounts | Int[np.ndarray, "contexts 2"],
) -> ContextTree:
    """Collapses context counts into a frozen coder.

    With w_d the posterior probability that the source stops at depth d along the context,
    the next bit has probability sum_d w_d KT_d(bit), which is the sequential CTW predictive
    at these counts. Nodes never visited have evidence 1, estimate 1/2 and split their mass
    evenly, so all that reaches them adds (remaining mass) / 2.

    Start "grow": a bit whose document began d < depth bits ago ends at a node of depth d. If
    the source stops there it shares that node's estimate, else it has an estimate of its own:
    a third child of every node, for a past that is not known (Willems 1998). So the result
    does not depend on the order of documents. For a single document it is the BUILD_TREE of
    DeepMind's `neural_networks_solomonoff_induction`, which depends on order for several.

    Args:
      counts: from `count_contexts`; a plain array is taken for `full` of start "zeros".

    Returns:
      The frozen `ContextTree`. About 0.05 s at depth 20; 1.5 s and 1 GB at depth 24.

    Raises:
      ValueError: counts of a wrong shape, or negative.

    >>> tree = context_tree_from_counts(np.array([[2, 1], [1, 1], [1, 0], [1, 1]]))
    >>> round(float(2.0 ** -tree.bits[0b00, 0]), 4)  # of a 0 after 00
    0.6296
    """
    if not isinstance(counts, ContextCounts):
        counts = ContextCounts(_check_counts(counts))
    levels, log_evidence = posterior_levels(counts.full, counts.cut)
    mixed = np.zeros((1, 2))
    remaining = np.ones(1)
    cut_bits = None if counts.cut is None else np.ones(counts.cut.shape)
    for d, level in enumerate(levels):
        if d:  # a node's children add one older bit: indices i and i + 2**(d - 1)
            mixed = np.concatenate([mixed, mixed])
            remaining = np.concatenate([remaining, remaining])
        mass = remaining[level.nodes]
        stopped = (mass * level.stop)[:, None] * level.estimates
        if counts.cut is not None and cut_bits is not None and d < counts.depth:
            here = slice(1 << d, 2 << d)
            ended = mixed + 0.5 * remaining[:, None]
            own = _estimates(counts.cut[here][level.nodes])
            ended[level.nodes] = (
                mixed[level.nodes] + stopped + (mass * level.descend)[:, None] * own
            )
            cut_bits[here] = _bits(ended)
        mixed[level.nodes] += stopped
        remaining[level.nodes] = mass * level.descend
    mixed += 0.5 * remaining[:, None]
    return ContextTree(counts.depth, _bits(mixed), log_evidence, counts.start, cut_bits)


def _check_counts(counts: Int[np.ndarray, "contexts 2"]) -> Int[np.ndarray, "contexts 2"]:
    counts = np.asarray(counts)
    contexts = counts.shape[0] if counts.ndim == 2 else 0
    if counts.ndim != 2 or counts.shape[1] != 2 or contexts & (contexts - 1) or not contexts:
        raise ValueError(f"counts must have shape (2**depth, 2), got {counts.shape}")
    if not np.issubdtype(counts.dtype, np.integer) or counts.min() < 0:
        raise ValueError(f"counts must be non-negative integers, got dtype {counts.dtype}")
    return counts.astype(np.int64)  # sums of contexts may not fit the type that their parts do


def posterior_levels(
    counts: Int[np.ndarray, "contexts 2"], cut: Int[np.ndarray, "contexts 2"] | None = None
) -> tuple[list[PosteriorLevel], float]:
    """Stop probabilities and estimates of all visited nodes, root first, and log Pw(root)."""
    depth = len(counts).bit_length() - 1
    levels: list[PosteriorLevel] = []
    log_weighted = np.zeros(0)
    for d in range(depth, -1, -1):
        log_below = np.zeros(0)
        if d < depth:
            half = len(counts) // 2
            counts = counts[:half] + counts[half:]
            log_below = log_weighted[:half] + log_weighted[half:]
            if cut is not None:
                ended = cut[half : 2 * half]
                counts = counts + ended
                at = np.flatnonzero(ended[:, 0] + ended[:, 1])
                log_below[at] += _log_evidence(ended[at])
        nodes = np.flatnonzero(counts[:, 0] + counts[:, 1])
        seen = counts[nodes]
        log_estimate = _log_evidence(seen)
        log_weighted = np.zeros(len(counts))
        if d == depth:
            log_weighted[nodes] = log_estimate
            stop, descend = np.ones(len(nodes)), np.zeros(len(nodes))
        else:
            below = log_below[nodes]
            log_weighted[nodes] = np.logaddexp(log_estimate, below) - math.log(2.0)
            stop = 1.0 / (1.0 + _exp(below - log_estimate))
            descend = 1.0 / (1.0 + _exp(log_estimate - below))
        levels.append(PosteriorLevel(nodes, _estimates(seen), stop, descend))
    return levels[::-1], float(log_weighted[0])


def _opening_bits(tree: ContextTree, words: np.ndarray, byte: int) -> Float[np.ndarray, " m"]:
    """Bits that a document's byte of that number costs where contexts are not yet whole."""
    spent = np.zeros(len(words))
    for known, shift in bits_of_byte(byte):
        if known >= tree.depth:
            spent += tree.bits.ravel()[full_code(words, shift, tree.depth)]
        elif tree.cut_bits is not None:
            spent += tree.cut_bits.ravel()[cut_code(words, shift, known)]
    return spent


def _bits(probabilities: np.ndarray) -> np.ndarray:
    """Code lengths, in place: tables of depth 24 take a quarter of a gigabyte."""
    np.log2(probabilities, out=probabilities)
    return np.negative(probabilities, out=probabilities)


def _estimates(seen: Int[np.ndarray, "m 2"]) -> Float[np.ndarray, "m 2"]:
    """Krichevsky-Trofimov probabilities of 0 and 1."""
    return (seen + 0.5) / (seen[:, :1] + seen[:, 1:] + 1.0)


def _log_evidence(seen: Int[np.ndarray, "m 2"]) -> Float[np.ndarray, " m"]:
    """Log of the Krichevsky-Trofimov probability of the bits counted at each node, nats."""
    from scipy.special import gammaln  # here, for it takes longer to import than to run

    zeros, ones = seen[:, 0].astype(np.float64), seen[:, 1].astype(np.float64)
    both = gammaln(zeros + 0.5) + gammaln(ones + 0.5)
    return both - math.log(math.pi) - gammaln(zeros + ones + 1.0)


def _exp(x: np.ndarray) -> np.ndarray:
    """exp whose overflow is a harmless infinity: it stands in a denominator."""
    with np.errstate(over="ignore"):
        return np.exp(x)
