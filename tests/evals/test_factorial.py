"""Grids from keyed values: order, holes by name, cells without spread."""

import math

import numpy as np
import pytest

from dlmeval.evals import InputError, anova, factorial_table, zero_variance_cells

CELLS = {
    (strategy, temp, seed): 10 * i + temp + seed / 10
    for i, strategy in enumerate(("none", "high_entropy"))
    for temp in (0.25, 0.0)
    for seed in (1, 2, 3)
}


def test_values_find_their_place_whatever_the_order():
    table = factorial_table(CELLS, ("strategy", "temperature"))
    assert table.values.shape == (2, 2, 3)
    assert table.levels == (("none", "high_entropy"), (0.25, 0.0), (1, 2, 3))
    assert table.values[1, 0].tolist() == pytest.approx([10.35, 10.45, 10.55])
    # Later cells may come in any order once every level has been seen.
    keys = list(CELLS)
    mixed = {key: CELLS[key] for key in [keys[0], *reversed(keys[1:])]}
    other = factorial_table(mixed, ("strategy", "temperature"))
    assert sorted(other.values.ravel()) == pytest.approx(sorted(table.values.ravel()))
    assert anova(table.values, table.names)[0].factor == "strategy"


@pytest.mark.parametrize("hole", ["absent", None, math.nan, math.inf])
def test_holes_are_named(hole):
    cells = dict(CELLS)
    key = ("high_entropy", 0.0, 2)
    cells[key] = hole
    if hole == "absent":
        del cells[key]
    message = "1 of 12 cells have no finite value: strategy='high_entropy', temperature=0.0, seed=2"
    with pytest.raises(InputError, match=message):
        factorial_table(cells, ("strategy", "temperature"))


def test_many_holes_are_counted():
    cells = {key: value for key, value in CELLS.items() if key[:2] != ("none", 0.0)}
    cells.pop(("none", 0.25, 1))
    with pytest.raises(InputError, match=r"4 of 12 .*; \.\.\."):
        factorial_table(cells, ("strategy", "temperature"))


@pytest.mark.parametrize(
    ("cells", "match"), [({}, "empty"), ({("none", 1): 0.1}, "must be a tuple"), ({1: 2}, "tuple")]
)
def test_bad_cells_are_refused(cells, match):
    with pytest.raises(InputError, match=match):
        factorial_table(cells, ("strategy", "temperature"))


def test_cells_without_spread_are_found():
    values = np.random.default_rng(0).normal(size=(2, 2, 3))
    values[1, 0] = [0.1 + 0.2, 0.3, 0.3]
    assert zero_variance_cells(values) == [(1, 0)]
    assert zero_variance_cells(values, levels=(("a", "b"), (0.0, 0.5))) == [("b", 0.0)]
    assert zero_variance_cells(values[:1]) == []
