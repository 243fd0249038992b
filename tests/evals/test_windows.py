"""Windows of real text are disjoint, whole, and enough of them."""

import numpy as np
import pytest

from dlmeval.evals.corpora.windows import cut_windows, take_windows

DOCUMENTS = [np.arange(100, 110), np.arange(200, 203), np.arange(300, 308)]


def test_windows_share_no_token_and_cross_no_document():
    windows = cut_windows(DOCUMENTS, 4)
    assert sorted(windows[:, 0].tolist()) == [100, 104, 300, 304]
    assert (np.diff(windows, axis=1) == 1).all()
    assert windows.dtype == np.int32


def test_the_order_is_shuffled_and_fixed():
    long = [np.arange(4000)]
    starts = cut_windows(long, 4)[:, 0]
    assert (starts == cut_windows(long, 4)[:, 0]).all()
    assert (np.diff(starts) > 0).mean() < 0.6


def test_slices_are_disjoint():
    windows = cut_windows([np.arange(400)], 4)
    taken = [take_windows(windows, offset, 30) for offset in (0, 30, 60)]
    assert np.unique(np.concatenate(taken)).size == 360


def test_too_short_documents_are_named():
    with pytest.raises(ValueError, match=r"longest has 10.*--gen_length"):
        cut_windows(DOCUMENTS, 11)
    with pytest.raises(ValueError, match="longest has 0"):
        cut_windows([], 2)


def test_too_few_windows_say_how_many_are_needed():
    with pytest.raises(ValueError, match=r"5 disjoint windows of 4 tokens.*has 4"):
        take_windows(cut_windows(DOCUMENTS, 4), 2, 3)
