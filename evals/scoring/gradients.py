"""Gradient sums of a bank under the scorer, the raw material of the gradient moment."""

from typing import Any, NamedTuple

import jax
import numpy as np

from ... import metrics
from .features import eos_policy
from .score_settings import ScoreSettings
from .scored import Scored


class BankGradients(NamedTuple):
    """Sums over the mini-batches of a bank, and the rows that went into them."""

    stats: metrics.GradientStats | None
    num_rows: int


def bank_gradients(bank: Scored, scorer: Any, settings: ScoreSettings) -> BankGradients | None:
    """Sums over a bank's mini-batches, on the host; the targets are those of gen-PPL.

    None where the settings ask for none or the scorer has no gradients; no statistics where fewer
    rows than batches have a target. Rows that do not fill the last batch are left out: all batches
    must be alike. Cost: a forward and a backward pass a batch.
    """
    batches = settings.gradient_batches
    if batches is None or not hasattr(scorer, "gradient_stats"):
        return None
    mask = np.asarray(
        metrics.target_mask(bank.ids, bank.lengths, scorer.eos_id, eos_policy(scorer))
    )
    usable = np.flatnonzero(mask.any(axis=1))
    size = len(usable) // batches
    if not size:
        return BankGradients(None, len(usable))
    rows = usable[: size * batches]
    stats = scorer.gradient_stats(
        bank.ids[rows],
        bank.lengths[rows],
        mask[rows],
        batch_size=size,
        sketch=settings.gradient_sketch,
    )
    return BankGradients(jax.device_get(stats), len(rows))
