"""Claims about what generative perplexity and entropies measure, on enumerated languages.

A bank that lists every sequence as often as its law says is that law, so plug-in entropies are
true entropies and a claim about laws can be checked to rounding.
"""

import itertools
import math
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from ... import metrics, samplers
from ..reported import Reported
from .finding import Finding, agreement, outcome

_LENGTH, _PREFIX = 4, 2
_LETTERS = np.array([0, 0, 1, 2])  # the law 1/2, 1/4, 1/4
_LAW = np.array([0.5, 0.25, 0.25])
_EXACT = 1e-9  # sums of 256 terms in double precision are closer than that
_NUM_LAWS = 20


class _Laws(NamedTuple):
    """A generator's bank that is its law, and a scorer's log-probability of every row."""

    ids: Int[np.ndarray, "n t"]
    log_r: Float[np.ndarray, "n"]
    divergence: float  # KL(G || R) in nats
    log_r_best: float  # of the most probable sequence


def cross_entropy(claim: Reported) -> Finding:
    """log gen-PPL = (H(G) + KL(G || R)) / L, on random laws over 81 sequences."""
    errors = []
    for laws in _random_laws():
        per_token = float(_entropies(laws.ids).joint) + laws.divergence / _LENGTH
        errors.append(abs(_log_perplexity(laws.ids, laws.log_r) - per_token))
    return _identity(max(errors))


def collapsed_optimum(claim: Reported) -> Finding:
    """A point mass on the scorer's mode has gen-PPL R(x)^(-1/L), below that of any other law."""
    errors, gaps = [], []
    for laws in _random_laws():
        at_mode = _log_perplexity(laws.ids, np.full(len(laws.ids), laws.log_r_best))
        errors.append(abs(at_mode + laws.log_r_best / _LENGTH))
        gaps.append(_log_perplexity(laws.ids, laws.log_r) - at_mode)
    return outcome(
        max(errors) < _EXACT and min(gaps) >= 0,
        {"largest error": max(errors), "smallest gap": min(gaps)},
        f"nats/token over {_NUM_LAWS} random pairs of laws",
    )


def adjusted_score(claim: Reported) -> Finding:
    """log(gen-PPL / exp(H_pos)) = (KL(G || R) - TC) / L, on random laws."""
    errors = []
    for laws in _random_laws():
        found = _entropies(laws.ids)
        right = (laws.divergence - float(found.total_correlation)) / _LENGTH
        errors.append(abs(_log_adjusted(laws.ids, laws.log_r) - right))
    return _identity(max(errors))


def mirror_entropy(claim: Reported) -> Finding:
    """Mirror's joint entropy over that of independent draws."""
    independent, mirror = _entropies(_independent()), _entropies(_mirror())
    return agreement(claim, {"ratio": float(mirror.joint) / float(independent.joint)})


def mirror_positions(claim: Reported) -> Finding:
    """Mirror's H_pos minus that of independent draws."""
    independent, mirror = _entropies(_independent()), _entropies(_mirror())
    return agreement(
        claim,
        {"difference": float(mirror.pos) - float(independent.pos)},
        "on the samplers' own ids; decoding and tokenising again shifts positions",
    )


def independence(claim: Reported) -> Finding:
    """Total correlation of independent draws, and of Mirror beside it."""
    found = float(_entropies(_independent()).total_correlation)
    mirrored = float(_entropies(_mirror()).total_correlation)
    return agreement(
        claim, {"total_correlation": found}, f"{mirrored:.4f} nats for Mirror of that law"
    )


def mirror_attack(claim: Reported) -> Finding:
    """What copying gains, by a scorer that rewards copying and by one that looks at no context."""
    ids, mirrored = _independent(), _mirror()
    unigram = np.log(np.array([0.2, 0.5, 0.3]))
    plain = [_log_adjusted(bank, unigram[bank].sum(axis=1)) for bank in (ids, mirrored)]
    copies = np.log(_LAW[mirrored[:, :_PREFIX]]).sum(axis=1)  # the second half costs nothing
    knowing = _log_adjusted(mirrored, copies) - _log_adjusted(ids, np.log(_LAW[ids]).sum(axis=1))
    return outcome(
        knowing < -_EXACT and abs(plain[1] - plain[0]) < _EXACT,
        {"gain, copy-aware scorer": -knowing, "gain, unigram scorer": plain[0] - plain[1]},
        "nats/token",
    )


