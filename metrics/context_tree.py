"""A binary context tree, fitted once and then frozen, as a universal coder of byte strings.

Context-tree weighting (Willems, Shtarkov, Tjalkens 1995) mixes all tree sources up to a depth.
The fit keeps the counts of every context; the posterior mixture they define is collapsed into
one table with the code length of the next bit after each context, so coding is a gather.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

MAX_DEPTH = 24
_CHUNK_BYTES = 1 << 20


class ContextTree(NamedTuple):
    """A fitted coder.

    Attributes:
      depth: context length D in bits.
      bits: Float64[np.ndarray, "2**depth 2"], bits that coding a 0 or a 1 costs after each
        context; bit j of the context index is the bit j + 1 places back.
      log_evidence: nats, log of the weighted probability of the fitted documents (log Pw of
        the root; 0 for an empty fit).
    """

    depth: int
    bits: Float[np.ndarray, "contexts 2"]
    log_evidence: float


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


def fit_context_tree(documents: Sequence[bytes], depth: int = 20) -> ContextTree:
    """Fits a depth-`depth` context tree to byte strings, read as bits, high bit first.

    Every document starts after `depth` zero bits of history that are neither counted nor
    coded; documents are never joined, so their order does not matter. No document, or only
    empty ones, gives the coder that spends 8 bits a byte.

    Cost: about 0.05 s for the tables of depth 20 plus 0.1 s a megabyte; a few tables of
    2**(depth + 4) bytes, and beyond that memory grows with the longest document, not with
    their number. NumPy float64.

    Args:
      documents: byte strings, such as `text.encode("utf-8")`.
      depth: context length in bits, 0 to 24. 20 bits are two and a half bytes.

    Returns:
      The frozen `ContextTree`.

    Raises:
      ValueError: depth out of range, or documents that are not a sequence of bytes.
    """
    return context_tree_from_counts(count_contexts(documents, depth))


def code_length(tree: ContextTree, documents: Sequence[bytes]) -> Float[np.ndarray, " n"]:
    """Bits that a frozen context tree needs for each document.

    The code is a proper probability over bit strings of each length: the bits' probabilities
    come from the posterior mixture at the fitted counts, which coding does not update.
    In contexts never seen the probability tends to 1/2; there is no back-off to the parent.

    Args:
      tree: from `fit_context_tree`.
      documents: byte strings; an empty one costs 0 bits.

    Returns:
      Float64[np.ndarray, "n"] bits a document.

    Raises:
      ValueError: documents that are not a sequence of bytes.
    """
    documents = check_documents(documents)
    lengths = np.zeros(len(documents))
    table = tree.bits.ravel()
    for first, sizes, words in _words(documents):
        per_byte = np.zeros(len(words))
        for codes in _bit_codes(words, tree.depth):
            per_byte += table[codes]
        filled = np.flatnonzero(sizes)  # reduceat has no empty segments
        starts = np.concatenate([[0], np.cumsum(sizes[filled])[:-1]])
        lengths[first + filled] = np.add.reduceat(per_byte, starts)
    return lengths


def count_contexts(documents: Sequence[bytes], depth: int = 20) -> Int[np.ndarray, "contexts 2"]:
    """How often 0 and 1 follow each context of `depth` bits.

    Counts of document sets add up, so shards may be counted apart and summed before
    `context_tree_from_counts`. Context indices as in `ContextTree.bits`.

    Args:
      documents: byte strings.
      depth: context length in bits, 0 to 24.

    Returns:
      Int64[np.ndarray, "2**depth 2"].

    Raises:
      ValueError: depth out of range, or documents that are not a sequence of bytes.
    """
    if isinstance(depth, bool) or not isinstance(depth, int | np.integer):
        raise ValueError(f"depth must be an integer number of bits, got {depth!r}")
    if not 0 <= depth <= MAX_DEPTH:
        raise ValueError(
            f"depth must be in [0, {MAX_DEPTH}] bits (tables hold 2**depth contexts), got {depth}"
        )
    documents = check_documents(documents)
    counts = np.zeros(2 << depth, np.int64)
    for _, _, words in _words(documents):
        for start in range(0, len(words), _CHUNK_BYTES):  # a long document is one long chunk
            codes = list(_bit_codes(words[start : start + _CHUNK_BYTES], int(depth)))
            counts += np.bincount(np.concatenate(codes), minlength=2 << depth)
    return counts.reshape(-1, 2)


def context_tree_from_counts(counts: Int[np.ndarray, "contexts 2"]) -> ContextTree:
    """Collapses context counts into a frozen coder.

    With w_d the posterior probability that the source stops at depth d along the context,
    the next bit has probability sum_d w_d KT_d(bit), which is the sequential CTW predictive
    at these counts. Nodes never visited have evidence 1, estimate 1/2 and split their mass
    evenly, so all that reaches them adds (remaining mass) / 2.

    Args:
      counts: Int[np.ndarray, "2**depth 2"] from `count_contexts`.

    Returns:
      The frozen `ContextTree`.

    Raises:
      ValueError: counts of a wrong shape, or negative.
    """
    counts = np.asarray(counts)
    contexts = counts.shape[0] if counts.ndim == 2 else 0
    if counts.ndim != 2 or counts.shape[1] != 2 or contexts & (contexts - 1) or not contexts:
        raise ValueError(f"counts must have shape (2**depth, 2), got {counts.shape}")
    if not np.issubdtype(counts.dtype, np.integer) or counts.min() < 0:
        raise ValueError(f"counts must be non-negative integers, got dtype {counts.dtype}")
    levels, log_evidence = posterior_levels(counts)
    mixed = np.zeros((1, 2))
    remaining = np.ones(1)
    for d, level in enumerate(levels):
        if d:  # a node's children add one older bit: indices i and i + 2**(d - 1)
            mixed = np.concatenate([mixed, mixed])
            remaining = np.concatenate([remaining, remaining])
        mass = remaining[level.nodes]
        mixed[level.nodes] += (mass * level.stop)[:, None] * level.estimates
        remaining[level.nodes] = mass * level.descend
    mixed += 0.5 * remaining[:, None]
    return ContextTree(len(levels) - 1, -np.log2(mixed), log_evidence)


def posterior_levels(
    counts: Int[np.ndarray, "contexts 2"],
) -> tuple[list[PosteriorLevel], float]:
    """Stop probabilities and estimates of all visited nodes, root first, and log Pw(root)."""
    from scipy.special import gammaln  # here, for it takes longer to import than to run

    depth = len(counts).bit_length() - 1
    levels: list[PosteriorLevel] = []
    log_weighted = np.zeros(0)
    for d in range(depth, -1, -1):
        if d < depth:
            half = len(counts) // 2
            counts = counts[:half] + counts[half:]
            log_children = log_weighted[:half] + log_weighted[half:]
        else:
            log_children = np.zeros(0)
        nodes = np.flatnonzero(counts[:, 0] + counts[:, 1])
        seen = counts[nodes].astype(np.float64)
        total = seen[:, 0] + seen[:, 1]
        log_estimate = (
            gammaln(seen[:, 0] + 0.5)
            + gammaln(seen[:, 1] + 0.5)
            - math.log(math.pi)
            - gammaln(total + 1.0)
        )
        log_weighted = np.zeros(len(counts))
        if d == depth:
            log_weighted[nodes] = log_estimate
            stop, descend = np.ones(len(nodes)), np.zeros(len(nodes))
        else:
            below = log_children[nodes]
            log_weighted[nodes] = np.logaddexp(log_estimate, below) - math.log(2.0)
            stop = 1.0 / (1.0 + _exp(below - log_estimate))
            descend = 1.0 / (1.0 + _exp(log_estimate - below))
        levels.append(PosteriorLevel(nodes, (seen + 0.5) / (total + 1.0)[:, None], stop, descend))
    return levels[::-1], float(log_weighted[0])


def check_documents(documents: Sequence[bytes], name: str = "documents") -> list[bytes]:
    """A list of the documents, or `ValueError` naming the first that is not bytes."""
    if isinstance(documents, bytes | bytearray | str):
        raise ValueError(
            f"{name} must be a sequence of byte strings, got one {type(documents).__name__}; "
            f"pass a list"
        )
    documents = list(documents)
    for row, document in enumerate(documents):
        if not isinstance(document, bytes | bytearray):
            raise ValueError(
                f"{name}[{row}] is a {type(document).__name__}, but documents must be bytes; "
                'encode text with text.encode("utf-8")'
            )
    return documents


def _exp(x: np.ndarray) -> np.ndarray:
    """exp whose overflow is a harmless infinity: it stands in a denominator."""
    with np.errstate(over="ignore"):
        return np.exp(x)


def _bit_codes(words: np.ndarray, depth: int) -> Iterator[Int[np.ndarray, " m"]]:
    """For each of a byte's eight bits the table index (context << 1) | bit, of all words.

    A word is a byte under the three before it; shifting it right by 7, 6, … 0 puts each bit
    of the byte last with its most recent past above it, so no bit is ever unpacked.
    """
    mask = np.uint32((2 << depth) - 1)
    for shift in range(7, -1, -1):
        yield ((words >> np.uint32(shift)) & mask).astype(np.intp)


def _words(
    documents: list[bytes],
) -> Iterator[tuple[int, Int[np.ndarray, " k"], Int[np.ndarray, " m"]]]:
    """Chunks of documents: index of the first, sizes in bytes, a 32-bit word for each byte.

    Zero bytes before each document give its first bytes the history of zero bits.
    """
    first = 0
    while first < len(documents):
        end, size = first, 0
        while end < len(documents) and (end == first or size + len(documents[end]) <= _CHUNK_BYTES):
            size += len(documents[end])
            end += 1
        chunk = documents[first:end]
        sizes = np.array([len(document) for document in chunk])
        if size:
            padded = b"".join(part for document in chunk for part in (b"\0\0\0", document))
            stream = np.frombuffer(padded, np.uint8).astype(np.uint32)
            words = stream[3:].copy()
            for back in (1, 2, 3):
                words |= stream[3 - back : len(stream) - back] << np.uint32(8 * back)
            skipped = 3 * np.arange(len(chunk)).repeat(sizes)  # padding before each byte
            yield first, sizes, words[np.arange(size) + skipped]
        first = end
