"""Jeffreys coding divergence: how badly each bank's coder encodes the other bank's text."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .context_tree import check_documents, code_length, fit_context_tree


class CrossEntropies(NamedTuple):
    """Bits per byte, pooled over held-out documents: TEXT_by_CODER."""

    reference_by_reference: Float[np.ndarray, ""]
    reference_by_generated: Float[np.ndarray, ""]
    generated_by_generated: Float[np.ndarray, ""]
    generated_by_reference: Float[np.ndarray, ""]


class CodingDivergence(NamedTuple):
    """Bits per byte.

    Attributes:
      value: mean of coverage and fidelity.
      coverage: extra bits the generated bank's coder needs for reference text, an analogue of
        KL(reference || generated); large where the generator misses kinds of text.
      fidelity: extra bits the reference's coder needs for generated text, an analogue of
        KL(generated || reference); large where the generator writes what nobody writes.
      cross_entropies: the four code lengths behind them.
    """

    value: Float[np.ndarray, ""]
    coverage: Float[np.ndarray, ""]
    fidelity: Float[np.ndarray, ""]
    cross_entropies: CrossEntropies


class CodingDivergenceStderr(NamedTuple):
    """Standard errors, bits per byte."""

    value: Float[np.ndarray, ""]
    coverage: Float[np.ndarray, ""]
    fidelity: Float[np.ndarray, ""]


class HeldOutCodes(NamedTuple):
    """Bytes of every held-out document and bits by either coder (Float64[np.ndarray, "n"])."""

    reference_bytes: Int[np.ndarray, " n"]
    reference_by_reference: Float[np.ndarray, " n"]
    reference_by_generated: Float[np.ndarray, " n"]
    generated_bytes: Int[np.ndarray, " m"]
    generated_by_generated: Float[np.ndarray, " m"]
    generated_by_reference: Float[np.ndarray, " m"]


def jeffreys_coding_divergence(
    reference: Sequence[bytes],
    generated: Sequence[bytes],
    *,
    depth: int = 20,
    num_fit: int | None = None,
) -> CodingDivergence:
    """Jeffreys coding divergence of two banks of byte strings (bits per byte).

    The first `num_fit` documents of each bank fit a frozen context tree, the rest are coded
    by both trees. Symmetric under swapping the banks, exactly 0 for identical banks. Never
    clipped: two halves of one corpus give small values of either sign. Both coders learn from
    few documents, so the value depends on num_fit and on the document lengths: compare values
    of the same num_fit only. Repeated documents sharpen the generated bank's tree, so the
    size of `coverage` for degenerate banks grows with the number of copies.

    Cost: about 1 s on one core for two banks of 1,024 documents of 4.6 KB. NumPy float64.

    Args:
      reference: byte strings, real text.
      generated: byte strings.
      depth: context length in bits, 0 to 24.
      num_fit: documents of each bank that fit its tree; None = half of that bank.

    Returns:
      `CodingDivergence` of 0-d float64 arrays.

    Raises:
      ValueError: a bank that is empty or not bytes, num_fit that leaves no document to fit or
        to code, held-out documents without a byte, or a bad depth.

    Source: "Hacking Generative Perplexity: Why Unconditional Text Evaluation Needs New
    Metrics" (its JCD), with the coder of Willems, Shtarkov and Tjalkens 1995 frozen.
    """
    codes = code_held_out(reference, generated, depth=depth, num_fit=num_fit)
    return coding_divergence_from_codes(codes)


def code_held_out(
    reference: Sequence[bytes],
    generated: Sequence[bytes],
    *,
    depth: int = 20,
    num_fit: int | None = None,
) -> HeldOutCodes:
    """Fits both trees and codes both held-out parts: all the work of the divergence.

    Take this where value and standard error are both wanted, then
    `coding_divergence_from_codes` and `coding_divergence_stderr`.

    Args, errors: as `jeffreys_coding_divergence`.

    Returns:
      `HeldOutCodes`, documents in their order.
    """
    reference_fit, reference_held = _split(reference, num_fit, "reference")
    generated_fit, generated_held = _split(generated, num_fit, "generated")
    reference_tree = fit_context_tree(reference_fit, depth)
    generated_tree = fit_context_tree(generated_fit, depth)
    return HeldOutCodes(
        reference_bytes=_sizes(reference_held),
        reference_by_reference=code_length(reference_tree, reference_held),
        reference_by_generated=code_length(generated_tree, reference_held),
        generated_bytes=_sizes(generated_held),
        generated_by_generated=code_length(generated_tree, generated_held),
        generated_by_reference=code_length(reference_tree, generated_held),
    )


def coding_divergence_from_codes(codes: HeldOutCodes) -> CodingDivergence:
    """The divergence of code lengths that were measured already."""
    reference_bytes, generated_bytes = codes.reference_bytes.sum(), codes.generated_bytes.sum()
    entropies = CrossEntropies(
        reference_by_reference=np.asarray(codes.reference_by_reference.sum() / reference_bytes),
        reference_by_generated=np.asarray(codes.reference_by_generated.sum() / reference_bytes),
        generated_by_generated=np.asarray(codes.generated_by_generated.sum() / generated_bytes),
        generated_by_reference=np.asarray(codes.generated_by_reference.sum() / generated_bytes),
    )
    coverage = entropies.reference_by_generated - entropies.reference_by_reference
    fidelity = entropies.generated_by_reference - entropies.generated_by_generated
    return CodingDivergence(
        value=np.asarray((coverage + fidelity) / 2),
        coverage=np.asarray(coverage),
        fidelity=np.asarray(fidelity),
        cross_entropies=entropies,
    )


def coding_divergence_stderr(codes: HeldOutCodes) -> CodingDivergenceStderr:
    """Standard errors by the delete-one jackknife over held-out documents, trees fixed.

    Each direction is a ratio of sums (extra bits over bytes); the two use different documents
    and are combined as independent. The variance of fitting the trees on other documents is
    not in it, so this is a lower bound; use seeds or several banks for the whole.

    Args:
      codes: from `code_held_out`.

    Returns:
      `CodingDivergenceStderr`, bits per byte, 0-d float64 arrays. O(n).

    Raises:
      ValueError: fewer than two non-empty held-out documents in a bank.
    """
    coverage = _ratio_stderr(
        codes.reference_by_generated - codes.reference_by_reference,
        codes.reference_bytes,
        "reference",
    )
    fidelity = _ratio_stderr(
        codes.generated_by_reference - codes.generated_by_generated,
        codes.generated_bytes,
        "generated",
    )
    value = np.asarray(np.hypot(coverage, fidelity) / 2)
    return CodingDivergenceStderr(value, coverage, fidelity)


def _ratio_stderr(bits: np.ndarray, sizes: np.ndarray, name: str) -> np.ndarray:
    if np.count_nonzero(sizes) < 2:
        raise ValueError(
            f"a standard error needs at least 2 non-empty held-out documents of {name}, "
            f"got {np.count_nonzero(sizes)}"
        )
    without = (bits.sum() - bits) / (sizes.sum() - sizes)
    n = len(sizes)
    return np.asarray(np.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2)))


def _split(
    documents: Sequence[bytes], num_fit: int | None, name: str
) -> tuple[list[bytes], list[bytes]]:
    """Fit and held-out documents of one bank."""
    documents = check_documents(documents, name)
    n = len(documents)
    if n < 2:
        raise ValueError(
            f"{name} has {n} documents; at least 2 are needed, one to fit and one to code"
        )
    if num_fit is None:
        num_fit = n // 2
    if isinstance(num_fit, bool) or not isinstance(num_fit, int | np.integer):
        raise ValueError(f"num_fit must be an integer or None, got {num_fit!r}")
    if not 0 < num_fit < n:
        raise ValueError(
            f"num_fit must be in [1, {n - 1}] to leave documents of {name} ({n}) both to fit "
            f"and to code, got {num_fit}"
        )
    held = documents[num_fit:]
    if not any(held):
        raise ValueError(
            f"the {len(held)} held-out documents of {name} are all empty; there is nothing to code"
        )
    return documents[:num_fit], held


def _sizes(documents: list[bytes]) -> Int[np.ndarray, " n"]:
    return np.array([len(document) for document in documents], np.int64)
