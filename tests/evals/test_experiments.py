"""What every experiment keeps to."""

import pathlib

import pytest

from dlmeval.evals.experiment import experiment_names, load_experiment


@pytest.mark.parametrize("name", experiment_names())
def test_an_experiment_reads_at_a_glance(name):
    """It names its cells and reads their scores: tables, figures and pages have other rooms."""
    path = pathlib.Path(load_experiment(name).__file__)
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 100
