"""Claims about the training-free samplers that closed forms decide."""

import math

import numpy as np

from ... import metrics, samplers
from ..reported import Reported
from .finding import Finding, agreement, outcome


def periodic_collapse(claim: Reported) -> Finding:
    """Entropies across samples, and Self-BLEU, of Periodic."""
    ids = _periodic(claim)
    found = metrics.entropies(ids)
    ours = {
        "h_pos": float(found.pos),
        "h_joint": float(found.joint),
        "self_bleu": float(metrics.self_bleu(ids).mean()),
    }
    return agreement(claim, ours)


def periodic_entropy(claim: Reported) -> Finding:
    """Per-sample unigram entropy of Periodic, minus log k."""
    found = float(metrics.entropies(_periodic(claim)).uni)
    limit = math.log(claim.number("k").value)
    return outcome(abs(found - limit) < 1e-5, {"h_uni": found, "log k": limit}, "nats/token")


def periodic_unigrams(claim: Reported) -> Finding:
    """Printed per-sample and pooled unigram entropies of Periodic, on the sampler's own ids."""
    found = metrics.entropies(_periodic(claim))
    return agreement(
        claim,
        {"value": float(found.uni), "h_pool": float(found.pool)},
        "on the sampler's own ids",
    )


def mauve_floor(claim: Reported) -> Finding:
    """MAUVE of banks that share no cluster, against the printed bound."""
    floor = float(metrics.mauve_from_histograms(np.array([1.0, 0.0]), np.array([0.0, 1.0])))
    return outcome(
        floor <= claim.number("bound").value,
        {"floor": floor},
        "of disjoint histograms, the least there is",
    )


def _periodic(claim: Reported) -> np.ndarray:
    """Two samples of Periodic with the claim's k and length."""
    size, length = int(claim.number("k").value), int(claim.number("length").value)
    counts = samplers.corpus_counts([np.arange(size)])
    return samplers.periodic(counts, size, length=length, num_samples=2, seed=0)
