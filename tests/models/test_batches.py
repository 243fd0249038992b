"""Launches: every row once, few shapes, little padding; rows that are refused."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from dlmeval.models.batches import bucket_width, check_rows, launches

WIDTHS = [16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024]


def test_widths_take_two_steps_an_octave():
    assert sorted({bucket_width(length, 1024) for length in range(1, 1025)}) == WIDTHS
    for length in range(1, 1025):
        width = bucket_width(length, 1024)
        assert width >= length
        assert width == 16 or width <= 1.5 * length
    assert bucket_width(1000, 1000) == 1000
    assert bucket_width(3, 7) == 7


@st.composite
def banks(draw):
    n, width = draw(st.integers(1, 40)), draw(st.integers(1, 130))
    lengths = np.array(draw(st.lists(st.integers(0, width), min_size=n, max_size=n)), np.int32)
    ids = np.arange(1, n * width + 1, dtype=np.int32).reshape(n, width)
    return ids, lengths


@hypothesis.settings(deadline=None, max_examples=200)
@hypothesis.given(banks(), st.integers(1, 1000), st.integers(1, 4))
def test_every_row_runs_exactly_once_and_whole(bank, tokens, multiple):
    ids, lengths = bank
    parts = list(launches(ids, lengths, tokens, multiple))
    rows = np.concatenate([part.rows for part in parts])
    assert sorted(rows.tolist()) == list(range(len(ids)))
    assert (np.diff(lengths[rows]) <= 0).all()
    for part in parts:
        count, width = part.ids.shape
        longest = max(lengths[part.rows[0]], 1)
        assert width == bucket_width(longest, ids.shape[1])
        assert count % multiple == 0
        assert count * width <= max(tokens, width * multiple) or count < 2 * multiple
        # The rows come first; what fills the launch up repeats one of them.
        assert part.index[: len(part.rows)].tolist() == part.rows.tolist()
        assert set(part.index) == set(part.rows)
        shown = np.maximum(lengths[part.index], 1)
        assert (part.token_mask == (np.arange(width) < shown[:, None])).all()
        real = ids[part.index, :width]
        assert (part.ids[part.token_mask] == real[part.token_mask]).all()
        assert (part.ids[~part.token_mask] == 0).all()
        assert part.token_mask.any(axis=1).all()


@hypothesis.settings(deadline=None, max_examples=50)
@hypothesis.given(banks(), st.integers(1, 1000), st.integers(1, 4))
def test_a_bank_of_any_lengths_needs_few_shapes(bank, tokens, multiple):
    shapes = {part.ids.shape for part in launches(*bank, tokens, multiple)}
    widths = {width for _, width in shapes}
    assert len(shapes) == len(widths)  # one number of rows a width
    assert widths <= {bucket_width(length, bank[0].shape[1]) for length in range(1, 131)}


def test_a_small_bank_is_one_launch_without_copies():
    ids = np.ones((5, 40), np.int32)
    (part,) = launches(ids, np.array([3, 40, 0, 7, 12]), 4096)
    assert part.ids.shape == (5, 40)
    assert part.rows.tolist() == [1, 4, 3, 0, 2]
    assert part.index.tolist() == part.rows.tolist()
    (part,) = launches(ids, np.array([3, 40, 0, 7, 12]), 4096, multiple=4)
    assert part.ids.shape == (8, 40)


def test_rows_are_made_clean():
    ids = np.array([[3, 4, -9], [5, 99, 7]], np.int64)
    given, lengths = check_rows(ids, [2, 1], 10, 4)
    assert given.tolist() == [[3, 4, 0], [5, 0, 0]]
    assert given.dtype == lengths.dtype == np.int32
    assert ids[0, 2] == -9
    assert check_rows(ids.tolist(), [0, 0], 10, None)[0].tolist() == [[0] * 3] * 2


@pytest.mark.parametrize(
    ("ids", "lengths", "message"),
    [
        (np.zeros(3, int), [3], r"2-D integer array, not int64\(3,\)"),
        (np.zeros((2, 3), bool), [3, 3], "2-D integer array, not bool"),
        (np.zeros((2, 0), int), [0, 0], "non-empty"),
        (np.zeros((2, 3), int), [[3, 3]], r"lengths must hold 2 integers, not int64\(1, 2\)"),
        (np.zeros((2, 3), int), [3.0, 3.0], "lengths must hold 2 integers, not float64"),
        (np.zeros((2, 3), int), [-1, 3], r"0\.\.3, not -1\.\.3"),
        (np.full((2, 3), 10), [3, 3], r"ids must lie in 0\.\.9, not 10\.\.10"),
        (np.zeros((2, 6), int), [2, 6], r"row 1 has 6 tokens, more than the context of 5.*scoring"),
    ],
)
def test_rows_that_are_refused(ids, lengths, message):
    with pytest.raises(ValueError, match=message):
        check_rows(ids, lengths, 10, 5)