def entropy_order(claim: Reported) -> Finding:
    """H_joint <= H_pos <= H_pool and H_uni <= H_pool, on random banks of equal lengths."""
    rng = np.random.default_rng(0)
    slack = []
    for _ in range(_NUM_LAWS):
        found = _entropies(rng.zipf(1.6, (64, _LENGTH)).clip(0, 9))
        uni, pool, pos, joint = (float(v) for v in (found.uni, found.pool, found.pos, found.joint))
        slack.append(min(joint, pos - joint, pool - pos, pool - uni))
    return outcome(
        min(slack) > -_EXACT, {"smallest slack": min(slack)}, f"nats/token over {_NUM_LAWS} banks"
    )


def distinct_rows(claim: Reported) -> Finding:
    """The plug-in joint entropy of a bank of distinct rows, minus log N."""
    count = int(claim.number("samples").value)
    rows = np.stack([np.arange(count) // 32, np.arange(count) % 32], axis=1)
    total = 2 * float(_entropies(rows).joint)
    return outcome(
        abs(total - math.log(count)) < _EXACT, {"joint entropy": total}, "nats; equal to log N"
    )


def data_processing(claim: Reported) -> Finding:
    """f-divergences of mapped laws against those of the laws: KL, total variation, chi squared."""
    rng = np.random.default_rng(0)
    slack = math.inf
    for _ in range(_NUM_LAWS):
        p, g = rng.dirichlet(np.ones(9), 2)
        merge = np.zeros((9, 4))
        merge[np.arange(9), rng.integers(0, 4, 9)] = 1
        used = merge.sum(axis=0) > 0
        mapped = [law @ merge[:, used] for law in (p, g)]
        for divergence in _DIVERGENCES:
            slack = min(slack, divergence(p, g) - divergence(*mapped))
    return outcome(
        slack > -_EXACT, {"smallest slack": slack}, f"of 3 divergences and {_NUM_LAWS} random maps"
    )


def mirror_copies(claim: Reported) -> Finding:
    """The sampler Mirror: the second half repeats the first, of ceil(L / 2) tokens."""
    counts = samplers.corpus_counts([np.random.default_rng(0).zipf(1.5, 4000).clip(0, 99)])
    same = []
    for length in (7, 8):
        ids = samplers.mirror(counts, 20, length=length, num_samples=32, seed=0)
        half = math.ceil(length / 2)
        same.append(float((ids[:, half:] == ids[:, : length - half]).mean()))
    return outcome(min(same) == 1, {"share copied": same}, "of the second half, lengths 7 and 8")


_DIVERGENCES = (
    lambda p, g: float(np.sum(p * np.log(p / g))),
    lambda p, g: float(np.abs(p - g).sum() / 2),
    lambda p, g: float(np.sum((p - g) ** 2 / g)),
)


def _identity(error: float) -> Finding:
    note = f"nats/token over {_NUM_LAWS} random pairs of laws"
    return outcome(error < _EXACT, {"largest error": error}, note)


def _random_laws() -> list[_Laws]:
    rng = np.random.default_rng(0)
    size = 3**_LENGTH
    found = []
    for _ in range(_NUM_LAWS):
        log_r = np.log(rng.dirichlet(np.full(size, 0.5)) + 1e-12)
        log_r -= math.log(np.exp(log_r).sum())
        codes = rng.choice(size, 4**_LENGTH, p=rng.dirichlet(np.ones(size)))
        law = np.bincount(codes, minlength=size) / len(codes)
        seen = law > 0
        divergence = float(np.sum(law[seen] * (np.log(law[seen]) - log_r[seen])))
        ids = np.stack(np.unravel_index(codes, (3,) * _LENGTH), axis=1)
        found.append(_Laws(ids, log_r[codes], divergence, float(log_r.max())))
    return found


def _independent() -> Int[np.ndarray, "n t"]:
    return _LETTERS[np.array(list(itertools.product(range(4), repeat=_LENGTH)))]


def _mirror() -> Int[np.ndarray, "n t"]:
    rest = 4 ** (_LENGTH - _PREFIX)
    return np.tile(_independent()[::rest, :_PREFIX], (rest, _LENGTH // _PREFIX))


def _entropies(ids: Int[np.ndarray, "n t"]) -> metrics.Entropies:
    with jax.enable_x64(True):
        return metrics.entropies(ids)


def _log_perplexity(ids: Int[np.ndarray, "n t"], log_r: Float[np.ndarray, "n"]) -> float:
    return math.log(float(metrics.generative_perplexity(-log_r, np.full(len(ids), _LENGTH))))


def _log_adjusted(ids: Int[np.ndarray, "n t"], log_r: Float[np.ndarray, "n"]) -> float:
    perplexity = np.exp(_log_perplexity(ids, log_r))
    return math.log(float(metrics.adjusted_perplexity(perplexity, _entropies(ids).pos)))
