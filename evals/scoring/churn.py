"""Numbers of recorded unmaskings: what is put back, what comes of it, what never settles."""

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ... import __version__, samplers
from ..errors import InputError
from ..signature import signature
from .scored import mean_of_rows
from .scores import Score


@dataclasses.dataclass(frozen=True)
class Canvas:
    """Context of a number that reads recorded canvases."""

    steps: int
    positions: int
    n: int
    version: str = dataclasses.field(default=__version__, metadata={"key": "v"})


_NOTHING_BACK = "no token was taken back"
_NO_NOTES = "the sampler takes no notes of its steps"


class StepRates(NamedTuple):
    """Share of positions that each step puts back or changes.

    Attributes:
        step: nominal steps, from the second on.
        mean, stderr: over the samples; the error is 0 for one sample.
        n: samples.
    """

    step: np.ndarray
    mean: Float[np.ndarray, "r"]
    stderr: Float[np.ndarray, "r"]
    n: int


def step_rates(history: samplers.History) -> StepRates:
    """The replacement rate of every transition; its mean over steps is `replacement_rate`.

    CaRE (arXiv 2607.24763) Fig. 7, spec care.md section 7.

    Raises:
        InputError: fewer than two canvases.
    """
    classes = np.asarray(samplers.classify_cells(history))
    if len(classes) < 2:
        raise InputError("the history has one canvas; rates per step need --num_steps of 2 or more")
    rates = (classes[1:] == samplers.CELL_CLASSES.index("replaced")).mean(axis=2)
    n = rates.shape[1]
    stderr = rates.std(axis=1, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(len(rates))
    return StepRates(np.arange(2, len(classes) + 1), rates.mean(axis=1), stderr, n)


def churn_scores(history: samplers.History) -> dict[str, Score]:
    """Means over the samples of a history, with standard errors over samples.

    Returns:
        {replacement_rate, recommit_change, stable_cells, never_settled, tie_rate: Score}.
        `recommit_change` is over the samples that took back a token, and missing without any;
        `tie_rate` is missing for samplers that take no notes.

    Raises:
        InputError: fewer than two canvases.
    """
    steps, n, positions = np.shape(history.canvas)
    if steps < 2:
        raise InputError("the history has one canvas; churn needs --num_steps of 2 or more")
    context = Canvas(steps, positions, n)

    def number(name: str, unit: str, rows: np.ndarray, reason: str = "") -> Score:
        signed = signature(name, dataclasses.replace(context, n=len(rows) or n))
        if len(rows) == 0:
            return Score(None, None, n, unit, None, signed, reason)
        value, stderr = mean_of_rows(np.asarray(rows, np.float64))
        return Score(value, stderr, len(rows), unit, None, signed)

    rates = np.asarray(samplers.replacement_rate(history))
    changed = np.asarray(samplers.recommit_change(history))[rates > 0]
    none = np.empty(0)
    ties = none if history.notes is None else np.asarray(samplers.tie_rate(history))
    stable = np.asarray(samplers.stable_cells(history))
    unsettled = np.asarray(samplers.never_settled(history))
    return {
        "replacement_rate": number("replacement_rate", "of positions per step", rates),
        "recommit_change": number("recommit_change", "of re-commits", changed, _NOTHING_BACK),
        "stable_cells": number("stable_cells", "cells", stable),
        "never_settled": number("never_settled", "positions", unsettled),
        "tie_rate": number("tie_rate", "of steps", ties, _NO_NOTES),
    }
