"""Self-BLEU beside NLTK and fast-bleu."""

import numpy as np
import pytest

from dlmeval.metrics import self_bleu

pytestmark = pytest.mark.parity


def pack(rows):
    lengths = np.array([len(row) for row in rows])
    ids = np.full((len(rows), lengths.max()), -1)
    for row, values in zip(ids, rows):
        row[: len(values)] = values
    return ids, lengths


def banks():
    """Ragged rows, equal rows, and ties: of counts between rows, and of closest lengths."""
    rng = np.random.default_rng(3)
    zipf = [rng.zipf(1.5, rng.integers(1, 30)).clip(0, 60).tolist() for _ in range(30)]
    letters = [rng.integers(0, 3, length).tolist() for length in (4, 6, 2, 8, 4, 6, 1, 3, 5, 12)]
    copies = [zipf[0], zipf[0], zipf[1], zipf[0][::-1], [7] * 9, [7] * 5, [7, 8] * 4]
    return [zipf, letters, copies]


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_nltk(order, peers):
    pytest.importorskip("nltk")
    for rows in banks():
        expected = peers.nltk_self_bleu(rows, order)
        np.testing.assert_allclose(self_bleu(*pack(rows), order=order), expected, rtol=1e-12)


@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_fast_bleu(order, peers):
    pytest.importorskip("fast_bleu")
    for rows in banks():
        # Each length twice, for the reason that `fast_self_bleu` gives.
        rows = [*rows, *([row[0], *row[:0:-1]] for row in rows)]
        expected = peers.fast_self_bleu(rows, order)
        np.testing.assert_allclose(self_bleu(*pack(rows), order=order), expected, rtol=1e-6)
