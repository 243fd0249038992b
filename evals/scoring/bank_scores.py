"""The profile of one bank: every metric with its standard error and signature.

Rows that the language filter rejected are left out, and the reference is cut to as many rows,
since most of these numbers move with n.
"""

import math
from collections.abc import Sequence

import numpy as np

from ... import metrics
from ..banks.bank import SampleBank
from ..signature import signature
from .distance_scores import distance_numbers, gradient_number
from .encoded import Encoded
from .features import Features
from .gradients import BankGradients
from .prefixed import Continued
from .score_settings import Count, ScoreSettings
from .scored import MIN_ROWS, Numbers, mean_of_rows, score_maker, usable_rows
from .scores import Score
from .text_scores import continued_number, copying_numbers, text_numbers


def score_bank(
    bank: SampleBank,
    features: Features,
    reference: tuple[SampleBank, Features] | None,
    settings: ScoreSettings,
    *,
    training: metrics.TrainingIndex | None = None,
    gradients: tuple[BankGradients | None, BankGradients | None] = (None, None),
    encoded: Sequence[Encoded] = (),
    continued: Continued | None = None,
) -> dict[str, Score]:
    """All numbers of a bank; distances only where a reference is given.

    With fewer than `MIN_ROWS` usable rows on either side the text metrics carry no value but the
    reason.

    Args:
        bank, features: the texts and what the scorer says about them.
        reference: real text to compare with; None leaves the distances out.
        settings: of all metrics.
        training: index of the training text in scorer ids; None leaves copying out.
        gradients: `bank_gradients` of the reference and of this bank; a None leaves the gradient
            moment out.
        encoded: what each encoder of the settings says of this bank and of the reference.
        continued: likelihoods given the prompts that the texts continue; None where there are none.

    Returns:
        {metric: Score}: gen_ppl and its variants, entropies, mauve, energy_distance, mmd,
        kernel_distance, frechet_distance, sliced_wasserstein, manifold_precision and its kin, jcd
        with its two directions, mauve, energy_distance, mmd and frechet_distance @NAME for each
        encoder, gradient_moment, self_bleu, distinct_3, repetition_4, novelty_4, copied_span,
        acceptance, nfe_mean, launches; gen_ppl_given_prefix where there are prompts.
    """
    generated = usable_rows(bank, features)
    found = dict(_bank_numbers(bank))
    if reference is not None:
        real = usable_rows(*reference, limit=generated.n)
        digest = reference[0].digest
        # A short reference shortens the bank as well: both sides always have the same n.
        paired = usable_rows(bank, features, limit=real.n)
        found |= dict(distance_numbers(real, paired, digest, settings, encoded))
        real_sums, sums = gradients
        if real_sums is not None and sums is not None:
            name, score = gradient_number(real_sums, sums, digest, settings)
            found[name] = score
    found |= dict(text_numbers(generated, settings))
    if continued is not None:
        name, score = continued_number(generated, continued, settings)
        found[name] = score
    if training is not None:
        found |= dict(copying_numbers(generated, training, settings))
    return found


def _bank_numbers(bank: SampleBank) -> Numbers:
    n = len(bank.texts)
    context = Count(n)
    make = score_maker(MIN_ROWS, n)
    share = float(np.mean(bank.accepted))
    yield make(
        "acceptance",
        "fraction",
        "up",
        lambda: (share, math.sqrt(share * (1 - share) / n)),
        signature("acceptance", context),
    )
    yield make(
        "nfe_mean",
        "forwards/sample",
        None,
        lambda: mean_of_rows(bank.nfe.astype(np.float64)),
        signature("nfe_mean", context),
    )
    launches = bank.manifest["measured"]["launches"]
    yield make(
        "launches", "forwards", None, lambda: (launches, None), signature("launches", context)
    )
