"""Disjoint windows of real text: the reference bank and the null draws beside it."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

# One fixed shuffle of all windows; cells take consecutive, hence disjoint, slices of it.
_SHUFFLE_SEED = 0


def cut_windows(
    documents: Sequence[Int[np.ndarray, "_"]], length: int
) -> Int[np.ndarray, "n length"]:
    """Cuts documents into consecutive windows that share no token, in a fixed shuffled order.

    A document's tail shorter than a window is dropped, and no window crosses documents. The
    shuffle mixes the documents, so that any slice of the result is a fair draw.

    Raises:
        ValueError: no document has `length` tokens.
    """
    rows = [
        document[start : start + length]
        for document in documents
        for start in range(0, len(document) - length + 1, length)
    ]
    if not rows:
        longest = max((len(document) for document in documents), default=0)
        raise ValueError(
            f"no document has {length} tokens (the longest has {longest}); give longer documents"
            " or lower --gen_length"
        )
    order = np.random.default_rng(_SHUFFLE_SEED).permutation(len(rows))
    return np.asarray(rows, np.int32)[order]


def take_windows(
    windows: Int[np.ndarray, "n length"], offset: int, count: int
) -> Int[np.ndarray, "count length"]:
    """The slice of windows that belongs to one cell.

    Raises:
        ValueError: the slice runs past the last window.
    """
    if offset + count > len(windows):
        raise ValueError(
            f"{offset + count} disjoint windows of {windows.shape[1]} tokens are needed and the"
            f" text has {len(windows)}; give a longer text, or lower --num_samples,"
            " --num_null_banks, --seeds or --gen_length"
        )
    return windows[offset : offset + count]
